"""Choosing among estimates from hold-out errors.

A convex mix of the candidates is fitted for each class of distance to the nearest observation.
An owner's weights are shrunk towards published defaults, a sensor's towards its owner's: they
deviate as far as their own hold-out says so clearly. Last, values move to multiples of the
reading's resolution where that lowers the error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble.holdout import EDGES

Array = NDArray[np.float64]
Index = NDArray[np.intp]

BINS = len(EDGES) + 1
STEPS = (10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)
"""Resolutions to look for in a sensor's readings."""
_NEAR = {
    "pchip": 0.1,
    "kriged": 0.1,
    "site": 0.1,
    "factors": 0.05,
    "shared": 0.4,
    "shared+pchip": 0.4,
    "factors+site": 0.2,
    "site+pchip": 0.05,
    "boosted": 0.8,
}
_FAR = {
    "kriged": 0.05,
    "site": 0.1,
    "factors": 0.5,
    "shared": 0.3,
    "shared+pchip": 0.06,
    "factors+site": 0.1,
    "boosted": 0.15,
}
"""Relative weights next to a reading and far from any."""
POWER, SHRINK = 3.0, 0.25
"""How much less a candidate weighs for its mean squared error, and how far a class of distance
borrows from the others to know it."""
WIDTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""How near to a multiple of the reading's resolution a value must be to be moved there."""


def robust_weight(error: Array, knee: float) -> Array:
    """Weight that turns squares into absolute errors: ``1 / max(|e|, knee)``.

    Examples
    --------
    >>> robust_weight(np.array([0.1, 2.0]), 0.5)
    array([2. , 0.5])
    """
    return 1.0 / np.maximum(np.abs(error), knee)


def error_sums(errors: Array, weight: Array, bins: Index, size: int) -> Array:
    """Gram sums ``G_b = sum_{n in bin b} weight_n e_n e_n'`` of the candidates' hold-out errors.

    Parameters
    ----------
    errors : (C, n) candidate minus truth for n hold-out entries, in model units
    weight, bins : (n,)

    Returns
    -------
    (size, C, C)

    Examples
    --------
    >>> error_sums(np.array([[1.0, 2.0]]), np.ones(2), np.array([0, 1]), 2)[:, 0, 0]
    array([1., 4.])
    """
    return np.stack(
        [(errors[:, bins == b] * weight[bins == b]) @ errors[:, bins == b].T for b in range(size)]
    )


