"""Scaling is undone, and survives constant, empty and extreme sensors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flfl.paper.scaling import Scaling

# Zero, or of a size that a sensor may have: not the last bits of the number range.
numbers = st.one_of(
    st.just(0.0), st.just(np.nan), st.floats(1e-200, 1e200), st.floats(-1e200, -1e-200)
)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=numbers))
def test_undo_gives_back_the_readings(values: np.ndarray) -> None:
    scaling = Scaling.fit(values)
    back = scaling.undo(scaling.apply(values))
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    largest = np.nanmax(np.abs(np.where(np.isnan(values), 0, values)), axis=1, keepdims=True)
    error = np.abs(np.nan_to_num(back) - np.nan_to_num(values))
    assert (error <= 1e-15 * 8 * largest).all()
    assert (scaling.scale > 0).all()
    assert np.isfinite(scaling.scale).all()


def test_scaled_values_have_mean_zero_and_unit_spread() -> None:
    values = np.random.default_rng(0).gamma(3, 10, (5, 500))
    values[:, ::7] = np.nan
    scaled = Scaling.fit(values).apply(values)
    np.testing.assert_allclose(np.nanmean(scaled, axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(scaled, axis=1), 1)


@pytest.mark.parametrize("level", [0.0, 0.1, 1e9 / 3, -1e-30, 1e300])
def test_a_constant_sensor_has_scale_one(level: float) -> None:
    scaling = Scaling.fit(np.full((1, 1001), level))
    assert scaling.scale[0] == 1.0
    assert scaling.center[0] == pytest.approx(level, rel=1e-14)


def test_a_sensor_without_readings_stays_unknown() -> None:
    scaling = Scaling.fit(np.array([[np.nan, np.nan], [1.0, 3.0]]))
    assert np.isnan(scaling.center[0])
    assert scaling.scale[0] == 1.0
    undone = scaling.undo(np.zeros((2, 2)))
    assert np.isnan(undone[0]).all()
    np.testing.assert_array_equal(undone[1], [2.0, 2.0])
