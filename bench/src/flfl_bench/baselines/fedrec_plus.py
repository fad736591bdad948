"""``fedrec++``: FedRec whose made-up rows are taken out again by denoising clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flfl.config import Count
from flfl.estimators.base import Array
from flfl_bench.baselines.factors import FactorBatch, FactorClient, Local
from flfl_bench.baselines.federation import WORD, ByMessage, Message, Post
from flfl_bench.baselines.fedrec import (
    FedRec,
    FedRecBatch,
    FedRecServer,
    Filling,
    fill_in,
    moved,
    rows_of,
)


@dataclass(kw_only=True, eq=False, repr=False)
class FedRecPlus(FedRec):
    """FedRec without its error: some clients, the denoisers, take out what the others made up.

    An ordinary client sends its rows, true and made up, to the server, and the made-up ones once
    more, without its name, to a denoiser. A denoiser adds these up and sends the server the sum
    minus its own true rows; what the server then subtracts leaves the true rows of all. **The
    result is FedRec's without filling, whatever is made up**, so ``fit`` computes that, and counts
    the bytes of the rest. The slots are hidden from the server as long as no denoiser helps it; the
    readings are not hidden.

    Parameters
    ----------
    denoisers : clients that denoise
    rank, learning_rate, decay, ridge, filling, mean_rounds, local_steps, rounds, random_state :
        as in :class:`FedRec`

    Examples
    --------
    >>> X = np.outer(np.sin(np.arange(60.0) / 5), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> one, two = FedRecPlus(rank=1, filling=3.0), FedRec(rank=1, filling=0.0)
    >>> bool(np.array_equal(one.fit_transform(X), two.fit_transform(X)))
    True
    """

    denoisers: Count = 1
    rounds: Count = 600

    def at_once(self, local: Local, post: Post) -> FactorBatch:
        """All clients in one go."""
        return FedRecPlusBatch(self, local, post)

    def by_message(self, Y: Array, ids: Sequence[str], post: Post) -> ByMessage:
        """Clients and server; the last of the M sensors of Y (M, N) are the denoisers."""
        Q = self.start(Y.shape)
        first = len(Y) - min(self.denoisers, len(Y))
        clients = [
            (OrdinaryClient if number < first else Denoiser)(self, local, Q.shape[1])
            for number, local in enumerate(self.locals(Y, ids))
        ]
        return NoisyNetwork(FedRecServer(self, Q), clients, post)


class _TrueClient(FactorClient):
    """Moves its vector by its true rows only: otherwise the noise would stay in P."""

    def __init__(self, model: FedRecPlus, local: Local, rank: int) -> None:
        super().__init__(local, local.start(rank))
        self._model = model
        self._t = 0

    def _errors(self, Q: Array) -> Array:
        """The errors of the readings; then the vector moves."""
        data, model = self._local.train, self._model
        E = data.residual(self._P, Q)
        self._P = moved(E, self._P, Q, data.per_sensor, model.step(self._t), model.ridge)
        self._t += 1
        return E


class OrdinaryClient(_TrueClient):
    """Sends all rows to the server, and the made-up ones to a denoiser as well."""

    def __init__(self, model: FedRecPlus, local: Local, rank: int) -> None:
        super().__init__(model, local, rank)
        self._filling = Filling(model, local)
        self.noise = Message("noise", {})
        """The made-up rows of the last round. They bear no name."""

    def learn(self, model: Message) -> Sequence[Message]:
        """All rows; the made-up ones wait in :attr:`noise`."""
        P, Q, ridge = self._P, self.read(model), self._model.ridge
        V, T = self._filling.draw(), self._filling.vectors(self._t, P, Q)
        E = fill_in(self._errors(Q), V, T, P, Q)
        self.noise = Message("noise", rows_of(E, V[0], P, Q, ridge))
        return [Message("gradient", rows_of(E, self._local.train.J[0] + V[0], P, Q, ridge))]


class Denoiser(_TrueClient):
    """Adds up what others made up, and hides its own true rows in the sum."""

    def __init__(self, model: FedRecPlus, local: Local, rank: int) -> None:
        super().__init__(model, local, rank)
        N = local.shape[1]
        self._total, self._count = np.zeros((N, rank)), np.zeros(N, dtype=np.int64)

    def receive(self, noise: Message) -> None:
        """Add made-up rows."""
        self._total[noise.body["rows"]] += noise.body["values"]
        self._count[noise.body["rows"]] += 1

    def learn(self, model: Message) -> Sequence[Message]:
        """What the server is to subtract: sums and counts, made up minus own."""
        P, Q = self._P, self.read(model)
        own = rows_of(self._errors(Q), self._local.train.J[0], P, Q, self._model.ridge)
        self._total[own["rows"]] -= own["values"]
        self._count[own["rows"]] -= 1
        message = Message("denoise", {"values": self._total, "counts": self._count})
        self._total, self._count = np.zeros_like(self._total), np.zeros_like(self._count)
        return [message]


class NoisyNetwork(ByMessage):
    """With messages between clients; the denoisers stand last, as they need the noise."""

    def round(self, number: int) -> None:
        """Ordinary clients, their noise, denoisers, server."""
        denoisers = [client for client in self.clients if isinstance(client, Denoiser)]
        uploads = []
        for n, client in enumerate(self.clients):
            uploads.append(self.ask(n, client))
            if isinstance(client, OrdinaryClient):
                denoisers[n % len(denoisers)].receive(self.post.down(self.receive(client.noise)))
        self.server.step(uploads)


class FedRecPlusBatch(FedRecBatch):
    """What is left when all that was made up has been taken out, and the bytes of doing so."""

    def __init__(self, model: FedRecPlus, local: Local, post: Post) -> None:
        super().__init__(model, local, post)
        self._denoisers = min(model.denoisers, self.clients)
        first = self.clients - self._denoisers
        self._true = int(local.train.J[:first].sum())
        self._fakes = sum(self._filling.sizes[:first])

    def round(self, number: int) -> None:
        """One round of training."""
        data, (P, Q) = self.local.train, self.state
        self.move(number, data.residual(P, Q), data.per_sensor, data.per_slot)
        self.send_model()
        ordinary, (N, k) = self.clients - self._denoisers, Q.shape
        self.count_upload("gradient", self._true + self._fakes, indexed=True, messages=ordinary)
        self.count_upload("noise", self._fakes, indexed=True, messages=ordinary)
        self.post.count_down("noise", WORD * self._fakes * (k + 1), ordinary)
        # A count stands beside each row, where the others send an index.
        self.count_upload("denoise", self._denoisers * N, indexed=True, messages=self._denoisers)
