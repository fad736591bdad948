"""Choosing among estimates from hold-out errors.

A convex mix of the candidates is fitted for each class of distance to the nearest reading.
An owner's weights are shrunk towards published defaults, a sensor's towards its owner's: they
deviate as far as their own hold-out says so clearly. Last, values move to multiples of the
reading's resolution where that lowers the error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flfl import constants

Array = NDArray[np.float64]
Index = NDArray[np.intp]

BINS = len(constants.DISTANCE_EDGES) + 1


def error_sums(errors: Array, weight: Array, bins: Index, size: int) -> Array:
    """Gram sums ``G_b = sum_{n in bin b} weight_n e_n e_n'`` (size, C, C) of errors (C, n)."""
    return np.stack(
        [(errors[:, bins == b] * weight[bins == b]) @ errors[:, bins == b].T for b in range(size)]
    )


def simplex_weights(G: Array, prior: Array, strength: Array | float, steps: int = 200) -> Array:
    """Minimise ``w' G w + strength |w - prior|^2`` over the simplex, for a stack of problems.

    Accelerated projected gradient, at most ``steps`` steps, of G (..., C, C) and prior (..., C). A
    problem starts gathering speed anew when it is carried back.

    Examples
    --------
    >>> simplex_weights(np.diag([1.0, 3.0]), np.array([0.5, 0.5]), 0.0).round(2)
    array([0.75, 0.25])
    """
    strength = np.asarray(strength, float)[..., None]
    H = G + strength[..., None] * np.eye(G.shape[-1])
    step = 1.0 / np.maximum(np.linalg.eigvalsh(H)[..., -1:], 1e-300)
    pull, H = step * strength * prior, step[..., None] * H
    w = z = np.broadcast_to(prior, H.shape[:-1]).copy()
    age, order = np.zeros((*w.shape[:-1], 1)), np.arange(1, w.shape[-1] + 1)
    for n in range(steps):
        v = z - (H @ z[..., None])[..., 0] + pull
        # The nearest point of the simplex is max(v - shift, 0). The shift that makes it add up to
        # one is the largest of (sum of the j largest - 1) / j.
        largest = -np.sort(-v, axis=-1)
        shift = (np.cumsum(largest, axis=-1) - 1) / order
        new = np.maximum(v - shift.max(axis=-1, keepdims=True), 0.0)
        move = new - w
        age = np.where(((z - new) * move).sum(axis=-1, keepdims=True) > 0, 0.0, age + 1)
        w, z = new, new + age / (age + 3) * move
        if n % 5 == 4 and np.abs(move).max() < 1e-10:
            break
    return w


def default_weights(names: Sequence[str]) -> Array:
    """Weights (BINS, C) before any reading was held out, by class of distance.

    Near a reading its own past and future count, far from it the network.
    """
    at = np.linspace(0.0, 1.0, BINS)[:, None] ** 0.5
    near = np.array([constants.NEAR_WEIGHTS.get(name, 0.0) for name in names])
    far = np.array([constants.FAR_WEIGHTS.get(name, 0.0) for name in names])
    W = (1 - at) * near + at * far + 1e-3
    return W / W.sum(axis=1, keepdims=True)


def stacked_weights(G: Array, prior: Array, scale: float, spread: Array) -> Array:
    """Weights (bins, C): one set for all bins, pulled to the defaults; then each bin's own.

    ``G`` is from :func:`error_sums`, ``scale`` the mean weighted squared error of a candidate,
    ``spread`` (bins,) how many entries count for one (errors of one run of hidden slots are alike).
    """
    # A candidate that errs much more than the best has little to add.
    shrink = constants.WEIGHT_SHRINK
    square = np.maximum(np.diagonal(G, axis1=1, axis2=2), 1e-300)
    square = square + (shrink / (shrink + len(G))) * square.mean(axis=0)
    prior = prior * (square / square.min(axis=1, keepdims=True)) ** -constants.WEIGHT_POWER
    prior = prior / prior.sum(axis=1, keepdims=True)
    middle = prior.mean(axis=0)
    common = constants.COMMON_STRENGTH * scale * float(spread.mean())
    together = simplex_weights(G.sum(0), middle, common)
    tilted = prior * (together / np.maximum(middle, 1e-12))
    tilted /= tilted.sum(axis=1, keepdims=True)
    own = constants.CLASS_STRENGTH * scale * spread
    return simplex_weights(G, 0.5 * (tilted + together), own)


