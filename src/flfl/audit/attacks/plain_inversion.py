"""Every training reading from the paper's plain uploads, by algebra.

Adversary: the coordinator of ``flfl-paper`` with the schedule ``prompt`` and the rule ``paper``,
honest but curious. It sends Q and the step, and gets each sensor's own gradient in the clear.

Assumes: the published weights (``lambda, z1, z2``), a few consecutive rounds, the start that the
coordinator itself sends (all ``p_i`` near ``scale * 1``, which fixes the sign). It needs no
coordinates, no graph and no reading. What it does not get: each sensor's mean and scale, which are
never sent, and the readings held out for the early stop, which enter no gradient.

Scored: share of the uploaded readings within 1 % of the sensor's standard deviation, and the
relative error ``|y_hat - y| / |y|`` in the sensor's own standardised units.

How: an uploaded row is ``G_j = -2 c_j p + 2 lambda q_j``, so ``-(G - 2 lambda Q)/2 = c p^T`` has
rank one: ``p = s u`` and ``c = v / s`` with one unknown scale. The sensor's own step
``p' = (1 - 2 eta lambda n) p + 2 eta sum_j c_j q_j`` links two rounds and gives it. Then
``y_j = c_j + p.q_j + z2 p.(D D^T Q)_j + w^T P q_j`` with P the latent vectors of the site, known
by now, and ``w = z1 (L L^T)_i`` unknown but the same in every round: least squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flfl.paper.graph import path_laplacian
from flfl.paper.objective import Weights
from flfl.protocol.session import Ask, Replies

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class PlainUploads:
    """What the coordinator saw in R consecutive rounds of M turns.

    Attributes
    ----------
    turns : (site, number of the sensor there) in the order of a round
    Q, G : (R, M, N, k) time factors as sent at each turn, and the gradient that came back
    eta : (R, M) steps as sent
    start : the ``scale`` that was sent at the start: every ``p_i`` begins near ``start * 1``
    """

    turns: tuple[tuple[str, int], ...]
    Q: Array
    G: Array
    eta: Array
    start: float


@dataclass(frozen=True)
class Inversion:
    """What the attack found; sensors in the order of the turns.

    ``P`` (R, M, k) latent vectors at each turn, ``rows`` (M, M) the rows ``z1 L L^T`` (zero outside
    the site), ``readings`` (M, N) in standardised units, NaN where nothing was uploaded.
    """

    P: Array
    rows: Array
    readings: Array


@dataclass
class Recorder:
    """A witness that keeps the plain uploads of the first rounds, up to the first step back.

    >>> Recorder(rounds=2).rounds
    2
    """

    rounds: int = 6
    start: float = 1.0
    stopped: bool = False
    seen: list[tuple[tuple[str, int], float, Array, Array]] = field(default_factory=list)

    def __call__(self, ask: Ask, replies: Replies) -> None:
        """See one question and its replies."""
        if ask.kind == "start":
            self.start = float(ask.body["scale"])
        # A step back moves every p to an older state: the rounds are no longer consecutive.
        self.stopped |= ask.kind == "restore"
        if ask.kind != "turn" or self.stopped:
            return
        assert ask.to is not None
        turn = ask.to, int(ask.body["sensor"])
        if sum(known == turn for known, *_ in self.seen) < self.rounds:
            upload = replies.by_site[ask.to]["grad_Q"]
            self.seen.append((turn, float(ask.body["eta"]), np.asarray(ask.body["Q"]), upload))

    def uploads(self) -> PlainUploads:
        """What was seen, as arrays."""
        turns = tuple(dict.fromkeys(turn for turn, *_ in self.seen))
        M, R = len(turns), len(self.seen) // len(turns)
        rounds = [self.seen[r * M : (r + 1) * M] for r in range(R)]
        return PlainUploads(
            turns,
            np.array([[Q for _, _, Q, _ in turn] for turn in rounds]),
            np.array([[G for *_, G in turn] for turn in rounds]),
            np.array([[eta for _, eta, _, _ in turn] for turn in rounds]),
            self.start,
        )


def record(fit: Callable[..., object], rounds: int = 6) -> PlainUploads:
    """Watch the coordinator while ``fit(witness=...)`` runs; the first rounds are all it takes."""
    recorder = Recorder(rounds)
    fit(witness=recorder)
    return recorder.uploads()


def rank_one(G: Array, Q: Array, ridge: float) -> tuple[Array, Array]:
    """Direction u (k,) and v (n,) with ``-(G - 2 lambda Q)/2 = v u^T``, for n uploaded rows.

    The sign is that of the public start: ``sum(u) >= 0``.

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
    """``s^2`` from ``s s' u' = s^2 shrink u + push``, k equations in ``s s'`` and ``s^2``.

    ``shrink = 1 - 2 eta lambda n``, ``push = 2 eta sum_j q_j v_j`` (k,).

    Examples
    --------
    >>> p, push_over_s = np.array([3.0, 4.0]), np.array([1.0, 0.0])
    >>> p_next = p + push_over_s
    >>> u, u_next = p / 5, p_next / np.linalg.norm(p_next)
    >>> round(scale_of(u, u_next, 1.0, 5 * push_over_s), 6)
    25.0
    """
    A = np.column_stack([u_next, -shrink * u])
    return float(np.linalg.lstsq(A, push, rcond=None)[0][1])


