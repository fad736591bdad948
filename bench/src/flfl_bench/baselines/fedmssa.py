"""``fedmssa``: federated multivariate singular spectrum analysis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from flfl.config import Count, Positive
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling
from flfl_bench.baselines.federation import WORD, Post


@dataclass(kw_only=True, eq=False, repr=False)
class FedMSSA(BaseRecoverer):
    """``H = [H_1 ... H_M] ~ U V^T``, ``H_i`` the windows of sensor i as columns (its Hankel block).

    One low-rank matrix holds the windows of all sensors; its left factor, courses within a window,
    is common, and each sensor keeps the right factors of its own windows. The two are found in
    turn by ridge regressions on the known entries: a client solves for its ``V_i`` and sends the
    sums of the regression for ``U``, which the server adds and solves. An estimate is the mean over
    all windows that hold the slot. Sensors share what courses look like, and not what happens at
    the same time: a network's help in a slot is not in this model.

    Parameters
    ----------
    window : slots
    rank : of the matrix
    ridge : for a reading of a window, and for one of a row
    rounds : of the alternation

    Examples
    --------
    >>> X = np.sin(np.arange(400.0) / 5)[:, None] * np.array([1.0, 2.0, 3.0])
    >>> truth, X[::3] = X[::3].copy(), np.nan
    >>> filled = FedMSSA(rank=2, window=20, ridge=1e-3).fit_transform(X)
    >>> bool(np.abs(filled[::3] - truth).max() < 0.1)
    True
    """

    window: Count = 24
    rank: Count = 8
    ridge: Positive = 0.05
    rounds: Count = 12

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling, known = Scaling.fit(Y), ~np.isnan(Y)
        Z = np.where(known, scaling.apply(Y), 0.0)
        L = min(self.window, max(Y.shape[1] // 2, 1))
        k, post = min(self.rank, L), Post(self.traffic_)
        U = _start(L, k)
        blocks = [
            (sliding_window_view(z, L), sliding_window_view(j.astype(float), L))
            for z, j in zip(Z, known, strict=True)
        ]
        for _ in range(self.rounds):
            gram, moment = np.zeros((L, k, k)), np.zeros((L, k))
            for H, J in blocks:
                a, b = _sums(H, J, _windows(H, J, U, self.ridge))
                gram, moment = gram + a, moment + b
            U = _solved(gram, moment, self.ridge * gram.trace(axis1=1, axis2=2)[:, None, None] / k)
            post.count_up("sums", WORD * len(Y) * (gram.size + moment.size), len(Y))
            post.count_down("factors", WORD * len(Y) * U.size, len(Y))
        self.traffic_.rounds = self.rounds
        return scaling.undo(
            np.array([_mean_of_windows(_windows(H, J, U, self.ridge) @ U.T) for H, J in blocks])
        )


def _start(L: int, k: int) -> Array:
    """Slow cosines: every series has some of them."""
    at = (np.arange(L) + 0.5) / L
    return np.cos(np.pi * np.outer(at, np.arange(k)))


def _windows(H: Array, J: Array, U: Array, ridge: float) -> Array:
    """Right factors (windows, k) by ridge regression on the known entries."""
    L, k = U.shape
    gram = (J @ (U[:, :, None] * U[:, None]).reshape(L, k * k)).reshape(-1, k, k)
    return _solved(gram, H @ U, ridge * np.maximum(J.sum(axis=1), 1.0)[:, None, None])


def _sums(H: Array, J: Array, V: Array) -> tuple[Array, Array]:
    """What a client sends: the sums of the regression for each row of ``U``."""
    k = V.shape[1]
    outer = (V[:, :, None] * V[:, None]).reshape(len(V), k * k)
    return (J.T @ outer).reshape(-1, k, k), H.T @ V


def _solved(gram: Array, moment: Array, ridge: Array) -> Array:
    # A row that nobody has read has no sums at all.
    lifted = gram + np.maximum(ridge, 1e-9) * np.eye(gram.shape[-1])
    return np.asarray(np.linalg.solve(lifted, moment[:, :, None])[:, :, 0])


def _mean_of_windows(X: Array) -> Array:
    """Entries (windows, L) back on their slots: the mean over the antidiagonals.

    >>> _mean_of_windows(np.array([[1.0, 2.0], [4.0, 3.0]])).tolist()
    [1.0, 3.0, 3.0]
    """
    windows, L = X.shape
    total, count = np.zeros(windows + L - 1), np.zeros(windows + L - 1)
    for column in range(L):
        total[column : column + windows] += X[:, column]
        count[column : column + windows] += 1.0
    return total / count
