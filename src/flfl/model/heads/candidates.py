"""The candidates of a site: every estimate of an entry made without that entry itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.model.heads import boosted as trees_head
from flfl.model.heads import holdout, intervals, kalman_em
from flfl.model.heads import interpolation as heads

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

NAMES = (
    "alone linear",
    "alone pchip",
    "alone kriged",
    "shared",
    "shared+pchip",
    "shared+kriged",
    "site",
    "site+pchip",
)
"""Candidates in the order of ``Candidates.values``."""
LEAVE_ONE_OUT = NAMES[:-1]
"""All but ``site+pchip``, which sees the reading itself: the boosted head may not use that one."""


@dataclass(frozen=True)
class Candidates:
    """Estimates of every entry without itself: ``values`` (C, M, N), ``deviations`` (3, M, N), neighbours of y and of the residual."""

    values: Array
    deviations: Array
    near: heads.Neighbours
    near_residual: heads.Neighbours
    dynamics: kalman_em.Dynamics

    @property
    def bins(self) -> Index:
        """Distance bin of every entry, (M, N)."""
        return holdout.distance_bin(self.near.nearest)


def spikes(Y: Array, known: Mask, curve: Array, *, most: float = 8.0) -> Mask:
    """Readings far from the shared curve *and* from their own neighbours in time (M, N).

    Far is ``most`` robust standard deviations of the sensor's own. A real episode lasts, and
    its neighbours vouch for it.

    Examples
    --------
    >>> Y = np.sin(np.arange(50.0))[None]
    >>> Y[0, 20] = 50.0
    >>> np.nonzero(spikes(Y, np.ones((1, 50), bool), np.zeros((1, 50))))[1].tolist()
    [20]
    """
    residual = np.where(known, Y - curve, 0.0)
    near = heads.interpolate_linear(heads.neighbours(residual, known, 1))
    lone = np.where(known, residual - near, 0.0)
    far = np.ones_like(known)
    for values in (residual, lone):
        limit = most * 1.4826 * np.nanmedian(np.where(known, np.abs(values), np.nan), axis=1)
        far &= np.abs(values) > np.maximum(limit, 1e-3)[:, None]
    return known & far


def candidates(
    Y: Array,
    J: Mask,
    curve: Array,
    without: Array,
    dynamics: kalman_em.Dynamics | None = None,
    *,
    fade: float = 24.0,
) -> Candidates:
    """All candidates of one site from the known entries J; rows are the site's sensors.

    ``curve`` is the shared curve, ``without`` the same without the entry itself (M, N).
    """
    known = np.where(J, Y, 0.0)
    near = heads.neighbours(known, J)
    alone, alone_var = heads.krige(
        near, heads.fit_kernel(*heads.autocovariance(known, J, 48)), nugget=0.003
    )
    residual = np.where(J, Y - curve, 0.0)
    s = without
    near_r = heads.neighbours(residual, J)
    kriged, kriged_var = heads.krige(
        near_r, heads.fit_kernel(*heads.autocovariance(residual, J, 48)), nugget=0.003
    )
    head, dynamics = kalman_em.site_head(residual, J, dynamics)
    left = heads.neighbours(np.where(J, residual - head.mean, 0.0), J)
    site = s + head.loo_mean
    values = np.stack([
        heads.interpolate_linear(near), heads.interpolate_pchip(near), alone,
        s, s + heads.interpolate_pchip(near_r, decay=fade), s + kriged, site, site + heads.interpolate_pchip(left, decay=fade),
    ])  # fmt: skip
    deviations = np.sqrt(np.stack([alone_var, kriged_var, head.loo_var]))
    return Candidates(values, deviations, near, near_r, dynamics)


def boosted(
    fit: Candidates,
    final: Candidates,
    bases: tuple[Array, Array],
    Y: Array,
    masks: tuple[Mask, Mask, Mask],
    curve: Array,
    phase: Index,
    rng: np.random.Generator,
    *,
    rows: int = 700,
    trees: int = 80,
    learning_rate: float = 0.12,
) -> tuple[Array, Array]:
    """Boosted estimate of a site: at hold-out entries from `fit`, at the gaps from `final`; elsewhere the base.

    ``masks`` = (train, hold-out, gaps); ``rows`` to train on for each sensor. Trained on leave-one-out rows of the train entries only, so hold-out errors are honest.
    """
    train, held, gaps = masks

    def evidence(c: Candidates, base: Array) -> trees_head.Evidence:
        usable = tuple(c.values[: len(LEAVE_ONE_OUT)])
        extra = tuple(c.near_residual.value + c.values[NAMES.index("shared")] - base)
        return trees_head.Evidence(base, usable, c.near, tuple(c.deviations), curve, phase, extra)

    before, after = evidence(fit, bases[0]), evidence(final, bases[1])
    i, t = trees_head.training_rows(train, rng, max(rows * len(Y), 1500))
    model = trees_head.fit_boosted(
        trees_head.features(before, i, t),
        Y[i, t] - bases[0][i, t],
        trees=trees,
        learning_rate=learning_rate,
    )
    at_holdout, at_gaps = bases[0].copy(), bases[1].copy()
    for out, ev, mask in ((at_holdout, before, held), (at_gaps, after, gaps)):
        i, t = np.nonzero(mask)
        if len(i):
            out[i, t] += model.predict(trees_head.features(ev, i, t))
    return at_holdout, at_gaps


def scale_features(c: Candidates, values: Array) -> Array:
    """What tells how uncertain an entry is (F, M, N): three model deviations, the spread of the
    sensor's own candidates, that of all others, a constant."""
    return intervals.scale_features((*c.deviations, values[:3].std(axis=0)), values[3:])


def phase(positions: Array, period: int) -> Index:
    """Hour, month or the like of every slot: its place in the season (N,); zeros without one.

    Examples
    --------
    >>> phase(np.array([0.0, 1.0, 25.0]), 24).tolist()
    [0, 1, 1]
    """
    if not period:
        return np.zeros(len(positions), dtype=np.intp)
    return np.round(positions).astype(np.intp) % period
