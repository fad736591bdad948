"""What the federated matrix factorisations share: a client's readings, the exchange, the loop.

A client is written for one sensor and the batched path for all of them, but both hold their
readings as a :class:`Local` of m rows and call the same functions on it, with m = 1 and m = M.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flfl.paper.federation import sensor_stream
from flfl.paper.objective import Observed
from flfl.paper.scaling import Scaling
from flfl.protocol.traffic import Traffic
from flfl_bench.baselines.exchange import WORD, EarlyStop, Message, Post, hold_back

Array = NDArray[np.float64]
Slots = NDArray[np.int64]

CHECK_EVERY = 10
PATIENCE = 10
SCORES = 4
"""Numbers of a score: squared error and count, of the readings kept back and of those in use."""
_FEWEST_HELD = 30
_P_SPREAD, _Q_SPREAD = 0.3, 0.02


@dataclass(frozen=True)
class Local:
    """Readings of the sensors that one party computes with, in their own scaled units.

    Attributes
    ----------
    train : (m, N) readings in use
    held : (m, N) mask of the readings kept back to stop by; values : (m, N) all readings, 0 for
        none
    scaling : of each sensor; never sent
    streams : a random stream for each sensor
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
        held = np.vstack(
            [hold_back(row[None], rng) for row, rng in zip(known, streams, strict=True)]
        )
        # The readings kept back are known to their owner: they may set its scale.
        scaling = scaling or Scaling.fit(Y)
        Z = scaling.apply(Y)
        return cls(
            Observed.of(Z, known & ~held), held.astype(float), np.where(known, Z, 0.0), scaling,
            streams,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, int]:
        """Sensors, slots."""
        m, N = self.train.Y.shape
        return m, N

    def start(self, rank: int, spread: float = _P_SPREAD) -> Array:
        """Latent vectors (m, k) from each sensor's own stream."""
        return spread * np.vstack([rng.standard_normal((1, rank)) for rng in self.streams])

    def score(self, estimates: Array) -> Array:
        """The :data:`SCORES` of estimates (m, N)."""
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


class Federation(Protocol):
    """A run in progress: clients and a server, or the batch that does the same at once."""

    def round(self) -> None:
        """One round of training."""

    def score(self) -> Array:
        """The sum of all clients' scores."""

    def keep(self) -> None:
        """The present state is the best so far."""

    def finish(self) -> Array:
        """Estimates (M, N) of the best state, in each sensor's scaled units."""


def train(run: Federation, rounds: int, traffic: Traffic) -> Array:
    """Rounds until the readings kept back say stop; the estimates of the best state.

    Raises
    ------
    DivergedError
        When the run blew up before it gained anything.
    """
    stop = EarlyStop(PATIENCE)
    for t in range(rounds + 1):
        if t % CHECK_EVERY == 0 or t == rounds:
            held, n_held, used, n_used = run.score()
            # A handful of held-out readings is a lottery: then the training error judges.
            error = used / n_used if n_held < _FEWEST_HELD else held / n_held
            done = stop.check(float(error), t)
            if stop.best == t:
                run.keep()
            if done:
                traffic.notes.append(f"stopped after {t} rounds, kept the state of {stop.best}")
                break
        if t < rounds:
            with np.errstate(over="ignore", invalid="ignore"):
                run.round()
            traffic.rounds = t + 1
    return run.finish()


class FactorClient(ABC):
    """One sensor: its readings, its latent vector, nothing of anybody else's."""

    def __init__(self, local: Local, P: Array) -> None:
        self._local = local
        self._P = P
        self._kept = P

    @abstractmethod
    def answer(self, factors: Message) -> Message:
        """Move the own latent vector, and say how Q should move."""

    def score(self, factors: Message) -> Message:
        """Errors of the present latent vector with the Q that was sent."""
        estimates = self.estimate(self._P, self.read(factors))
        return Message("score", {"errors": self._local.score(estimates)})

    def keep(self, _message: Message) -> None:
        """Remember the present latent vector."""
        self._kept = self._P

    def finish(self, factors: Message) -> Array:
        """Estimates (1, N) with the vector that was kept: they stay with the client."""
        return self.estimate(self._kept, self.read(factors))

    def estimate(self, P: Array, Q: Array) -> Array:
        """Estimates (1, N)."""
        return P @ Q.T

    def read(self, factors: Message) -> Array:
        """Q (N, k) from the message that holds it."""
        return factors.body["Q"]


