"""Some known readings give the rest away where the sums do, and not where they do not."""

import numpy as np
import pytest

from audit.network import readings
from flfl.audit import view
from flfl.audit.attack import r_squared
from flfl.audit.attacks import known_sample


def scores(seen, **given):
    found = known_sample.read(seen, 150, np.random.default_rng(0), **given)
    return {
        name: np.array(
            [
                r_squared(seen.news[i, k], guess[i, k])
                for i, k in enumerate(np.isfinite(guess))
                if k.any()
            ]
        )
        for name, guess in found.items()
    }


def test_many_projections_of_the_same_readings_are_read():
    X, sensors = readings(12, 0.9, N=800)
    once, often = (
        view.listen(X, sensors, max_exposure=1.0, rank=4, rounds=rounds)[1] for rounds in (1, 20)
    )
    assert len(often.rounds) == 21
    # Twenty rounds of four numbers are more than twelve sensors can hide.
    assert np.median(scores(often)["linear"]) > 0.8
    assert np.median(scores(once)["linear"]) < 0.75


def test_the_guard_leaves_little_to_a_known_sample():
    X, sensors = readings(24, 0.8)
    seen = view.listen(X, sensors)[1]
    for found in scores(seen).values():
        assert found.max() < 0.55


def test_a_bent_read_out_needs_the_non_linear_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = np.abs(X[:, 0]) + 0.05 * rng.standard_normal(600)
    known, rest = np.arange(200), np.arange(200, 600)
    straight = known_sample.linear(X, y, known)
    bent = known_sample.non_linear(X, y, known)
    assert r_squared(y[rest], straight[rest]) < 0.1
    assert r_squared(y[rest], bent[rest]) > 0.8


def test_the_known_readings_are_not_scored():
    X, sensors = readings(12, 0.9)
    seen = view.listen(X, sensors, max_exposure=1.0, rank=4)[1]
    guess = known_sample.read(seen, 100, np.random.default_rng(0))["linear"]
    for row, guessed in zip(seen.J > 0, np.isfinite(guess), strict=True):
        assert guessed.sum() == row.sum() - 100
        assert not (guessed & ~row).any()


def test_noise_alone_is_not_read():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((800, 40)), rng.standard_normal(800)
    known, rest = np.arange(300), np.arange(300, 800)
    for way in (known_sample.linear, known_sample.non_linear):
        assert r_squared(y[rest], way(X, y, known)[rest]) == pytest.approx(0.0, abs=0.05)
