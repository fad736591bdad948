"""What the federated baselines share: messages with a size, two forms of a run, the rounds.

A method comes in two forms that run the same rounds. :class:`ByMessage` has a server and clients
that share no state and only send messages; :class:`AtOnce` computes all clients in one go, for
speed, and counts the messages that it did not send. Tests hold the two against each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.errors import DivergedError
from flfl.estimators.base import Array
from flfl.protocol.traffic import Traffic

Mask = NDArray[np.bool_]

WORD = 4
"""Bytes of a number or an index as these protocols send them (float32, int32)."""
CHECK_EVERY = 10
"""Rounds between two scores."""
SCORES = 4
"""Numbers of a score: squared error and count, of the readings kept back and of those in use."""
_FEWEST_HELD = 30
_LEAST_GAIN = 1e-3
"""A smaller relative gain counts as none."""


@dataclass(frozen=True)
class Message:
    """Arrays under a name, from a client to the server or back.

    Examples
    --------
    >>> message = Message("gradient", {"rows": np.arange(2), "values": np.zeros((2, 3))})
    >>> message.nbytes, message.numbers
    (32, 6)
    """

    kind: str
    body: Mapping[str, NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Bytes on the wire: :data:`WORD` a number, what a ciphertext says of itself."""
        return sum(
            sum(item.nbytes for item in array.flat) if array.dtype == object else WORD * array.size
            for array in self.body.values()
        )

    @property
    def numbers(self) -> int:
        """Real numbers in it: neither indices nor ciphertexts."""
        return sum(array.size for array in self.body.values() if array.dtype.kind == "f")

    def delivered(self) -> Message:
        """With arrays of the receiver's own: what crosses a wire shares no memory."""
        return Message(self.kind, {name: array.copy() for name, array in self.body.items()})


@dataclass
class Post:
    """Carries messages, and counts them in the traffic."""

    traffic: Traffic

    def up(self, message: Message) -> Message:
        """From a client to the server."""
        self.count_up(message.kind, message.nbytes)
        return message.delivered()

    def down(self, message: Message) -> Message:
        """From the server to a client."""
        self.count_down(message.kind, message.nbytes)
        return message.delivered()

    def count_up(self, kind: str, nbytes: int, messages: int = 1) -> None:
        """So many messages of this many bytes together went up."""
        if messages:
            self.traffic.up[kind] += nbytes
            self.traffic.messages_up[kind] += messages

    def count_down(self, kind: str, nbytes: int, messages: int = 1) -> None:
        """So many messages of this many bytes together went down."""
        if messages:
            self.traffic.down[kind] += nbytes
            self.traffic.messages_down[kind] += messages


class Client(ABC):
    """One sensor. It sees its own readings and the messages it is sent.

    ``readings.sums`` gives the :data:`SCORES` of estimates.
    """

    def __init__(self, readings: Any) -> None:
        self._readings = readings

    @abstractmethod
    def learn(self, model: Message) -> Sequence[Message]:
        """Its part of a round: what it uploads."""

    @abstractmethod
    def estimate(self, model: Message, *, best: bool) -> Array:
        """Estimates (1, N) under the model, with the client's best state or its present one."""

    def keep(self) -> None:  # noqa: B027, many clients have nothing to remember
        """The model it was last sent is the best so far."""

    def score(self, model: Message) -> Message:
        """Sums of errors under the model."""
        sums = self._readings.sums(self.estimate(model, best=False))
        return Message("score", {"sums": sums})


class Server(ABC):
    """Holds what is shared. It sees the messages of the clients and no readings."""

    def __init__(self, shared: Any) -> None:
        self.shared = self.best = shared

    @abstractmethod
    def model(self, client: int) -> Message:
        """What this client is sent."""

    @abstractmethod
    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Learn from one round's uploads, in the order of the clients."""


