"""The boosted head: gradient-boosted trees that correct a base estimate from leave-one-out features, pooled over a site's sensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from flfl.model.heads.interpolation import Neighbours

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Evidence:
    """All that is known about every entry *without that entry itself*; arrays are (M, N) unless said otherwise.

    ``base`` is the estimate to correct, ``candidates`` other estimates in the same units, ``near`` the neighbouring readings themselves,
    ``sd`` uncertainties of candidates, ``shared`` the shared curve ``p . m`` (for its slope), ``phase`` (N,) hour or month.
    """

    base: Array
    candidates: tuple[Array, ...]
    near: Neighbours
    sd: tuple[Array, ...]
    shared: Array
    phase: NDArray[np.intp]
    extra: tuple[Array, ...] = ()


def features(
    evidence: Evidence, rows: NDArray[np.intp], slots: NDArray[np.intp], *, far: float = 100.0
) -> NDArray[np.float32]:
    """Feature table of the entries (rows, slots): everything relative to the base, so that trees see differences.

    Columns: candidates - base, neighbouring readings - base, distances (clipped at `far`), log uncertainties, the shared curve's slopes
    before and after, base, phase, sensor.

    Examples
    --------
    >>> from flfl.model.heads.interpolation import neighbours
    >>> Y, J = np.arange(6.0)[None], np.ones((1, 6), bool)
    >>> evidence = Evidence(Y, (Y + 1,), neighbours(Y, J, 1), (Y + 1,), Y, np.arange(6))
    >>> features(evidence, np.array([0]), np.array([2])).round(2)
    array([[ 1. , -1. ,  1. ,  1. ,  1. ,  1.1,  1. ,  1. ,  2. ,  2. ,  0. ]],
          dtype=float32)
    """
    at = (rows, slots)
    base = evidence.base[at]
    before, after = np.maximum(slots - 1, 0), np.minimum(slots + 1, evidence.base.shape[1] - 1)
    here = evidence.shared[at]
    columns = [c[at] - base for c in evidence.candidates]
    near = evidence.near
    columns += [
        np.where(np.isfinite(d[at]), v[at] - base, np.nan)
        for v, d in zip(near.value, near.distance, strict=True)
    ]
    columns += [np.minimum(d[at], far) for d in near.distance]
    columns += [np.log(np.maximum(s[at], 1e-6)) for s in evidence.sd]
    columns += [here - evidence.shared[rows, before], evidence.shared[rows, after] - here]
    columns += [base, evidence.phase[slots], rows]
    columns += [x[slots] if x.ndim == 1 else x[at] for x in evidence.extra]
    return np.column_stack(columns).astype(np.float32)


def training_rows(
    J: Mask, rng: np.random.Generator, most: int = 20_000
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """At most `most` known entries, drawn without replacement.

    Examples
    --------
    >>> rows, slots = training_rows(np.array([[True, False, True]]), np.random.default_rng(0), most=1)
    >>> len(rows), bool(slots[0] != 1)
    (1, True)
    """
    flat = np.flatnonzero(J)
    if len(flat) > most:
        flat = np.sort(rng.choice(flat, most, replace=False))
    rows, slots = np.unravel_index(flat, J.shape)
    return rows, slots


def fit_boosted(
    X: NDArray[np.float32],
    target: Array,
    weight: Array | None = None,
    *,
    trees: int = 100,
    leaves: int = 15,
    learning_rate: float = 0.1,
    least: int = 40,
    loss: str = "absolute_error",
    seed: int = 0,
) -> HistGradientBoostingRegressor:
    """Trees for ``target = y - base`` (absolute error: the median, which the back-transform keeps).

    Examples
    --------
    >>> X = np.linspace(0, 1, 400, dtype=np.float32)[:, None]
    >>> model = fit_boosted(X, (X[:, 0] > 0.5) * 1.0, trees=50)
    >>> model.predict(X[[0, -1]]).round(1) + 0.0
    array([0., 1.])
    """
    model = HistGradientBoostingRegressor(
        loss=loss,
        max_iter=trees,
        max_leaf_nodes=leaves,
        learning_rate=learning_rate,
        min_samples_leaf=min(least, max(len(X) // 20, 1)),
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    return model.fit(X, target, sample_weight=weight)
