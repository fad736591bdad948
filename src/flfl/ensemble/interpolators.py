"""What a sensor's own past and future say about a slot.

Everything is a function of the nearest known readings on both sides of a slot, *excluding the
slot itself*. So one evaluation gives the estimate at the gaps and the leave-one-out estimate at
the known slots. Rows are sensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl import constants

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Neighbours:
    """The nearest known slots around each slot: ``value`` and ``distance`` (2, depth, M, N).

    First those before, then those after, the nearest first. Absent neighbours have value 0 and
    distance infinity.
    """

    value: Array
    distance: Array


def neighbours(R: Array, J: Mask, depth: int = 2, like: Neighbours | None = None) -> Neighbours:
    """Find the nearest known readings around every slot, itself excluded.

    R (M, N) holds the values, anything where unknown; J (M, N) where they are known. ``like`` are
    those of other values at the same slots: distances are shared.

    Examples
    --------
    >>> J = np.array([[True, False, True, True]])
    >>> near = neighbours(np.array([[5.0, 0.0, 7.0, 9.0]]), J, depth=1)
    >>> near.value[:, 0, 0], near.distance[:, 0, 0]
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
    value = np.zeros((2, depth, M, N))
    distance = np.full((2, depth, M, N), np.inf) if like is None else like.distance
    for d in range(depth):
        for side, at in enumerate((before - d, after + d)):
            exists = (at >= first[:-1, None]) & (at < first[1:, None])
            at = np.where(exists, at, 0)
            value[side, d] = np.where(exists, values[at], 0.0)
            if like is None:
                distance[side, d] = np.where(exists, np.abs(np.arange(N) - slots[at]), np.inf)
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
    (a, b), (da, db) = near.value[:, 0], near.distance[:, 0]
    with np.errstate(invalid="ignore"):
        share = np.where(np.isinf(db), 0.0, np.where(np.isinf(da), 1.0, da / (da + db)))
    one_sided = np.isinf(da) ^ np.isinf(db)
    fade = np.where(one_sided, np.exp(-np.where(one_sided, np.minimum(da, db), 0.0) / decay), 1.0)
    return ((1 - share) * a + share * b) * fade


def interpolate_pchip(near: Neighbours, *, decay: float = np.inf) -> Array:
    """Shape-preserving cubic through the two neighbours on each side (M, N).

    Linear where one of the four is absent; inside it is what scipy's pchip gives. The slope at a
    knot is the weighted harmonic mean of the secants around it, 0 at an extremum: the curve never
    overshoots.
    """
    (a, a2), (b, b2) = near.value
    full = np.isfinite(near.distance[:, 1]).all(axis=0)
    # any distances do where a neighbour is absent: the cubic is not used there
    harmless = np.array([1.0, 2.0])[:, None, None]
    (da, da2), (db, db2) = np.where(full, near.distance, harmless)
    h = da + db
    secant = (b - a) / h
    # lengths and secants to the left and to the right of the two knots
    lengths = np.stack([[da2 - da, h], [h, db2 - db]])
    d = np.stack([[(a - a2) / lengths[0, 0], secant], [secant, (b2 - b) / lengths[1, 1]]])
    w = 2 * lengths[:, ::-1] + lengths
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (w[:, 0] + w[:, 1]) / (w[:, 0] / d[:, 0] + w[:, 1] / d[:, 1])
    slope = np.where((d[:, 0] * d[:, 1] > 0) & np.isfinite(slope), slope, 0.0)
    s = da / h
    cubic = (
        (1 + 2 * s) * (1 - s) ** 2 * a
        + s**2 * (3 - 2 * s) * b
        + h * s * (1 - s) * ((1 - s) * slope[0] - s * slope[1])
    )
    return np.where(full, cubic, interpolate_linear(near, decay=decay))


