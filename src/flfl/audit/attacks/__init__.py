"""One attack a file: its adversary, its assumptions. Here what all are given, and what they give.

An adversary receives, at every slot, numbers that are linear in the copies:
``z_t = sum_i J_it w_i phi_i copy_it``, ``copy_it = p_i . q_t + e_it + noise_it``. The release is
such a channel; so are the copies themselves, one number each. The same attack runs on either; from
the release it must not read more than from the copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from flfl.audit.view import Array, Case, Mask
from flfl.model import loadings
from flfl.model.state_space import Dynamics, smooth

_CHUNK = 256


@dataclass(frozen=True)
class Guess:
    """``value`` (M, N), NaN where nothing is read; ``base + value`` guesses the readings."""

    value: Array
    base: Array


@dataclass(frozen=True)
class Channel:
    """Numbers that were received, and the public model."""

    z: Array  # (N, K) the numbers
    numbers: np.ndarray  # (N,) how many of them were sent, the first ones
    B: Array  # (M, K) how a sensor's copy enters each number
    known: Mask  # (M, N) where copies are in it
    sigma2: Array  # (M, N) variance of their added error
    P: Array  # (M, k) loadings
    r: Array  # (M,) variance of the residuals e
    dynamics: Dynamics

    @property
    def noise(self) -> Array:
        """What the factors leave open of each copy: its variance (M, N)."""
        return np.where(self.known, self.r[:, None] + self.sigma2, 0.0)

    def factors(self) -> Array:
        """Posterior mean of the factors (N, k)."""
        return states(self, self.P, self.noise, self.dynamics)

    def cut(self, at: slice) -> Channel:
        """A stretch of slots."""
        known, sigma2 = self.known[:, at], self.sigma2[:, at]
        return replace(self, z=self.z[at], numbers=self.numbers[at], known=known, sigma2=sigma2)

    def leading(self, size: int) -> Array:
        """The strongest principal components of the numbers (N, at most size), of variance one."""
        U, d, _ = np.linalg.svd(self.z - self.z.mean(axis=0), full_matrices=False)
        kept = min(size, int((d > 1e-9 * max(d[0], 1e-300)).sum()))
        return np.asarray(U[:, :kept] * np.sqrt(len(self.z)))


def received(case: Case, copies: bool) -> Channel:
    """The copies, or the sums that the coordinator received; without secure sums, each site's part
    of them counts as its copies."""
    net = case.network
    model = (net.known, net.sigma2, net.P, net.r, net.dynamics)
    if copies or not case.secure:
        M, N = net.known.shape
        return Channel(case.copies.T, np.full(N, M), np.eye(M), *model)
    return Channel(net.z, net.numbers, net.weights[:, None] * net.phi, *model)


def _chunks(heard: Channel, L: Array, noise: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Stretches of slots, and for each ``z_t = F_t x_t + e_t`` with ``cov e_t = R_t``."""
    ones = np.ones(len(L))
    for start in range(0, len(heard.z), _CHUNK):
        at = slice(start, start + _CHUNK)
        made = loadings.design(L, noise[:, at], ones, heard.B)
        yield at, *loadings.used(*made, heard.numbers[at])


def states(heard: Channel, L: Array, noise: Array, dynamics: Dynamics) -> Array:
    """Posterior mean of states x_t (N, d) where copies are ``L x`` with L (M, d), plus noise of
    variance ``noise`` (M, N), 0 where there is no copy."""
    (N, _), d = heard.z.shape, L.shape[1]
    information, vector = np.empty((N, d, d)), np.empty((N, d))
    for at, F, R in _chunks(heard, L, noise):
        W = np.linalg.solve(R, F)
        information[at] = F.swapaxes(1, 2) @ W
        vector[at] = np.einsum("tka,tk->ta", W, heard.z[at])
    return smooth(information, vector, dynamics).mean


def left_over(heard: Channel, L: Array, noise: Array, x: Array) -> tuple[Array, Array]:
    """What the states leave open: ``B R^-1 (z - F x)``, which times the variance of a part of a
    copy's noise is that part's posterior mean, and ``diag(B R^-1 B')``, the share of that variance
    that is read, (M, N) each."""
    score, gain = np.zeros(heard.known.shape), np.zeros(heard.known.shape)
    for at, F, R in _chunks(heard, L, noise):
        e = heard.z[at] - (F @ x[at, :, None])[:, :, 0]
        used = np.arange(heard.z.shape[1]) < heard.numbers[at, None]
        Bt = heard.B.T * used[:, :, None]
        solved = np.linalg.solve(R, Bt)
        score[:, at] = np.einsum("tkm,tk->mt", solved, e)
        gain[:, at] = (Bt * solved).sum(axis=1).T
    return np.where(heard.known, score, 0.0), np.where(heard.known, gain, 0.0)
