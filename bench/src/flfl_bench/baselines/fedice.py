"""``fedice``: chained equations whose coefficients are averaged over the clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.config import Count, Positive
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling
from flfl_bench.baselines.federation import WORD, Post


@dataclass(kw_only=True, eq=False, repr=False)
class FedICE(BaseRecoverer):
    """``z_it = sum_l b_l z_i,t+l + b_0``: a client regresses, the server averages, all fill in.

    Made for clients that hold other rows of the same columns. Sensors hold other columns, so here
    a client's rows are its slots and its columns are the slots around each: what another sensor
    read in the same slot is in no row, and cannot help. In every round each client fits a ridge to
    its known readings, with gaps as they are filled at present, and sends the coefficients; the
    server's mean, weighted by readings, fills the gaps anew, within the client's own range.

    Parameters
    ----------
    reach : slots before and after that are columns; a season's neighbours are added
    ridge : for a reading
    rounds : of the chain

    Examples
    --------
    >>> X = np.sin(np.arange(300.0) / 9)[:, None] * np.array([1.0, -2.0])
    >>> truth, X[5::7] = X[5::7].copy(), np.nan
    >>> bool(np.abs(FedICE().fit_transform(X)[5::7] - truth).max() < 0.1)
    True
    """

    reach: Count = 4
    ridge: Positive = 1e-3
    rounds: Count = 20

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling, known = Scaling.fit(Y), ~np.isnan(Y)
        Z = scaling.apply(Y)
        # The mean: interpolated gaps would hold the very reading that they are to explain.
        X = np.where(known, Z, 0.0)
        low, high = (bound(Z, axis=1)[:, None] for bound in (np.nanmin, np.nanmax))
        lags = [lag for lag in range(1, self.reach + 1) if lag < Y.shape[1]]
        if self.reach < self.period_ < Y.shape[1]:
            lags.append(self.period_)
        shifts = [sign * lag for lag in lags for sign in (-1, 1)]
        weight, post = known.sum(axis=1) / known.sum(), Post(self.traffic_)
        fitted = X
        for _ in range(self.rounds):
            features = _features(X, shifts)
            b = weight @ _ridges(features, Z, known, self.ridge)
            size = WORD * len(b)
            post.count_up("coefficients", (size + WORD) * len(Y), len(Y))
            post.count_down("coefficients", size * len(Y), len(Y))
            fitted = np.clip(np.einsum("lmn,l->mn", features, b), low, high)
            X = np.where(known, Z, fitted)
        self.traffic_.rounds = self.rounds
        return scaling.undo(fitted)


def _features(X: Array, shifts: list[int]) -> Array:
    """The slots around each, and a one (L + 1, M, N); at the ends the last slot is repeated."""
    at = np.arange(X.shape[1])
    around = [X[:, np.clip(at + shift, 0, X.shape[1] - 1)] for shift in shifts]
    return np.stack([*around, np.ones_like(X)])


def _ridges(features: Array, Z: Array, known: NDArray[np.bool_], ridge: float) -> Array:
    """Each client's coefficients (M, L + 1) on its known readings."""
    J = known.astype(float)
    y = np.where(known, Z, 0.0)
    F = features.transpose(1, 0, 2)
    gram = (F * J[:, None]) @ F.transpose(0, 2, 1)
    gram += ridge * J.sum(axis=1)[:, None, None] * np.eye(len(features))
    return np.linalg.solve(gram, (F @ y[:, :, None]))[:, :, 0]
