"""The candidates of a site: every estimate of an entry made without that entry itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble import boosting as trees
from flfl.ensemble import holdout
from flfl.ensemble import interpolators as alone
from flfl.ensemble.personal import Curve
from flfl.ensemble.site_kalman import estimate_site
from flfl.model import kalman_em

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]
Fall = NDArray[np.float32]
Joint = tuple[kalman_em.Dynamics, kalman_em.Dynamics]

NAMES = (
    "linear",
    "pchip",
    "kriged",
    "site",
    "factors",
    "shared",
    "shared+pchip",
    "factors+site",
    "site+pchip",
)
"""Candidates in the order of ``Candidates.values``: the sensor's own interpolations, the owner's
joint model without the network, the network's factors, the same with own states, the factors with
the owner's joint model of what they leave."""
LEAVE_ONE_OUT = NAMES[:-2]
"""Those that do not see the reading itself, which alone the boosted one may use: the last two model
what is left around it, where the reading has pulled the curve."""
WITHOUT_NETWORK = (0, 1, 2, 3, 8)
"""Those that use nothing but the owner's own readings."""
OWN = 3
"""How many of them, the first, use nothing but the sensor's own readings."""
FADE = 24.0
"""Slots after which a sensor's last residual is forgotten, where none follows."""
ROWS = 700
"""Rows a sensor on which the boosted candidate is trained."""


@dataclass(frozen=True)
class Candidates:
    """Estimates of every entry without itself.

    Attributes
    ----------
    values : (C, M, N) in the order of ``NAMES``
    deviations : (4, M, N) standard deviations of the kriged, site, factors and shared ones
    near, near_residual : neighbours of the readings and of the residuals
    slopes : (2, M, N) how the shared curve rises from the slot before, and to the slot after
    silent : (M, N) share of the site's other sensors that have no reading then
    dynamics : of the owner's joint models: of its readings, and of what the factors leave
    """

    values: Array
    deviations: Array
    near: alone.Neighbours
    near_residual: alone.Neighbours
    slopes: Array
    silent: Array
    dynamics: Joint

    @property
    def bins(self) -> Index:
        """Distance bin of every entry, (M, N)."""
        return holdout.distance_bin(self.near.nearest)


def spikes(
    Y: Array,
    known: Mask,
    curve: Array,
    *,
    most: float = 7.0,
    rises: float = 0.3,
    many: float = 0.2,
) -> Mask:
    """Readings far from the shared curve *and* from their own neighbours in time (M, N).

    Far is ``most`` robust standard deviations of the sensor's own. A real peak may be as steep,
    but it has feet: the reading before or after has risen by the share ``rises`` of it at least.
    That counts only if it holds for the share ``many`` of all that stand out: a glitch next to
    a high reading looks like a peak, but of glitches few do.

    Examples
    --------
    >>> Y = np.sin(np.arange(50.0))[None]
    >>> Y[0, 20] = 50.0
    >>> np.nonzero(spikes(Y, np.ones((1, 50), bool), np.zeros((1, 50))))[1].tolist()
    [20]
    """
    residual = np.where(known, Y - curve, 0.0)
    near = alone.neighbours(residual, known, 1)
    lone = np.where(known, residual - alone.interpolate_linear(near), 0.0)
    far = known.copy()
    for values in (residual, lone):
        rows = zip(np.abs(values), known, strict=True)
        limit = most * 1.4826 * np.array([np.median(x[k]) if k.any() else 0.0 for x, k in rows])
        far &= np.abs(values) > np.maximum(limit, 1e-3)[:, None]
    feet = (near.value * np.sign(residual)).max(axis=0)
    peaks = far & (feet >= rises * np.abs(residual))
    return far & ~peaks if peaks.sum() >= many * far.sum() else far