def local_weights(
    errors: Array,
    weight: Array,
    groups: tuple[Index, Index],
    n_sensors: int,
    network: Array,
    scale: Array,
) -> Array:
    """Weights (M, bins, C) of a site's sensors: the network's, then the site's, then their own.

    Each step deviates from the one before as far as its own held-out errors (C, n) say so clearly.
    ``groups`` are sensor and bin of each, ``network`` (bins, C) weights, ``scale`` (bins,) the mean
    weighted squared error of a candidate, times how many entries count for one.
    """
    (size, C), (sensor, bins) = network.shape, groups
    own = error_sums(errors, weight, sensor * size + bins, n_sensors * size)
    own = own.reshape(n_sensors, size, C, C)
    site = simplex_weights(own.sum(axis=0), network, constants.SITE_STRENGTH * scale)
    prior = np.broadcast_to(site, (n_sensors, size, C))
    return simplex_weights(own, prior, constants.SENSOR_STRENGTH * scale)


def group_bins(entries: Array) -> Index:
    """Which classes of distance are judged together (bins,): each group has entries enough."""
    groups, found, gathered = np.zeros(len(entries), np.intp), 0, 0.0
    for b, n in enumerate(entries):
        if b and min(gathered, entries[b:].sum()) >= constants.CLASS_LEAST:
            found, gathered = found + 1, 0.0
        groups[b] = found
        gathered += n
    return groups


def resolutions(raw: Array, known: NDArray[np.bool_]) -> Array:
    """Largest step of which nearly all of a sensor's readings are multiples (M,); 0 if none.

    Steps are tried from the power of ten above the readings' spread downwards, so that the
    answer follows the unit.
    """
    found = np.zeros(len(raw))
    for n, (row, mask) in enumerate(zip(raw, known, strict=True)):
        values = row[mask]
        spread = float(values.std()) if len(values) else 0.0
        if spread > 0:  # a few spikes say nothing of the resolution
            spread = min(spread, float(np.subtract(*np.percentile(values, [99, 1]))) or spread)
        if spread < 1e-200:  # rounding
            continue
        steps = 10.0 ** np.floor(np.log10(spread)) * np.array(constants.RESOLUTION_STEPS)
        for step in steps:
            fits = np.abs(values / step - np.round(values / step)) < 1e-4
            if np.mean(fits) >= constants.RESOLUTION_SHARE:
                found[n] = step
                break
    return found


def snap(values: Array, step: Array | float, width: float) -> Array:
    """Move a value to the nearest multiple of ``step`` when it is within ``width * step`` of it.

    A width of 0.5 moves all, a step of 0 none. A sensor that reports whole numbers has a median
    that is a whole number: this is what least absolute error asks for.

    Examples
    --------
    >>> snap(np.array([1.1, 1.4]), 1.0, 0.25)
    array([1. , 1.4])
    """
    safe = np.where(np.asarray(step) > 0, step, 1.0)
    near = np.round(values / safe) * safe
    return np.where((np.asarray(step) > 0) & (np.abs(values - near) <= width * safe), near, values)


def choose_width(values: Array, step: Array | float, truth: Array) -> float:
    """Width to snap by: of least absolute error, without raising the root mean square much.

    Examples
    --------
    >>> choose_width(np.array([0.95, 2.05]), 1.0, np.array([1.0, 2.0]))
    0.1
    """
    widths = constants.SNAP_WIDTHS
    errors = np.array([snap(values, step, width) - truth for width in widths])
    rmse = np.sqrt((errors**2).sum(axis=1))
    allowed = rmse <= constants.SNAP_RMSE * rmse[0]
    return float(widths[int(np.argmin(np.where(allowed, np.abs(errors).sum(axis=1), np.inf)))])
