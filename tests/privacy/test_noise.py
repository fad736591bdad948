"""Noise: the right distribution, from the secret alone, and wrong scales are told apart."""

import numpy as np
import pytest
from scipy import stats

from flfl.privacy.noise import SecretStream, discrete_gaussian, normals_at


def test_blur_is_standard_normal_and_independent_over_sensors():
    a, b = (normals_at(b"secret", name, np.arange(50_000)) for name in "ab")
    assert stats.kstest(a, "norm").pvalue > 0.001
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 0.02


def test_the_distribution_test_rejects_a_wrong_scale():
    a = 1.03 * normals_at(b"secret", "a", np.arange(50_000))
    assert stats.kstest(a, "norm").pvalue < 0.001


def test_blur_of_a_reading_is_the_same_in_every_run_and_unknown_without_the_secret():
    stamps = np.array([7, -3, 1_700_000_000])
    first = normals_at(b"secret", "a", stamps)
    np.testing.assert_array_equal(first[[2, 0]], normals_at(b"secret", "a", stamps[[2, 0]]))
    assert not np.isin(first, normals_at(b"another", "a", stamps)).any()


@pytest.mark.parametrize("sigma", [0.7, 3.0, 40.0])
def test_discrete_gaussian_probabilities(sigma):
    x = discrete_gaussian(SecretStream(b"s", "test"), sigma, 200_000)
    reach = int(4 * sigma) + 1
    values = np.arange(-reach, reach + 1)
    p = np.exp(-(values**2) / (2 * sigma**2))
    inside = np.abs(x) <= reach
    seen = np.bincount(x[inside] + reach, minlength=len(values))
    expected = p / p.sum() * inside.sum()
    enough = expected > 5
    statistic = ((seen - expected)[enough] ** 2 / expected[enough]).sum()
    assert stats.chi2.sf(statistic, enough.sum() - 1) > 0.001
    wrong = np.exp(-(values**2) / (2 * (1.05 * sigma) ** 2))
    expected = wrong / wrong.sum() * inside.sum()
    statistic = ((seen - expected)[enough] ** 2 / np.maximum(expected[enough], 1e-9)).sum()
    assert stats.chi2.sf(statistic, enough.sum() - 1) < 0.001


def test_discrete_gaussian_at_fixed_point_scale():
    x = discrete_gaussian(SecretStream(b"s", "large"), 2.0**34, 20_000)
    assert stats.kstest(x / 2.0**34, "norm").pvalue > 0.001


def test_a_stream_does_not_show_its_secret():
    assert "secret" not in repr(SecretStream(b"secret", "purpose")).replace("SecretStream", "")
