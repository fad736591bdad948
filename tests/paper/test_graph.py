"""Laws of the graph and of the difference operator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flfl.paper.graph import (
    difference,
    difference_adjoint,
    distances,
    laplacian,
    neighbor_weights,
    path_laplacian,
    region_laplacian,
)

coordinates = arrays(float, (6, 2), elements=st.floats(-80, 80, width=32))


@given(coordinates, st.integers(1, 8), st.sampled_from(["none", "mean"]))
def test_laplacian_of_any_map(points, n_neighbors, symmetrize):
    W = neighbor_weights(distances(points, "latlon"), n_neighbors, symmetrize=symmetrize)
    L = laplacian(W)
    assert np.isfinite(L).all()
    assert (W >= 0).all()
    assert (np.diag(W) == 0).all()
    np.testing.assert_allclose(L @ np.ones(6), 0, atol=1e-9 * np.abs(L).max())
    if symmetrize != "none":
        np.testing.assert_array_equal(W, W.T)
    else:
        assert ((W > 0).sum(axis=1) == min(n_neighbors, 5)).all()


def test_coincident_sensors_do_not_divide_by_zero():
    W = neighbor_weights(distances(np.zeros((3, 2)), "metric"), 2)
    np.testing.assert_allclose(W, (1 - np.eye(3)) / 2)


def test_weights_have_no_unit():
    points = np.random.default_rng(0).random((5, 2))
    metres = neighbor_weights(distances(points, "metric"), 2)
    kilometres = neighbor_weights(distances(points / 1000, "metric"), 2)
    np.testing.assert_allclose(metres, kilometres)


def test_weights_fall_with_the_square_of_the_distance():
    d = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
    W = neighbor_weights(d, 2)
    assert W[0, 1] / W[0, 2] == pytest.approx(9.0)


def test_great_circle_distance_across_the_date_line():
    d = distances(np.array([[0.0, 179.5], [0.0, -179.5]]), "latlon")
    assert d[0, 1] == pytest.approx(111_195, rel=1e-4)


def test_a_lone_sensor_has_no_spatial_term():
    assert region_laplacian(np.array([[1.0, 2.0]]), "metric", 3, size=1).tolist() == [[0.0]]


@pytest.mark.parametrize("N", [2, 3, 8])
def test_path_laplacian(N):
    D = np.zeros((N, N - 1))
    D[np.arange(N - 1), np.arange(N - 1)] = -1
    D[np.arange(1, N), np.arange(N - 1)] = 1
    Q = np.random.default_rng(0).standard_normal((N, 2))
    np.testing.assert_allclose(difference(Q), D.T @ Q)
    np.testing.assert_allclose(path_laplacian(Q), D @ D.T @ Q)
    path = np.diag(np.ones(N - 1), 1) + np.diag(np.ones(N - 1), -1)
    np.testing.assert_allclose(D @ D.T, laplacian(path))


@given(
    arrays(float, (5, 2), elements=st.floats(-9, 9)),
    arrays(float, (4, 2), elements=st.floats(-9, 9)),
)
def test_difference_and_its_adjoint(Q, Z):
    assert np.vdot(difference(Q), Z) == pytest.approx(np.vdot(Q, difference_adjoint(Z)), abs=1e-9)
