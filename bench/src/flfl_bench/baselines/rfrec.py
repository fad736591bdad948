"""``rfrec``: each client keeps its own copy of all slots' factors; the server averages copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.special import expit

from flfl.config import Count, NotNegative, Positive, Share, Whole
from flfl.estimators.base import Array
from flfl.paper.scaling import Scaling
from flfl_bench.baselines.factors import (
    FactorBatch,
    FactorClient,
    FactorRecoverer,
    FactorServer,
    Local,
)
from flfl_bench.baselines.federation import ByMessage, Message, Post


@dataclass(kw_only=True, eq=False, repr=False)
class RFRec(FactorRecoverer):
    """Factors with a private copy ``V_i`` of Q at each client, pulled together by its mean.

    A client minimises ``sum_known ((y_ij - head(p_i.v_ij))^2 + ridge |p_i|^2 + slot_ridge
    |v_ij|^2) + pull |V_i - Q|^2`` by Adam, one step a round, and sends ``V_i``; the server's Q is
    their mean.
    With ``variant="rfrecf"`` a coin decides each round: either all clients take a step without the
    pull, or the copies are averaged; two averages in a row need no message. **The copies are sent
    as they are**, unless ``clip`` and ``noise`` are set.

    Two places where the published form fails on sensors are mended: ``slot_ridge`` acts where the
    client has readings (Adam makes even a tiny pull on the others a full step to zero), and the
    pull takes Q as given. The mean is over all clients, not over those that observed the slot, as
    published.

    Parameters
    ----------
    rank : latent factors, or as many as the table can hold
    variant : ``"rfrec"`` or ``"rfrecf"``
    head : ``"linear"`` on standardised readings, or, as published, ``"sigmoid"`` on readings
        between 0 and 1, which starts at the middle of the range, where sensor readings are rare
    learning_rate : of Adam
    ridge, slot_ridge, pull : weights of the penalties, the first two for each reading
    averaging : chance of an average instead of a step (``"rfrecf"``)
    mixing : share of the way to the mean that a copy goes in an average (``"rfrecf"``)
    clip, noise : copies are sent clipped to this size, with Laplace noise of this scale on every
        number; None and 0 for neither
    rounds : at most; readings that each sensor keeps back stop the run
    random_state : seed

    Examples
    --------
    >>> X = np.outer(np.sin(np.arange(60.0) / 5), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = RFRec(rank=1).fit_transform(X)[4, 1]
    >>> bool(abs(filled - 2 * np.sin(4 / 5)) < 0.2)
    True
    """

    rank: Count = 10
    variant: Literal["rfrec", "rfrecf"] = "rfrec"
    head: Literal["linear", "sigmoid"] = "linear"
    learning_rate: Positive = 0.3
    ridge: NotNegative = 0.01
    slot_ridge: NotNegative = 0.1
    pull: NotNegative = 10.0
    averaging: Share = 0.5
    mixing: Annotated[float, Field(gt=0, le=1)] = 1.0
    clip: Positive | None = None
    noise: NotNegative = 0.0
    rounds: Count = 200
    random_state: Whole = 0

    def local(self, Y: Array, ids: Sequence[str]) -> Local:
        """Readings (m, N) scaled as the head wants them."""
        scaling = between_zero_and_one(Y) if self.head == "sigmoid" else None
        return Local.of(Y, ids, self.random_state, scaling)

    def at_once(self, local: Local, post: Post) -> FactorBatch:
        """All clients in one go."""
        return RFRecBatch(self, local, post)

    def by_message(self, Y: Array, ids: Sequence[str], post: Post) -> ByMessage:
        """Clients and server of readings Y (M, N), NaN = missing."""
        server = RFRecServer(self.start(Y.shape))
        clients = [
            RFRecClient(self, local, post.down(server.model(0))) for local in self.locals(Y, ids)
        ]
        if self.variant == "rfrec":
            return ByMessage(server, clients, post)
        return CoinNetwork(server, clients, post, Coin(self))


def between_zero_and_one(Y: Array) -> Scaling:
    """The scaling that takes each sensor's least known reading to 0 and its largest to 1.

    Examples
    --------
    >>> between_zero_and_one(np.array([[2.0, np.nan, 6.0]])).apply(np.array([[3.0]])).item()
    0.25
    """
    low = np.nanmin(Y, axis=1)
    span = np.nanmax(Y, axis=1) - low
    return Scaling(low, np.where(span > 0, span, 1.0))


class Adam:
    """Adam's rule for one array, in place.

    Examples
    --------
    >>> x = np.array([1.0, 1.0])
    >>> Adam(x, rate=0.1).step(x, np.array([5.0, 0.0]))
    >>> x.round(6).tolist()  # the first step is as long as the rate wherever there is a gradient
    [0.9, 1.0]
    """

    def __init__(self, x: Array, rate: float) -> None:
        self._rate, self._t = rate, 0
        self._mean, self._square, self._room = np.zeros_like(x), np.zeros_like(x), np.empty_like(x)

    def step(self, x: Array, gradient: Array) -> None:
        """Move x against the gradient, which is used up."""
        fade, fade_square, room = 0.9, 0.999, self._room
        self._t += 1
        np.multiply(gradient, 1 - fade, out=room)
        self._mean *= fade
        self._mean += room
        gradient *= gradient
        gradient *= 1 - fade_square
        self._square *= fade_square
        self._square += gradient
        np.sqrt(self._square, out=room)
        room += 1e-8 * np.sqrt(1 - fade_square**self._t)
        np.divide(self._mean, room, out=room)
        room *= self._rate * np.sqrt(1 - fade_square**self._t) / (1 - fade**self._t)
        x -= room


class Copy:
    """What one client works with: its latent vector p (k,), its copy V (N, k), their Adam."""

    def __init__(self, model: RFRec, local: Local, row: int, p: Array, Q: Array) -> None:
        self._model, self._rng = model, local.streams[row]
        self._y, self._J = local.train.Y[row], local.train.J[row]
        self._n = float(self._J.sum())
        self.p, self.V = p.copy(), Q.copy()
        self._adam = [Adam(x, model.learning_rate) for x in (self.p, self.V)]

    def step(self, Q: Array | None) -> None:
        """One step of Adam; towards Q as well where it is given."""
        model, p, V = self._model, self.p, self.V
        fit, slope = head(model)(V @ p)
        # Half the gradients: Adam does not see a common factor.
        error = self._J * (fit - self._y) * slope
        grad_p = error @ V + model.ridge * self._n * p
        grad_V = error[:, None] * p
        if model.slot_ridge:
            grad_V += (model.slot_ridge * self._J)[:, None] * V
        if Q is not None and model.pull:
            away = V - Q
            away *= model.pull
            grad_V += away
        self._adam[0].step(p, grad_p)
        self._adam[1].step(V, grad_V)

    def mix(self, Q: Array) -> None:
        """Go towards the mean of all copies."""
        if self._model.mixing == 1:
            self.V[:] = Q
        else:
            self.V += self._model.mixing * (Q - self.V)

    def released(self) -> Array:
        """The copy as it is sent."""
        model, V = self._model, self.V
        if model.clip is not None:
            V = np.clip(V, -model.clip, model.clip)
        if model.noise:
            # A draw for every number: one for all would be found and subtracted.
            V = V + self._rng.laplace(scale=model.noise, size=V.shape)
        return V


def head(model: RFRec) -> Callable[[Array], tuple[Array, Array | float]]:
    """The function that gives a prediction and its slope from ``p.v``."""
    return _sigmoid if model.head == "sigmoid" else _linear


def _linear(z: Array) -> tuple[Array, float]:
    return z, 1.0


def _sigmoid(z: Array) -> tuple[Array, Array]:
    s = np.asarray(expit(z))
    return s, s * (1 - s)


class Coin:
    """Which rounds of ``rfrecf`` are averages: from a seed that all parties know.

    Examples
    --------
    >>> coin = Coin(RFRec(variant="rfrecf", averaging=0.999))
    >>> [coin.toss() for _ in range(3)]
    [True, True, True]
    """

    def __init__(self, model: RFRec) -> None:
        self._rng = np.random.default_rng([model.random_state, 1])
        self._chance = model.averaging

    def toss(self) -> bool:
        """Whether the next round is an average."""
        return bool(self._rng.random() < self._chance)


class RFRecClient(FactorClient):
    """One sensor with its copy."""

    def __init__(self, model: RFRec, local: Local, Q: Message) -> None:
        P = local.start(self.read(Q).shape[1])
        super().__init__(local, P)
        self._model = model
        self._mean = self.read(Q)
        self._copy = Copy(model, local, 0, P[0], self._mean)

    def learn(self, model: Message) -> Sequence[Message]:
        """A step with the pull, then the copy."""
        self.step(model)
        return [self.send()]

    def step(self, model: Message | None) -> None:
        """A step; with the pull where Q was sent."""
        self._copy.step(None if model is None else self.read(model))
        self._P = self._copy.p[None].copy()

    def send(self) -> Message:
        """The copy, clipped and noisy where that was agreed on."""
        return Message("copy", {"V": self._copy.released().copy()})

    def mix(self, model: Message | None) -> None:
        """Go towards the mean; the last one where none is sent."""
        if model is not None:
            self._mean = self.read(model)
        self._copy.mix(self._mean)

    def estimate(self, model: Message, *, best: bool) -> Array:
        """Through the head; with Q and not the own copy, as published."""
        return head(self._model)(super().estimate(model, best=best))[0]


class RFRecServer(FactorServer):
    """Averages copies."""

    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Q is the mean of the copies."""
        total = np.zeros_like(self.shared)
        for (copy,) in uploads:
            total += copy.body["V"]
        self.shared = total / len(uploads)


class CoinNetwork(ByMessage):
    """The messages of ``rfrecf``."""

    def __init__(
        self, server: RFRecServer, clients: Sequence[RFRecClient], post: Post, coin: Coin
    ) -> None:
        super().__init__(server, clients, post)
        self._coin = coin
        self._fresh = False

    def round(self, number: int) -> None:
        """All step, or all average; an average after an average needs no message."""
        average = self._coin.toss()
        if average and self._fresh:
            self.server.step([[self.receive(client.send())] for client in self.clients])
        for n, client in self.numbered():
            if not average:
                client.step(None)
            else:
                client.mix(self.send(n) if self._fresh else None)
        self._fresh = not average


class RFRecBatch(FactorBatch):
    """All copies in one place. They are worked on one by one: a copy fits into the cache."""

    def __init__(self, model: RFRec, local: Local, post: Post) -> None:
        super().__init__(local, model.rank, model.random_state, post)
        self._model = model
        P, Q = self.state
        self._copies = [Copy(model, local, row, p, Q) for row, p in enumerate(P)]
        self._coin = Coin(model) if model.variant == "rfrecf" else None
        self._fresh = False
        self.send_model()

    def round(self, number: int) -> None:
        """One round of training."""
        if self._coin is None:
            self.send_model()
            self._step(self.state[1])
            self._average()
        elif not self._coin.toss():
            self._step(None)
            self._fresh = True
        else:
            if self._fresh:
                self._average()
                self.send_model()
            for copy in self._copies:
                copy.mix(self.state[1])
            self._fresh = False

    def predict(self, state: tuple[Array, Array]) -> Array:
        """Through the head."""
        return head(self._model)(super().predict(state))[0]

    def _step(self, Q: Array | None) -> None:
        for copy in self._copies:
            copy.step(Q)
        self.state = np.array([copy.p for copy in self._copies]), self.state[1]

    def _average(self) -> None:
        P, Q = self.state
        total = np.zeros_like(Q)
        for copy in self._copies:
            total += copy.released()
        self.state = P, total / self.clients
        self.count_upload("copy", self.clients * len(Q), indexed=False, messages=self.clients)
