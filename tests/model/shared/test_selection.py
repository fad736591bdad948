"""Automatic choices on data whose answer is known."""

import numpy as np
import pytest

from flfl.model.shared import selection, windows

TRIALS = [(name, period) for period in (0, 24) for name in ("none", "sqrt", "log1p")]
t = np.arange(600.0)


def correlated(seed, seasonal=0.0):
    """Six alike series around 6, of spread 3."""
    rng = np.random.default_rng(seed)
    walk = np.zeros((7, 600))
    for n in range(1, 600):
        walk[:, n] = 0.9 * walk[:, n - 1] + 0.4 * rng.standard_normal(7)
    gaps = (rng.random((6, 600)) < 0.4).astype(float)
    season = seasonal * np.cos(2 * np.pi * t / 24) * np.arange(-3, 3)[:, None]
    return np.maximum(6 + 2 * (walk[:1] + walk[1:]) + season, 0.05), gaps


def chosen(raw, J):
    errors = [selection.local_errors(raw, J, *trial, t) for trial in TRIALS]
    return TRIALS[selection.choose_trial(np.array(errors), TRIALS)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "shape"),
    [("sqrt", np.square), ("log1p", lambda x: np.expm1(x / 3)), ("none", lambda x: x)],
)
def test_the_transform_that_made_the_data_is_chosen(name, shape, seed):
    raw, J = correlated(seed)
    errors = {trial[0]: selection.local_errors(shape(raw), J, *trial, t) for trial in TRIALS[:3]}
    # A root of something already even costs little; undoing a real skew gains much.
    assert errors[name] <= 1.01 * min(errors.values())
    if name != "none":
        assert chosen(shape(raw), J)[0] == name


def test_a_season_is_taken_where_there_is_one():
    assert chosen(*correlated(0, seasonal=1.5))[1] == 24
    assert chosen(*correlated(0))[1] == 0


def test_errors_of_sites_are_sums_and_ignore_what_is_unknown():
    raw, J = correlated(2)
    error = selection.local_errors(raw, J, "sqrt", 24, t)
    assert error == selection.local_errors(np.where(J > 0, raw, np.nan), J, "sqrt", 24, t)
    assert error > 0


@pytest.mark.parametrize("length", [1.0, 4.0, 16.0])
def test_the_memory_of_the_news_is_found(length):
    rng, a = np.random.default_rng(3), np.exp(-1 / length)
    E = np.zeros((6, 4000))
    for n in range(1, 4000):
        E[:, n] = a * E[:, n - 1] + np.sqrt(1 - a * a) * rng.standard_normal(6)
    E += np.sqrt(0.3) * rng.standard_normal(E.shape)
    likelihood = selection.memory_likelihood(E, np.ones_like(E))
    assert selection.LENGTHS[int(np.argmax(likelihood))] == length


@pytest.mark.parametrize("max_exposure", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("n_sensors", [1, 5, 36])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.9])
def test_a_plan_always_makes_sense(rate, n_sensors, max_exposure):
    counts = np.full(500, rate * n_sensors)
    plan = selection.plan(counts, np.full(500, 0.9 * n_sensors), n_sensors, max_exposure)
    assert 1 <= plan.least <= plan.rank <= max(n_sensors - 1, 1)
    assert plan.rounds >= 1
    assert plan.inner >= 1


def test_slow_news_leaves_room_for_fewer_numbers():
    """The share of an AR(1) series' energy in its slowest directions, by its own spectrum."""
    gap, memory, allowed = 10.0, 16.0, 0.3
    a = np.exp(-gap / memory) / 1.3
    rho = selection.remembered_numbers(allowed, memory, gap)
    n = 2000
    energy = np.sort(np.linalg.eigvalsh(a ** np.abs(np.subtract.outer(*[np.arange(n)] * 2))))[::-1]
    np.testing.assert_allclose(energy[: round(rho * n)].sum() / energy.sum(), allowed, atol=0.005)
    numbers = [selection.remembered_numbers(allowed, m, gap) for m in selection.LENGTHS]
    assert (np.diff(numbers) <= 0).all()
    assert max(numbers) <= allowed


@pytest.mark.parametrize("readings", [3.0, 20.0])
@pytest.mark.parametrize("memory", selection.LENGTHS)
def test_a_plan_never_allows_more_than_the_cap(readings, memory):
    counts = np.full(400, readings)
    plan = selection.plan(counts, np.full(400, 30.0), 36, 0.5, memory)
    assert plan.allowed <= 0.3
    if readings < 0.3 * 36:
        assert plan.allowed < 0.2
    cut = windows.cut(counts, plan.rank, plan.allowed, plan.least)
    assert windows.numbers_per_reading(counts, cut).max() <= plan.allowed + 1e-9
