"""Residuals from the numbers of each slot, by Gaussian and heavy-tailed inference.

Adversary: the coordinator, who has the public model (loadings, residual variances, dynamics, gaps,
added errors) and the release. Slot by slot it takes factors by the exact smoother, then
``E[e_it | z_t]``; with memory, residuals are autoregressions with the memory and variance that they
really have, smoothed together with the factors; heavy-tailed, residuals are Student-t.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from flfl import constants
from flfl.audit.attacks import Channel, Guess, left_over, received, states
from flfl.audit.view import Array, Case
from flfl.model.state_space import Dynamics

_OVERLAP = 24
_CELLS, _WORK = 4_000_000, 6_000_000_000
"""What the joint smoother may take: numbers in memory, and states cubed times slots."""


def by_slot(case: Case, copies: bool, steps: int = 1) -> Guess:
    """Each slot for itself, given the factors.

    With more steps residuals are Student-t with f degrees of freedom, by reweighting:
    ``var e_it = s_i^2 (f + E e_it^2 / s_i^2) / (f + 1)``.
    """
    heard, freedom = received(case, copies), constants.AUDIT_FREEDOM
    scale = heard.r[:, None] * (freedom - 2) / freedom
    variance = np.broadcast_to(heard.r[:, None], heard.known.shape)
    for _ in range(steps):
        noise = np.where(heard.known, variance + heard.sigma2, 0.0)
        q = states(heard, heard.P, noise, heard.dynamics)
        score, gain = left_over(heard, heard.P, noise, q)
        e = variance * score
        square = e**2 + np.maximum(variance - variance**2 * gain, 0.0)
        variance = scale * (freedom + square / scale) / (freedom + 1)
    return Guess(e, heard.P @ q.T)


heavy_tailed = partial(by_slot, steps=8)


def with_memory(case: Case, copies: bool) -> Guess:
    """All residuals and the factors in one smoother; long tables in pieces."""
    heard = received(case, copies)
    (M, N), k = heard.known.shape, heard.P.shape[1]
    size = max(_CELLS // (k + M) ** 2, 8)
    most = min(N, max(_WORK // (k + M) ** 3, 8))
    value = np.full((M, N), np.nan)
    for start in range(0, most, size):
        stop = min(start + size, most)
        low, high = max(start - _OVERLAP, 0), min(stop + _OVERLAP, N)
        piece = _joint(heard.cut(slice(low, high)), case)
        value[:, start:stop] = piece[:, start - low : stop - low]
    return Guess(value, heard.P @ heard.factors().T)


def _joint(heard: Channel, case: Case) -> Array:
    memory, slow = np.array([law.simple for law in case.wanted.laws]).T
    white = np.array([law.white for law in case.wanted.laws])
    slow = np.maximum(slow, 1e-6 * white)
    k, M = heard.P.shape[1], len(white)
    A, S = np.zeros((k + M, k + M)), np.zeros((k + M, k + M))
    A[:k, :k], S[:k, :k] = heard.dynamics.A, heard.dynamics.S
    A[k:, k:], S[k:, k:] = np.diag(memory), np.diag((1 - memory**2) * slow)
    L = np.concatenate([heard.P, np.eye(M)], axis=1)
    noise = np.where(heard.known, white[:, None] + heard.sigma2, 0.0)
    x = states(heard, L, noise, Dynamics(A, S))
    score, _ = left_over(heard, L, noise, x)
    return np.asarray(x[:, k:].T + white[:, None] * score)
