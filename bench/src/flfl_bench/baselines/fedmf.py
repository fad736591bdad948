"""``fedmf``: federated matrix factorisation; Q lies with the server, plain or encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from flfl.config import Count, NotNegative, Positive, Whole
from flfl.estimators.base import Array
from flfl.paper.objective import Observed
from flfl_bench.baselines.factors import (
    FactorBatch,
    FactorClient,
    FactorRecoverer,
    FactorServer,
    Local,
)
from flfl_bench.baselines.federation import WORD, ByMessage, Message, Post
from flfl_bench.baselines.paillier import KeyPair, PublicKey


@dataclass(kw_only=True, eq=False, repr=False)
class FedMF(FactorRecoverer):
    """``min sum_known (y_ij - p_i.q_j)^2 + lambda (|p_i|^2 + |q_j|^2)`` by rounds of gradients.

    A sensor keeps its readings and ``p_i``; it gets Q, moves ``p_i`` by its mean gradient, and
    sends how each ``q_j`` should move; the server adds these up. The method was meant for
    encrypted moves (:mod:`flfl_bench.baselines.paillier`), which the server can add without reading
    them; encryption changes nothing but rounding, and costs hours at this size, so ``fit`` runs in
    the clear. **From two rounds of plain moves the server computes every reading**
    (:mod:`flfl_bench.attacks.fedmf_inversion`).

    Parameters
    ----------
    rank : latent factors, or as many as the table can hold
    learning_rate : step of ``p_i`` on its mean gradient, and of ``q_j`` on its gradient for a slot
        with an average number of readings; 1 is near the edge of stability
    ridge : lambda, for each reading
    rounds : at most; readings that each sensor keeps back stop the run
    upload : ``"full"`` (a row for every slot, zero where there is no reading: encrypted, it hides
        which there are) or ``"part"`` (rows of the readings only)
    random_state : seed

    Examples
    --------
    >>> X = np.outer(np.sin(np.arange(60.0) / 5), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = FedMF(rank=1).fit_transform(X)[4, 1]
    >>> bool(abs(filled - 2 * np.sin(4 / 5)) < 0.1)
    True
    """

    rank: Count = 10
    learning_rate: Positive = 0.5
    ridge: NotNegative = 0.05
    rounds: Count = 600
    upload: Literal["full", "part"] = "full"
    random_state: Whole = 0

    def at_once(self, local: Local, post: Post) -> FactorBatch:
        """All clients in one go, in the clear."""
        return FedMFBatch(self, local, post)

    def by_message(
        self, Y: Array, ids: Sequence[str], post: Post, keys: KeyPair | None = None
    ) -> ByMessage:
        """Clients and server that have greeted each other; with ``keys`` they send ciphertexts."""
        Q = self.start(Y.shape)
        clients = [FedMFClient(self, local, Q.shape[1], keys) for local in self.locals(Y, ids)]
        server = FedMFServer(Q, None if keys is None else keys.public)
        begin = server.begin([post.up(client.hello()) for client in clients])
        for client in clients:
            client.begin(post.down(begin))
        return ByMessage(server, clients, post)


def moves(
    data: Observed, P: Array, Q: Array, rate: float, ridge: float, density: float
) -> tuple[Array, Array]:
    """New latent vectors, and the sum of the moves of Q.

    ``p_i += rate * mean_j (e_ij q_j - lambda p_i)``,
    ``q_j += rate / density * sum_i (e_ij p_i - lambda q_j)``, both from the old p and q.

    ``density`` is the average number of readings of a slot in the whole network.

    Examples
    --------
    One sensor, one slot, y = 3, p = q = 1: the error is 2.

    >>> data, one = Observed.of(np.array([[3.0]]), np.array([[True]])), np.ones((1, 1))
    >>> [array.item() for array in moves(data, one, one, 0.1, 0.0, 1.0)]
    [1.2, 0.2]
    """
    E = data.residual(P, Q)
    moved = P + rate * (E @ Q / data.per_sensor - ridge * P)
    return moved, rate / density * (E.T @ P - ridge * data.per_slot * Q)


class FedMFClient(FactorClient):
    """One sensor. With ``keys``, which the server never sees, its moves leave encrypted."""

    def __init__(self, model: FedMF, local: Local, rank: int, keys: KeyPair | None = None) -> None:
        super().__init__(local, local.start(rank))
        self._model, self._keys = model, keys
        self._density = np.nan

    def hello(self) -> Message:
        """How many readings there are: the step of Q depends on their number in all."""
        return Message("hello", {"readings": np.array([int(self._local.train.J.sum())])})

    def begin(self, message: Message) -> None:
        """Learn the average number of readings of a slot."""
        self._density = float(message.body["density"][0])

    def learn(self, model: Message) -> Sequence[Message]:
        """Move p; send the moves of Q."""
        data, plan = self._local.train, (self._model.learning_rate, self._model.ridge)
        self._P, move = moves(data, self._P, self.read(model), *plan, self._density)
        seal = np.asarray if self._keys is None else self._keys.public.seal
        if self._model.upload == "full":
            return [Message("move", {"values": seal(move)})]
        rows = np.flatnonzero(data.J[0])
        return [Message("move", {"rows": rows, "values": seal(move[rows])})]

    def read(self, model: Message) -> Array:
        """Q, decrypted where it comes encrypted."""
        Q = model.body["Q"]
        return Q if self._keys is None else self._keys.private.open(Q)


class FedMFServer(FactorServer):
    """Adds moves to Q. With a public key Q is encrypted, and the server cannot read it."""

    def __init__(self, Q: Array, public_key: PublicKey | None = None) -> None:
        super().__init__(Q if public_key is None else public_key.seal(Q))

    def begin(self, hellos: Sequence[Message]) -> Message:
        """The average number of readings of a slot."""
        readings = sum(int(hello.body["readings"][0]) for hello in hellos)
        return Message("begin", {"density": np.array([readings / len(self.shared)])})

    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Add the moves: ciphertexts add like numbers."""
        Q = self.shared.copy()
        for (move,) in uploads:
            rows = move.body.get("rows", slice(None))
            Q[rows] = Q[rows] + move.body["values"]
        self.shared = Q


class FedMFBatch(FactorBatch):
    """All clients at once, in the clear."""

    def __init__(self, model: FedMF, local: Local, post: Post) -> None:
        super().__init__(local, model.rank, model.random_state, post)
        self._model = model
        self._readings = int(local.train.J.sum())
        post.count_up("hello", WORD * self.clients, self.clients)
        post.count_down("begin", WORD * self.clients, self.clients)

    def round(self, number: int) -> None:
        """One round of training."""
        (m, N), (P, Q), model = self.local.shape, self.state, self._model
        density = self._readings / N
        P, move = moves(self.local.train, P, Q, model.learning_rate, model.ridge, density)
        self.state = P, Q + move
        self.send_model()
        full = model.upload == "full"
        rows = m * N if full else self._readings
        self.count_upload("move", rows, indexed=not full, messages=m)