def fit_kernel(R: Array, J: Mask) -> tuple[Array, Array]:
    """Correlation of two different readings of a sensor by distance, and its variance.

    A non-negative mixture of Matern kernels fitted to each sensor's autocorrelation, which is
    shrunk to the pooled one: least squares over lags >= 1, weighted by pairs / lag. A mixture of
    valid kernels is a valid kernel, whatever the noise of the curve; what its weights leave to one
    is noise of the reading. One spike must not set the curve, so readings are clipped.

    Returns
    -------
    correlation : (M, reach + 1) array
        At whole distances; the last column is zero and stands for everything beyond.
    variance : (M,) array
    """
    # Large: loaded when a run comes to it.
    from scipy.optimize import nnls

    lags, shrink = constants.KERNEL_LAGS, constants.KERNEL_SHRINK
    X = np.where(J, R, 0.0)
    sd = np.sqrt((X**2).sum(1, keepdims=True) / np.maximum(J.sum(1, keepdims=True), 1))
    X = np.clip(X, -constants.KERNEL_CLIP * sd, constants.KERNEL_CLIP * sd)
    # room for the longest lag, so that the circular product does not wrap around
    size = 2 ** int(np.ceil(np.log2(X.shape[1] + lags + 1)))
    products, counts = (
        np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2, size)[:, : lags + 1]
        for x in (X, J.astype(float))
    )
    counts = np.round(counts)
    variance = products[:, 0] / np.maximum(counts[:, 0], 1)
    variance = np.where(variance > 0, variance, 1.0)
    correlation = products / variance[:, None]
    pooled = correlation.sum(0) / np.maximum(counts.sum(0), 1)
    rho = (correlation + shrink * pooled) / (counts + shrink)
    d = np.arange(constants.KERNEL_REACH + 1.0)
    basis = np.empty((len(d), len(constants.KERNELS)))
    for n, (length, nu) in enumerate(constants.KERNELS):  # Matern: a polynomial times exp(-x)
        x = np.sqrt(2 * nu) * d / length
        basis[:, n] = {0.5: 1.0, 1.5: 1 + x, 2.5: 1 + x + x * x / 3}[nu] * np.exp(-x)
    w = np.sqrt((counts.mean(0)[1:] + shrink) / d[1 : lags + 1])
    weight = np.stack([nnls(basis[1 : lags + 1] * w[:, None], row[1:] * w)[0] for row in rho])
    weight /= np.maximum(weight.sum(1, keepdims=True), 1.0)
    table = weight @ basis.T
    table[:, -1] = 0.0
    return table, variance


def krige(
    near: Neighbours, correlation: Array, variance: Array, nugget: float = constants.KRIGE_NUGGET
) -> tuple[Array, Array]:
    """Best linear estimate of each slot from its neighbours, and its error variance (M, N).

    ``w = C^-1 c`` with ``C`` the neighbours' correlations (plus a nugget) and ``c`` theirs with the
    slot; the variance includes the reading's own noise. Absent neighbours get weight zero by
    themselves, and far from any reading the estimate fades to zero. Slots of a sensor whose
    neighbours are equally far share their weights, so each case is solved once.

    Examples
    --------
    >>> near = neighbours(np.array([[2.0, 0.0, 0.0]]), np.array([[True, False, False]]), depth=1)
    >>> mean, var = krige(near, np.array([[1.0, 0.6, 0.36, 0.0]]), np.ones(1), nugget=0.0)
    >>> np.round(mean[0, 1:] / 2, 3), np.round(var[0, 1:], 3)
    (array([0.6 , 0.36]), array([0.64, 0.87]))
    """
    (_, n, M, N), reach = near.distance.shape, correlation.shape[1] - 1
    # A step is the distance from the slot to its nearest neighbour on a side, from there to the
    # second, and so on; ``reach`` stands for anything further, and for no neighbour at all.
    code = np.broadcast_to(np.arange(M)[:, None], (M, N)).copy()
    for side in near.distance:
        last = np.zeros((M, N))
        for distance in side:
            with np.errstate(invalid="ignore"):  # beyond an absent one there is none
                step = np.fmin(distance - last, reach)
            code = code * (reach + 1) + step.astype(np.intp)
            last = distance
    cases, case = np.unique(code, return_inverse=True)
    sensor, *found = np.unravel_index(cases, (M, *[reach + 1] * (2 * n)))
    steps = np.stack(found, axis=1)
    away = np.concatenate([-np.cumsum(steps[:, :n], 1), np.cumsum(steps[:, n:], 1)], axis=1)
    c = correlation[sensor[:, None], np.minimum(np.abs(away), reach)]
    apart = np.minimum(np.abs(away[:, :, None] - away[:, None, :]), reach)
    C = correlation[sensor[:, None, None], apart]
    C[:, np.arange(2 * n), np.arange(2 * n)] = 1.0 + nugget
    weights = np.asarray(np.linalg.solve(C, c[..., None]))[..., 0]
    case = case.reshape(M, N)
    mean = (weights[case] * np.moveaxis(near.value.reshape(2 * n, M, N), 0, -1)).sum(-1)
    left = np.clip(1.0 - (weights * c).sum(-1), 1e-4, 1.0)[case]
    return mean, variance[:, None] * left
