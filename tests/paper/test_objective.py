"""The gradient against finite differences, against the printed formulas, and its laws."""

import numpy as np
import pytest

from flfl.paper.graph import distances, laplacian, neighbor_weights
from flfl.paper.objective import (
    Observed,
    Weights,
    gradient,
    sensor_curvature,
    slot_curvature,
)

WEIGHTS = Weights(ridge=0.3, spatial=0.7, temporal=0.5)


def toy(seed=0, C=5, N=7, k=3, rate=0.6, symmetrize="none"):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((C, N))
    known = rng.random((C, N)) < rate
    W = neighbor_weights(distances(rng.random((C, 2)), "metric"), 2, symmetrize=symmetrize)
    P, Q = rng.standard_normal((C, k)), rng.standard_normal((N, k))
    return Observed.of(Y, known), P, Q, laplacian(W)


def objective(data, P, Q, L, weights, whole=False):
    """The paper's objective as it is written, with ``D`` as a matrix; ``whole``: its smoothness
    at every slot, as its text says."""
    N = len(Q)
    D = np.eye(N, N - 1, -1) - np.eye(N, N - 1)
    J, X = data.J, P @ Q.T
    S = np.ones_like(J) if whole else J
    fit = (J * (data.Y - X) ** 2).sum()
    ridge = (J @ (Q**2).sum(1)).sum() + (J.T @ (P**2).sum(1)).sum()
    spatial, temporal = (S * (L @ X) ** 2).sum(), (S[:, :-1] * (X @ D) ** 2).sum()
    return fit + weights.ridge * ridge + weights.spatial * spatial + weights.temporal * temporal


def finite_differences(data, P, Q, L, weights, whole, step=1e-6):
    def slope(matrix, value):
        out = np.empty_like(matrix)
        for index in np.ndindex(matrix.shape):
            up, down = matrix.copy(), matrix.copy()
            up[index] += step
            down[index] -= step
            out[index] = (value(up) - value(down)) / (2 * step)
        return out

    return (
        slope(P, lambda M: objective(data, M, Q, L, weights, whole)),
        slope(Q, lambda M: objective(data, P, M, L, weights, whole)),
    )


@pytest.mark.parametrize("symmetrize", ["none", "mean"])
@pytest.mark.parametrize(
    "weights", [WEIGHTS, Weights(ridge=1.0), Weights(spatial=1.0), Weights(temporal=1.0)]
)
@pytest.mark.parametrize("rule", ["exact", "whole"])
def test_two_rules_are_derivatives(rule, weights, symmetrize):
    data, P, Q, L = toy(symmetrize=symmetrize)
    expected_P, expected_Q = finite_differences(data, P, Q, L, weights, rule == "whole")
    grad_P, grad_Q = gradient(data, P, Q, L, weights, rule)
    np.testing.assert_allclose(grad_P, expected_P, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grad_Q, expected_Q, rtol=1e-6, atol=1e-6)


def test_printed_rule_equals_the_derivative_for_a_symmetric_graph_and_a_full_mask():
    data, P, Q, L = toy(rate=1.1, symmetrize="mean")
    for printed, exact in zip(
        gradient(data, P, Q, L, WEIGHTS, "paper"),
        gradient(data, P, Q, L, WEIGHTS, "exact"),
        strict=True,
    ):
        np.testing.assert_allclose(printed, exact, rtol=1e-10)


@pytest.mark.parametrize(
    ("symmetrize", "rate", "off_by"),
    [("none", 1.1, 0.0094), ("mean", 0.6, 0.1983), ("none", 0.6, 0.1972)],
)
def test_printed_rule_is_not_the_derivative_otherwise(symmetrize, rate, off_by):
    data, P, Q, L = toy(rate=rate, symmetrize=symmetrize)
    printed, _ = gradient(data, P, Q, L, WEIGHTS, "paper")
    exact, _ = gradient(data, P, Q, L, WEIGHTS, "exact")
    relative = np.linalg.norm(printed - exact) / np.linalg.norm(exact)
    assert relative == pytest.approx(off_by, abs=5e-5)


def test_printed_rule_entry_by_entry():
    """The kernel against the printed pair of formulas, written out for one entry at a time."""
    data, P, Q, L = toy()
    N = len(Q)
    D = np.zeros((N, N - 1))
    D[np.arange(N - 1), np.arange(N - 1)], D[np.arange(1, N), np.arange(N - 1)] = -1, 1
    lam, z1, z2 = WEIGHTS.ridge, WEIGHTS.spatial, WEIGHTS.temporal
    expected_P, expected_Q = np.zeros_like(P), np.zeros_like(Q)
    for i, j in zip(*np.nonzero(data.J), strict=True):
        c = data.Y[i, j] - P[i] @ Q[j] - z1 * (L @ L.T)[i] @ P @ Q[j]
        c -= z2 * P[i] @ Q.T @ (D @ D.T)[:, j]
        expected_P[i] += -2 * c * Q[j] + 2 * lam * P[i]
        expected_Q[j] += -2 * c * P[i] + 2 * lam * Q[j]
    grad_P, grad_Q = gradient(data, P, Q, L, WEIGHTS, "paper")
    np.testing.assert_allclose(grad_P, expected_P, rtol=1e-10)
    np.testing.assert_allclose(grad_Q, expected_Q, rtol=1e-10)


