"""Laws of the projection: known before any reading, the same on every machine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.model.shared import projection

names = st.text(min_size=1, max_size=8)


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_whitening_law(seed, k):
    B = np.random.default_rng(seed).standard_normal((12, k))
    W = projection.whitening(projection.gram(B), 12)
    np.testing.assert_allclose(projection.gram(B @ W), 12 * np.eye(k), atol=1e-6)


def test_whitening_does_not_blow_up_an_empty_direction():
    B = np.ones((10, 2))  # two equal columns: one direction carries nothing
    W = projection.whitening(projection.gram(B), 10)
    assert np.isfinite(W).all()
    assert np.abs(B @ W).max() < 10


@given(st.lists(names, min_size=1, max_size=5, unique=True), st.integers(1, 6))
def test_keyed_vectors_depend_on_name_and_key_only(ids, k):
    together = projection.keyed_vectors(ids, k, b"key")
    assert together.shape == (len(ids), k)
    for row, name in zip(together, ids, strict=True):
        np.testing.assert_array_equal(projection.keyed_vectors([name], k, b"key")[0], row)
    np.testing.assert_array_equal(projection.keyed_vectors(ids[::-1], k, b"key"), together[::-1])


def test_other_keys_and_names_give_other_vectors():
    one = projection.keyed_vectors(["a"], 4, b"key")
    assert not np.allclose(one, projection.keyed_vectors(["a"], 4, b"other"))
    assert not np.allclose(one, projection.keyed_vectors(["b"], 4, b"key"))


@given(st.integers(1, 12))
def test_knots_lie_in_the_box_apart_from_each_other(n):
    lower, upper = np.array([10.0, -3.0]), np.array([14.0, 5.0])
    knots = projection.knots_on_box(lower, upper, n)
    assert knots.shape == (n, 2)
    assert ((knots >= lower) & (knots <= upper)).all()
    apart = np.linalg.norm(knots[:, None] - knots, axis=2) + 99 * np.eye(n)
    assert apart.min() > 0.2


def test_a_box_without_width_is_no_exception():
    knots = projection.knots_on_box(np.zeros(2), np.zeros(2), 3)
    assert np.isfinite(knots).all()
    assert projection.bump_width(knots[:1]) == 1.0


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_bumps_depend_on_where_a_sensor_is_relative_to_the_knots(dx, dy):
    rng = np.random.default_rng(0)
    places, knots, shift = rng.random((5, 2)), rng.random((4, 2)), np.array([dx, dy])
    B = projection.bumps(places, knots, 0.3)
    np.testing.assert_allclose(projection.bumps(places + shift, knots + shift, 0.3), B, atol=1e-9)
    np.testing.assert_array_equal(B[:, 0], 1)
    assert ((B[:, 1:] > 0) & (B[:, 1:] <= 1)).all()


def test_adaptive_projection_gives_the_identity():
    rng = np.random.default_rng(1)
    P, r = rng.standard_normal((9, 3)), rng.random(9) + 0.1
    B = projection.adaptive(P, r)
    F, R = B.T @ P, (B * r[:, None]).T @ B
    np.testing.assert_allclose(F, R, rtol=1e-12)  # hence C = F^T R^-1 = I


def test_an_exact_sensor_does_not_outweigh_all_others():
    assert projection.adaptive(np.ones((1, 1)), np.zeros(1)) == pytest.approx(1e4)
