"""``fedmf``: federated matrix factorisation; Q lies with the server, plain or encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from flfl.estimators.base import BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.objective import Observed
from flfl_bench.baselines._parameters import COUNT, NOT_NEGATIVE, POSITIVE, WHOLE
from flfl_bench.baselines.exchange import WORD, Message, Post
from flfl_bench.baselines.factors import (
    Array,
    Batch,
    FactorClient,
    FactorServer,
    Local,
    Network,
    residual,
    start_slots,
    train,
)
from flfl_bench.baselines.paillier import KeyPair, PublicKey


class FedMF(BaseRecoverer):
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [COUNT],
        "learning_rate": [POSITIVE],
        "ridge": [NOT_NEGATIVE],
        "rounds": [COUNT],
        "upload": [StrOptions({"full", "part"})],
        "random_state": [WHOLE],
    }

    def __init__(
        self,
        *,
        rank: int = 10,
        learning_rate: float = 0.5,
        ridge: float = 0.05,
        rounds: int = 600,
        upload: str = "full",
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.rounds = rounds
        self.upload = upload
        self.random_state = random_state

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        self._validate_params()
        local = Local.of(Y, sensors.ids, self.random_state)
        batch = FedMFBatch(self, local, Post(self.traffic_))
        return local.scaling.undo(train(batch, self.rounds, self.traffic_))


def moves(
    data: Observed, P: Array, Q: Array, rate: float, ridge: float, density: float
) -> tuple[Array, Array]:
    """New latent vectors, and the sum of the moves of Q.

    ``p_i += rate * mean_j (e_ij q_j - lambda p_i)``,
    ``q_j += rate / density * sum_i (e_ij p_i - lambda q_j)``, both from the old p and q.

    Parameters
    ----------
    data : (m, N); P : (m, k); Q : (N, k)
    density : average number of readings of a slot in the whole network

    Examples
    --------
    One sensor, one slot, y = 3, p = q = 1: the error is 2.

    >>> data, one = Observed.of(np.array([[3.0]]), np.array([[True]])), np.ones((1, 1))
    >>> [array.item() for array in moves(data, one, one, 0.1, 0.0, 1.0)]
    [1.2, 0.2]
    """
    E = residual(data, P, Q)
    moved = P + rate * (E @ Q / data.per_sensor - ridge * P)
    return moved, rate / density * (E.T @ P - ridge * data.per_slot * Q)


class FedMFClient(FactorClient):
    """One sensor. With ``keys``, which the server never sees, its moves leave encrypted."""

    def __init__(self, model: FedMF, local: Local, rank: int, keys: KeyPair | None = None) -> None:
        super().__init__(local, local.start(rank))
        self._rate, self._ridge = model.learning_rate, model.ridge
        self._full = model.upload == "full"
        self._keys = keys
        self._density = np.nan

    def hello(self) -> Message:
        """How many readings there are: the step of Q depends on their number in all."""
        return Message("hello", {"readings": np.array([int(self._local.train.J.sum())])})

    def begin(self, message: Message) -> None:
        """Learn the average number of readings of a slot."""
        self._density = float(message.body["density"][0])

    def answer(self, factors: Message) -> Message:
        """Move p; send the moves of Q."""
        data = self._local.train
        self._P, move = moves(
            data, self._P, self.read(factors), self._rate, self._ridge, self._density
        )
        seal = np.asarray if self._keys is None else self._keys.public.seal
        if self._full:
            return Message("move", {"values": seal(move)})
        rows = np.flatnonzero(data.J[0])
        return Message("move", {"rows": rows, "values": seal(move[rows])})

    def read(self, factors: Message) -> Array:
        """Q, decrypted where it comes encrypted."""
        Q = factors.body["Q"]
        return Q if self._keys is None else self._keys.private.open(Q)


class FedMFServer(FactorServer):
    """Adds moves to Q. With a public key Q is encrypted, and the server cannot read it."""

    def __init__(self, Q: Array, public_key: PublicKey | None = None) -> None:
        super().__init__(Q if public_key is None else public_key.seal(Q))
        self.public_key = public_key
        self._next = self._Q

    def begin(self, hellos: Sequence[Message]) -> Message:
        """The average number of readings of a slot."""
        readings = sum(int(hello.body["readings"][0]) for hello in hellos)
        return Message("begin", {"density": np.array([readings / len(self._Q)])})

    def receive(self, upload: Message) -> None:
        """Add the moves: ciphertexts add like numbers."""
        rows = upload.body.get("rows", slice(None))
        if self._next is self._Q:
            self._next = self._Q.copy()
        self._next[rows] = self._next[rows] + upload.body["values"]

    def step(self) -> None:
        """What was added up is the new Q."""
        self._Q = self._next


def network(
    model: FedMF, Y: Array, ids: Sequence[str], post: Post, keys: KeyPair | None = None
) -> Network:
    """Clients and server of the object path, greeted; with ``keys`` they talk in ciphertext.

    Parameters
    ----------
    Y : (M, N) readings, NaN = missing
    """
    rank, seed = min(model.rank, *Y.shape), model.random_state
    clients = [
        FedMFClient(model, Local.of(row[None], [sensor], seed), rank, keys)
        for row, sensor in zip(Y, ids, strict=True)
    ]
    Q = start_slots(Y.shape[1], rank, seed)
    server = FedMFServer(Q, None if keys is None else keys.public)
    begin = server.begin([post.up(client.hello()) for client in clients])
    for client in clients:
        client.begin(post.down(begin))
    return Network(clients, server, post)


class FedMFBatch(Batch):
    """All clients at once, in the clear."""

    def __init__(self, model: FedMF, local: Local, post: Post) -> None:
        m, N = local.shape
        rank = min(model.rank, m, N)
        super().__init__(local, local.start(rank), start_slots(N, rank, model.random_state), post)
        self._rate, self._ridge = model.learning_rate, model.ridge
        self._full = model.upload == "full"
        self._readings = int(local.train.J.sum())
        post.count_up("hello", WORD * m, m)
        post.count_down("begin", WORD * m, m)

    def round(self) -> None:
        """One round of training."""
        m, N = self.local.shape
        self.P, move = moves(
            self.local.train, self.P, self.Q, self._rate, self._ridge, self._readings / N
        )
        self.Q = self.Q + move
        self.count_factors()
        rows = m * N if self._full else self._readings
        self.count_upload("move", rows, indexed=not self._full, messages=m)