@pytest.mark.parametrize("rule", ["paper", "exact", "whole"])
def test_sensors_one_by_one_add_up_to_all_at_once(rule):
    data, P, Q, L = toy()
    all_P, all_Q = gradient(data, P, Q, L, WEIGHTS, rule)
    parts = [gradient(data, P, Q, L, WEIGHTS, rule, slice(i, i + 1)) for i in range(len(P))]
    np.testing.assert_allclose(np.vstack([p for p, _ in parts]), all_P, rtol=1e-10)
    np.testing.assert_allclose(sum(q for _, q in parts), all_Q, rtol=1e-10)


@pytest.mark.parametrize("rule", ["paper", "exact", "whole"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e300])
def test_values_under_the_mask_never_matter(rule, poison):
    data, P, Q, L = toy()
    spoiled = Observed.of(np.where(data.J > 0, data.Y, poison), data.J > 0)
    assert objective(spoiled, P, Q, L, WEIGHTS) == objective(data, P, Q, L, WEIGHTS)
    for ours, theirs in zip(
        gradient(data, P, Q, L, WEIGHTS, rule),
        gradient(spoiled, P, Q, L, WEIGHTS, rule),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("rule", ["paper", "exact", "whole"])
def test_relabelling_sensors_permutes_the_gradient_of_p(rule):
    data, P, Q, L = toy()
    order = np.array([3, 0, 4, 1, 2])
    moved = Observed.of(data.Y[order], data.J[order] > 0)
    grad_P, grad_Q = gradient(data, P, Q, L, WEIGHTS, rule)
    new_P, new_Q = gradient(moved, P[order], Q, L[np.ix_(order, order)], WEIGHTS, rule)
    np.testing.assert_allclose(new_P, grad_P[order], rtol=1e-12)
    np.testing.assert_allclose(new_Q, grad_Q, rtol=1e-12)


def test_the_last_slot_has_no_temporal_term():
    data, P, Q, L = toy(N=2, rate=1.1)
    only_last = Observed.of(data.Y, np.array([[False, True]] * len(P)))
    assert objective(only_last, P, Q, L, Weights(temporal=9.0)) == objective(
        only_last, P, Q, L, Weights()
    )


def test_the_whole_rule_is_the_printed_pair_with_smoothness_at_every_slot():
    """For a symmetric graph; the fit and the ridge stay on the known entries."""
    data, P, Q, L = toy(symmetrize="mean")
    full = Observed.of(np.zeros_like(data.Y), np.ones_like(data.J) > 0)
    smooth = Weights(spatial=WEIGHTS.spatial, temporal=WEIGHTS.temporal)
    parts = [
        gradient(data, P, Q, L, Weights(ridge=WEIGHTS.ridge), "paper"),
        gradient(full, P, Q, L, smooth, "paper"),
        # What the second has of a fit to zeros, which is no part of the objective.
        tuple(-g for g in gradient(full, P, Q, L, Weights(), "paper")),
    ]
    for whole, *printed in zip(gradient(data, P, Q, L, WEIGHTS, "whole"), *parts, strict=True):
        np.testing.assert_allclose(whole, sum(printed), rtol=1e-10)


@pytest.mark.parametrize("rule", ["exact", "whole"])
def test_steps_from_the_curvatures_lower_the_objective(rule):
    """A Newton step of all sensors at once, and a step of Q, from many points."""
    for seed in range(30):
        data, P, Q, L = toy(seed)
        weights = Weights(*np.random.default_rng(seed).gamma(0.5, 1.0, 3))

        def value(P, Q, data=data, L=L, weights=weights):
            return objective(data, P, Q, L, weights, rule == "whole")

        grad_P, grad_Q = gradient(data, P, Q, L, weights, rule)
        H = sensor_curvature(data, Q, L, weights)
        step = np.linalg.solve(H, grad_P[:, :, None] / 2)[:, :, 0]
        # A majoriser promises half of the first-order gain.
        assert value(P - step, Q) <= value(P, Q) - 0.5 * np.vdot(step, grad_P) + 1e-9
        step = grad_Q / (2 * slot_curvature(data, P, L, weights))
        assert value(P, Q - step) <= value(P, Q) - 0.5 * np.vdot(step, grad_Q) + 1e-9


def test_a_sensor_without_neighbours_moves_by_newtons_step():
    """Alone its terms are a quadratic: one step is the minimum."""
    data, P, Q, _ = toy(C=1)
    L, weights = np.zeros((1, 1)), Weights(ridge=0.3, temporal=0.5)
    grad_P, _ = gradient(data, P, Q, L, weights, "whole")
    H = sensor_curvature(data, Q, L, weights)
    there = P - np.linalg.solve(H, grad_P[:, :, None] / 2)[:, :, 0]
    np.testing.assert_allclose(gradient(data, there, Q, L, weights, "whole")[0], 0, atol=1e-12)