class ByMessage:
    """Server and clients: every number that a party learns reaches it in a message."""

    def __init__(self, server: Server, clients: Sequence[Any], post: Post) -> None:
        self.server = server
        self.clients = clients
        self.post = post

    def score(self) -> Array:
        """Every client sums its errors, the server adds them."""
        replies = [
            self.post.up(client.score(self.send(n))) for n, client in enumerate(self.clients)
        ]
        return np.sum([reply.body["sums"] for reply in replies], axis=0)

    def keep(self) -> None:
        """Everyone remembers the present state."""
        self.server.best = self.server.shared
        for client in self.clients:
            self.post.down(Message("keep", {}))
            client.keep()

    def round(self, number: int) -> None:
        """The model goes down, uploads come up, the server moves."""
        self.server.step([self.ask(n, client) for n, client in enumerate(self.clients)])

    def finish(self) -> Array:
        """The best model goes down, every client fills its own slots."""
        self.server.shared = self.server.best
        return np.vstack(
            [client.estimate(self.send(n), best=True) for n, client in enumerate(self.clients)]
        )

    def send(self, number: int) -> Message:
        """The model on its way to a client."""
        return self.post.down(self.server.model(number))

    def ask(self, number: int, client: Client) -> list[Message]:
        """What a client uploads in a round."""
        return [self.receive(part) for part in client.learn(self.send(number))]

    def receive(self, upload: Message) -> Message:
        """An upload on its way to the server."""
        self.post.traffic.numbers += upload.numbers
        return self.post.up(upload)


class AtOnce(ABC):
    """All clients in one go; counts the messages of :class:`ByMessage`.

    Parameters
    ----------
    state : Any
        What server and clients hold together.
    model : tuple
        The kind of the models sent in one round, and the numbers in all of them.
    """

    def __init__(self, readings: Any, clients: int, post: Post, state: Any, model: Any) -> None:
        self.readings = readings
        self.clients = clients
        self.post = post
        self.state = self.best = state
        self._sent: tuple[str, int] = model

    @abstractmethod
    def predict(self, state: Any) -> Array:
        """Estimates (M, N) of a state."""

    @abstractmethod
    def round(self, number: int) -> None:
        """As :meth:`ByMessage.round`."""

    def score(self) -> Array:
        """As :meth:`ByMessage.score`."""
        self.send_model()
        self.post.count_up("score", SCORES * WORD * self.clients, self.clients)
        return self.readings.sums(self.predict(self.state))

    def keep(self) -> None:
        """As :meth:`ByMessage.keep`."""
        self.best = self.state
        self.post.count_down("keep", 0, self.clients)

    def finish(self) -> Array:
        """As :meth:`ByMessage.finish`."""
        self.send_model()
        return self.predict(self.best)

    def send_model(self) -> None:
        """Every client was sent its model."""
        kind, numbers = self._sent
        self.post.count_down(kind, WORD * numbers, self.clients)


def hold_back(known: Mask, rng: np.random.Generator, share: float = 0.05) -> Mask:
    """Known entries that every client keeps out of training, to stop by: never test entries.

    Examples
    --------
    >>> known = np.ones((2, 1000), dtype=bool)
    >>> bool(60 < hold_back(known, np.random.default_rng(0)).sum() < 140)
    True
    """
    held = known & (rng.random(known.shape) < share)
    # A sensor with a handful of readings needs them all.
    held[known.sum(axis=1) < 2 / share] = False
    return held


def train(form: ByMessage | AtOnce, rounds: int, traffic: Traffic, patience: int = 10) -> Array:
    """Rounds until the readings kept back say stop; the estimates of the best state.

    Parameters
    ----------
    patience : int
        Scores without a clear gain before the run stops.

    Raises
    ------
    DivergedError
        When the error is no number or a thousand times the first one, and no better state than
        the first was seen before.
    """
    first, lowest, best, idle = np.nan, np.inf, -1, 0
    for t in range(rounds + 1):
        if t % CHECK_EVERY == 0 or t == rounds:
            held, n_held, used, n_used = form.score().tolist()
            # A handful of readings kept back is a lottery: then those learned from judge.
            error = held / n_held if n_held >= _FEWEST_HELD else used / max(n_used, 1.0)
            first = error if t == 0 else first
            lost = not np.isfinite(error) or error > 1e3 * max(first, 1e-12)
            if lost and (best < 0 or lowest >= first):
                raise DivergedError(f"the error of the readings kept back rose to {error:.3g}")
            idle = 0 if error < (1 - _LEAST_GAIN) * lowest else idle + 1
            if error < lowest:
                lowest, best = error, t
                form.keep()
            if (lost or idle >= patience) and t < rounds:
                traffic.notes.append(f"stopped after {t} rounds, kept the state of {best}")
                break
        if t < rounds:
            with np.errstate(over="ignore", invalid="ignore"):
                form.round(t)
            traffic.rounds = t + 1
    return form.finish()
