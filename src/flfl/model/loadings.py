"""The release and the loadings: what is known of the factors, and how sensors depend on them.

Rows are sensors. ``copy_it = p_i . q_t + e_it`` with ``var e_it = r_i + sigma_it^2``: what the
factors do not explain, and the added error. The release of a slot is
``z_t = sum_i J_it w_i phi_i copy_it``, the first ``k_t`` functions ``phi`` of the basis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.constants import LEAST_RESIDUAL, RELEASE_RIDGE, SAVED_NUMBERS
from flfl.model import Array, Index
from flfl.model.state_space import Posterior


def most_numbers(counts: Index, share: float) -> Index:
    """How many numbers a slot of so many readings has at the most: half as many, unless a ``share``
    above one half gives that limit up."""
    return counts // 2 if share <= 0.5 else counts


def numbers_a_slot(counts: Index, share: float, most: int) -> Index:
    """How many numbers are released at each slot: ``share`` of its readings.

    Fractions are saved up, three numbers at the most, within :func:`most_numbers`.

    Examples
    --------
    >>> numbers_a_slot(np.array([5, 5, 5, 2, 1]), 0.5, 4)
    array([2, 2, 2, 1, 0])
    """
    saved, out = 0.0, np.zeros(len(counts), np.int64)
    limits = np.minimum(most_numbers(counts, share), most)
    for t, (n, limit) in enumerate(zip(counts.tolist(), limits.tolist(), strict=True)):
        saved += share * n
        out[t] = min(int(saved + 1e-9), limit)
        saved = min(saved - out[t], SAVED_NUMBERS)
    return out


def released(copies: Array, weights: Array, phi: Array, numbers: Index) -> Array:
    """Some sensors' part of the release: ``z_t`` (N, K), zero beyond each slot's numbers.

    Copies (m, N) are centred, zero where there is none; weights (m,), phi (m, K), numbers (N,).
    """
    z = copies.T @ (weights[:, None] * phi)
    return np.where(np.arange(phi.shape[1]) < numbers[:, None], z, 0.0)


def design(P: Array, noise: Array, weights: Array, phi: Array) -> tuple[Array, Array]:
    """How sensors with loadings P (m, k), weights (m,) and functions phi (m, K) enter the release:
    ``F_t = sum_i J_it w_i phi_i p_i'`` (N, K, k) and
    ``R_t = sum_i J_it w_i^2 (r_i + sigma_it^2) phi_i phi_i'`` (N, K, K).

    ``noise`` (m, N) is the variance of each copy around ``p . q``, 0 where there is no copy.
    """
    (m, K), k, N = phi.shape, P.shape[1], noise.shape[1]
    seen = (noise > 0).astype(float)
    lead = (weights[:, None, None] * phi[:, :, None] * P[:, None, :]).reshape(m, -1)
    spread = (weights[:, None, None] ** 2 * phi[:, :, None] * phi[:, None, :]).reshape(m, -1)
    return (seen.T @ lead).reshape(N, K, k), (noise.T @ spread).reshape(N, K, K)


def used(F: Array, R: Array, numbers: Index) -> tuple[Array, Array]:
    """F and R of the numbers that were released; the others say nothing, and have variance one."""
    K = F.shape[1]
    there = np.arange(K) < numbers[:, None]
    R = np.where(there[:, :, None] & there[:, None, :], R, 0.0)
    d = np.arange(K)
    level = np.trace(R, axis1=1, axis2=2) / np.maximum(numbers, 1)
    # A slot of which nothing is left, after the own part was taken away, says nothing either.
    there &= (level > 0)[:, None]
    R[:, d, d] += np.where(there, RELEASE_RIDGE * level[:, None], 1.0)
    return np.where(there[:, :, None], F, 0.0), R


def information(F: Array, R: Array, z: Array, numbers: Index) -> tuple[Array, Array]:
    """What a release tells about the factors: ``F' R^-1 F`` (N, k, k) and ``F' R^-1 z`` (N, k)."""
    F, R = used(F, R, numbers)
    W = np.linalg.solve(R, F)
    return F.mT @ W, np.einsum("tqa,tq->ta", W, z)


Design = tuple[Array, Array, Array, Index]
"""F, R and z of some slots, of the numbers released at them, and how many these are."""


@dataclass(frozen=True)
class Solved:
    """A release with its noise taken out: ``W = R^-1 F`` (N, K, k), ``e = R^-1 z`` (N, K), and
    ``own = u_i' R^-1 u_i`` (M, N) of each sensor, u the weighted functions of its slot."""

    W: Array
    e: Array
    own: Array

    def without(
        self, row: int, p: Array, u: Array, noise: Array, copies: Array,
        information: Array, vector: Array,
    ) -> tuple[Array, Array]:  # fmt: skip
        """``F' R^-1 F`` (N, k, k) and ``F' R^-1 z`` (N, k) without the part of one sensor, by the
        formula of Sherman and Morrison.

        With ``R - s u u'``, ``F - u p'`` and ``z - u c`` at the slots where s > 0; p (k,), u (K,),
        noise s (N,) and copies c (N,) are the sensor's.
        """
        there = noise > 0
        b = there[:, None] * (u @ self.W)
        a, zeta = np.where(there, self.own[row], 0.0), np.where(there, self.e @ u, 0.0)
        gain = noise / np.maximum(1.0 - noise * a, 1e-9)
        d = b - a[:, None] * p * there[:, None]
        left = np.where(there, zeta - a * copies, 0.0)
        bp = b[:, :, None] * p
        own = a[:, None, None] * np.outer(p, p) + gain[:, None, None] * d[:, :, None] * d[:, None]
        moved = gain[:, None] * d * left[:, None] - left[:, None] * p - b * copies[:, None]
        return information - bp - bp.mT + own, vector + moved


