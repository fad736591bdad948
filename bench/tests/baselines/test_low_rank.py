"""``softimpute``, ``lrds`` and ``trmf``: the steps they are made of, and what they minimise."""

import numpy as np
import pandas as pd
import pytest

from flfl.estimators.interpolation import Interpolation
from flfl.paper.graph import laplacian
from flfl.paper.scaling import Scaling
from flfl_bench.baselines.lrds import LRDS
from flfl_bench.baselines.softimpute import SoftImpute
from flfl_bench.baselines.trmf import TRMF
from flfl_bench.baselines.tvgs import TVGS
from flfl_bench.maths.autoregression import Autoregression
from flfl_bench.maths.graphs import gaussian_weights
from flfl_bench.maths.low_rank import noise_edge, shrink_singular_values
from flfl_bench.maths.scaling import common_scaling


def table(seed=0, slots=300, sensors=8, rank=2, hidden=0.5):
    """Readings of low rank with a little noise, and half of them hidden."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((slots, rank)) @ rng.standard_normal((rank, sensors))
    X += 20 + 0.05 * rng.standard_normal(X.shape)
    return X, np.where(rng.random(X.shape) < hidden, np.nan, X)


def error(method, seen, X):
    return np.abs(method.fit(seen).estimates_ - X)[np.isnan(np.asarray(seen))].mean()


@pytest.mark.parametrize("shape", [(5, 40), (40, 5), (6, 6)])
def test_shrinking_equals_the_singular_value_decomposition(shape):
    F = np.random.default_rng(1).standard_normal(shape)
    U, s, Vt = np.linalg.svd(F, full_matrices=False)
    for threshold in (0.0, s[2], 2 * s[0]):
        expected = U @ np.diag(np.maximum(s - threshold, 0)) @ Vt
        np.testing.assert_allclose(shrink_singular_values(F, threshold), expected, atol=1e-9)


@pytest.mark.parametrize("method", [SoftImpute(shrinkage=0.01), LRDS(alpha=1e-4, shrinkage=0.03)])
def test_low_rank_is_found(method):
    X, seen = table()
    assert error(method, seen, X) < 0.4 * error(Interpolation(kind="mean"), seen, X)


def test_softimpute_ends_at_its_optimum():
    """``J*(Y - X)`` must be tau times a subgradient of the nuclear norm at X."""
    _, seen = table()
    shrinkage = 0.1
    model = SoftImpute(shrinkage=shrinkage, tolerance=1e-10, steps=3000).fit(seen)
    scaling = Scaling.fit(seen.T)
    X, Y = scaling.apply(model.estimates_.T), scaling.apply(seen.T)
    gap = np.where(np.isnan(Y), 0.0, Y - X) / (shrinkage * noise_edge(X.shape))
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    U, Vt = U[:, s > 1e-6], Vt[s > 1e-6]
    np.testing.assert_allclose(U.T @ gap, Vt, atol=1e-4)
    assert np.linalg.norm(gap, 2) < 1 + 1e-4


def test_lrds_is_lower_than_anything_near_it_and_tvgs_without_shrinkage():
    _, seen = table(slots=60)
    alpha, shrinkage = 0.1, 0.02
    model = LRDS(alpha=alpha, shrinkage=shrinkage, tolerance=1e-9, steps=3000).fit(seen)
    scaling = common_scaling(seen.T)
    Y, best = scaling.apply(seen.T), scaling.apply(model.estimates_.T)
    L, tau = laplacian(gaussian_weights(None, 10, size=8)), shrinkage * noise_edge(Y.shape)

    def objective(Z):
        change = np.diff(Z, axis=1)
        fit = 0.5 * np.nansum((Z - Y) ** 2) + alpha / 2 * np.trace(change.T @ L @ change)
        return fit + tau * np.linalg.norm(Z, "nuc")

    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-1):
        for _ in range(20):
            assert objective(best) < objective(best + size * rng.standard_normal(Y.shape))
    np.testing.assert_allclose(
        LRDS(alpha=1.0, shrinkage=0.0, tolerance=1e-8, steps=3000).fit(seen).estimates_,
        TVGS(alpha=1.0, tolerance=1e-10).fit(seen).estimates_,
        atol=1e-3,
    )


def test_the_adjoint_of_the_residual():
    rng = np.random.default_rng(4)
    past = Autoregression((1, 2, 5), rng.standard_normal((3, 4)))
    X, R = rng.standard_normal((20, 4)), rng.standard_normal((15, 4))
    assert np.vdot(past.residual(X), R) == pytest.approx(np.vdot(X, past.residual_adjoint(R)))


def test_an_autoregression_is_recovered():
    rng, theta = np.random.default_rng(5), np.array([[0.6, -0.3], [0.2, 0.5]])
    X = np.zeros((4000, 2))
    for t in range(2, len(X)):
        X[t] = theta[0] * X[t - 1] + theta[1] * X[t - 2] + rng.standard_normal(2)
    np.testing.assert_allclose(Autoregression.fit(X, (1, 2), 1.0).theta, theta, atol=0.05)


def test_trmf_bridges_slots_that_nobody_observed_with_the_season():
    hours = np.arange(480.0)
    day = np.sin(2 * np.pi * hours / 24)
    X = np.column_stack([day, 2 * day + 3, day**2 - day])
    seen = X.copy()
    seen[200:230] = np.nan  # more than a day
    index = pd.date_range("2024-01-01", periods=480, freq="h")
    clocked = pd.DataFrame(seen, index=index, columns=list("abc"))
    with_season = error(TRMF(rank=2, ridge=0.1, temporal_weight=0.1), clocked, X)
    assert with_season < 0.3 * error(Interpolation(), seen, X)
    assert with_season < 0.5 * error(TRMF(rank=2, ridge=0.1, temporal_weight=0.1), seen, X)


def test_trmf_balances_its_factors():
    """The product stays, and no other scale of a dimension has a lower penalty."""
    rng, model = np.random.default_rng(6), TRMF(ridge=3.0, temporal_weight=0.2, damping=0.1)
    W, X = rng.standard_normal((5, 3)) * [1e-3, 1, 0], rng.standard_normal((40, 3)) * [1, 50, 1]
    past = Autoregression((1, 2), rng.standard_normal((2, 3)))

    def penalty(W, X):
        courses = np.sum(past.residual(X) ** 2) + model.damping * np.sum(X**2)
        return model.ridge * np.sum(W**2) + model.temporal_weight * courses

    balanced = model._balance(W, X, past)
    np.testing.assert_allclose(balanced[0] @ balanced[1].T, W @ X.T)
    for c in ([1.1, 1, 1], [0.9, 1, 1], [1, 1.1, 1], [1, 0.9, 1]):
        assert penalty(*balanced) < penalty(balanced[0] * c, balanced[1] / c)
