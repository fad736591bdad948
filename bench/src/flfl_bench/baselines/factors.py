"""What the federated matrix factorisations share: readings, starts, both forms of a run.

A client is written for one sensor and the batched form for all of them, but both hold their
readings as a :class:`Local` of m rows and call the same functions on it, with m = 1 and m = M.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.objective import Observed
from flfl.paper.scaling import Scaling
from flfl.paper.site import sensor_stream
from flfl_bench.baselines.federation import (
    WORD,
    AtOnce,
    ByMessage,
    Client,
    Message,
    Post,
    Server,
    hold_back,
    train,
)

_P_SPREAD, _Q_SPREAD = 0.3, 0.02


@dataclass(frozen=True)
class Local:
    """Readings of the sensors that one party computes with, in their own scaled units.

    Attributes
    ----------
    train : Observed
        (m, N) readings in use.
    held, values : (m, N) arrays
        Mask of the readings kept back to stop by; all readings, 0 for none.
    scaling : Scaling
        Of each sensor; never sent.
    streams : sequence of Generator
        A random stream for each sensor.
    """

    train: Observed
    held: Array
    values: Array
    scaling: Scaling
    streams: Sequence[np.random.Generator]

    @classmethod
    def of(cls, Y: Array, ids: Sequence[str], seed: int, scaling: Scaling | None = None) -> Local:
        """From readings (m, N), NaN = missing. What is drawn depends on the seed and the id only.

        Examples
        --------
        >>> Y = np.array([[1.0, 3.0, np.nan], [5.0, 7.0, 9.0]])
        >>> both, second = Local.of(Y, ["a", "b"], 0), Local.of(Y[1:], ["b"], 0)
        >>> bool(both.streams[1].random() == second.streams[0].random())
        True
        """
        known = ~np.isnan(Y)
        streams = [sensor_stream(seed, sensor) for sensor in ids]
        rows = zip(known, streams, strict=True)
        held = np.vstack([hold_back(row[None], rng) for row, rng in rows])
        # The readings kept back are known to their owner: they may set its scale.
        scaling = scaling or Scaling.fit(Y)
        Z = scaling.apply(Y)
        used = Observed.of(Z, known & ~held)
        return cls(used, held.astype(float), np.where(known, Z, 0.0), scaling, streams)

    @property
    def shape(self) -> tuple[int, int]:
        """Sensors, slots."""
        m, N = self.train.Y.shape
        return m, N

    def start(self, rank: int) -> Array:
        """Latent vectors (m, k) from each sensor's own stream."""
        return _P_SPREAD * np.vstack([rng.standard_normal((1, rank)) for rng in self.streams])

    def sums(self, estimates: Array) -> Array:
        """Squared errors and counts of estimates (m, N): of what is kept back, of what is used."""
        E = self.values - estimates
        E *= E
        J = self.train.J
        return np.array([np.vdot(E, self.held), self.held.sum(), np.vdot(E, J), J.sum()])


def start_slots(n_slots: int, rank: int, seed: int, spread: float = _Q_SPREAD) -> Array:
    """The server's first Q (N, k): near zero, so that an unseen slot stays at the sensors' means.

    Random, for equal columns would stay equal: the rank would be one whatever k is.

    Examples
    --------
    >>> int(np.linalg.matrix_rank(start_slots(20, 3, seed=0)))
    3
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed]))
    return spread * rng.standard_normal((n_slots, rank))


class FactorClient(Client):
    """One sensor: its readings, its latent vector (1, k), nothing of anybody else's."""

    def __init__(self, local: Local, P: Array) -> None:
        super().__init__(local)
        self._local = local
        self._P = self._kept = P

    def keep(self) -> None:
        """Remember the present latent vector."""
        self._kept = self._P

    def estimate(self, model: Message, *, best: bool) -> Array:
        """``p . q_j`` for every slot."""
        return (self._kept if best else self._P) @ self.read(model).T

    def read(self, model: Message) -> Array:
        """Q (N, k) from the message that holds it."""
        return model.body["Q"]


class FactorServer(Server):
    """Holds Q (N, k)."""

    def model(self, client: int) -> Message:
        """Q, the same for every client."""
        return Message("factors", {"Q": self.shared})


class FactorBatch(AtOnce):
    """All clients at once: the state is P (M, k) and Q (N, k)."""

    def __init__(self, local: Local, rank: int, seed: int, post: Post) -> None:
        (m, N), k = local.shape, min(rank, *local.shape)
        state = local.start(k), start_slots(N, k, seed)
        super().__init__(local, m, post, state, ("factors", m * N * k))
        self.local: Local = local

    def predict(self, state: tuple[Array, Array]) -> Array:
        """``P Q^T``."""
        return state[0] @ state[1].T

    def count_upload(self, kind: str, rows: int, *, indexed: bool, messages: int) -> None:
        """So many rows of k numbers went up together, perhaps each with its index."""
        k = self.state[1].shape[1]
        self.post.count_up(kind, WORD * rows * (k + indexed), messages)
        self.post.traffic.numbers += rows * k


class FactorRecoverer(BaseRecoverer):
    """What the estimators share; parameters are the fields of a dataclass."""

    rank: int
    rounds: int
    random_state: int

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        local = self.local(Y, sensors.ids)
        batch = self.at_once(local, Post(self.traffic_))
        return local.scaling.undo(train(batch, self.rounds, self.traffic_))

    def local(self, Y: Array, ids: Sequence[str]) -> Local:
        """Readings (m, N), NaN = missing, as this method scales them."""
        return Local.of(Y, ids, self.random_state)

    def locals(self, Y: Array, ids: Sequence[str]) -> list[Local]:
        """What each client has."""
        return [self.local(row[None], [sensor]) for row, sensor in zip(Y, ids, strict=True)]

    def start(self, shape: tuple[int, ...]) -> Array:
        """The server's first Q for readings of that shape."""
        return start_slots(shape[1], min(self.rank, *shape), self.random_state)

    @abstractmethod
    def at_once(self, local: Local, post: Post) -> FactorBatch:
        """All clients in one go."""

    @abstractmethod
    def by_message(self, Y: Array, ids: Sequence[str], post: Post) -> ByMessage:
        """Clients and server of readings Y (M, N), NaN = missing."""
