"""``rfrec``: each client keeps its own copy of all slots' factors; the server averages copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flfl.config import Count, NotNegative, Positive, Whole
from flfl.estimators.base import Array
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

    A client minimises ``sum_known ((y_ij - p_i.v_ij)^2 + ridge |p_i|^2 + slot_ridge |v_ij|^2) +
    pull |V_i - Q|^2`` by Adam, one step a round, and sends ``V_i``; the server's Q is their mean.
    **The copies are sent as they are**, unless ``clip`` and ``noise`` are set.

    Three departures, where the published form fails on sensors: readings are standardised and
    estimated by ``p.v`` itself (a sigmoid starts at the middle of the range, where sensor readings
    are rare); ``slot_ridge`` acts where the client has readings (Adam makes even a tiny pull on
    the others a full step to zero); and the pull takes Q as given. The mean is over all clients,
    not over those that observed the slot, as published.

    Parameters
    ----------
    rank : int
        Latent factors, or as many as the table can hold.
    learning_rate : float
        Of Adam.
    ridge, slot_ridge, pull : float
        Weights of the penalties, the first two for each reading.
    clip, noise : float
        Copies are sent clipped to this size, with Laplace noise of this scale on every number;
        None and 0 for neither.
    rounds : int
        At most; readings that each sensor keeps back stop the run.
    random_state : int
        Seed.

    Examples
    --------
    >>> X = np.outer(np.sin(np.arange(60.0) / 5), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = RFRec(rank=1).fit_transform(X)[4, 1]
    >>> bool(abs(filled - 2 * np.sin(4 / 5)) < 0.2)
    True
    """

    rank: Count = 10
    learning_rate: Positive = 0.3
    ridge: NotNegative = 0.01
    slot_ridge: NotNegative = 0.1
    pull: NotNegative = 10.0
    clip: Positive | None = None
    noise: NotNegative = 0.0
    rounds: Count = 200
    random_state: Whole = 0

    def at_once(self, local: Local, post: Post) -> FactorBatch:
        """All clients in one go."""
        return RFRecBatch(self, local, post)

    def by_message(self, Y: Array, ids: Sequence[str], post: Post) -> ByMessage:
        """Clients and server of readings Y (M, N), NaN = missing."""
        server = RFRecServer(self.start(Y.shape))
        locals_ = self.locals(Y, ids)
        clients = [RFRecClient(self, local, post.down(server.model(0))) for local in locals_]
        return ByMessage(server, clients, post)


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

    def step(self, Q: Array) -> None:
        """One step of Adam, towards the readings and towards Q."""
        model, p, V = self._model, self.p, self.V
        # Half the gradients: Adam does not see a common factor.
        error = self._J * (V @ p - self._y)
        grad_p = error @ V + model.ridge * self._n * p
        grad_V = error[:, None] * p
        if model.slot_ridge:
            grad_V += (model.slot_ridge * self._J)[:, None] * V
        if model.pull:
            away = V - Q
            away *= model.pull
            grad_V += away
        self._adam[0].step(p, grad_p)
        self._adam[1].step(V, grad_V)

    def released(self) -> Array:
        """The copy as it is sent."""
        model, V = self._model, self.V
        if model.clip is not None:
            V = np.clip(V, -model.clip, model.clip)
        if model.noise:
            # A draw for every number: one for all would be found and subtracted.
            V = V + self._rng.laplace(scale=model.noise, size=V.shape)
        return V


class RFRecClient(FactorClient):
    """One sensor with its copy."""

    def __init__(self, model: RFRec, local: Local, Q: Message) -> None:
        P = local.start(self.read(Q).shape[1])
        super().__init__(local, P)
        self._copy = Copy(model, local, 0, P[0], self.read(Q))

    def learn(self, model: Message) -> Sequence[Message]:
        """A step, then the copy, clipped and noisy where that was agreed on."""
        self._copy.step(self.read(model))
        self._P = self._copy.p[None].copy()
        return [Message("copy", {"V": self._copy.released().copy()})]


class RFRecServer(FactorServer):
    """Averages copies."""

    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Q is the mean of the copies."""
        total = np.zeros_like(self.shared)
        for (copy,) in uploads:
            total += copy.body["V"]
        self.shared = total / len(uploads)


class RFRecBatch(FactorBatch):
    """All copies in one place. They are worked on one by one: a copy fits into the cache."""

    def __init__(self, model: RFRec, local: Local, post: Post) -> None:
        super().__init__(local, model.rank, model.random_state, post)
        P, Q = self.state
        self._copies = [Copy(model, local, row, p, Q) for row, p in enumerate(P)]
        self.send_model()

    def round(self, number: int) -> None:
        """One round of training."""
        self.send_model()
        Q = self.state[1]
        total = np.zeros_like(Q)
        for copy in self._copies:
            copy.step(Q)
            total += copy.released()
        self.state = np.array([copy.p for copy in self._copies]), total / self.clients
        self.count_upload("copy", self.clients * len(Q), indexed=False, messages=self.clients)
