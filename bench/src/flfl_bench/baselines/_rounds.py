"""The course of a neural federation: rounds, scores by readings kept back, the best model.

A method comes in two forms that run the same course. :class:`ByMessage` has a server and clients
that share no state and only post messages; :class:`AtOnce` computes all clients in one go, for
speed, and counts the messages that it did not send. Tests hold the two against each other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling
from flfl_bench.baselines._jax import Tree, double, on_cpu
from flfl_bench.baselines.exchange import WORD, EarlyStop, Message, Post, hold_back

Single = NDArray[np.float32]
Mask = NDArray[np.bool_]

CHECK_EVERY = 10
"""Rounds between two scores."""
PATIENCE = 5
"""Scores without a gain before the run stops."""
_FEWEST_HELD = 30
_GRID = 2.0**20


@dataclass(frozen=True)
class Readings:
    """Standardised readings of some sensors: what one client has, or all of them.

    Attributes
    ----------
    Z : (M, N) float32, zero where unknown
    train, held : (M, N) masks of the readings to learn from and of those kept back
    """

    Z: Single
    train: Mask
    held: Mask

    @classmethod
    def of(cls, Z: Array, rng: np.random.Generator) -> Readings:
        """From standardised readings, NaN = missing."""
        known = ~np.isnan(Z)
        held = hold_back(known, rng)
        # Rounded to what float32 holds anyway: the same readings in other units then give the
        # same bits.
        rounded = np.round(np.where(known, Z, 0.0) * _GRID) / _GRID
        return cls(rounded.astype(np.float32), known & ~held, held)

    def of_sensor(self, number: int) -> Readings:
        """The one row that a client has."""
        one = slice(number, number + 1)
        return Readings(self.Z[one].copy(), self.train[one].copy(), self.held[one].copy())

    def sums(self, estimates: Array) -> Array:
        """Squared error and number of the readings kept back, then of those learned from, (4,)."""
        square = np.square(estimates - self.Z)
        return np.array(
            [f for mask in (self.held, self.train) for f in (square[mask].sum(), mask.sum())]
        )


class Client(Protocol):
    """One sensor. It sees its own readings and the messages it is sent."""

    def score(self, model: Message) -> Message:
        """Sums of errors under the model."""

    def learn(self, model: Message) -> Sequence[Message]:
        """Its part of a round: what it uploads."""

    def keep(self) -> None:
        """The model it was last sent is the best so far."""

    def recover(self, model: Message) -> Array:
        """Standardised estimates of its slots under the best model, (N,)."""


class Server(Protocol):
    """Holds what is shared. It sees the messages of the clients and no readings."""

    def model(self, client: int) -> Message:
        """What this client is sent."""

    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Learn from one round's uploads, in the order of the clients."""

    def keep(self) -> None:
        """The present model is the best so far."""

    def restore(self) -> None:
        """Go back to the best model."""


class Form(Protocol):
    """A federation that :func:`run` can lead."""

    def score(self) -> float:
        """Mean squared error of the readings kept back."""

    def keep(self) -> None:
        """Remember the present state."""

    def round(self, number: int) -> None:
        """One round of training."""

    def finish(self) -> Array:
        """Standardised estimates (M, N) under the state remembered."""


class ByMessage:
    """Server and clients, message by message."""

    def __init__(self, server: Server, clients: Sequence[Client], post: Post) -> None:
        self.server = server
        self.clients = clients
        self.post = post

    def score(self) -> float:
        """Every client sums its errors, the server adds them."""
        replies = [
            self.post.up(client.score(self._model(number)))
            for number, client in enumerate(self.clients)
        ]
        return _mean_error(np.sum([reply.body["sums"] for reply in replies], axis=0))

    def keep(self) -> None:
        """Everyone remembers the present state."""
        self.server.keep()
        for client in self.clients:
            self.post.down(Message("keep", {}))
            client.keep()

    def round(self, number: int) -> None:
        """The model goes down, gradients come up, the server moves."""
        uploads = [
            [self.post.up(part) for part in client.learn(self._model(sensor))]
            for sensor, client in enumerate(self.clients)
        ]
        self.server.step(uploads)

    def finish(self) -> Array:
        """The best model goes down, every client fills its own slots."""
        self.server.restore()
        return np.stack(
            [client.recover(self._model(number)) for number, client in enumerate(self.clients)]
        )

    def _model(self, client: int) -> Message:
        return self.post.down(self.server.model(client))


