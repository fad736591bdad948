"""Copies from the published loadings, refit by refit.

Adversary: the coordinator. A refit solves ``H p = sum_t w_t copy_t m_t`` with H, w and m public, so
every published p is k equations in one sensor's copies, with the rounding of p as noise. Over many
nights they add up. They are added to what the release tells of each copy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flfl.audit.attacks import Guess, left_over, received
from flfl.audit.attacks.gaussian import by_slot
from flfl.audit.view import Array, Case, Refit, offsets_of

MOST = 40
"""Refits that are used at the most, the last ones."""
Equations = Callable[[int], tuple[Array, Array]]


def run(case: Case, copies: bool) -> Guess:
    """The release and all refits; the copies themselves tell all of it."""
    if copies:
        return by_slot(case, copies)
    heard = received(case, copies)
    q, noise = heard.factors(), heard.noise
    curves = heard.P @ q.T
    score, gain = left_over(heard, heard.P, noise, q)
    mean, variance = curves + noise * score, np.maximum(noise - noise**2 * gain, 0.0)
    refits = [(one.P, _equations(case, one)) for one in case.refits[-MOST:]]
    for i in np.flatnonzero(heard.known.any(axis=1)).tolist():
        rows = [of(i) for P, of in refits if len(P) > i and np.isfinite(P[i]).all()]
        if rows:
            # The mean of independent numbers after equations E x = b of unit error.
            E, b = (np.concatenate(part) for part in zip(*rows, strict=True))
            spread = E * variance[i]
            gram = spread @ E.T + np.eye(len(b))
            mean[i] += spread.T @ np.linalg.solve(gram, b - E @ mean[i])
    share = np.divide(heard.r[:, None], noise, out=np.zeros_like(noise), where=noise > 0)
    return Guess(share * (mean - curves), curves)


def _equations(case: Case, refit: Refit) -> Equations:
    """A refit's rows (k, N) and right-hand sides (k,) for a sensor, in units of their errors."""
    net, now = refit.network, case.network
    post = net.inferred.post
    mean, (L, k) = post.mean, post.mean.shape
    J = net.known.astype(float)
    W = J / (net.r[:, None] + net.sigma2)
    squares = (mean[:, :, None] * mean[:, None, :] + post.cov).reshape(L, -1)
    H = (W @ squares).reshape(len(W), k, k) + np.eye(k)
    power = np.maximum(J @ mean**2, 1e-12) / np.maximum(J.sum(1), 1)[:, None]
    weight = (J / (refit.r[:, None] + net.sigma2)).sum(axis=1, keepdims=True)
    grid = 0.25 / np.sqrt(1.0 + weight * power)
    # Centres and seasons have changed since; the changes are published.
    shift = (case.offset[: len(J)] - offsets_of(net, case.stored, now)) / now.scale

    def of(i: int) -> tuple[Array, Array]:
        rows = np.zeros((k, now.n_slots))
        rows[:, :L] = (W[i, :, None] * mean).T
        error = np.sqrt(H[i] ** 2 @ grid[i] ** 2 / 12)
        return rows / error[:, None], (H[i] @ refit.P[i] - rows @ shift[i]) / error

    return of
