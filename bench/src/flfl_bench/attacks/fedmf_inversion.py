"""Every training reading from two consecutive rounds of FedMF's plain uploads, by algebra.

Adversary: the server of ``fedmf`` without encryption, honest but curious. It sends Q and the number
of readings of an average slot, and gets each sensor's own moves.

Assumes: the published step and ridge, and two consecutive rounds. What it does not get: each
sensor's mean and scale, and the readings kept back for the early stop, which move nothing. Against
ciphertexts it has nothing to start from.

How: a row of the upload is ``rate / density * (e_j p - lambda q_j)``, so that the rows with the
known part taken out are ``e p^T``, of rank one: ``p = s u``, ``e = v / s`` with one unknown scale.
The sensor's own move ``p' = (1 - rate lambda) p + rate / n sum_j e_j q_j`` links the rounds and
gives it, and then ``y_j = v_j / s + s u.q_j``. The uploads of ``(p, y)`` and ``(-p, -y)`` are the
same: of the two the attack takes the readings with the longer upper tail, for amounts have one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.audit.attacks.plain_inversion import rank_one, scale_of

Array = NDArray[np.float64]


def invert(
    Q: tuple[Array, Array],
    moves: tuple[Array, Array],
    *,
    rate: float,
    ridge: float,
    density: float,
) -> Array:
    """Standardised readings (N,) of one sensor, NaN where it moved nothing.

    Parameters
    ----------
    Q, moves : (N, k) factors as sent in either round, and what the sensor sent back
    rate, ridge, density : the published step and ridge, and the readings of an average slot

    Examples
    --------
    >>> from flfl_bench.baselines.fedmf import moves
    >>> from flfl.paper.objective import Observed
    >>> rng = np.random.default_rng(0)
    >>> Q, P, Y = rng.random((6, 2)), rng.random((1, 2)), np.array([[9.0, 1, 2, 1, 3, 0]])
    >>> data, plan = Observed.of(Y, np.array([[True] * 5 + [False]])), (0.1, 0.01, 1.0)
    >>> P_next, first = moves(data, P, Q, *plan)
    >>> _, second = moves(data, P_next, Q + first, *plan)
    >>> found = invert((Q, Q + first), (first, second), rate=0.1, ridge=0.01, density=1.0)
    >>> found.round(6).tolist()
    [9.0, 1.0, 2.0, 1.0, 3.0, nan]
    """
    on = (moves[0] != 0).any(axis=1)
    # The paper's uploads are gradients, with a factor of their own.
    G = [-2 * density / rate * move[on] for move in moves]
    (u, v), (u_next, _) = (rank_one(g, q[on], ridge) for g, q in zip(G, Q, strict=True))
    push = rate / on.sum() * Q[0][on].T @ v
    # The sign of either direction is free, and s^2 does not depend on it.
    s = np.sqrt(max(scale_of(u, u_next, 1 - rate * ridge, push), 1e-12))
    readings = np.full(len(on), np.nan)
    y = v / s + s * Q[0][on] @ u
    readings[on] = y if (y**3).sum() >= 0 else -y
    return readings
