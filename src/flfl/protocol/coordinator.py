"""The coordinator's state machine: it carries a program from question to question."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from flfl.errors import FLFLError
from flfl.protocol import fixed_point
from flfl.protocol.messages import (
    Answer,
    Protocol,
    Question,
    check_answer,
    decode_answer,
    encode,
    is_sum,
)
from flfl.secagg import Outcome, SecureSums
from flfl.secagg.wire import is_frame


class ProtocolError(FLFLError):
    """A message that comes from the wrong party, or at the wrong time."""


@dataclass(frozen=True)
class Ask:
    """What a program yields: a kind of question, its body, and the one site it is for, if any."""

    kind: str
    body: Mapping[str, np.ndarray | float] = field(default_factory=dict)
    to: str | None = None


@dataclass(frozen=True)
class Replies:
    """What a program gets back.

    Attributes
    ----------
    total : sums over the sites of the answer's summable arrays, as floats
    by_site : the arrays that are not summed, for each site (public facts, or the paper's plain
        uploads)
    sites : whose answers are in the total; fewer than were asked where some dropped
    """

    total: Mapping[str, np.ndarray]
    by_site: Mapping[str, Mapping[str, np.ndarray]]
    sites: tuple[str, ...] = ()


Program = Generator[Ask, Replies, None]
Envelope = tuple[str, bytes]
Witness = Callable[[Ask, Replies], None]
"""Is shown each question and all that the coordinator learns from it; the audit stands here."""


class Coordinator:
    """Holds a program, asks its questions, adds up the answers. It never sees a site's objects:
    bytes come in, bytes go out.

    Parameters
    ----------
    program : the algorithm's coordinator part
    protocol : the kinds of messages it uses
    roster : the sites, in the order in which floating-point answers are taken
    sizes : dimensions such as ``{"slots": N, "rank": k}``; the program may add to them as it learns
        them
    run : identifies the run in every message
    witness : sees every question with its replies, as the program does
    security : hides the sites' answers in their sums: then every question whose answer is nothing
        but sums is a secure sum, and this object never holds a single site's numbers
    """

    def __init__(
        self,
        program: Program,
        protocol: Protocol,
        roster: Sequence[str],
        sizes: Mapping[str, int],
        run: str = "run",
        witness: Witness | None = None,
        security: SecureSums | None = None,
    ) -> None:
        if len(set(roster)) != len(roster):
            raise ProtocolError("a site is listed twice in the roster")
        self._program = program
        self._protocol = protocol
        self._sites = tuple(roster)
        self._sizes = sizes
        self._run = run
        self._witness = witness
        self._security = security
        self._broken = False
        self._number = 0
        self._ask: Ask | None = None
        self._waiting: tuple[str, ...] = ()
        self._answers: dict[str, Answer] = {}

    @property
    def done(self) -> bool:
        """Whether the program has ended."""
        return self._number > 0 and self._ask is None

    @property
    def answered(self) -> int:
        """Questions that were answered so far."""
        return max(self._number - 1, 0)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that have not dropped."""
        return self._sites

    @property
    def broken(self) -> bool:
        """Whether the run is over because of an error: not a message that was refused, but the
        program, or a sum that cannot be opened."""
        return self._broken or (self._security is not None and self._security.failed)

    @contextmanager
    def _fatal(self) -> Iterator[None]:
        """An error in here ends the run."""
        try:
            yield
        except Exception:
            self._broken = True
            raise

    def start(self) -> list[Envelope]:
        """The first messages to send."""
        if self._security is not None:
            # Keys come first; the program begins when they are exchanged.
            return self._security.start()
        return self._next(next(self._program, None))

    def receive(self, data: bytes) -> list[Envelope]:
        """Take one site's answer; returns the messages to send now, if any."""
        if self._security is not None and is_frame(data):
            return self._go_on(self._security.receive(data))
        answer = decode_answer(data, self._protocol, self._sizes)
        self._check(answer)
        self._answers[answer.site] = answer
        return self._settle()

    def absent(self, site: str) -> list[Envelope]:
        """An engine says that a site is gone; returns the messages to send now, if any.

        What the site has answered already counts; it is not asked again in this run.

        Raises
        ------
        BelowThresholdError
            When too few are left for a secure sum.
        """
        if site not in self._sites:
            return []
        self._sites = tuple(name for name in self._sites if name != site)
        if not self._sites:
            raise ProtocolError("all sites are gone")
        envelopes = []
        if self._security is not None:
            envelopes = self._go_on(self._security.absent(site))
        if site in self._waiting and site not in self._answers:
            self._waiting = tuple(name for name in self._waiting if name != site)
            envelopes += self._settle()
        return envelopes

    def can_lose(self, site: str) -> bool:
        """Whether the run could go on without a site: enough are left, and it is not one that the
        question under way cannot do without."""
        if site not in self._sites or len(self._sites) < 2:
            return False
        if self._waiting == (site,) and site not in self._answers:
            return False
        return self._security is None or self._security.can_lose(site)

    def _check(self, answer: Answer) -> None:
        asked = self._ask
        if asked is None or answer.run != self._run or answer.number != self._number:
            raise ProtocolError(
                f"{answer.site}: answer {answer.number} of run {answer.run!r} is not awaited"
            )
        if answer.kind != asked.kind:
            raise ProtocolError(f"{answer.site}: answers {answer.kind!r} to {asked.kind!r}")
        if answer.site not in self._waiting:
            raise ProtocolError(f"{answer.site}: was not asked")
        if answer.site in self._answers:
            raise ProtocolError(f"{answer.site}: answers twice")

    def _settle(self) -> list[Envelope]:
        """Go on when everyone who was asked has answered."""
        if len(self._answers) < len(self._waiting):
            return []
        with self._fatal():
            if not self._waiting:
                assert self._ask is not None
                raise ProtocolError(f"the site that was asked for {self._ask.kind!r} is gone")
            return self._reply(self._replies())

    def _go_on(self, envelopes: list[Envelope]) -> list[Envelope]:
        """Begin the program, or give it a sum that has just been opened."""
        assert self._security is not None
        with self._fatal():
            if self._security.outcome is not None:
                return self._reply(self._opened(self._security.take()))
            if self._security.ready and self._number == 0:
                return self._next(next(self._program, None))
        return envelopes

    def _reply(self, replies: Replies) -> list[Envelope]:
        if self._witness is not None and self._ask is not None:
            self._witness(self._ask, replies)
        try:
            return self._next(self._program.send(replies))
        except StopIteration:
            return self._next(None)

    def _replies(self) -> Replies:
        assert self._ask is not None
        answers = [self._answers[site] for site in self._waiting]
        schema = self._protocol[self._ask.kind].answer
        summed = [name for name, field in schema.items() if field.type == "sum"]
        total = {
            name: fixed_point.from_fixed(fixed_point.add([a.body[name] for a in answers]))
            for name in summed
        }
        rest = {a.site: {n: v for n, v in a.body.items() if n not in summed} for a in answers}
        return Replies(total, rest, self._waiting)

    def _opened(self, outcome: Outcome) -> Replies:
        """A secure sum as the program's arrays; only the total is known."""
        assert self._ask is not None
        names = list(self._protocol[self._ask.kind].answer)
        if len(outcome.shapes) != len(names):
            raise ProtocolError(f"{self._ask.kind}: {len(outcome.shapes)} arrays came back")
        body, start = {}, 0
        for name, shape in zip(names, outcome.shapes, strict=True):
            stop = start + math.prod(shape)
            body[name] = outcome.total[start:stop].reshape(shape)
            start = stop
        check_answer(body, self._protocol, self._ask.kind, self._sizes)
        total = {name: fixed_point.from_fixed(array) for name, array in body.items()}
        return Replies(total, {site: {} for site in outcome.sites}, outcome.sites)

    def _next(self, ask: Ask | None) -> list[Envelope]:
        self._ask = ask
        self._answers = {}
        self._number += 1
        self._waiting = ()
        if ask is None:
            return []
        body = {name: np.asarray(value) for name, value in ask.body.items()}
        question = Question(self._run, self._number, ask.kind, ask.to or "*", body)
        data = encode(question, self._protocol)
        if self._security is not None and is_sum(self._protocol, ask.kind):
            if ask.to is not None:
                raise ProtocolError(f"{ask.kind}: a sum over one site hides nothing")
            whole = self._protocol[ask.kind].cohort == "whole"
            return self._security.ask(data, ask.kind, whole=whole)
        if self._security is not None:
            # Whoever dropped in a secure sum is not asked for anything else either.
            self._sites = tuple(s for s in self._sites if s in self._security.sites)
        self._waiting = self._sites if ask.to is None else (ask.to,)
        if not set(self._waiting) <= set(self._sites):
            raise ProtocolError(f"{ask.to}: is gone and cannot be asked for {ask.kind!r}")
        return [(site, data) for site in self._waiting]
