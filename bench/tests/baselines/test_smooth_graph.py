"""``tvgs`` and ``graphtrss``: the published graph, the solver, and the published figures."""

import numpy as np
import pandas as pd
import pytest

from flfl.datasets.catalogue import load_dataset
from flfl.errors import InputError
from flfl.paper.graph import laplacian
from flfl_bench.baselines.tvgs import TVGS, GraphTRSS
from flfl_bench.maths.graphs import gaussian_weights
from flfl_bench.maths.smooth_recovery import recover_smooth


def tiny(seed=0, M=4, N=6):
    """A system whose every unknown is determined, small enough to be written out."""
    rng = np.random.default_rng(seed)
    L = laplacian(gaussian_weights(rng.random((M, 2)), 2, size=M))
    J = (rng.random((M, N)) < 0.6).astype(float)
    J[0] = 1.0  # the graph's common movement is seen at every slot
    return L, J, J * rng.standard_normal((M, N)), rng


@pytest.mark.parametrize("eps", [0.0, 0.3])
@pytest.mark.parametrize("pull", [0.0, 0.7])
def test_the_solver_finds_what_the_dense_system_says(eps, pull):
    L, J, Y, rng = tiny()
    (M, N), alpha = Y.shape, 0.8
    S, T = L + eps * np.eye(M), rng.standard_normal(Y.shape)
    D = np.diff(np.eye(N), axis=0).T
    # vec by rows: vec(S X D D^T) = (S kron D D^T) vec(X), for symmetric D D^T
    dense = np.diag(J.ravel() + pull) + alpha * np.kron(S, D @ D.T)
    expected = np.linalg.solve(dense, (Y + pull * T).ravel()).reshape(M, N)
    found = recover_smooth(Y, J, S, alpha, pull=pull, towards=T, tolerance=1e-12)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    warm = recover_smooth(Y, J, S, alpha, pull=pull, towards=T, start=found, tolerance=1e-6)
    np.testing.assert_array_equal(warm, found)


def test_the_graph_is_the_published_one():
    """Worked out by the definition, one pair at a time."""
    places = np.random.default_rng(1).random((9, 2))
    d = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
    listed = [sorted(range(9), key=lambda j, i=i: d[i, j])[:4] for i in range(9)]  # itself first
    sigma = np.mean([d[i, j] for i in range(9) for j in listed[i]])
    expected = np.zeros((9, 9))
    for i in range(9):
        for j in listed[i][1:]:
            expected[i, j] = expected[j, i] = np.exp(-(d[i, j] ** 2) / sigma**2)
    np.testing.assert_allclose(gaussian_weights(places, 3, size=9), expected)


@pytest.mark.parametrize("places", [np.zeros((3, 2)), np.array([[0.0, 0], [0, 0], [1, 1]]), None])
@pytest.mark.parametrize("neighbors", [1, 2, 10])
def test_odd_places_still_give_a_graph(places, neighbors):
    W = gaussian_weights(places, neighbors, size=3)
    assert np.isfinite(W).all()
    np.testing.assert_array_equal(W, W.T)
    assert (W >= 0).all()
    assert W.any()
    assert not W.diagonal().any()


def test_epsilon_zero_is_tvgs_and_a_power_is_a_power():
    rng = np.random.default_rng(3)
    X = np.where(rng.random((30, 5)) < 0.4, np.nan, rng.random((30, 5)))
    np.testing.assert_array_equal(
        GraphTRSS(alpha=0.2, epsilon=0.0).fit(X).estimates_, TVGS(alpha=0.2).fit(X).estimates_
    )
    L = laplacian(gaussian_weights(rng.random((5, 2)), 2, size=5))
    S = L + 0.1 * np.eye(5)
    np.testing.assert_allclose(GraphTRSS(epsilon=0.1, beta=2.0)._smoothness(L), S @ S, atol=1e-12)
    assert np.isfinite(GraphTRSS(epsilon=0.0, beta=0.5)._smoothness(L)).all()


def test_a_slot_that_nobody_observed_is_bridged_by_graphtrss_alone():
    wave = np.sin(np.arange(60.0) / 9)
    X = np.column_stack([wave, wave + 1, 2 * wave])
    X[20:25] = np.nan
    bridged, free = (model.fit(X).estimates_[22] for model in (GraphTRSS(), TVGS()))
    assert bridged[0] == pytest.approx(wave[22], abs=0.1)
    # The documented choice: the sensors' deviations from their means cancel.
    assert (free - np.nanmean(X, axis=0)).sum() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "published"),
    [
        (TVGS(alpha=1e-3), {0.1: 0.5935, 0.5: 0.2057, 0.9: 0.1406}),
        (GraphTRSS(alpha=1e-3, epsilon=0.02), {0.1: 0.5702, 0.5: 0.2058, 0.9: 0.1411}),
    ],
    ids=["tvgs", "graphtrss"],
)
def test_the_published_errors_on_sea_surface_temperature(model, published):
    """Mean absolute error at 600 months of 100 points; the published ones are means of 100 runs."""
    try:
        table, sensors = load_dataset("D2_sst_100x1733")
    except InputError:
        pytest.skip("the data set D2_sst_100x1733 is not here (FLFL_DATA)")
    frame = table.values.iloc[:600]
    for share, mae in published.items():
        runs = []
        for seed in range(20):
            order = np.random.default_rng(seed).random(frame.shape).argsort(axis=1)
            # The same number of points in each month, as published.
            kept = order < round(share * frame.shape[1])
            seen = frame.where(pd.DataFrame(kept, frame.index, frame.columns))
            error = model.fit(seen, sensors=sensors).estimates_ - frame.to_numpy()
            runs.append(np.abs(error[~kept]).mean())
        assert np.mean(runs) == pytest.approx(mae, rel=0.02)