def latent_vectors(
    uploads: PlainUploads, observed: Mask, ridge: float
) -> tuple[Array, list[list[Array]]]:
    """``p_i`` of the first R - 1 rounds (R - 1, M, k), and the ``c_j`` of the uploaded rows."""
    R, M, _, k = uploads.G.shape
    near = uploads.start**2 * k
    P = np.empty((R - 1, M, k))
    c = [[np.empty(0)] * M for _ in range(R - 1)]
    for i in range(M):
        on = observed[i]
        parts = [rank_one(uploads.G[r, i][on], uploads.Q[r, i][on], ridge) for r in range(R)]
        for r in range(R - 1):
            eta, (u, v) = uploads.eta[r, i], parts[r]
            push = 2 * eta * uploads.Q[r, i][on].T @ v
            square = scale_of(u, parts[r + 1][0], 1 - 2 * eta * ridge * int(on.sum()), push)
            s = np.sqrt(np.clip(square, near / 9, 9 * near))
            P[r, i], c[r][i] = s * u, v / s
    return P, c


def solve_readings(known: Array, terms: Array) -> tuple[Array, Array]:
    """``y`` (n,) and ``w`` (C,) from ``y_j = known_rj + w . terms_rj`` for every round r.

    Parameters
    ----------
    known : (R, n); terms : (R, n, C)

    Examples
    --------
    >>> terms = np.array([[[1.0], [2.0]], [[3.0], [1.0]]])
    >>> y, w = solve_readings(5.0 - 2.0 * terms[:, :, 0], terms)
    >>> y.round(6).tolist(), w.round(6).tolist()
    ([5.0, 5.0], [2.0])
    """
    A = (terms - terms.mean(axis=0)).reshape(-1, terms.shape[2])
    w = np.linalg.lstsq(A, (known.mean(axis=0) - known).ravel(), rcond=1e-12)[0]
    return np.asarray((known + terms @ w).mean(axis=0)), np.asarray(w)


def invert(uploads: PlainUploads, weights: Weights) -> Inversion:
    """Latent vectors, regulariser rows and readings from R >= 4 rounds of plain uploads."""
    observed = (uploads.G[0] != 0).any(axis=2)
    P, c = latent_vectors(uploads, observed, weights.ridge)
    rounds, M = len(P) - 1, len(uploads.turns)
    sites = np.array([site for site, _ in uploads.turns])
    readings, rows = np.full(observed.shape, np.nan), np.zeros((M, M))
    for i in range(M):
        on, peers = observed[i], np.flatnonzero(sites == sites[i])
        known, terms = [], []
        for r in range(rounds):
            Q = uploads.Q[r, i]
            # Peers that come earlier in the round have moved already.
            now = np.where((peers < i)[:, None], P[r + 1, peers], P[r, peers])
            smooth = weights.temporal * path_laplacian(Q)[on] @ P[r, i]
            known.append(c[r][i] + Q[on] @ P[r, i] + smooth)
            terms.append(Q[on] @ now.T)
        readings[i, on], rows[i, peers] = solve_readings(np.array(known), np.array(terms))
    return Inversion(P, rows, readings)


def score(estimate: Array, truth: Array) -> dict[str, float]:
    """Share within 1 % of a standard deviation, and relative error, where both are known.

    Both (M, N) in standardised units, NaN = unknown. ``guessing`` is the share that the sensor's
    mean (zero) would have within 1 %.

    Examples
    --------
    >>> score(np.array([[1.0, 2.0]]), np.array([[1.0, 4.0]]))["exposed"]
    0.5
    """
    both = ~np.isnan(estimate) & ~np.isnan(truth)
    miss, size = (estimate - truth)[both], truth[both]
    return {
        "readings": float(both.sum()),
        "exposed": float((np.abs(miss) <= 0.01).mean()),
        "guessing": float((np.abs(size) <= 0.01).mean()),
        "relative_error": float(np.linalg.norm(miss) / np.linalg.norm(size)),
    }
