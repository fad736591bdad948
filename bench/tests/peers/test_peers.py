"""Methods of other packages: each finds again what is there to be found."""

import numpy as np
import pytest

from flfl.methods import create, find
from flfl_bench.peers.deep import joined, window_starts
from flfl_bench.peers.imputers import KNN, Iterative

DEEP = ("saits", "brits", "imputeformer")


def low_rank(slots=240, sensors=8, seed=0):
    """A table of two slow factors with a third of it hidden: truth, readings, gaps."""
    rng = np.random.default_rng(seed)
    t = np.arange(slots)[:, None] / np.array([9.0, 23.0])
    truth = np.sin(t) @ rng.normal(size=(2, sensors)) + rng.normal(size=sensors)
    gaps = rng.random(truth.shape) < 0.3
    return truth, np.where(gaps, np.nan, truth), gaps


def needs(name):
    missing = find(name).needs
    return pytest.param(
        name,
        marks=[
            pytest.mark.skipif(not find(name).available, reason=f"needs {missing}"),
            pytest.mark.filterwarnings("ignore"),
            pytest.mark.slow,
        ],
    )


@pytest.mark.parametrize(
    ("name", "options", "share"),
    [
        ("iterative", {}, 0.15),
        ("iterative", {"lags": 1}, 0.05),
        ("knn", {"neighbours": 3}, 0.3),
        ("dynamic-factor", {"factors": 2}, 0.1),
    ],
)
def test_what_two_factors_made_is_found_again(name, options, share):
    truth, X, gaps = low_rank()
    mean = np.abs(truth - np.nanmean(X, axis=0))[gaps].mean()
    error = np.abs(create(name, **options).fit(X).estimates_ - truth)[gaps].mean()
    assert error < share * mean


@pytest.mark.parametrize("name", [needs(name) for name in (*DEEP, "cdrec")])
def test_what_two_factors_made_is_found_again_by_large_packages(name):
    truth, X, gaps = low_rank()
    options = {"window": 24, "epochs": 20, "patience": 20} if name in DEEP else {"rank": 2}
    mean = np.abs(truth - np.nanmean(X, axis=0))[gaps].mean()
    error = np.abs(create(name, **options).fit(X).estimates_ - truth)[gaps].mean()
    assert error < 0.9 * mean


@pytest.mark.parametrize("name", [needs(name) for name in DEEP])
def test_the_same_seed_trains_the_same_network(name):
    _, X, _ = low_rank(slots=60)
    one, two = (create(name, epochs=1, window=8).fit(X).estimates_ for _ in range(2))
    assert np.array_equal(one, two)


def test_neighbours_are_slots_that_look_alike():
    X = np.array([[0.0, 1.0, 5.0], [0.0, 1.0, np.nan], [9.0, 8.0, 70.0], [9.0, 8.0, 72.0]])
    assert KNN(neighbours=1).fit(X).estimates_[1, 2] == pytest.approx(5.0)


def test_lags_let_a_lonely_sensor_be_told_by_its_own_time():
    t = np.arange(300.0)
    X = np.column_stack([np.sin(t / 8), np.random.default_rng(0).normal(size=300)])
    truth, X[10::11, 0] = X[10::11, 0].copy(), np.nan
    plain, lagged = (
        np.abs(Iterative(lags=lags).fit(X).estimates_[10::11, 0] - truth).mean() for lags in (0, 1)
    )
    assert lagged < 0.1 * plain


@pytest.mark.parametrize(("slots", "steps"), [(10, 4), (9, 4), (5, 5), (1000, 24)])
def test_windows_cover_every_slot_and_join_to_the_table_they_were_cut_from(slots, steps):
    table = np.random.default_rng(0).normal(size=(slots, 3))
    starts = window_starts(slots, steps)
    windows = np.stack([table[start : start + steps] for start in starts])
    np.testing.assert_allclose(joined(windows, starts, slots), table)
