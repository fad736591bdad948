"""The candidates of a site: every estimate of an entry made without that entry itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.model.heads import boosted as trees
from flfl.model.heads import holdout, kalman_em
from flfl.model.heads import interpolation as alone
from flfl.model.heads.site import site_head

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
ALONE = 3
"""How many of them, the first, use nothing but the sensor's own readings."""
FADE = 24.0
"""Slots after which a sensor's last residual is forgotten, where none follows."""
ROWS = 700
"""Rows a sensor on which the boosted head is trained."""


@dataclass(frozen=True)
class Candidates:
    """Estimates of every entry without itself.

    Attributes
    ----------
    values : (C, M, N) in the order of ``NAMES``
    deviations : (3, M, N) standard deviations of the kriged, the shared + kriged and the site one
    near, near_residual : neighbours of the readings and of the residuals
    dynamics : what the site head learned
    """

    values: Array
    deviations: Array
    near: alone.Neighbours
    near_residual: alone.Neighbours
    dynamics: kalman_em.Dynamics

    @property
    def bins(self) -> Index:
        """Distance bin of every entry, (M, N)."""
        return holdout.distance_bin(self.near.nearest)


def spikes(Y: Array, known: Mask, curve: Array, *, most: float = 7.0) -> Mask:
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
    near = alone.interpolate_linear(alone.neighbours(residual, known, 1))
    lone = np.where(known, residual - near, 0.0)
    far = np.ones_like(known)
    for values in (residual, lone):
        limit = most * 1.4826 * np.nanmedian(np.where(known, np.abs(values), np.nan), axis=1)
        far &= np.abs(values) > np.maximum(limit, 1e-3)[:, None]
    return known & far


def candidates(
    Y: Array, J: Mask, curve: Array, without: Array, dynamics: kalman_em.Dynamics | None = None
) -> Candidates:
    """All candidates of one site from the known entries J; rows are the site's sensors.

    Parameters
    ----------
    Y : (M, N) readings, any value where unknown
    J : (M, N) known entries
    curve, without : (M, N) the shared curve, and the same without the entry itself
    dynamics : of the site head, learned before; None learns them

    Examples
    --------
    >>> t = np.arange(60.0)
    >>> Y, J = np.sin(t / 5)[None], (t % 7 > 0)[None]
    >>> made = candidates(Y, J, np.zeros((1, 60)), np.zeros((1, 60)))
    >>> made.values.shape, bool(abs(made.values[1] - Y)[0, 7:50].max() < 0.05)
    ((8, 1, 60), True)
    """
    near, kriged, kriged_var = _own(np.where(J, Y, 0.0), J)
    residual = np.where(J, Y - curve, 0.0)
    near_residual, shared_kriged, shared_var = _own(residual, J)
    head, dynamics = site_head(residual, J, dynamics)
    left = alone.neighbours(np.where(J, residual - head.mean, 0.0), J)
    site = without + head.loo_mean
    values = [
        alone.interpolate_linear(near),
        alone.interpolate_pchip(near),
        kriged,
        without,
        without + alone.interpolate_pchip(near_residual, decay=FADE),
        without + shared_kriged,
        site,
        site + alone.interpolate_pchip(left, decay=FADE),
    ]
    deviations = np.sqrt(np.stack([kriged_var, shared_var, head.loo_var]))
    return Candidates(np.stack(values), deviations, near, near_residual, dynamics)


def _own(X: Array, J: Mask) -> tuple[alone.Neighbours, Array, Array]:
    """Neighbours of a series, its kriged estimate and that one's variance."""
    near = alone.neighbours(X, J)
    return near, *alone.krige(near, alone.fit_kernel(*alone.autocovariance(X, J)))


def boosted(
    fit: Candidates,
    final: Candidates,
    bases: tuple[Array, Array],
    Y: Array,
    masks: tuple[Mask, Mask, Mask],
    curve: Array,
    phase: Index,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Boosted estimates of a site, (M, N) each; elsewhere the base.

    At hold-out entries from ``fit``, at the gaps from ``final``. Trained on the train entries
    only, each without itself, so that hold-out errors are honest.

    Parameters
    ----------
    fit, final : candidates without and with the hold-out entries
    bases : the estimate to correct, for each of them
    masks : train entries, hold-out entries, gaps
    curve, phase : as in :class:`~flfl.model.heads.boosted.Evidence`
    """
    train, held, gaps = masks
    before, after = (
        _evidence(c, base, curve, phase) for c, base in zip((fit, final), bases, strict=True)
    )
    i, t = trees.training_rows(train, rng, max(ROWS * len(Y), 1500))
    model = trees.fit_boosted(trees.features(before, i, t), Y[i, t] - before.base[i, t])
    at_holdout, at_gaps = bases[0].copy(), bases[1].copy()
    for out, evidence, mask in ((at_holdout, before, held), (at_gaps, after, gaps)):
        i, t = np.nonzero(mask)
        if len(i):
            out[i, t] += model.predict(trees.features(evidence, i, t))
    return at_holdout, at_gaps


def _evidence(c: Candidates, base: Array, curve: Array, phase: Index) -> trees.Evidence:
    near_curve = c.near_residual.value + c.values[NAMES.index("shared")] - base
    usable = c.values[: len(LEAVE_ONE_OUT)]
    return trees.Evidence(base, usable, c.near, c.deviations, curve, phase, near_curve)


def scale_features(c: Candidates, values: Array) -> Array:
    """What tells how uncertain an entry is (6, M, N).

    Three model deviations, the spread of the sensor's own candidates, that of all others (in
    ``values``, perhaps with a boosted one), a constant.
    """
    own, others = values[:ALONE].std(axis=0), values[ALONE:].std(axis=0)
    return np.stack([*c.deviations, own, others, np.ones_like(own)])


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