class FactorServer(ABC):
    """Q, and what the clients send."""

    def __init__(self, Q: NDArray[Any]) -> None:
        self._Q = Q
        self._kept = Q

    @abstractmethod
    def receive(self, upload: Message) -> None:
        """Take in one client's answer."""

    @abstractmethod
    def step(self) -> None:
        """Move Q once all have answered."""

    def factors(self) -> Message:
        """Q for a client."""
        return Message("factors", {"Q": self._Q})

    def keep(self) -> Message:
        """Remember the present Q, and tell the clients to do alike."""
        self._kept = self._Q
        return Message("keep", {})

    def restore(self) -> None:
        """Back to the Q that was kept."""
        self._Q = self._kept


class Network:
    """The object path: every number that a party learns reaches it in a message."""

    def __init__(self, clients: Sequence[FactorClient], server: FactorServer, post: Post) -> None:
        self.clients = clients
        self.server = server
        self.post = post

    def round(self) -> None:
        """All clients answer the same Q, then it moves."""
        for client in self.clients:
            self._ask(client)
        self.server.step()

    def _ask(self, client: FactorClient) -> None:
        upload = self.post.up(client.answer(self.post.down(self.server.factors())))
        self.post.traffic.numbers += upload.numbers
        self.server.receive(upload)

    def score(self) -> Array:
        """One message down and up for each client."""
        return np.sum(
            [
                self.post.up(client.score(self.post.down(self.server.factors()))).body["errors"]
                for client in self.clients
            ],
            axis=0,
        )

    def keep(self) -> None:
        """A word to each client."""
        message = self.server.keep()
        for client in self.clients:
            client.keep(self.post.down(message))

    def finish(self) -> Array:
        """The best Q to each client, which computes its own series."""
        self.server.restore()
        return np.vstack(
            [client.finish(self.post.down(self.server.factors())) for client in self.clients]
        )


class Batch(ABC):
    """The fast path: the same numbers for all clients at once, and the sizes of the messages."""

    def __init__(self, local: Local, P: Array, Q: Array, post: Post) -> None:
        self.local = local
        self.P = P
        self.Q = Q
        self.post = post
        self._kept = P, Q

    @abstractmethod
    def round(self) -> None:
        """One round of training."""

    def score(self) -> Array:
        """All at once."""
        self.count_factors()
        m, _ = self.local.shape
        self.post.count_up("score", WORD * SCORES * m, m)
        return self.local.score(self.estimate(self.P, self.Q))

    def keep(self) -> None:
        """Remember P and Q."""
        self.post.count_down("keep", 0, len(self.P))
        self._kept = self.P, self.Q

    def finish(self) -> Array:
        """Estimates of the best state."""
        self.count_factors()
        return self.estimate(*self._kept)

    def estimate(self, P: Array, Q: Array) -> Array:
        """Estimates (M, N)."""
        return P @ Q.T

    def count_factors(self) -> None:
        """Q went to every client."""
        m = len(self.P)
        self.post.count_down("factors", WORD * m * self.Q.size, m)

    def count_upload(self, kind: str, rows: int, *, indexed: bool, messages: int) -> None:
        """So many rows of k numbers went up together, perhaps each with its index."""
        k = self.Q.shape[1]
        self.post.count_up(kind, WORD * rows * (k + indexed), messages)
        self.post.traffic.numbers += rows * k


def residual(data: Observed, P: Array, Q: Array) -> Array:
    """``J * (Y - P Q^T)``, (m, N)."""
    E = P @ Q.T
    np.subtract(data.Y, E, out=E)
    E *= data.J
    return E
