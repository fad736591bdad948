"""The candidates of a site: every estimate of an entry made without that entry itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.ensemble.interpolators import (
    Neighbours,
    fit_kernel,
    interpolate_linear,
    interpolate_pchip,
    krige,
    neighbours,
)
from flfl.ensemble.joint import Curve, Fall, Joint, fit_joint

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

LEAVE_ONE_OUT = ("linear", "pchip", "kriged", "site", "factors", "shared", "shared+pchip")
"""Candidates that do not see the reading itself, which alone the trees may use: the sensor's own
interpolations, the owner's joint model without the network, the network's factors, the network's
curve with a joint model of what it leaves open."""
NAMES = (*LEAVE_ONE_OUT, "factors+site", "site+pchip")
"""All candidates in the order of ``Candidates.values``. The last two are the factors and the site
with a model of what they leave around the reading, where it has pulled the curve."""
OWN = 3
"""How many of them, the first, use nothing but the sensor's own readings."""


@dataclass(frozen=True)
class Candidates:
    """Estimates of every entry without itself.

    ``values`` (C, M, N) are in the order of ``NAMES``; ``deviations`` (4, M, N) are those of the
    kriged, site, factors and shared ones; ``near`` and ``near_residual`` neighbours of readings and
    residuals; ``bins`` (M, N) the class of distance to the nearest other reading; ``slopes``
    (2, M, N) how the shared curve rises from the slot before and to the slot after; ``silent``
    (M, N) the share of the site's other sensors without a reading then; ``rest`` the joint model of
    what the factors leave.
    """

    values: Array
    deviations: Array
    near: Neighbours
    near_residual: Neighbours
    bins: Index
    slopes: Array
    silent: Array
    rest: Joint


def spikes(Y: Array, known: Mask, curve: Array) -> Mask:
    """Readings far from the shared curve *and* from their own neighbours in time (M, N).

    Far is some robust standard deviations of the sensor's own. A real peak may be as steep, but it
    has feet: the reading before or after has risen by a share of it at least. That counts only if
    it holds for enough of all that stand out: a glitch next to a high reading looks like a peak,
    but of glitches few do.

    Examples
    --------
    >>> Y = np.sin(np.arange(50.0))[None]
    >>> Y[0, 20] = 50.0
    >>> np.nonzero(spikes(Y, np.ones((1, 50), bool), np.zeros((1, 50))))[1].tolist()
    [20]
    """
    residual = np.where(known, Y - curve, 0.0)
    near = neighbours(residual, known, 1)
    lone = np.where(known, residual - interpolate_linear(near), 0.0)
    far = known.copy()
    for values in np.abs([residual, lone]):
        rows = zip(values, known, strict=True)
        middle = np.array([np.median(x[k]) if k.any() else 0.0 for x, k in rows])
        limit = constants.SPIKE_DEVIATIONS * 1.4826 * middle
        far &= values > np.maximum(limit, 1e-3)[:, None]
    feet = (near.value[:, 0] * np.sign(residual)).max(axis=0)
    peaks = far & (feet >= constants.SPIKE_RISE * np.abs(residual))
    return far & ~peaks if peaks.sum() >= constants.SPIKE_PEAKS * far.sum() else far


def candidates(
    Y: Array,
    J: Mask,
    site: Curve,
    network: tuple[Curve, Curve] | None = None,
    rest: Joint | None = None,
    per_hour: float = 1.0,
) -> Candidates:
    """All candidates of one site from the known entries J; rows are the site's sensors.

    ``site`` are the curves of the owner's joint model, ``network`` those of the network, followed
    and finished at home, None without one; the joint model of what the factors leave is learned
    unless it is given.
    """
    fade = constants.FADE_HOURS * per_hour
    own = np.where(J, Y, 0.0)
    near = neighbours(own, J)
    kriged, kriged_var = krige(near, *fit_kernel(own, J))
    if network is None:  # the factors are nothing, and leave everything to the sensors
        plain, left_open = Curve.constant(np.zeros_like(own), kriged_var), site
        curve, rest = fit_joint(own, J, rest, diagonal=True)
    else:
        curve, plain = network
        left_open, rest = fit_joint(np.where(J, Y - plain.mean, 0.0), J, rest, pull=False)
    without, pull = curve.loo, curve.mean - curve.loo
    residual = neighbours(np.where(J, Y - curve.mean, 0.0), J, like=near)
    near_residual = without_pull(residual, pull, curve.fall)
    left = neighbours(np.where(J, own - site.mean, 0.0), J, like=near)
    values = [
        interpolate_linear(near),
        interpolate_pchip(near),
        kriged,
        site.loo,
        plain.loo,
        without,
        without + interpolate_pchip(near_residual, decay=fade),
        plain.loo + left_open.loo,
        site.loo + interpolate_pchip(left, decay=fade),
    ]
    # the rise of the shared curve into each slot and out of it, without its own reading
    middle, rise = curve.fall.shape[2] // 2, np.diff(curve.mean, axis=1)
    before, after = pull * curve.fall[:, :, middle - 1], pull * curve.fall[:, :, middle + 1]
    slopes = np.zeros((2, *Y.shape))
    slopes[0, :, 1:] = (without - curve.mean)[:, 1:] + before[:, 1:] + rise
    slopes[1, :, :-1] = (curve.mean - without)[:, :-1] - after[:, :-1] + rise
    return Candidates(
        np.stack(values),
        np.sqrt(np.stack([kriged_var, site.loo_var, plain.loo_var, curve.loo_var])),
        near,
        near_residual,
        np.searchsorted(constants.DISTANCE_EDGES, near.distance[:, 0].min(axis=0)),
        slopes,
        ((~J).sum(0) - ~J) / max(len(J) - 1, 1),
        rest,
    )


def without_pull(near: Neighbours, pull: Array, fall: Fall) -> Neighbours:
    """Neighbouring residuals ``y - curve`` as they would be without the slot's own reading.

    That reading pulled the curve by ``pull`` (M, N) at its own slot, and by ``pull`` times
    ``fall`` around it, where a neighbour's residual is therefore too low by as much. A gap
    has no pull. Left in, it would tell trees trained on known slots what they are to guess.

    Examples
    --------
    >>> near = neighbours(np.zeros((1, 3)), np.ones((1, 3), bool), depth=1)
    >>> fall = np.array([0.5, 1.0, 0.2], np.float32) * np.ones((1, 3, 1), np.float32)
    >>> without_pull(near, np.array([[0.0, 2.0, 0.0]]), fall).value[:, 0, 0, 1].round(3)
    array([1. , 0.4])
    """
    reach = fall.shape[2] // 2
    value = near.value.copy()
    for side, sign in enumerate((-1, 1)):
        for moved, distance in zip(value[side], near.distance[side], strict=True):
            lag = np.where(distance <= reach, sign * distance, 0.0).astype(np.intp)
            left = np.take_along_axis(fall, reach + lag[:, :, None], axis=2)[:, :, 0]
            moved += np.where(distance <= reach, pull * left, 0.0)
    return Neighbours(value, near.distance)


def scale_features(deviations: Array, silent: Array, values: Array) -> Array:
    """What tells how uncertain an entry is (8, ...), from a :class:`Candidates`' deviations
    (4, ...), its ``silent`` (...) and values (C, ...), perhaps with a boosted one.

    Four model deviations, the sensor's own where the whole site is silent, the spread of the
    sensor's own candidates, that of all others, a constant.
    """
    own, others = values[:OWN].std(axis=0), values[OWN:].std(axis=0)
    return np.stack([*deviations, silent * deviations[0], own, others, np.ones_like(own)])