def simplex_weights(G: Array, prior: Array, strength: Array | float, steps: int = 200) -> Array:
    """Minimise ``w' G w + strength |w - prior|^2`` over the simplex, for a stack of problems.

    Accelerated projected gradient, at most ``steps`` steps.

    Parameters
    ----------
    G : (..., C, C) Gram sums
    prior : (..., C)
    strength : scalar or (...)

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
    for n in range(steps):
        new = _project(z - (H @ z[..., None])[..., 0] + pull)
        settled = n % 10 == 9 and np.abs(new - w).max() < 1e-13
        z = new + n / (n + 3) * (new - w)
        w = new
        if settled:
            break
    return w


def _project(v: Array) -> Array:
    """Nearest points of the simplex along the last axis: ``max(v - shift, 0)``.

    The shift that makes them add up to one is the largest of ``(sum of the j largest - 1) / j``.
    """
    largest = -np.sort(-v, axis=-1)
    shift = (np.cumsum(largest, axis=-1) - 1) / np.arange(1, v.shape[-1] + 1)
    return np.maximum(v - shift.max(axis=-1, keepdims=True), 0.0)


def default_weights(names: Sequence[str]) -> Array:
    """Weights (BINS, C) before any reading was held out, by class of distance.

    Near a reading its own past and future count, far from it the network.

    Examples
    --------
    >>> default_weights(["site", "shared", "shared+pchip"]).round(2)[[0, -1]]
    array([[0.11, 0.44, 0.44],
           [0.22, 0.65, 0.13]])
    """
    at = np.linspace(0.0, 1.0, BINS)[:, None] ** 0.5
    near = np.array([_NEAR.get(name, 0.0) for name in names])
    far = np.array([_FAR.get(name, 0.0) for name in names])
    W = (1 - at) * near + at * far + 1e-3
    return W / W.sum(axis=1, keepdims=True)


def stacked_weights(
    G: Array,
    prior: Array,
    scale: float,
    spread: Array,
    *,
    common: float = 20.0,
    own: float = 100.0,
) -> Array:
    """Weights (bins, C): one set for all bins, pulled to the defaults; then each bin's own.

    Parameters
    ----------
    G : (bins, C, C) from :func:`error_sums`
    prior : (bins, C) default weights
    scale : mean weighted squared error of a candidate
    spread : (bins,) how many entries count for one (errors of one run of hidden slots are alike)
    common, own : strengths of the two pulls, in *independent* hold-out entries

    Examples
    --------
    >>> even = np.full((1, 2), 0.5)
    >>> stacked_weights(np.diag([1e6, 3e6])[None], even, 1.0, np.ones(1)).round(2)
    array([[0.75, 0.25]])
    """
    # A candidate that errs much more than the best has little to add.
    square = np.maximum(np.diagonal(G, axis1=1, axis2=2), 1e-300)
    square = square + (SHRINK / (SHRINK + len(G))) * square.mean(axis=0)
    prior = prior * (square / square.min(axis=1, keepdims=True)) ** -POWER
    prior = prior / prior.sum(axis=1, keepdims=True)
    middle = prior.mean(axis=0)
    together = simplex_weights(G.sum(0), middle, common * scale * float(spread.mean()))
    tilted = prior * (together / np.maximum(middle, 1e-12))
    tilted /= tilted.sum(axis=1, keepdims=True)
    return simplex_weights(G, 0.5 * (tilted + together), own * scale * spread)


def group_bins(entries: Array, least: float = 60.0) -> Index:
    """Which classes of distance are judged together (bins,): each group has ``least`` entries.

    Examples
    --------
    >>> group_bins(np.array([600.0, 30.0, 20.0, 100.0]))
    array([0, 1, 1, 1])
    """
    groups, found, gathered = np.zeros(len(entries), np.intp), 0, 0.0
    for b, n in enumerate(entries):
        if b and gathered >= least and entries[b:].sum() >= least:
            found, gathered = found + 1, 0.0
        groups[b] = found
        gathered += n
    return groups


def run_lengths(sensor: Index, slot: Index) -> Array:
    """Length of the run of consecutive hidden slots to which each hold-out entry belongs (n,).

    Entries are sorted by sensor, then by slot.

    Examples
    --------
    >>> run_lengths(np.array([0, 0, 0, 1]), np.array([3, 4, 9, 0]))
    array([2., 2., 1., 1.])
    """
    new = np.ones(len(sensor), bool)
    new[1:] = (np.diff(sensor) != 0) | (np.diff(slot) != 1)
    run = np.cumsum(new) - 1
    return np.bincount(run)[run].astype(float) if len(run) else np.zeros(0)


def combine(candidates: Array, weights: Array, *index: Index) -> Array:
    """Weighted sum of candidates (C, ...) with ``weights[index]`` (..., C).

    For example ``combine(X, W, sensor, bin)``.

    Examples
    --------
    >>> X, W = np.array([[1.0, 1.0], [3.0, 3.0]]), np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> combine(X, W, np.array([0, 1]))
    array([1., 2.])
    """
    return np.einsum("c...,...c->...", candidates, weights[index])


def local_weights(
    errors: Array,
    weight: Array,
    bins: Index,
    sensor: Index,
    n_sensors: int,
    network: Array,
    scale: Array,
    *,
    site_strength: float = 50.0,
    sensor_strength: float = 150.0,
) -> Array:
    """Weights (M, bins, C) of a site's sensors: the network's, then the site's, then their own.

    Each step deviates from the one before as far as its own held-out errors say so clearly.

    Parameters
    ----------
    errors : (C, n) candidate minus truth
    weight, bins, sensor : (n,)
    network : (bins, C) weights
    scale : (bins,) mean weighted squared error of a candidate, times how many entries count for one

    Examples
    --------
    >>> e = np.random.default_rng(0).standard_normal((2, 4000)) * np.array([[1.0], [10.0]])
    >>> near, sensor = np.zeros(4000, int), np.arange(4000) % 2
    >>> even = np.full((1, 2), 0.5)
    >>> W = local_weights(e, np.ones(4000), near, sensor, 2, even, np.full(1, 50.0))
    >>> W.shape, bool(W[0, 0, 0] > 0.9)
    ((2, 1, 2), True)
    """
    size, C = network.shape
    own = error_sums(errors, weight, sensor * size + bins, n_sensors * size)
    own = own.reshape(n_sensors, size, C, C)
    site = simplex_weights(own.sum(axis=0), network, site_strength * scale)
    prior = np.broadcast_to(site, (n_sensors, size, C))
    return simplex_weights(own, prior, sensor_strength * scale)


_FAINT = 1e-200
"""Spreads below that are rounding."""


def resolution(values: Array, *, share: float = 0.98) -> float:
    """Largest step of which nearly all of a sensor's readings are multiples; 0 if none.

    Steps are tried from the power of ten above the readings' spread downwards, so that the
    answer follows the unit.

    Examples
    --------
    >>> resolution(np.array([1.2, 3.4, 5.0])), resolution(np.array([np.pi, np.e]))
    (0.1, 0.0)
    """
    spread = float(values.std()) if len(values) else 0.0
    if spread > 0:  # a few spikes say nothing of the resolution
        spread = min(spread, float(np.subtract(*np.percentile(values, [99, 1]))) or spread)
    if spread < _FAINT:
        return 0.0
    for step in 10.0 ** np.floor(np.log10(spread)) * np.array(STEPS):
        if np.mean(np.abs(values / step - np.round(values / step)) < 1e-4) >= share:
            return float(step)
    return 0.0


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


def resolutions(raw: Array, known: NDArray[np.bool_]) -> Array:
    """The resolution of each sensor's readings (M,), 0 where there is none.

    Examples
    --------
    >>> resolutions(np.array([[1.0, 8.0], [0.5, np.pi]]), np.ones((2, 2), bool)).tolist()
    [1.0, 0.0]
    """
    return np.array([resolution(row[mask]) for row, mask in zip(raw, known, strict=True)])


def snap_sums(values: Array, step: Array | float, truth: Array) -> Array:
    """Sums of |error| and error^2 for each of ``WIDTHS`` (len(WIDTHS), 2): additive over sites.

    Examples
    --------
    >>> snap_sums(np.array([1.2]), 1.0, np.array([1.0]))[[0, -1]].round(2)
    array([[0.2 , 0.04],
           [0.  , 0.  ]])
    """
    errors = [snap(values, step, w) - truth for w in WIDTHS]
    return np.array([[np.abs(e).sum(), (e**2).sum()] for e in errors])


def choose_width(sums: Array, *, most: float = 1.001) -> float:
    """Width of least absolute error that multiplies the root mean square by at most ``most``.

    Examples
    --------
    >>> choose_width(np.array([[1.0, 1.0], [0.9, 1.0], [0.8, 2.0], *[[2.0, 1.0]] * 3]))
    0.1
    """
    allowed = np.sqrt(sums[:, 1]) <= most * np.sqrt(sums[0, 1])
    return float(WIDTHS[int(np.argmin(np.where(allowed, sums[:, 0], np.inf)))])
