"""Controls of the solvers and read-outs: they read what can be read, and nothing that cannot."""

from dataclasses import replace

import numpy as np
import pytest

from audit.network import readings
from flfl.audit import equations, view
from flfl.audit.attacks import masks_known, readouts


def solve(seen: view.View, rounds: int = 1) -> tuple[equations.Stretch, np.ndarray]:
    chosen = [seen.rounds[-1]] if rounds == 1 else [seen.rounds[0], seen.rounds[-1]]
    system = equations.stretch(seen, chosen, 40, 300)
    prior = masks_known.fitted_prior(system)
    return system, masks_known.score(system, seen, prior, masks_known.gaussian(system, prior))


@pytest.fixture(scope="module")
def guarded() -> view.View:
    X, sensors = readings(24, 0.8)
    return view.listen(X, sensors)[1]


@pytest.mark.parametrize(
    ("rank", "rate", "projection"),
    [(11, 0.7, "adaptive"), (11, 0.7, "fixed"), (8, 0.3, "fixed")],
    ids=["rank near sensors, adaptive", "rank near sensors", "more numbers than readings"],
)
def test_without_the_guard_every_sensor_is_read(rank, rate, projection):
    X, sensors = readings(12, rate)
    seen = view.listen(
        X,
        sensors,
        max_exposure=1.0,
        rank=rank,
        projection=projection,
        length=0.5,
        noise=0.03,
    )[1]
    # A last round alone leaves what its clipping cut; the first cut nothing of note.
    _, scores = solve(seen, rounds=2)
    assert scores[:, 0].min() > 0.9


def test_one_sum_over_many_sensors_tells_little():
    X, sensors = readings(40, 0.8)
    seen = view.listen(X, sensors, rank=1)[1]
    _, scores = solve(seen)
    assert np.nanmax(scores[:, 0]) < 0.2
    assert np.nanmedian(scores[:, 0]) < 0.1


def test_own_leverages_add_up_to_the_numbers_released(guarded):
    system, _ = solve(guarded)
    rolled = equations.rolled(system, np.random.default_rng(0))
    white = np.random.default_rng(1).standard_normal(rolled.v.shape)
    white = replace(rolled, v=white, x=white[:, 0], z=rolled.forward(white))
    prior = masks_known.fitted_prior(white)
    guess = masks_known.gaussian(white, prior)
    read = 1 - ((white.x - guess[:, 0])[white.inside] ** 2).mean()
    # The equations reach 20 slots beyond the 300 that are scored, on both sides.
    numbers = system.sent.sum() * 300 / 340
    assert read == pytest.approx(numbers / system.inside.sum(), abs=0.05)


def test_every_prior_reads_about_the_same_of_white_gaussian_news(guarded):
    system, scores = solve(guarded)
    prior = masks_known.fitted_prior(system)
    heavy = masks_known.student(system, prior, np.random.default_rng(0))
    slow = masks_known.correlated(system, prior, *masks_known.fitted_memory(guarded))
    for guess in (heavy, slow):
        other = masks_known.score(system, guarded, prior, guess)
        assert np.nanmedian(other[:, 0]) == pytest.approx(np.nanmedian(scores[:, 0]), abs=0.06)


def test_heavy_tails_and_memory_help_where_they_are_true(guarded):
    system, _ = solve(guarded)
    rng = np.random.default_rng(0)
    size = len(system.sensor)
    spikes = 0.1 * rng.standard_normal((size, 1)) + 3 * (rng.random((size, 1)) < 0.02)
    M, slots = guarded.J.shape
    walk = np.zeros((M, slots))
    for t in range(1, slots):
        walk[:, t] = 0.95 * walk[:, t - 1] + 0.3 * rng.standard_normal(M)
    slow = walk[system.sensor, system.slot][:, None]
    for v, solver in (
        (spikes, lambda s, p: masks_known.student(s, p, rng)),
        (slow, lambda s, p: masks_known.correlated(s, p, np.full(M, 20.0), np.full(M, 0.01))),
    ):
        planted = replace(system, v=v, x=v[:, 0], z=system.forward(v))
        prior = masks_known.fitted_prior(planted)
        read = [
            readouts.r_squared(v[system.inside, 0], guess[system.inside, 0])
            for guess in (masks_known.gaussian(planted, prior), solver(planted, prior))
        ]
        assert read[1] > read[0] + 0.1


def test_a_sensor_alone_on_a_component_is_found():
    rng = np.random.default_rng(0)
    news = rng.standard_normal((6, 2000))
    g = np.column_stack([news[:5].sum(axis=0), news[:3].sum(axis=0), 0.1 * news[5]])
    scores = readouts.read_out(g, news[None], np.ones(news.shape), rng)[0][:, 0]
    assert scores[5] > 0.99
    assert scores[:5].max() < 0.6


def test_nothing_is_read_of_shuffled_news(guarded):
    rng = np.random.default_rng(0)
    shuffled = np.zeros_like(guarded.news)
    for i, known in enumerate(guarded.J > 0):
        shuffled[i, known] = rng.permutation(guarded.news[i, known])
    X = readouts.features([guarded.rounds[-1].g], guarded, 1)
    assert readouts.read_out(X, shuffled[None], guarded.J, rng)[0].max() < 0.05
    system, _ = solve(guarded)
    wrong = replace(system, x=shuffled[system.sensor, system.slot])
    prior = masks_known.fitted_prior(wrong)
    scores = masks_known.score(wrong, guarded, prior, masks_known.gaussian(wrong, prior))
    assert np.nanmax(scores[:, 0]) < 0.1


def test_the_sums_are_what_the_coordinator_added_up(guarded):
    for one in (guarded.rounds[0], guarded.rounds[-1]):
        system = equations.stretch(guarded, [one], 40, 300)
        assert np.allclose(system.forward(system.v), system.z, atol=1e-3 * np.abs(system.z).max())
    assert guarded.numbers_per_reading() <= 0.3 + 1e-9


def test_the_largest_news_is_scored_apart(guarded):
    system, _ = solve(guarded)
    assert masks_known.largest(system, system.x) == 1.0
    assert masks_known.largest(system, np.zeros_like(system.x)) == 0.0
    spikes = np.abs(system.x) > np.quantile(np.abs(system.x), 0.97)
    assert masks_known.largest(system, np.where(spikes, system.x, 0.0)) > 0.95


def test_rounds_that_say_the_same_are_counted_once(guarded):
    assert len(readouts.distinct_rounds(guarded)) == 1
    assert len(masks_known.round_sets(guarded)) == 1
    X, sensors = readings(24, 0.8)
    adaptive = view.listen(X, sensors, max_exposure=1.0, rank=4)[1]
    assert len(readouts.distinct_rounds(adaptive)) > 2
    assert len(masks_known.round_sets(adaptive)) == 2


def test_the_whole_record_is_guessed_stretch_by_stretch(guarded):
    guess = masks_known.everywhere(guarded, slots=150)
    known = guarded.J > 0
    assert np.isfinite(guess[known]).all()
    assert np.isnan(guess[~known]).all()
    one = masks_known.everywhere(guarded, slots=1000)
    assert np.corrcoef(guess[known], one[known])[0, 1] > 0.95
