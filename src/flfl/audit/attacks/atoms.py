"""Readings from per-slot secure sums, by decoding who is in them: a teaching control.

The product does not send these sums. They are what exact EM asks for, and this file shows why
they are not sent, however well the aggregation hides each site's part.

Adversary: a coordinator that sees, for every slot and securely summed over the sensors that
observed it, ``H_t = sum p_i p_i^T / r_i`` (k x k) and ``h_t = sum p_i y_it / r_i`` (k), in one
round. It knows nothing else.

Assumes: some slots have a single contributor (at a tenth of the readings of 35 sensors one slot in
ten has), readings are standardised by each sensor, sensors are positively correlated and their
readings have a longer tail upwards (that fixes the signs).

Scored: share of all readings within 1 % of the sensor's standard deviation.

How: a sum over one contributor has rank one and *is* that sensor's atom ``a_i = p_i / sqrt(r_i)``.
With the atoms known, sensor i is in slot t exactly if ``a_i`` lies in the range of ``H_t`` and
``a_i^T H_t^+ a_i = 1``; then ``h_t = sum a_i z_it``, ``z_it = y_it / sqrt(r_i)``, is a small linear
system.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.model.shared.dynamics import smoothed_mean
from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_TINY = 1e-5
"""Relative: below this an eigenvalue, or the difference of two atoms, counts as zero."""


def per_slot_sums(Y: Array, known: Mask, P: Array, r: Array) -> tuple[Array, Array]:
    """What the naive protocol sends: ``H`` (N, k, k) and ``h`` (N, k), in fixed point.

    Examples
    --------
    >>> H, h = per_slot_sums(np.array([[3.0]]), np.array([[True]]), np.array([[2.0]]), np.ones(1))
    >>> H.ravel().tolist(), h.ravel().tolist()
    ([4.0], [6.0])
    """
    J = known.astype(float)
    outer = np.einsum("ik,il->ikl", P, P / r[:, None])
    H, h = np.tensordot(J.T, outer, 1), (J * np.where(known, Y, 0.0)).T @ (P / r[:, None])
    unit = 2.0**30
    return np.round(H * unit) / unit, np.round(h * unit) / unit


def naive_run(
    Y: Array, known: Mask, rank: int, rounds: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Exact EM over per-slot sums; the sums of the last round are returned.

    ``Y`` (M, N) standardised. A fixed autoregression of q is enough for the lesson.
    """
    M, N = Y.shape
    Y, J = np.where(known, Y, 0.0), known.astype(float)
    P, r = 1 + 0.5 * rng.standard_normal((M, rank)), np.ones(M)
    A, S = 0.95 * np.eye(rank), (1 - 0.95**2) / rank * np.eye(rank)
    slots = Windows(np.arange(N + 1), np.full(N, rank))
    for _ in range(rounds):
        m = smoothed_mean(A, S, *per_slot_sums(Y, known, P, r), slots)
        gram = np.einsum("it,tk,tl->ikl", J, m, m, optimize=True) + r[:, None, None] * np.eye(rank)
        P = np.linalg.solve(gram, ((J * Y) @ m)[:, :, None])[:, :, 0]
        r = (J * (Y - P @ m.T) ** 2).sum(axis=1) / np.maximum(J.sum(axis=1), 1) + 1e-3
    return per_slot_sums(Y, known, P, r)


