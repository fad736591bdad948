"""``fedrec``: federated factors whose uploads hide among made-up readings (hybrid filling)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

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
from flfl_bench.baselines.federation import ByMessage, Message, Post


@dataclass(kw_only=True, eq=False, repr=False)
class FedRec(FactorRecoverer):
    """Factors learned from gradients of readings and of made-up readings at random other slots.

    A sensor sends the rows ``-e_ij p_i + lambda q_j`` of its readings and of ``filling`` times as
    many slots that it did not observe, drawn anew each round; the server divides each slot's sum by
    the number of senders. What is made up is the sensor's mean at first, and later a prediction
    that the sensor makes on its own. **This hides which slots a sensor observed, and not what it
    read there**: the rows themselves are plain.

    Parameters
    ----------
    rank : latent factors, or as many as the table can hold
    learning_rate : step of ``p_i`` and ``q_j`` on their mean gradients
    decay : the step is multiplied by this after each round. As published, 0.9, the steps of all
        rounds sum to ten of the first, too few for readings whose mean is zero
    ridge : lambda
    filling : made-up readings for each reading, as far as there are free slots
    mean_rounds : rounds in which the mean is filled in
    local_steps : steps of the own prediction afterwards
    rounds : at most; readings that each sensor keeps back stop the run
    random_state : seed

    Examples
    --------
    >>> X = np.outer(np.sin(np.arange(60.0) / 5), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = FedRec(rank=1, ridge=1e-3).fit_transform(X)[4, 1]
    >>> bool(abs(filled - 2 * np.sin(4 / 5)) < 0.1)
    True
    """

    rank: Count = 10
    learning_rate: Positive = 0.5
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    ridge: NotNegative = 0.05
    filling: NotNegative = 1.0
    mean_rounds: Whole = 10
    local_steps: Whole = 10
    rounds: Count = 400
    random_state: Whole = 0

    def at_once(self, local: Local, post: Post) -> FactorBatch:
        """All clients in one go."""
        return FedRecBatch(self, local, post)

    def by_message(self, Y: Array, ids: Sequence[str], post: Post) -> ByMessage:
        """Clients and server of readings Y (M, N), NaN = missing."""
        Q = self.start(Y.shape)
        clients = [FedRecClient(self, local, Q.shape[1]) for local in self.locals(Y, ids)]
        return ByMessage(FedRecServer(self, Q), clients, post)

    def step(self, t: int) -> float:
        """The step of round t."""
        return float(self.learning_rate * self.decay**t)


class Filling:
    """Where m sensors make readings up, and what: one client's part, or all clients' at once."""

    def __init__(self, model: FedRec, local: Local) -> None:
        self._model, self._local = model, local
        self._free = [np.flatnonzero(J == 0) for J in local.train.J]
        wanted = np.round(model.filling * local.train.per_sensor[:, 0])
        self.sizes = [int(min(n, len(free))) for n, free in zip(wanted, self._free, strict=True)]
        self._V = np.zeros(local.shape)
        for V, size, free in zip(self._V, self.sizes, self._free, strict=True):
            if size == len(free):
                V[free] = 1.0

    def draw(self) -> Array:
        """Slots (m, N) of 0.0 and 1.0, drawn anew where there is a choice."""
        for V, size, free, rng in zip(
            self._V, self.sizes, self._free, self._local.streams, strict=True
        ):
            if 0 < size < len(free):
                V[:] = 0.0
                V[rng.choice(free, size, replace=False, shuffle=False)] = 1.0
        return self._V

    def vectors(self, t: int, P: Array, Q: Array) -> Array:
        """Vectors (m, k) whose products with Q are filled in: zeros give the sensors' means."""
        if t < self._model.mean_rounds:
            return np.zeros_like(P)
        steps, rate = self._model.local_steps, self._model.step(t)
        return own_vectors(self._local.train, P, Q, rate, self._model.ridge, steps)


def own_vectors(data: Observed, P: Array, Q: Array, rate: float, ridge: float, steps: int) -> Array:
    """Latent vectors after some steps on the sensors' own readings with Q fixed, (m, k).

    Each step is ``p += rate * (mean_j e_j q_j - lambda p)``; all of them need the readings only
    through ``G = mean_j q_j q_j^T`` and ``b = mean_j y_j q_j``.

    Examples
    --------
    >>> data, one = Observed.of(np.array([[3.0]]), np.array([[True]])), np.ones((1, 1))
    >>> own_vectors(data, one, one, 0.5, 0.0, 2).item()  # 1 -> 2 -> 2.5
    2.5
    """
    k, QT = Q.shape[1], np.ascontiguousarray(Q.T)
    left, right = np.triu_indices(k)
    # G is symmetric: half of it is computed, for all sensors in one product.
    half = (data.J @ (QT[left] * QT[right]).T) / data.per_sensor
    G = np.empty((len(P), k, k))
    G[:, left, right] = G[:, right, left] = half
    b = data.Y @ Q / data.per_sensor
    for _ in range(steps):
        P = P + rate * (b - np.einsum("ikl,il->ik", G, P) - ridge * P)
    return P


def fill_in(E: Array, V: Array, T: Array, P: Array, Q: Array) -> Array:
    """Errors of readings E and of what is made up, ``t_i.q_j - p_i.q_j`` where V is one."""
    F = (T - P) @ Q.T
    F *= V
    F += E
    return F


def moved(E: Array, P: Array, Q: Array, count: Array, rate: float, ridge: float) -> Array:
    """``p_i + rate * (mean_j e_ij q_j - lambda p_i)`` over ``count`` (m, 1) rows a sensor."""
    return P + rate * (E @ Q / count - ridge * P)


def rows_of(E: Array, at: Array, P: Array, Q: Array, ridge: float) -> dict[str, Any]:
    """One sensor's gradient rows ``-e_j p + lambda q_j`` at the slots where ``at`` (N,) is one."""
    rows = np.flatnonzero(at)
    return {"rows": rows, "values": ridge * Q[rows] - E[0, rows, None] * P}


def mean_step(Q: Array, total: Array, count: Array, rate: float) -> Array:
    """``q_j - rate * total_j / count_j``; a slot without senders stays."""
    count = count[:, None]
    return Q - rate * np.divide(total, count, out=np.zeros_like(total), where=count > 0)


class FedRecClient(FactorClient):
    """One sensor: what it sends looks alike for readings and for what it made up."""

    def __init__(self, model: FedRec, local: Local, rank: int) -> None:
        super().__init__(local, local.start(rank))
        self._model = model
        self._filling = Filling(model, local)
        self._t = 0

    def learn(self, model: Message) -> Sequence[Message]:
        """Gradients of both kinds of rows, which move p as well."""
        P, Q, data, plan = self._P, self.read(model), self._local.train, self._model
        V = self._filling.draw()
        E = fill_in(data.residual(P, Q), V, self._filling.vectors(self._t, P, Q), P, Q)
        at = data.J + V
        count = at.sum(axis=1, keepdims=True)
        self._P = moved(E, P, Q, count, plan.step(self._t), plan.ridge)
        self._t += 1
        return [Message("gradient", rows_of(E, at[0], P, Q, plan.ridge))]


class FedRecServer(FactorServer):
    """Averages the gradients of each slot over those who sent one."""

    def __init__(self, model: FedRec, Q: Array) -> None:
        super().__init__(Q)
        self._model = model
        self._t = 0

    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Move Q by the mean of what was sent for each slot, less what a denoiser takes out."""
        total, count = np.zeros_like(self.shared), np.zeros(len(self.shared))
        for (upload,) in uploads:
            if upload.kind == "denoise":
                total -= upload.body["values"]
                count -= upload.body["counts"]
            else:
                total[upload.body["rows"]] += upload.body["values"]
                count[upload.body["rows"]] += 1
        self.shared = mean_step(self.shared, total, count, self._model.step(self._t))
        self._t += 1


class FedRecBatch(FactorBatch):
    """All clients at once."""

    def __init__(self, model: FedRec, local: Local, post: Post) -> None:
        super().__init__(local, model.rank, model.random_state, post)
        self._model = model
        self._filling = Filling(model, local)
        self._readings = int(local.train.J.sum())

    def round(self, number: int) -> None:
        """One round of training."""
        (P, Q), data = self.state, self.local.train
        E, per_sensor, per_slot = data.residual(P, Q), data.per_sensor, data.per_slot
        fakes = sum(self._filling.sizes)
        if fakes:
            V = self._filling.draw()
            E = fill_in(E, V, self._filling.vectors(number, P, Q), P, Q)
            per_sensor = per_sensor + V.sum(axis=1, keepdims=True)
            per_slot = per_slot + V.sum(axis=0)[:, None]
        self.move(number, E, per_sensor, per_slot)
        self.send_model()
        self.count_upload("gradient", self._readings + fakes, indexed=True, messages=len(P))

    def move(self, t: int, E: Array, per_sensor: Array, per_slot: Array) -> None:
        """All latent vectors and Q after the errors E (M, N) of round t."""
        (P, Q), ridge, rate = self.state, self._model.ridge, self._model.step(t)
        slots = mean_step(Q, ridge * per_slot * Q - E.T @ P, per_slot[:, 0], rate)
        self.state = moved(E, P, Q, per_sensor, rate, ridge), slots