def solved(designs: Iterable[Design], U: Array) -> Solved:
    """The noise of a release taken out, for sensors with weighted functions U (M, K)."""
    pairs = (U[:, :, None] * U[:, None, :]).reshape(len(U), -1).T
    parts = []
    for F, R, z, numbers in designs:
        inverse = np.linalg.inv(R)
        W, e = inverse @ F, (inverse @ z[:, :, None])[:, :, 0]
        # Numbers that were not released say nothing: there R is one on the diagonal, alone.
        d = np.arange(R.shape[1])
        inverse[:, d, d] -= d >= numbers[:, None]
        parts.append((W, e, (inverse.reshape(len(F), -1) @ pairs).T))
    first, second, third = zip(*parts, strict=True)
    return Solved(np.concatenate(first), np.concatenate(second), np.concatenate(third, axis=1))


def misfit(F: Array, R: Array, z: Array, mean: Array, cov: Array) -> Array:
    """``e' (R - F V F')^-1 e`` of the residuals ``e = z - F m`` of some slots (n,)."""
    d = np.arange(R.shape[1])
    S = R - F @ cov @ F.mT
    S[:, d, d] += 1e-3 * R[:, d, d]
    e = z - (F @ mean[:, :, None])[:, :, 0]
    return np.asarray(np.einsum("tk,tk->t", e, np.linalg.solve(S, e[:, :, None])[:, :, 0]))


def fit_loadings(
    Y: Array, J: Array, sigma2: Array, post: Posterior, r: Array
) -> tuple[Array, Array]:
    """Loadings and residual variances of some series against the posterior of the factors.

    ``p_i = (sum_t w_it (m_t m_t' + V_t) + I)^-1 sum_t w_it y_it m_t`` with the weights
    ``w_it = J_it / (r_i + sigma_it^2)``, and r_i from the residuals.

    Y, J and sigma2 (m, N) are the series, 1 where known, and the variance of the added error; r
    (m,) is the residual variance so far. Returns P (m, k) and the new r.
    """
    mean, k = post.mean, post.mean.shape[1]
    W = J / (r[:, None] + sigma2)
    H = post.squares(W) + np.eye(k)
    P = np.asarray(np.linalg.solve(H, ((W * Y) @ mean)[..., None])[..., 0], dtype=float)
    square = W * ((Y - P @ mean.T) ** 2 + post.spread(P) - sigma2)
    floor = LEAST_RESIDUAL * (J * Y**2).sum(1) / np.maximum(J.sum(1), 1)
    r_new = square.sum(1) / np.maximum(W.sum(1), 1e-12)
    return P, np.maximum(r_new, np.maximum(floor, 1e-9))


def left_open(
    C: Array, there: NDArray[np.bool_], P: Array, own: tuple[Array, Array], W: Array,
    post: Posterior,
) -> Array:  # fmt: skip
    """Mean square of what the release leaves open of each copy when that copy is taken out (m,).

    A copy moves its own curve by the share ``h_it = p_i' V_t F_t' R_t^-1 w_i phi_i`` of itself,
    F and R as they are. So ``(c_it - p_i . m_t) / (1 - h_it)`` is the error of a linear forecast
    from all other copies: the value that, in the place of the copy, would be its own curve.

    That is the exact posterior without the copy (out of z, F and R) where a slot releases as many
    numbers as it has readings. With fewer numbers the exact one is the better forecast: under the
    model this mean square is then too large, never too small, as long as no h is within .05 of 1.

    Copies C (m, N), zero where there is none, have loadings P (m, k), weights and functions
    ``own``; ``W = R^-1 F`` (N, K, k) and ``post`` are those of all sensors.
    """
    weights, phi = own
    h = np.einsum("iq,tqa,tab,ib->it", weights[:, None] * phi, W, post.cov, P, optimize=True)
    e = np.where(there, (C - P @ post.mean.T) / (1 - np.clip(h, 0.0, 0.95)), 0.0)
    return (e**2).sum(axis=1) / np.maximum(there.sum(axis=1), 1)


def rounded(P: Array, r: Array, J: Array, sigma2: Array, post: Posterior) -> tuple[Array, Array]:
    """Loadings as they are published: rounded to about a quarter of their standard errors.

    More digits would tell about single copies and help nobody. The grid is a power of two, so that
    it tells nothing itself; residual variances keep four bits.
    """
    n = np.maximum(J.sum(axis=1), 1.0)
    power = np.maximum((J @ post.mean**2) / n[:, None], 1e-12)
    W = (J / (r[:, None] + sigma2)).sum(axis=1)
    error = 1.0 / np.sqrt(1.0 + W[:, None] * power)
    grid = np.exp2(np.floor(np.log2(error / 4)))
    return np.rint(P / grid) * grid, np.exp2(np.rint(np.log2(r) * 16) / 16)
