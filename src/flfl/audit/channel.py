"""What an adversary hears: at every slot some numbers that are linear in the copies.

``z_t = sum_i J_it b_i copy_it``, ``copy_it = p_i . q_t + e_it + noise_it``. The release is such a
channel; so are the copies themselves, one number each. The same attack runs on either, and whoever
hears the release must not read more than whoever hears the copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flfl.audit.view import Truth, View
from flfl.model.state_space import Dynamics, smooth

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_CHUNK = 256
_RIDGE = 1e-9


@dataclass(frozen=True)
class Channel:
    """Numbers that were heard, and the public model.

    Attributes
    ----------
    z, used : (N, K) the numbers, and which of them were sent
    B : (M, K) how a sensor's copy enters each number
    known : (M, N) where copies are in it
    P, r : (M, k), (M,) loadings and variance of the residuals e
    sigma2 : (M, N) variance of the added error
    dynamics : of the factors
    """

    z: Array
    used: Mask
    B: Array
    known: Mask
    P: Array
    r: Array
    sigma2: Array
    dynamics: Dynamics

    def cut(self, slots: slice) -> Channel:
        """A stretch of slots."""
        return replace(
            self, z=self.z[slots], used=self.used[slots], known=self.known[:, slots],
            sigma2=self.sigma2[:, slots],
        )  # fmt: skip

    def leading(self, size: int) -> Array:
        """The strongest principal components of the numbers (N, at most size), of variance one."""
        z = np.where(self.used, self.z, 0.0)
        U, d, _ = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)
        kept = min(size, int((d > 1e-9 * max(d[0], 1e-300)).sum()))
        return np.asarray(U[:, :kept] * np.sqrt(len(z)))


def release_of(view: View) -> Channel:
    """What the coordinator hears: the sums over all sites."""
    net = view.network
    used = np.arange(net.z.shape[1]) < net.numbers[:, None]
    B = net.weights[:, None] * net.phi
    return Channel(net.z, used, B, net.known, net.P, net.r, net.sigma2, net.dynamics)


def copies_of(view: View, truth: Truth) -> Channel:
    """What somebody hears who has got all copies."""
    net = view.network
    z = np.where(net.known, truth.copies, 0.0).T
    B = np.eye(len(net.r))
    return Channel(z, net.known.T, B, net.known, net.P, net.r, net.sigma2, net.dynamics)


@dataclass(frozen=True)
class _Chunk:
    """Some slots: ``E`` (n, K, d) enters by z = E x + noise, ``R`` (n, K, K) is its covariance."""

    slots: slice
    E: Array
    R: Array
    z: Array


def _chunks(heard: Channel, L: Array, noise: Array) -> Iterator[_Chunk]:
    """z_t = B' J_t (L x_t + noise_t), slots side by side; numbers that were not sent are zero."""
    N, K = heard.z.shape
    for start in range(0, N, _CHUNK):
        at = slice(start, min(start + _CHUNK, N))
        used = heard.used[at].astype(float)
        Bt = heard.B.T[None] * heard.known[:, at].T[:, None, :] * used[:, :, None]
        R = (Bt * noise[:, at].T[:, None, :]) @ Bt.swapaxes(1, 2)
        d = np.arange(K)
        level = np.trace(R, axis1=1, axis2=2) / np.maximum(used.sum(axis=1), 1)
        ridge = np.where(level > 0, _RIDGE * level, 1.0)
        R[:, d, d] += np.where(heard.used[at], ridge[:, None], 1.0)
        yield _Chunk(at, Bt @ L, R, used * heard.z[at])


def states(heard: Channel, L: Array, noise: Array, dynamics: Dynamics) -> Array:
    """Posterior mean of states x_t (N, d) where copies are ``L x + noise``.

    Parameters
    ----------
    L : (M, d); noise : (M, N) variance of what the states leave open of each copy
    """
    (N, _), d = heard.z.shape, L.shape[1]
    information, vector = np.empty((N, d, d)), np.empty((N, d))
    for part in _chunks(heard, L, noise):
        W = np.linalg.solve(part.R, part.E)
        information[part.slots] = part.E.swapaxes(1, 2) @ W
        vector[part.slots] = np.einsum("tka,tk->ta", W, part.z)
    return smooth(information, vector, dynamics).mean


def left_over(
    heard: Channel, L: Array, noise: Array, x: Array, spread: bool = False
) -> tuple[Array, Array]:
    """What the states leave open, as the numbers tell it: ``B R^-1 (z - E x)`` (M, N).

    Times the variance of any part of a copy's noise it is the posterior mean of that part. With
    ``spread``, second comes ``diag(B R^-1 B')`` (M, N): the part of that variance that is read.
    """
    score, gain = np.zeros(heard.known.shape), np.zeros(heard.known.shape)
    for part in _chunks(heard, L, noise):
        e = part.z - (part.E @ x[part.slots, :, None])[:, :, 0]
        score[:, part.slots] = heard.B @ np.linalg.solve(part.R, e[:, :, None])[:, :, 0].T
        if spread:
            used = heard.used[part.slots].astype(float)
            Bt = heard.B.T[None] * used[:, :, None]
            gain[:, part.slots] = (Bt * np.linalg.solve(part.R, Bt)).sum(axis=1).T
    return np.where(heard.known, score, 0.0), np.where(heard.known, gain, 0.0)
