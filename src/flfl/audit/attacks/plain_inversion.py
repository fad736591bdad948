"""Every training reading from the paper's plain uploads, by algebra.

Adversary: the coordinator of ``flfl-paper`` with the schedule ``prompt`` and the rule ``paper``,
honest but curious. It gets each sensor's gradient in a few consecutive rounds and knows the weights
(``lambda, z1, z2``) and the start (all ``p_i`` near ``scale * 1``, which fixes the sign). It does
not get a sensor's mean and scale, nor the readings held out for the early stop.

An uploaded row is ``G_j = -2 c_j p + 2 lambda q_j``, so ``-(G - 2 lambda Q)/2 = c p^T`` has rank
one: ``p = s u`` and ``c = v / s`` with one unknown scale. The sensor's own step
``p' = (1 - 2 eta lambda n) p + 2 eta sum_j c_j q_j`` links two rounds and gives it. Then
``y_j = c_j + p.q_j + z2 p.(D D^T Q)_j + w^T P q_j`` with P the latent vectors of the site, known
by now, and ``w = z1 (L L^T)_i`` unknown but the same in every round: least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flfl.audit.view import Array
from flfl.paper.graph import path_laplacian
from flfl.paper.objective import Weights
from flfl.protocol.session import Ask, Replies


@dataclass
class Recorder:
    """A witness that keeps the plain uploads of the first rounds, up to the first step back: for
    each turn (site, sensor there), step and Q (N, k) as sent and the gradient G (N, k), by round.
    """

    rounds: int = 6
    start: float = 1.0
    stopped: bool = False
    uploads: dict[tuple[str, int], list[tuple[float, Array, Array]]] = field(default_factory=dict)

    def __call__(self, ask: Ask, replies: Replies) -> None:
        """See one question and its replies."""
        if ask.kind == "start":
            self.start = float(ask.body["scale"])
        # A step back moves every p to an older state: the rounds are no longer consecutive.
        self.stopped |= ask.kind == "restore"
        if ask.kind == "turn" and not self.stopped and ask.to is not None:
            seen = self.uploads.setdefault((ask.to, int(ask.body["sensor"])), [])
            if len(seen) < self.rounds:
                Q, G = np.asarray(ask.body["Q"]), replies.by_site[ask.to]["grad_Q"]
                seen.append((float(ask.body["eta"]), Q, G))


def rank_one(G: Array, Q: Array, ridge: float) -> tuple[Array, Array]:
    """Direction u (k,), ``sum(u) >= 0`` as at the start, v (n,): ``-(G - 2 lambda Q)/2 = v u^T``.

    Examples
    --------
    >>> p, c = np.array([3.0, 4.0]), np.array([1.0, -2.0])
    >>> u, v = rank_one(-2 * np.outer(c, p), np.zeros((2, 2)), 0.1)
    >>> u.round(6).tolist(), v.round(6).tolist()
    ([0.6, 0.8], [5.0, -10.0])
    """
    rows = -(G - 2 * ridge * Q) / 2
    _, vectors = np.linalg.eigh(rows.T @ rows)
    u = vectors[:, -1] if vectors[:, -1].sum() >= 0 else -vectors[:, -1]
    return u, rows @ u


def scale_of(u: Array, u_next: Array, shrink: float, push: Array) -> float:
    """``s^2`` from k equations ``s s' u' = s^2 shrink u + push`` in ``s s'`` and ``s^2``, with
    ``shrink = 1 - 2 eta lambda n`` and ``push = 2 eta sum_j q_j v_j`` (k,)."""
    A = np.column_stack([u_next, -shrink * u])
    return float(np.linalg.lstsq(A, push, rcond=None)[0][1])


def solve_readings(known: Array, terms: Array) -> Array:
    """``y`` (n,) from ``y_j = known_rj + w . terms_rj`` (R, n) and (R, n, C), w unknown."""
    A = (terms - terms.mean(axis=0)).reshape(-1, terms.shape[2])
    w = np.linalg.lstsq(A, (known.mean(axis=0) - known).ravel(), rcond=1e-12)[0]
    return np.asarray((known + terms @ w).mean(axis=0))


def invert(seen: Recorder, weights: Weights) -> Array:
    """Readings (sensors in the order of the turns, N), standardised, NaN where none was uploaded;
    from four rounds or more: p follows from two, and w from two more."""
    turns, ridge = list(seen.uploads.values()), weights.ridge
    R = min(map(len, turns)) - 1
    observed = np.array([(turn[0][2] != 0).any(axis=1) for turn in turns])
    M, k = len(turns), turns[0][0][1].shape[1]
    P, c = np.empty((R, M, k)), np.zeros((R, *observed.shape))
    near = seen.start**2 * k
    for i, (turn, on) in enumerate(zip(turns, observed, strict=True)):
        parts = [rank_one(G[on], Q[on], ridge) for _, Q, G in turn]
        for r, (eta, Q, _) in enumerate(turn[:R]):
            (u, v), (u_next, _) = parts[r], parts[r + 1]
            push = 2 * eta * Q[on].T @ v
            square = scale_of(u, u_next, 1 - 2 * eta * ridge * int(on.sum()), push)
            s = np.sqrt(np.clip(square, near / 9, 9 * near))
            P[r, i], c[r, i, on] = s * u, v / s
    sites = np.array([site for site, _ in seen.uploads])
    readings = np.full(observed.shape, np.nan)
    for i, (turn, on) in enumerate(zip(turns, observed, strict=True)):
        peers = np.flatnonzero(sites == sites[i])
        known, terms = [], []
        for r, (_, Q, _) in enumerate(turn[: R - 1]):
            # Peers that come earlier in the round have moved already.
            now = np.where((peers < i)[:, None], P[r + 1, peers], P[r, peers])
            smooth = weights.temporal * path_laplacian(Q)[on] @ P[r, i]
            known.append(c[r, i, on] + Q[on] @ P[r, i] + smooth)
            terms.append(Q[on] @ now.T)
        readings[i, on] = solve_readings(np.array(known), np.array(terms))
    return readings


def score(estimate: Array, truth: Array) -> dict[str, float]:
    """Shares within 1 % of a standard deviation, and relative error, of (M, N), NaN = unknown;
    ``guessing`` is the share for the sensor's mean, zero in these units."""
    both = ~np.isnan(estimate) & ~np.isnan(truth)
    miss, size = (estimate - truth)[both], truth[both]
    return {
        "readings": float(both.sum()),
        "exposed": float((np.abs(miss) <= 0.01).mean()),
        "guessing": float((np.abs(size) <= 0.01).mean()),
        "relative_error": float(np.linalg.norm(miss) / np.linalg.norm(size)),
    }
