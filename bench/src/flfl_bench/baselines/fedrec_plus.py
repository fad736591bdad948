"""``fedrec++``: FedRec whose made-up rows are taken out again by denoising clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from flfl_bench.baselines._parameters import COUNT
from flfl_bench.baselines.exchange import WORD, Message, Post
from flfl_bench.baselines.factors import (
    Array,
    Batch,
    FactorClient,
    Local,
    Network,
    residual,
    start_slots,
)
from flfl_bench.baselines.fedrec import (
    FedRec,
    FedRecBatch,
    FedRecServer,
    Filling,
    fill_in,
    moved,
    rows_of,
)


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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FedRec._parameter_constraints,
        "denoisers": [COUNT],
    }

    def __init__(
        self,
        *,
        rank: int = 10,
        learning_rate: float = 0.5,
        decay: float = 1.0,
        ridge: float = 0.05,
        filling: float = 1.0,
        mean_rounds: int = 10,
        local_steps: int = 10,
        denoisers: int = 1,
        rounds: int = 600,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            rank=rank,
            learning_rate=learning_rate,
            decay=decay,
            ridge=ridge,
            filling=filling,
            mean_rounds=mean_rounds,
            local_steps=local_steps,
            rounds=rounds,
            random_state=random_state,
        )
        self.denoisers = denoisers

    def _batch(self, local: Local, post: Post) -> Batch:
        return FedRecPlusBatch(self, local, post)


class _TrueClient(FactorClient):
    """Moves its vector by its true rows only: otherwise the noise would stay in P."""

    def __init__(self, model: FedRecPlus, local: Local, rank: int) -> None:
        super().__init__(local, local.start(rank))
        self._model = model
        self._t = 0

    def _errors(self, Q: Array) -> Array:
        """The errors of the readings; then the vector moves."""
        data, model = self._local.train, self._model
        E = residual(data, self._P, Q)
        self._P = moved(E, self._P, Q, data.per_sensor, model.step(self._t), model.ridge)
        self._t += 1
        return E


class OrdinaryClient(_TrueClient):
    """Sends all rows to the server, and the made-up ones to a denoiser as well."""

    def __init__(self, model: FedRecPlus, local: Local, rank: int) -> None:
        super().__init__(model, local, rank)
        self._filling = Filling(model, local)
        self._noise = Message("noise", {})

    def answer(self, factors: Message) -> Message:
        """All rows; the made-up ones wait in :meth:`noise`."""
        P, Q, ridge = self._P, self.read(factors), self._model.ridge
        V, T = self._filling.draw(), self._filling.vectors(self._t, P, Q)
        E = fill_in(self._errors(Q), V, T, P, Q)
        self._noise = Message("noise", rows_of(E, V[0], P, Q, ridge))
        return Message("gradient", rows_of(E, self._local.train.J[0] + V[0], P, Q, ridge))

    def noise(self) -> Message:
        """The made-up rows of the last answer. They bear no name."""
        return self._noise


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

    def answer(self, factors: Message) -> Message:
        """What the server is to subtract: sums and counts, made up minus own."""
        P, Q = self._P, self.read(factors)
        own = rows_of(self._errors(Q), self._local.train.J[0], P, Q, self._model.ridge)
        self._total[own["rows"]] -= own["values"]
        self._count[own["rows"]] -= 1
        message = Message("denoise", {"values": self._total, "counts": self._count})
        self._total, self._count = np.zeros_like(self._total), np.zeros_like(self._count)
        return message


class FedRecPlusServer(FedRecServer):
    """Subtracts what the denoisers say."""

    def receive(self, upload: Message) -> None:
        """Add a client's rows, or subtract a denoiser's sums."""
        if upload.kind == "denoise":
            self._total -= upload.body["values"]
            self._count -= upload.body["counts"]
        else:
            super().receive(upload)


class NoisyNetwork(Network):
    """The object path with messages between clients."""

    def __init__(
        self,
        ordinary: Sequence[OrdinaryClient],
        denoisers: Sequence[Denoiser],
        server: FedRecPlusServer,
        post: Post,
    ) -> None:
        # The denoisers answer last: they need the noise.
        super().__init__([*ordinary, *denoisers], server, post)
        self._ordinary, self._denoisers = ordinary, denoisers

    def round(self) -> None:
        """Ordinary clients, their noise, denoisers, server."""
        for number, client in enumerate(self._ordinary):
            self._ask(client)
            noise = self.post.down(self.post.up(client.noise()))
            self.post.traffic.numbers += noise.numbers
            self._denoisers[number % len(self._denoisers)].receive(noise)
        for denoiser in self._denoisers:
            self._ask(denoiser)
        self.server.step()


def network(model: FedRecPlus, Y: Array, ids: Sequence[str], post: Post) -> NoisyNetwork:
    """The object path; the last of the M sensors of Y (M, N) are the denoisers."""
    rank, seed = min(model.rank, *Y.shape), model.random_state
    locals_ = [Local.of(row[None], [sensor], seed) for row, sensor in zip(Y, ids, strict=True)]
    first = len(Y) - min(model.denoisers, len(Y))
    return NoisyNetwork(
        [OrdinaryClient(model, local, rank) for local in locals_[:first]],
        [Denoiser(model, local, rank) for local in locals_[first:]],
        FedRecPlusServer(model, start_slots(Y.shape[1], rank, seed)),
        post,
    )


class FedRecPlusBatch(FedRecBatch):
    """What is left when all that was made up has been taken out, and the bytes of doing so."""

    def __init__(self, model: FedRecPlus, local: Local, post: Post) -> None:
        super().__init__(model, local, post)
        self._denoisers = min(model.denoisers, len(self.P))
        first = len(self.P) - self._denoisers
        self._true = int(local.train.J[:first].sum())
        self._fakes = sum(self._filling.sizes[:first])

    def round(self) -> None:
        """One round of training."""
        data = self.local.train
        self._move(residual(data, self.P, self.Q), data.per_sensor, data.per_slot)
        self.count_factors()
        ordinary, (N, k) = len(self.P) - self._denoisers, self.Q.shape
        self.count_upload("gradient", self._true + self._fakes, indexed=True, messages=ordinary)
        self.count_upload("noise", self._fakes, indexed=True, messages=ordinary)
        self.post.count_down("noise", WORD * self._fakes * (k + 1), ordinary)
        # A count stands beside each row, where the others send an index.
        self.count_upload("denoise", self._denoisers * N, indexed=True, messages=self._denoisers)
