"""Knowing the instrument's step finishes a sharp posterior and does nothing for a vague one."""

import numpy as np
import pytest

from flfl.audit.attacks import whole_numbers as attack


def posterior(sd, seed=0, spread=80.0):
    """Whole readings (3, 2000) with a few gaps, and a posterior of the given sd around them."""
    rng = np.random.default_rng(seed)
    truth = np.round(rng.gamma(1.0, spread, (3, 2000)))
    truth[rng.random(truth.shape) < 0.2] = np.nan
    mean = np.nan_to_num(truth) + sd * rng.standard_normal(truth.shape)
    return mean, np.full(truth.shape, sd), truth


def test_a_posterior_within_a_third_of_a_step_is_finished_by_rounding():
    mean, sd, truth = posterior(sd=0.2, spread=10.0)
    found = attack.score(mean, sd, truth, attack.resolution(truth))
    assert found["posterior"] < 0.6
    assert found["whole"] > 0.95


def test_readings_that_cannot_be_negative_pull_a_posterior_up():
    mean, sd, truth = posterior(sd=20.0)
    known = ~np.isnan(truth)
    better = attack.truncated_mean(mean, sd)
    before, after = (np.mean((x - truth)[known] ** 2) for x in (mean, better))
    assert after < before
    assert (better >= 0).all()


def test_a_vague_posterior_stays_at_guessing():
    mean, sd, truth = posterior(sd=80.0)
    found = attack.score(mean, sd, truth, attack.resolution(truth))
    # Rounding to whole numbers hits by chance, no more often than naming one constant.
    assert found["whole"] <= found["guessing"]
    assert found["not_negative"] <= found["guessing"]


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0, 10.0])
def test_the_step_is_read_off_the_readings(step):
    rng = np.random.default_rng(0)
    readings = step * rng.integers(0, 500, (1, 300)).astype(float)
    assert attack.resolution(readings).item() == pytest.approx(step)
