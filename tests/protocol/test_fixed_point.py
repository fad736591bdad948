"""Sums in fixed point: exact, in any order, and loud when they do not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flfl.protocol.fixed_point import LARGEST, OutOfRangeError, add, from_fixed, to_fixed

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(arrays(float, (6, 3), elements=numbers), st.permutations(range(6)))
def test_the_sum_does_not_depend_on_the_order_or_the_grouping(values, order):
    terms = [to_fixed(row) for row in values]
    straight = add(terms)
    np.testing.assert_array_equal(add([terms[i] for i in order]), straight)
    np.testing.assert_array_equal(add([add(terms[:2]), add(terms[2:])]), straight)


@given(arrays(float, 5, elements=numbers))
def test_rounding_is_at_most_half_a_step(values):
    assert np.abs(from_fixed(to_fixed(values)) - values).max() <= 2.0**-31


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2 * LARGEST, -2 * LARGEST])
def test_what_does_not_fit_is_refused(bad):
    with pytest.raises(OutOfRangeError):
        to_fixed(np.array([0.0, bad]))


def test_a_sum_that_would_wrap_around_is_refused():
    largest = to_fixed(np.array([LARGEST]))
    with pytest.raises(OutOfRangeError, match="64 bits"):
        add([largest] * 9)
