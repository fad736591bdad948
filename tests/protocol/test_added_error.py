"""What an added error means: the figures of the method, and laws that hold at any size."""

import numpy as np
import pytest
from scipy.special import ndtr

from flfl.errors import InputError
from flfl.protocol.added_error import best_guess, epsilon, gaussian_dp, read_at_most


@pytest.mark.parametrize(("d", "percent", "eps"), [(1, 69, 4.4), (2, 84, 10), (3, 93, 17)])
def test_figures_of_the_method(d, percent, eps):
    assert round(100 * best_guess(d, 1.0)) == percent
    assert abs(epsilon(gaussian_dp(d, 1.0), 1e-5) - eps) < 0.5


def test_a_reader_guesses_right_as_often_as_said():
    rng = np.random.default_rng(0)
    d, sigma, w = 1.0, 2.0, 5
    moved = rng.random(100_000) < 0.5
    copies = d * moved[:, None] + sigma * rng.standard_normal((100_000, w))
    right = np.mean((copies.mean(1) > d / 2) == moved)
    assert abs(right - best_guess(d, sigma, readings=w)) < 0.005


@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0, 30.0, 500.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
def test_epsilon_solves_its_equation(mu, delta):
    eps = epsilon(mu, delta)
    if eps == 0:
        assert 2 * ndtr(mu / 2) - 1 <= delta
    elif mu < 10:
        back = ndtr(-eps / mu + mu / 2) - np.exp(eps) * ndtr(-eps / mu - mu / 2)
        assert back == pytest.approx(delta, rel=1e-3)
    assert epsilon(mu * 1.01, delta) >= eps
    assert epsilon(mu, delta / 2) >= eps


def test_ends():
    assert epsilon(0.0, 1e-5) == 0
    assert epsilon(gaussian_dp(1.0, 0.0), 1e-5) == np.inf
    assert best_guess(1.0, 0.0) == 1
    assert best_guess(0.0, 0.0) == 0.5
    assert best_guess(-1.0, 1.0) == best_guess(1.0, 1.0)
    with pytest.raises(InputError):
        epsilon(1.0, 0.0)


@pytest.mark.parametrize("multiple", [0.5, 1.0, 2.0])
def test_a_gaussian_residual_is_read_as_far_as_said_and_no_further(multiple):
    rng = np.random.default_rng(1)
    unforeseen = rng.standard_normal(200_000)
    copies = unforeseen + multiple * rng.standard_normal(200_000)
    r2 = np.corrcoef(unforeseen, copies)[0, 1] ** 2
    assert abs(r2 - read_at_most(multiple)) < 0.005
