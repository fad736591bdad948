"""What a sensor's own past and future say about its residual.

Everything is a function of the nearest known readings on both sides of a slot, *excluding the
slot itself*. So one evaluation gives the estimate at the gaps and the leave-one-out estimate at
the known slots. Rows are sensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

DICTIONARY: tuple[tuple[float, float], ...] = (
    *((ell, 0.5) for ell in (2.0, 8.0, 32.0)),
    *((ell, 1.5) for ell in (1.5, 3.0, 6.0, 12.0, 24.0)),
    *((ell, 2.5) for ell in (1.5, 3.0, 6.0, 12.0)),
)
"""(length, smoothness) of the kernels whose non-negative mixture describes a residual."""
REACH = 300
"""Distance in slots from which on two readings are taken as unrelated."""
LAGS = 48
"""Distances at which the autocorrelation is measured."""


@dataclass(frozen=True)
class Neighbours:
    """The nearest known slots around each slot: ``value`` and ``distance`` (2 * depth, M, N).

    Order: nearest before, second before, ..., nearest after, second after, ... Absent neighbours
    have value 0 and distance infinity.
    """

    value: Array
    distance: Array

    @property
    def depth(self) -> int:
        """Neighbours on each side."""
        return len(self.value) // 2

    @property
    def nearest(self) -> Array:
        """Distance to the nearest other observation, (M, N)."""
        return np.minimum(self.distance[0], self.distance[self.depth])


def neighbours(R: Array, J: Mask, depth: int = 2) -> Neighbours:
    """Find the nearest known readings around every slot, itself excluded.

    Parameters
    ----------
    R : (M, N) values, any value where unknown
    J : (M, N) known entries

    Examples
    --------
    >>> J = np.array([[True, False, True, True]])
    >>> near = neighbours(np.array([[5.0, 0.0, 7.0, 9.0]]), J, depth=1)
    >>> near.value[:, 0], near.distance[:, 0]
    (array([[0., 5., 5., 7.],
           [7., 7., 9., 0.]]), array([[inf,  1.,  2.,  1.],
           [ 2.,  1.,  1., inf]]))
    """
    M, N = J.shape
    rows, slots = np.nonzero(J)  # row-major: sorted by sensor, then by slot
    count = J.cumsum(1)
    first = np.concatenate([[0], np.cumsum(count[:, -1])])
    # positions in that list of the last known slot before t and of the first one after it
    before, after = first[:-1, None] + count - J - 1, first[:-1, None] + count
    values = R[rows, slots] if len(rows) else np.zeros(1)
    slots = slots if len(rows) else np.zeros(1, int)
    t = np.arange(N)
    value, distance = np.zeros((2 * depth, M, N)), np.full((2 * depth, M, N), np.inf)
    for d in range(depth):
        for side, at in ((d, before - d), (depth + d, after + d)):
            exists = (at >= first[:-1, None]) & (at < first[1:, None])
            at = np.where(exists, at, 0)
            value[side] = np.where(exists, values[at], 0.0)
            distance[side] = np.where(exists, np.abs(t - slots[at]), np.inf)
    return Neighbours(value, distance)


def interpolate_linear(near: Neighbours, *, decay: float = np.inf) -> Array:
    """Linear interpolation between the nearest neighbours (M, N).

    Beyond the ends the nearest value times ``exp(-distance / decay)``.

    Examples
    --------
    >>> J = np.array([[True, False, True, False]])
    >>> interpolate_linear(neighbours(np.array([[1.0, 0.0, 3.0, 0.0]]), J, depth=1))
    array([[3., 2., 1., 3.]])
    """
    n = near.depth
    a, b, da, db = near.value[0], near.value[n], near.distance[0], near.distance[n]
    with np.errstate(invalid="ignore"):
        share = np.where(np.isinf(db), 0.0, np.where(np.isinf(da), 1.0, da / (da + db)))
    one_sided = np.isinf(da) ^ np.isinf(db)
    fade = np.where(one_sided, np.exp(-np.where(one_sided, near.nearest, 0.0) / decay), 1.0)
    return ((1 - share) * a + share * b) * fade


def interpolate_pchip(near: Neighbours, *, decay: float = np.inf) -> Array:
    """Shape-preserving cubic through the two neighbours on each side (M, N).

    Linear where one of the four is absent; inside it is what scipy's pchip gives.

    Examples
    --------
    >>> J = np.array([[True, True, False, True, True]])
    >>> interpolate_pchip(neighbours(np.array([[0.0, 1.0, 0.0, 3.0, 4.0]]), J))[0, 2].round(6)
    np.float64(2.0)
    """
    a, a2, b, b2 = near.value
    full = np.isfinite(near.distance[1]) & np.isfinite(near.distance[3])
    # any distances do where a neighbour is absent: the cubic is not used there
    harmless = np.array([1.0, 2.0, 1.0, 2.0])[:, None, None]
    da, da2, db, db2 = np.where(full, near.distance, harmless)
    h, h_left, h_right = da + db, da2 - da, db2 - db
    secant = (b - a) / h
    slope_a = _pchip_slope(h_left, h, (a - a2) / h_left, secant)
    slope_b = _pchip_slope(h, h_right, secant, (b2 - b) / h_right)
    s = da / h
    cubic = (
        (1 + 2 * s) * (1 - s) ** 2 * a
        + s**2 * (3 - 2 * s) * b
        + h * s * (1 - s) * ((1 - s) * slope_a - s * slope_b)
    )
    return np.where(full, cubic, interpolate_linear(near, decay=decay))


def _pchip_slope(h0: Array, h1: Array, d0: Array, d1: Array) -> Array:
    """Slope at a knot between intervals of length h0, h1 with secants d0, d1.

    Their weighted harmonic mean, 0 at an extremum: the curve never overshoots.
    """
    w0, w1 = 2 * h1 + h0, h1 + 2 * h0
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (w0 + w1) / (w0 / d0 + w1 / d1)
    return np.where((d0 * d1 > 0) & np.isfinite(slope), slope, 0.0)


def autocovariance(R: Array, J: Mask, lags: int = LAGS) -> tuple[Array, Array]:
    """Sums of products and counts at lags 0..lags for each sensor, (M, lags + 1) each.

    Values are clipped at 5 standard deviations: one spike must not set the curve.

    Examples
    --------
    >>> c, n = autocovariance(np.array([[1.0, -1.0, 1.0, -1.0]]), np.ones((1, 4), bool), 1)
    >>> c / n
    array([[ 1., -1.]])
    """
    X = np.where(J, R, 0.0)
    sd = np.sqrt((X**2).sum(1, keepdims=True) / np.maximum(J.sum(1, keepdims=True), 1))
    X = np.clip(X, -5 * sd, 5 * sd)
    # room for the longest lag, so that the circular product does not wrap around
    size = 2 ** int(np.ceil(np.log2(X.shape[1] + lags + 1)))
    spectrum, known = np.fft.rfft(X, size), np.fft.rfft(J.astype(float), size)
    products = np.fft.irfft(np.abs(spectrum) ** 2, size)[:, : lags + 1]
    counts = np.fft.irfft(np.abs(known) ** 2, size)[:, : lags + 1]
    return products, np.round(counts)


@dataclass(frozen=True)
class Kernel:
    """Correlation of two *different* readings of a sensor, and its variance (M,).

    ``table`` (M, reach + 1) holds the correlation at integer distances; the last column is zero
    and stands for everything beyond.
    """

    table: Array
    variance: Array

    @property
    def reach(self) -> int:
        """Distance from which on the correlation is zero."""
        return self.table.shape[1] - 1

    def __call__(self, sensor: Index, distance: Index) -> Array:
        """Correlation of two readings of ``sensor`` that are ``distance`` slots apart."""
        return self.table[sensor, np.minimum(distance, self.reach)]


def _matern(d: Array, length: float, smoothness: float) -> Array:
    """Matern correlation of smoothness 1/2, 3/2 or 5/2 at distance d."""
    if smoothness == 0.5:
        return np.exp(-d / length)
    x = np.sqrt(2 * smoothness) * d / length
    series = 1 + x if smoothness == 1.5 else 1 + x + x * x / 3
    return series * np.exp(-x)


def fit_kernel(products: Array, counts: Array, *, shrink: float = 200.0) -> Kernel:
    """Non-negative mixture of Matern kernels fitted to each sensor's autocorrelation.

    The empirical curves (from :func:`autocovariance`) are shrunk to the pooled one, which counts
    for ``shrink`` pairs. Least squares over lags >= 1, weighted by pairs / lag. A mixture of valid
    kernels is a valid kernel, whatever the noise of the curve; what its weights leave to one is
    noise of the reading.

    Examples
    --------
    >>> d = np.arange(9.0)
    >>> kernel = fit_kernel(100 * np.exp(-d / 2.0)[None], np.full((1, 9), 100.0))
    >>> bool(np.allclose(kernel.table[0, 1:9], np.exp(-d[1:] / 2), atol=1e-6))
    True
    """
    # The package takes 17 MB: a site loads it after its largest arrays are gone.
    from scipy.optimize import nnls

    lags = products.shape[1] - 1
    variance = products[:, 0] / np.maximum(counts[:, 0], 1)
    variance = np.where(variance > 0, variance, 1.0)
    correlation = products / variance[:, None]
    pooled = correlation.sum(0) / np.maximum(counts.sum(0), 1)
    rho = (correlation + shrink * pooled) / (counts + shrink)
    d = np.arange(REACH + 1.0)
    basis = np.stack([_matern(d, ell, nu) for ell, nu in DICTIONARY], axis=1)
    w = np.sqrt((counts.mean(0)[1:] + shrink) / d[1 : lags + 1])
    weight = np.stack([nnls(basis[1 : lags + 1] * w[:, None], row[1:] * w)[0] for row in rho])
    weight /= np.maximum(weight.sum(1, keepdims=True), 1.0)
    table = weight @ basis.T
    table[:, -1] = 0.0
    return Kernel(table, variance)


def krige(near: Neighbours, kernel: Kernel, *, nugget: float = 0.003) -> tuple[Array, Array]:
    """Best linear estimate of each slot from its neighbours, and its error variance (M, N).

    ``w = C^-1 c`` with ``C`` the neighbours' correlations (plus a nugget) and ``c`` theirs with the
    slot; the variance includes the reading's own noise. Absent neighbours get weight zero by
    themselves, and far from any reading the estimate fades to zero. Slots of a sensor whose
    neighbours are equally far share their weights, so each case is solved once.

    Examples
    --------
    >>> near = neighbours(np.array([[2.0, 0.0, 0.0]]), np.array([[True, False, False]]), depth=1)
    >>> kernel = Kernel(np.array([[1.0, 0.6, 0.36, 0.0]]), np.ones(1))
    >>> mean, var = krige(near, kernel, nugget=0.0)
    >>> np.round(mean[0, 1:] / 2, 3), np.round(var[0, 1:], 3)
    (array([0.6 , 0.36]), array([0.64, 0.87]))
    """
    sensor, steps, case = _cases(near, kernel.reach)
    weights, explained = _kriging_weights(sensor, steps, kernel, nugget)
    mean = (weights[case] * np.moveaxis(near.value, 0, -1)).sum(-1)
    left = np.clip(1.0 - explained, 1e-4, 1.0)[case]
    return mean, kernel.variance[:, None] * left


def _cases(near: Neighbours, reach: int) -> tuple[Index, Index, Index]:
    """The different constellations of neighbours: sensor (n,), steps (n, 2 * depth), case (M, N).

    A step is the distance from the slot to its nearest neighbour on a side, from there to the
    second, and so on; ``reach`` stands for anything further, and for no neighbour at all.
    """
    n, (M, N) = near.depth, near.distance.shape[1:]
    code = np.broadcast_to(np.arange(M)[:, None], (M, N)).copy()
    for side in (near.distance[:n], near.distance[n:]):
        last = np.zeros((M, N))
        for distance in side:
            with np.errstate(invalid="ignore"):  # beyond an absent one there is none
                step = np.fmin(distance - last, reach)
            code = code * (reach + 1) + step.astype(np.intp)
            last = distance
    cases, case = np.unique(code, return_inverse=True)
    sensor, *steps = np.unravel_index(cases, (M, *[reach + 1] * (2 * n)))
    return sensor, np.stack(steps, axis=1), case.reshape(M, N)


def _kriging_weights(
    sensor: Index, steps: Index, kernel: Kernel, nugget: float
) -> tuple[Array, Array]:
    """Weights (n, 2 * depth) and the share of variance they explain (n,) of every case."""
    n = steps.shape[1] // 2
    away = np.concatenate([-np.cumsum(steps[:, :n], 1), np.cumsum(steps[:, n:], 1)], axis=1)
    c = kernel(sensor[:, None], np.abs(away))
    gaps = np.abs(away[:, :, None] - away[:, None, :])
    C = kernel(sensor[:, None, None], gaps)
    C[:, np.arange(2 * n), np.arange(2 * n)] = 1.0 + nugget
    weights = np.asarray(np.linalg.solve(C, c[..., None]))[..., 0]
    return weights, (weights * c).sum(-1)
