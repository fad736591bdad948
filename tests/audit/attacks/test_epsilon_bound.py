"""Too little noise is caught; the right amount is not accused."""

import numpy as np
import pytest

from flfl.audit.attacks import epsilon_bound as attack

RUNS = 20_000


def laplace(value, scale):
    return lambda rng: np.atleast_1d(value + rng.laplace(scale=scale))


def test_laplace_with_a_third_of_the_noise_is_refuted():
    claimed = 1.0
    bound = attack.audit_mechanism(
        laplace(0.0, 1 / (3 * claimed)),
        laplace(1.0, 1 / (3 * claimed)),
        RUNS,
        np.random.default_rng(0),
    )
    assert claimed < bound <= 3 * claimed


@pytest.mark.parametrize("seed", range(5))
def test_laplace_with_the_right_noise_is_not(seed):
    claimed = 1.0
    bound = attack.audit_mechanism(
        laplace(0.0, 1 / claimed), laplace(1.0, 1 / claimed), RUNS, np.random.default_rng(seed)
    )
    # Nearly tight, and never above.
    assert 0.7 * claimed < bound <= claimed


def gaussian(n, distance, sigma, rng):
    """Releases of ten numbers on two inputs that differ by ``distance`` along one direction."""
    difference = np.ones(10) / np.sqrt(10) * distance
    noise = sigma * rng.standard_normal((2, n, 10))
    return noise[0], noise[1] + difference, difference


def test_gaussian_noise_scaled_to_a_wrong_sensitivity_is_refuted():
    # sigma = sqrt(2 log(1.25/delta)) / epsilon for epsilon 1 and sensitivity 1, used for 4.
    delta, sigma = 1e-5, np.sqrt(2 * np.log(1.25e5))
    a, b, line = gaussian(RUNS, 4.0, sigma, np.random.default_rng(1))
    assert attack.lower_bound(a, b, delta, direction=line) > 1.0
    # The direction can be learned from the releases themselves.
    assert attack.lower_bound(a, b, delta) > 0.9


def test_gaussian_noise_of_the_right_size_is_not():
    delta, sigma = 1e-5, np.sqrt(2 * np.log(1.25e5))
    a, b, line = gaussian(RUNS, 1.0, sigma, np.random.default_rng(2))
    assert attack.lower_bound(a, b, delta, direction=line) <= 1.0


def test_equal_inputs_give_nothing():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 2000, 1))
    assert attack.lower_bound(a, b, direction=np.ones(1)) < 0.1


def test_the_upper_rate_holds_as_often_as_it_says():
    rng = np.random.default_rng(4)
    errors = rng.binomial(50, 0.2, 4000)
    held = np.mean([attack.upper_rate(int(e), 50, 0.9) >= 0.2 for e in errors])
    assert held >= 0.9