def candidates(
    Y: Array, J: Mask, curve: Curve, plain: Curve, dynamics: Joint | None = None
) -> Candidates:
    """All candidates of one site from the known entries J; rows are the site's sensors.

    Parameters
    ----------
    Y : (M, N) readings, any value where unknown
    J : (M, N) known entries
    curve, plain : the personal finish with own states, and without
    dynamics : of the owner's joint models, learned before; None learns them

    Examples
    --------
    >>> t = np.arange(60.0)
    >>> Y, J = np.sin(t / 5)[None], (t % 7 > 0)[None]
    >>> nothing = np.zeros((1, 60))
    >>> curve = Curve(nothing, nothing, nothing + 1, np.ones((1, 60, 13), np.float32))
    >>> made = candidates(Y, J, curve, curve)
    >>> made.values.shape, bool(abs(made.values[1] - Y)[0, 7:50].max() < 0.05)
    ((9, 1, 60), True)
    """
    without, pull = curve.loo, curve.mean - curve.loo
    own = np.where(J, Y, 0.0)
    near = alone.neighbours(own, J)
    kriged, kriged_var = alone.krige(near, alone.fit_kernel(*alone.autocovariance(own, J)))
    residual = np.where(J, Y - curve.mean, 0.0)
    near_residual = without_pull(alone.neighbours(residual, J), pull, curve.fall)
    joint, of_rest = dynamics or (None, None)
    site, joint = estimate_site(own, J, joint)
    rest, of_rest = estimate_site(np.where(J, Y - plain.mean, 0.0), J, of_rest)
    left = alone.neighbours(np.where(J, own - site.mean, 0.0), J)
    values = [
        alone.interpolate_linear(near),
        alone.interpolate_pchip(near),
        kriged,
        site.loo_mean,
        plain.loo,
        without,
        without + alone.interpolate_pchip(near_residual, decay=FADE),
        plain.loo + rest.loo_mean,
        site.loo_mean + alone.interpolate_pchip(left, decay=FADE),
    ]
    deviations = np.sqrt(np.stack([kriged_var, site.loo_var, plain.loo_var, curve.loo_var]))
    slopes = _slopes(curve.mean, without, pull, curve.fall)
    silent = ((~J).sum(0) - ~J) / max(len(J) - 1, 1)
    return Candidates(
        np.stack(values), deviations, near, near_residual, slopes, silent, (joint, of_rest)
    )


def without_pull(near: alone.Neighbours, pull: Array, fall: Fall) -> alone.Neighbours:
    """Neighbouring residuals ``y - curve`` as they would be without the slot's own reading.

    That reading pulled the curve by ``pull`` (M, N) at its own slot, and by ``pull`` times
    ``fall`` around it, where a neighbour's residual is therefore too low by as much. A gap
    has no pull. Left in, it would tell trees trained on known slots what they are to guess.

    Examples
    --------
    >>> near = alone.neighbours(np.zeros((1, 3)), np.ones((1, 3), bool), depth=1)
    >>> fall = np.array([0.5, 1.0, 0.2], np.float32) * np.ones((1, 3, 1), np.float32)
    >>> without_pull(near, np.array([[0.0, 2.0, 0.0]]), fall).value[:, 0, 1].round(3)
    array([1. , 0.4])
    """
    reach = fall.shape[2] // 2
    value = near.value.copy()
    for n, distance in enumerate(near.distance):
        side = -1 if n < near.depth else 1
        lag = np.where(distance <= reach, side * distance, 0.0).astype(np.intp)
        left = np.take_along_axis(fall, reach + lag[:, :, None], axis=2)[:, :, 0]
        value[n] += np.where(distance <= reach, pull * left, 0.0)
    return alone.Neighbours(value, near.distance)


def _slopes(curve: Array, without: Array, pull: Array, fall: Fall) -> Array:
    """Rise of the shared curve into each slot and out of it, without its own reading (2, M, N)."""
    middle = fall.shape[2] // 2
    before, after = pull * fall[:, :, middle - 1], pull * fall[:, :, middle + 1]
    slopes = np.zeros((2, *curve.shape))
    slopes[0, :, 1:] = (without - curve)[:, 1:] + before[:, 1:] + np.diff(curve, axis=1)
    slopes[1, :, :-1] = (curve - without)[:, :-1] - after[:, :-1] + np.diff(curve, axis=1)
    return slopes


def boosted(
    fit: Candidates,
    final: Candidates,
    bases: tuple[Array, Array],
    Y: Array,
    masks: tuple[Mask, Mask, Mask],
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
    phase : (N,) hour or month
    """
    train, held, gaps = masks
    before, after = (_evidence(c, base, phase) for c, base in zip((fit, final), bases, strict=True))
    i, t = trees.training_rows(train, rng, max(ROWS * len(Y), 1500))
    model = trees.fit_boosted(trees.features(before, i, t), Y[i, t] - before.base[i, t])
    at_holdout, at_gaps = bases[0].copy(), bases[1].copy()
    for out, evidence, mask in ((at_holdout, before, held), (at_gaps, after, gaps)):
        i, t = np.nonzero(mask)
        if len(i):
            out[i, t] += model.predict(trees.features(evidence, i, t))
    return at_holdout, at_gaps


def _evidence(c: Candidates, base: Array, phase: Index) -> trees.Evidence:
    near_curve = c.near_residual.value + c.values[NAMES.index("shared")] - base
    usable = c.values[: len(LEAVE_ONE_OUT)]
    return trees.Evidence(base, usable, c.near, c.deviations, c.slopes, phase, near_curve)


def scale_features(c: Candidates, values: Array) -> Array:
    """What tells how uncertain an entry is (8, M, N).

    Four model deviations, the sensor's own where the whole site is silent, the spread of the
    sensor's own candidates, that of all others (in ``values``, perhaps with a boosted one),
    a constant.
    """
    own, others = values[:OWN].std(axis=0), values[OWN:].std(axis=0)
    silent = c.silent * c.deviations[0]
    return np.stack([*c.deviations, silent, own, others, np.ones_like(own)])


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