def find_atoms(H: Array) -> Array:
    """Distinct rank-one sums as vectors (n, k), ``a a^T = H``; largest entry positive.

    Examples
    --------
    >>> one, two = np.outer([3.0, 0.0], [3.0, 0.0]), np.outer([0.0, 2.0], [0.0, 2.0])
    >>> find_atoms(np.array([one, one + two, two, one])).tolist()
    [[3.0, 0.0], [0.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(H)
    top = values[:, -1]
    # In one dimension every sum has rank one, and nothing can be told apart.
    lone = (top > 0) & (np.abs(values[:, 0]) < _TINY * top) if H.shape[1] > 1 else top < 0
    if H.shape[1] > 2:
        lone &= values[:, -2] < _TINY * top
    found: list[Array] = []
    for a in vectors[lone][:, :, -1] * np.sqrt(top[lone])[:, None]:
        a = a * np.sign(a[np.abs(a).argmax()])
        if all(np.linalg.norm(a - b) > 1e2 * _TINY * np.linalg.norm(b) for b in found):
            found.append(a)
    return np.array(found).reshape(-1, H.shape[1])


def members(H: Array, atoms: Array) -> Mask:
    """Which atoms make up each sum (N, n); a row is all False where no set of them does.

    Examples
    --------
    >>> atoms = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
    >>> H = atoms[:2].T @ atoms[:2]
    >>> members(H[None], atoms).tolist()
    [[True, True, False]]
    """
    values, vectors = np.linalg.eigh(H)
    real = values > _TINY * np.maximum(values[:, -1:], 1e-12)
    inside = np.einsum("nk,tkc->tnc", atoms, vectors, optimize=True)
    size = (atoms**2).sum(axis=1)
    apart = size - (inside**2 * real[:, None]).sum(axis=2)
    leverage = (inside**2 * (real / np.where(real, values, 1.0))[:, None]).sum(axis=2)
    chosen = (apart < 1e-3 * size) & (np.abs(leverage - 1) < 1e-3)
    chosen = _where_right(chosen, H, atoms)
    whole = _where_right(_whole_coefficients(H, atoms), H, atoms)
    return np.where(chosen.any(axis=1, keepdims=True), chosen, whole)


def _whole_coefficients(H: Array, atoms: Array) -> Mask:
    """Least-squares coefficients of the sums over the atoms, rounded: for crowded slots."""
    outer = np.einsum("nk,nl->nkl", atoms, atoms).reshape(len(atoms), -1)
    return np.asarray(H.reshape(len(H), -1) @ np.linalg.pinv(outer) > 0.5)


def _where_right(chosen: Mask, H: Array, atoms: Array) -> Mask:
    """Keep the rows whose atoms do add up to the sum."""
    total = np.einsum("tn,nk,nl->tkl", chosen.astype(float), atoms, atoms, optimize=True)
    size = np.abs(H).max(axis=(1, 2))
    right = np.abs(total - H).max(axis=(1, 2)) <= 1e-3 * size
    return np.asarray(chosen & (right & (size > 0))[:, None])


def decode(H: Array, h: Array) -> tuple[Array, Array]:
    """Atoms (n, k) and the series behind them (n, N), NaN where a sensor was not in the sum.

    Series are standardised; signs are chosen so that sensors agree and the long tail is above.
    """
    atoms = find_atoms(H)
    series = np.full((len(atoms), len(H)), np.nan)
    if len(atoms) == 0:
        return atoms, series
    chosen = members(H, atoms)
    for t in np.flatnonzero(chosen.any(axis=1) & (chosen.sum(axis=1) <= H.shape[1])):
        series[chosen[t], t] = np.linalg.lstsq(atoms[chosen[t]].T, h[t], rcond=None)[0]
    series /= np.maximum(np.sqrt(np.nanmean(series**2, axis=1, keepdims=True)), 1e-300)
    return atoms, series * _signs(series)[:, None]


def _signs(series: Array) -> Array:
    """+1 or -1 for each row: neighbours correlate positively, the tail is upwards."""
    filled = np.nan_to_num(series)
    # Correlations over common slots: their leading eigenvector has the signs.
    both = (~np.isnan(series)).astype(float)
    together = (filled @ filled.T) / np.maximum(both @ both.T, 1.0)
    signs = np.sign(np.linalg.eigh(together)[1][:, -1])
    signs[signs == 0] = 1.0
    tail = float(((signs[:, None] * filled) ** 3).sum())
    return signs if tail >= 0 else -signs


def score(series: Array, truth: Array) -> dict[str, float]:
    """Match decoded series (n, N) to sensors (M, N; NaN = unknown); share of readings exposed.

    A series belongs to the sensor that observed the same slots most often.

    Examples
    --------
    >>> truth = np.array([[1.0, np.nan, -1.0], [np.nan, 2.0, 1.0]])
    >>> score(truth[1:], truth)["exposed"]
    0.5
    """
    there, known = ~np.isnan(series), ~np.isnan(truth)
    right = np.zeros(truth.shape, dtype=bool)
    for row, on in zip(series, there, strict=True):
        i = int((known & on).sum(axis=1).argmax())
        right[i] |= known[i] & on & (np.abs(row - truth[i]) <= 0.01)
    guess = (np.abs(truth[known]) <= 0.01).mean()
    return {
        "atoms": float(len(series)),
        "exposed": float(right.sum() / known.sum()),
        "guessing": float(guess),
    }