class AtOnce:
    """All clients in one go; counts the messages of :class:`ByMessage`.

    Parameters
    ----------
    state : what server and clients hold together
    down : numbers in the models of one round
    up : numbers in the uploads of one round, by kind
    """

    def __init__(
        self, readings: Readings, post: Post, state: Tree, down: int, up: dict[str, int]
    ) -> None:
        self.readings = readings
        self.post = post
        self.state = self.best = state
        self._down = WORD * down
        self._up = {kind: WORD * numbers for kind, numbers in up.items()}

    @abstractmethod
    def predict(self) -> Any:
        """Estimates (M, N) of the present state."""

    @abstractmethod
    def step(self) -> Tree:
        """The state after one more round."""

    def score(self) -> float:
        """As :meth:`ByMessage.score`."""
        self._send_model()
        clients = len(self.readings.Z)
        self.post.count_up("score", 4 * WORD * clients, clients)
        return _mean_error(self.readings.sums(double(self.predict())))

    def keep(self) -> None:
        """As :meth:`ByMessage.keep`."""
        self.best = self.state
        self.post.count_down("keep", 0, len(self.readings.Z))

    def round(self, number: int) -> None:
        """As :meth:`ByMessage.round`."""
        self._send_model()
        for kind, nbytes in self._up.items():
            self.post.count_up(kind, nbytes, len(self.readings.Z))
        self.state = self.step()

    def finish(self) -> Array:
        """As :meth:`ByMessage.finish`."""
        self._send_model()
        self.state = self.best
        return double(self.predict())

    def _send_model(self) -> None:
        self.post.count_down("model", self._down, len(self.readings.Z))


def _mean_error(sums: Array) -> float:
    # A handful of readings kept back is a lottery: then those learned from judge.
    held, n_held, train, n_train = sums.tolist()
    return held / n_held if n_held >= _FEWEST_HELD else train / max(n_train, 1.0)


def run(form: Form, rounds: int, post: Post) -> Array:
    """At most so many rounds, scored every :data:`CHECK_EVERY`: the estimates of the best model.

    Raises
    ------
    DivergedError
        When the error runs away and no better state was seen before.
    """
    stop, traffic = EarlyStop(patience=PATIENCE), post.traffic
    for number in range(rounds + 1):
        if number % CHECK_EVERY == 0 or number == rounds:
            done = stop.check(form.score(), number)
            if stop.best == number:
                form.keep()
            if done and number < rounds:
                traffic.notes.append(
                    f"stopped after {number} rounds: readings kept back are no longer met better"
                )
                break
        if number < rounds:
            form.round(number)
            traffic.rounds = number + 1
    # Each client's own gradient, in every round: nothing is summed away.
    traffic.numbers = traffic.up["gradient"] // WORD
    return form.finish()


class NeuralRecoverer(BaseRecoverer):
    """What the methods on JAX share: local scaling, readings kept back, the course of a run."""

    rounds: int
    batched: bool
    random_state: int

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        self._validate_params()
        scaling, post = Scaling.fit(Y), Post(self.traffic_)
        readings = Readings.of(scaling.apply(Y), np.random.default_rng(self.random_state))
        with on_cpu():
            estimates = run(self._form(readings, sensors, post), self.rounds, post)
        self.traffic_.notes.append(self._remark(readings))
        return scaling.undo(estimates)

    @abstractmethod
    def _form(self, readings: Readings, sensors: Sensors, post: Post) -> Form:
        """The federation, in the form that ``batched`` asks for."""

    @abstractmethod
    def _remark(self, readings: Readings) -> str:
        """What the uploads of this run give away, in a sentence."""
