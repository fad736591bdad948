"""Copies from the published loadings, refit by refit.

Adversary: the coordinator. A refit solves ``H p = sum_t w_t copy_t m_t`` with H, w and m public, so
every published p is k equations in one sensor's copies, known to the rounding of p. Over many
nights they add up: only the new slots change them. The equations are added, with the rounding as
noise, to what the release tells of each copy.
"""

from __future__ import annotations

import numpy as np

from flfl.audit.attack import Array, Case, Guess
from flfl.audit.attacks.gaussian import by_slot
from flfl.audit.channel import left_over
from flfl.audit.view import Refit, offsets_of
from flfl.model.transforms import season_rows
from flfl.protocol import public

MOST = 40
"""Refits that are used at the most, the last ones."""


def run(case: Case, copies: bool) -> Guess:
    """The release and all refits; the copies themselves tell all of it."""
    if copies:
        return by_slot(case, copies)
    heard = case.release
    q, picture = case.picture(heard)
    noise = np.where(heard.known, heard.r[:, None] + heard.sigma2, 0.0)
    score, gain = left_over(heard, heard.P, noise, q, spread=True)
    mean, variance = picture + noise * score, np.maximum(noise - noise**2 * gain, 0.0)
    equations = [_Equations(case, one) for one in case.view.refits[-MOST:]]
    for i in np.flatnonzero(heard.known.any(axis=1)).tolist():
        rows = [one.of(i) for one in equations if np.isfinite(one.refit.P[i]).all()]
        if rows:
            E, b, error = (np.concatenate(part) for part in zip(*rows, strict=True))
            mean[i] = _given(mean[i], variance[i], E, b, error)
    share = np.divide(heard.r[:, None], noise, out=np.zeros_like(noise), where=noise > 0)
    return Guess(share * (mean - picture), picture)


class _Equations:
    """What one refit says of each sensor's copies, in the final units."""

    def __init__(self, case: Case, refit: Refit) -> None:
        self.refit, net = refit, refit.network
        post, _ = public.posterior(net)
        self.mean, (L, k) = post.mean, post.mean.shape
        self.J = net.known.astype(float)
        self.W = self.J / (net.r[:, None] + net.sigma2)
        squares = (self.mean[:, :, None] * self.mean[:, None, :] + post.cov).reshape(L, -1)
        self.H = (self.W @ squares).reshape(len(self.W), k, k) + np.eye(k)
        power = np.maximum(self.J @ self.mean**2, 1e-12) / np.maximum(self.J.sum(1), 1)[:, None]
        weight = (self.J / (refit.r[:, None] + net.sigma2)).sum(axis=1, keepdims=True)
        self.grid = 0.25 / np.sqrt(1.0 + weight * power)
        # Centres and seasons have changed since; the changes are published.
        self.shift = _shift(case, refit)

    def of(self, i: int) -> tuple[Array, Array, Array]:
        """Rows (k, N), right-hand sides (k,) and the size of their errors (k,)."""
        rows = (self.W[i, :, None] * self.mean).T
        said = self.H[i] @ self.refit.P[i] - rows @ self.shift[i, : rows.shape[1]]
        wide = np.zeros((len(rows), self.shift.shape[1]))
        wide[:, : rows.shape[1]] = rows
        error = np.sqrt((self.H[i] ** 2) @ self.grid[i] ** 2 / 12)
        return wide, said, error


def _shift(case: Case, refit: Refit) -> Array:
    """What to add to copies in the final units to have them in those of a refit (M, N)."""
    net, now, truth = refit.network, case.view.network, case.truth
    stored = np.where(now.known, truth.copies * now.scale + truth.offset, np.nan)
    then = offsets_of(net, stored) @ season_rows(now.positions, now.season)[:, : now.n_slots]
    return np.asarray((truth.offset - then) / now.scale)


def _given(mean: Array, variance: Array, E: Array, b: Array, error: Array) -> Array:
    """Mean of independent numbers (N,) after equations ``E x = b`` with errors of some size."""
    scaled = E / error[:, None]
    spread = scaled * variance
    gram = spread @ scaled.T + np.eye(len(b))
    return mean + spread.T @ np.linalg.solve(gram, b / error - scaled @ mean)
