"""Per-sensor heads: what a sensor's own past and future say about its residual.

Everything is a function of the nearest known readings on both sides of a slot, *excluding the slot itself*. So one evaluation gives the
estimate at the gaps and the leave-one-out estimate at the known slots. Rows are sensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Neighbours:
    """The `depth` nearest known slots before and after each slot: ``value`` and ``distance`` (2*depth, M, N).

    Order: nearest before, second before, ..., nearest after, second after, ... Absent neighbours have value 0 and distance infinity.
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
    >>> near = neighbours(np.array([[5.0, 0.0, 7.0, 9.0]]), np.array([[True, False, True, True]]), depth=1)
    >>> near.value[:, 0], near.distance[:, 0]
    (array([[0., 5., 5., 7.],
           [7., 7., 9., 0.]]), array([[inf,  1.,  2.,  1.],
           [ 2.,  1.,  1., inf]]))
    """
    M, N = J.shape
    rows, slots = np.nonzero(J)  # row-major: sorted by sensor, then by slot
    count = J.cumsum(1)
    first = np.concatenate([[0], np.cumsum(count[:, -1])])
    before = (
        first[:-1, None] + count - J - 1
    )  # position in the list of the last known slot before t
    after = first[:-1, None] + count  # and of the first one after t
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
    """Linear interpolation between the nearest neighbours; beyond the ends the nearest value times ``exp(-distance / decay)``.

    Examples
    --------
    >>> near = neighbours(np.array([[1.0, 0.0, 3.0, 0.0]]), np.array([[True, False, True, False]]), depth=1)
    >>> interpolate_linear(near)
    array([[3., 2., 1., 3.]])
    """
    n = near.depth
    a, b, da, db = near.value[0], near.value[n], near.distance[0], near.distance[n]
    with np.errstate(invalid="ignore"):
        share = np.where(np.isinf(db), 0.0, np.where(np.isinf(da), 1.0, da / (da + db)))
    one_sided = np.isinf(da) ^ np.isinf(db)
    fade = np.where(one_sided, np.exp(-np.where(one_sided, near.nearest, 0.0) / decay), 1.0)
    return ((1 - share) * a + share * b) * fade


def _pchip_slope(h0: Array, h1: Array, d0: Array, d1: Array) -> Array:
    """Fritsch-Carlson slope at a knot between intervals of length h0, h1 with secants d0, d1 (harmonic mean, 0 at an extremum)."""
    w0, w1 = 2 * h1 + h0, h1 + 2 * h0
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (w0 + w1) / (w0 / d0 + w1 / d1)
    return np.where((d0 * d1 > 0) & np.isfinite(slope), slope, 0.0)


def interpolate_pchip(near: Neighbours, *, decay: float = np.inf) -> Array:
    """Shape-preserving cubic through the two neighbours on each side (what scipy's pchip gives inside), linear where one is absent.

    Examples
    --------
    >>> from scipy.interpolate import PchipInterpolator
    >>> y, J = np.array([[0.0, 1.0, 0.0, 4.0, 5.0]]), np.array([[True, True, False, True, True]])
    >>> ours = interpolate_pchip(neighbours(y, J))[0, 2]
    >>> bool(np.isclose(ours, PchipInterpolator([0, 1, 3, 4], [0, 1, 4, 5])(2)))
    True
    """
    a, a2, b, b2 = near.value
    da, da2, db, db2 = near.distance
    full = np.isfinite(da2) & np.isfinite(db2)
    da, da2, db, db2 = (
        np.where(full, d, s) for d, s in ((da, 1.0), (da2, 2.0), (db, 1.0), (db2, 2.0))
    )
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


def autocovariance(R: Array, J: Mask, lags: int, *, clip: float = 5.0) -> tuple[Array, Array]:
    """Sums of products and counts at lags 0..lags for each sensor, (M, lags+1) each; values clipped at `clip` standard deviations.

    Examples
    --------
    >>> c, n = autocovariance(np.array([[1.0, -1.0, 1.0, -1.0]]), np.ones((1, 4), bool), 1)
    >>> c / n
    array([[ 1., -1.]])
    """
    X = np.where(J, R, 0.0)
    sd = np.sqrt((X**2).sum(1, keepdims=True) / np.maximum(J.sum(1, keepdims=True), 1))
    X = np.clip(X, -clip * sd, clip * sd)
    N = X.shape[1]
    size = 2 ** int(np.ceil(np.log2(N + lags + 1)))
    spectrum, known = np.fft.rfft(X, size), np.fft.rfft(J.astype(float), size)
    products = np.fft.irfft(np.abs(spectrum) ** 2, size)[:, : lags + 1]
    counts = np.fft.irfft(np.abs(known) ** 2, size)[:, : lags + 1]
    return products, np.round(counts)


def _shape(d: Array, length: float, smoothness: float) -> Array:
    """Matern correlation of smoothness 1/2, 3/2 or 5/2 at distance d."""
    if smoothness == 0.5:
        return np.exp(-d / length)
    x = np.sqrt(2 * smoothness) * d / length
    series = 1 + x if smoothness == 1.5 else 1 + x + x * x / 3
    return series * np.exp(-x)


#: (length, smoothness) of the kernels whose non-negative mixture describes a residual
DICTIONARY: tuple[tuple[float, float], ...] = (
    *((ell, 0.5) for ell in (2.0, 8.0, 32.0)),
    *((ell, 1.5) for ell in (1.5, 3.0, 6.0, 12.0, 24.0)),
    *((ell, 2.5) for ell in (1.5, 3.0, 6.0, 12.0)),
)


@dataclass(frozen=True)
class Kernel:
    """Correlation ``sum_j weight_ij matern_j(d)`` for d > 0, and 1 at d = 0: what the weights leave is noise. Rows are sensors.

    ``table`` (M, reach+1) holds the correlation at integer distances; beyond `reach` it is taken as zero.
    """

    weight: Array
    table: Array
    variance: Array

    def __call__(self, d: Array) -> Array:
        """Correlation of two *different* readings at distance d, (M, ...); the first axis is the sensor."""
        reach = self.table.shape[1] - 1
        at = np.minimum(d, reach).astype(np.intp)
        row = np.arange(len(self.table)).reshape((-1,) + (1,) * (d.ndim - 1))
        return self.table[row, at]


def fit_kernel(
    products: Array,
    counts: Array,
    *,
    shrink: float = 200.0,
    dictionary: tuple[tuple[float, float], ...] = DICTIONARY,
    reach: int = 300,
) -> Kernel:
    """Non-negative mixture of Matern kernels fitted to each sensor's empirical autocorrelation, shrunk to the pooled one.

    ``shrink`` is the number of pairs that the pooled curve counts for. Least squares over lags >= 1, weighted by pairs / lag: a mixture
    of valid kernels is a valid kernel, whatever the noise of the empirical curve.

    Examples
    --------
    >>> d = np.arange(9)
    >>> kernel = fit_kernel(100 * np.exp(-d / 2.0)[None], np.full((1, 9), 100.0), dictionary=((2.0, 0.5), (50.0, 1.5)))
    >>> kernel.weight.round(2) + 0.0
    array([[1., 0.]])
    """
    lags = products.shape[1] - 1
    variance = products[:, 0] / np.maximum(counts[:, 0], 1)
    safe = np.where(variance > 0, variance, 1.0)
    correlation = products / safe[:, None]
    pooled = correlation.sum(0) / np.maximum(counts.sum(0), 1)
    rho = (correlation + shrink * pooled) / (counts + shrink)
    d = np.arange(reach + 1)
    basis = np.stack([_shape(d, ell, nu) for ell, nu in dictionary], axis=1)
    w = np.sqrt((counts.mean(0)[1:] + shrink) / d[1 : lags + 1])
    weight = np.stack([nnls(basis[1 : lags + 1] * w[:, None], row[1:] * w)[0] for row in rho])
    weight /= np.maximum(weight.sum(1, keepdims=True), 1.0)
    table = weight @ basis.T
    table[:, -1] = 0.0
    return Kernel(weight, table, safe)


def krige(near: Neighbours, kernel: Kernel, *, nugget: float = 0.02) -> tuple[Array, Array]:
    """Best linear estimate of each slot from its neighbours under the kernel, and its error variance (reading's noise included).

    ``w = C^-1 c`` with ``C`` the neighbours' correlations and ``c`` theirs with the slot. Absent neighbours (infinite distance) get weight
    zero by themselves, and far from any reading the estimate fades to zero.

    Examples
    --------
    >>> near = neighbours(np.array([[2.0, 0.0, 0.0]]), np.array([[True, False, False]]), depth=1)
    >>> mean, var = krige(near, Kernel(np.ones((1, 1)), np.exp(-np.arange(9) / 2)[None], np.ones(1)), nugget=0.0)
    >>> np.round(mean[0, 1:] / 2, 3), np.round(var[0, 1:], 3)
    (array([0.607, 0.368]), array([0.632, 0.864]))
    """
    n = near.depth
    sign = np.where(np.arange(2 * n) < n, -1.0, 1.0)
    position = sign[:, None, None] * np.minimum(
        near.distance, 1e6
    )  # an absent one is far away, on its own side
    c = np.moveaxis(kernel(np.moveaxis(np.abs(position), 0, -1)), -1, 0)
    M, N = near.distance.shape[1:]
    C = np.empty((M, N, 2 * n, 2 * n))
    for a in range(2 * n):
        C[..., a, a] = 1.0 + nugget
        for b in range(a):
            gap = np.abs(position[a] - position[b])
            both = np.isfinite(near.distance[a]) & np.isfinite(near.distance[b])
            C[..., a, b] = C[..., b, a] = np.where(both, kernel(gap), 0.0)
    weights = np.linalg.solve(C, np.moveaxis(c, 0, -1)[..., None])[..., 0]
    mean = (weights * np.moveaxis(near.value, 0, -1)).sum(-1)
    left = 1.0 - (weights * np.moveaxis(c, 0, -1)).sum(-1)
    return mean, kernel.variance[:, None] * np.clip(left, 1e-4, 1.0)
