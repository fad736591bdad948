"""``fedmssa``: one low-rank matrix of all sensors' windows, its left factor shared."""

import numpy as np
import pytest

from flfl_bench.baselines.fedmssa import FedMSSA, _mean_of_windows, _solved, _sums, _windows


def courses(slots=300):
    t = np.arange(slots)[:, None]
    return np.sin(t / 5 + np.arange(4)) * np.array([1.0, 2.0, 3.0, 0.5]) + 7.0


def test_series_of_two_cosines_are_found_again():
    truth, rng = courses(), np.random.default_rng(0)
    gaps = rng.random(truth.shape) < 0.4
    found = FedMSSA(rank=3, window=24, ridge=1e-4, rounds=30).fit(np.where(gaps, np.nan, truth))
    assert np.abs(found.estimates_ - truth)[gaps].mean() < 0.02


def test_the_sums_of_all_clients_are_one_regression_on_all_windows():
    rng = np.random.default_rng(1)
    blocks = [(rng.normal(size=(20, 6)), (rng.random((20, 6)) < 0.7) * 1.0) for _ in range(3)]
    U = rng.normal(size=(6, 2))
    clients = [(H * J, J, _windows(H * J, J, U, 0.1)) for H, J in blocks]
    sums = [_sums(H, J, V) for H, J, V in clients]
    shared = _solved(sum(a for a, _ in sums), sum(b for _, b in sums), np.zeros((6, 1, 1)))
    for row in range(6):
        V = np.vstack([V[J[:, row] > 0] for _, J, V in clients])
        y = np.concatenate([H[J[:, row] > 0, row] for H, J, _ in clients])
        np.testing.assert_allclose(shared[row], np.linalg.lstsq(V, y, rcond=None)[0], rtol=1e-5)


def test_a_table_is_the_mean_of_its_own_windows():
    x = np.arange(9.0) ** 2
    windows = np.lib.stride_tricks.sliding_window_view(x, 4)
    np.testing.assert_allclose(_mean_of_windows(windows), x)


def test_traffic_does_not_grow_with_the_slots():
    small, large = (FedMSSA(rounds=2).fit(courses(n)).traffic_ for n in (200, 400))
    assert small.bytes_up == large.bytes_up > 0
    # Sums for each of 24 rows of a factor of rank 8: 8 x 8 and 8 numbers.
    assert small.bytes_up == 2 * 4 * 4 * 24 * (64 + 8)
    assert small.rounds == 2


@pytest.mark.parametrize("slots", [2, 3, 7])
def test_few_slots_are_no_trouble(slots):
    assert np.isfinite(FedMSSA().fit(courses(slots)).estimates_).all()
