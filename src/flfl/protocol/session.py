"""One run, seen from both ends: a coordinator that asks a program's questions, and a site that
answers them from its own data, with or without secure sums. Bytes come in, bytes go out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol as Interface

import numpy as np

from flfl.protocol.messages import (
    Answer,
    Fixed,
    Protocol,
    ProtocolError,
    Question,
    add,
    check_body,
    decode,
    encode,
    from_fixed,
    to_fixed,
)
from flfl.secagg import Asked, Outcome, SecureClient, SecureServer
from flfl.secagg.wire import FORM as SECURE

Envelope = tuple[str, bytes]
Reply = Mapping[str, np.ndarray | float | Fixed]


@dataclass(frozen=True)
class Ask:
    """What a program yields: a kind of question, its body, and the one site it is for, if any."""

    kind: str
    body: Mapping[str, np.ndarray | float] = field(default_factory=dict)
    to: str | None = None


@dataclass(frozen=True)
class Replies:
    """What a program gets back: sums over the sites, as floats; the other arrays of each site; and
    whose answers are in the total, fewer than were asked where some dropped."""

    total: Mapping[str, np.ndarray]
    by_site: Mapping[str, Mapping[str, np.ndarray]]
    sites: tuple[str, ...] = ()


Program = Generator[Ask, Replies, None]
Witness = Callable[[Ask, Replies], None]
"""Is shown each question and all that the coordinator learns from it; the audit stands here."""


class Coordinator:
    """Asks a program's questions and adds up the answers. It never sees a site's objects.

    Parameters
    ----------
    roster : Sequence
        The sites, in the order in which floating-point answers are taken; later, in ``sites``,
        those that have not dropped.
    sizes : Mapping
        Dimensions such as ``{"slots": N, "rank": k}``; the program may add to them.
    security : SecureServer, optional
        With it every question whose answer is nothing but sums is a secure sum, and this object
        never holds a single site's numbers.
    """

    def __init__(
        self,
        program: Program,
        protocol: Protocol,
        roster: Sequence[str],
        sizes: Mapping[str, int],
        run: str = "run",
        witness: Witness | None = None,
        security: SecureServer | None = None,
    ) -> None:
        if len(set(roster)) != len(roster):
            raise ProtocolError("a site is listed twice in the roster")
        self.sites, self.answered, self.done = tuple(roster), 0, False
        self._program, self._protocol, self._sizes = program, protocol, sizes
        self._run, self._witness, self._security = run, witness, security
        self._broken = False
        self._ask: Ask | None = None
        self._waiting: tuple[str, ...] = ()
        self._answers: dict[str, Answer] = {}

    def start(self) -> list[Envelope]:
        """The first messages to send."""
        # With secure sums keys come first; the program begins when they are exchanged.
        return self._next(None) if self._security is None else self._security.start()

    def receive(self, data: bytes) -> list[Envelope]:
        """Take one site's answer, or refuse it; returns the messages to send now, if any."""
        if self._security is not None and data.startswith(SECURE):
            return self._go_on(self._security.receive(data))
        answer = decode(Answer, data, self._protocol, self._sizes)
        site, ask = answer.site, self._ask
        run, number = answer.run, answer.number
        if ask is None or (run, number) != (self._run, self.answered + 1):
            raise ProtocolError(f"{site}: answer {number} of run {run!r} is not awaited")
        if answer.kind != ask.kind:
            raise ProtocolError(f"{site}: answers {answer.kind!r} to {ask.kind!r}")
        if site not in self._waiting:
            raise ProtocolError(f"{site}: was not asked")
        if site in self._answers:
            raise ProtocolError(f"{site}: answers twice")
        self._answers[site] = answer
        return self._go_on([])

    def absent(self, site: str) -> list[Envelope]:
        """A transport says that a site is gone; returns the messages to send now, if any. What the
        site has answered already counts; it is not asked again in this run."""
        if site not in self.sites:
            return []
        self.sites = tuple(name for name in self.sites if name != site)
        if not self.sites:
            raise ProtocolError("all sites are gone")
        come = [] if self._security is None else self._security.absent(site)
        if site in self._waiting and site not in self._answers:
            self._waiting = tuple(name for name in self._waiting if name != site)
            if not self._waiting and self._ask is not None:
                self._broken = True
                raise ProtocolError(f"the site that was asked for {self._ask.kind!r} is gone")
        return self._go_on(come)

    def can_lose(self, site: str) -> bool:
        """Whether the run could go on without a site."""
        if site not in self.sites or len(self.sites) < 2:
            return False
        if self._waiting == (site,) and site not in self._answers:
            return False
        return self._security is None or self._security.can_lose(site)

    @property
    def broken(self) -> bool:
        """Whether the run is over: the program failed, or a sum cannot be opened."""
        return self._broken or (self._security is not None and self._security.phase == "failed")

    def _go_on(self, come: list[Envelope] | Outcome) -> list[Envelope]:
        """Give the program what it asked for, when all of it has come."""
        try:
            if isinstance(come, Outcome):
                return self._next(self._replies(come))
            if self._waiting and len(self._answers) == len(self._waiting):
                return self._next(self._replies(None))
            if self._security is not None and self._security.phase == "ready":
                # Either keys have just been exchanged, or a plain question is under way.
                return come if self._ask is not None or self.done else self._next(None)
        except Exception:
            self._broken = True
            raise
        return come

    def _replies(self, outcome: Outcome | None) -> Replies:
        """What is known of the answers: of a secure sum the total only."""
        assert self._ask is not None
        kind, schema = self._ask.kind, self._protocol[self._ask.kind].answer
        if outcome is None:
            answers = [self._answers[site] for site in self._waiting]
            summed = [name for name, field in schema.items() if field.type == "sum"]
            total = {name: add([answer.body[name] for answer in answers]) for name in summed}
            rest = {a.site: {n: v for n, v in a.body.items() if n not in summed} for a in answers}
        elif len(outcome.arrays) == len(schema):
            total = dict(zip(schema, outcome.arrays, strict=True))
            check_body(total, schema, self._sizes, kind)
            rest = {site: {} for site in outcome.sites}
        else:
            raise ProtocolError(f"{kind}: {len(outcome.arrays)} arrays came back")
        sums = {name: from_fixed(array) for name, array in total.items()}
        return Replies(sums, rest, tuple(rest))

    def _next(self, replies: Replies | None) -> list[Envelope]:
        """Tell the program what it asked for (None: begin it), and ask its next question."""
        if replies is not None and self._ask is not None:
            self.answered += 1
            if self._witness is not None:
                self._witness(self._ask, replies)
        try:
            ask = next(self._program) if replies is None else self._program.send(replies)
        except StopIteration:
            self._ask, self._waiting, self.done = None, (), True
            return []
        self._ask, self._waiting, self._answers = ask, (), {}
        body = {name: np.asarray(value) for name, value in ask.body.items()}
        question = Question(self._run, self.answered + 1, ask.kind, ask.to or "*", body)
        data, exchange = encode(question, self._protocol), self._protocol[ask.kind]
        if self._security is not None:
            if {field.type for field in exchange.answer.values()} == {"sum"}:
                if ask.to is not None:
                    raise ProtocolError(f"{ask.kind}: a sum over one site hides nothing")
                return self._security.ask(data, ask.kind, whole=exchange.cohort == "whole")
            # Whoever dropped in a secure sum is not asked for anything else either.
            self.sites = tuple(site for site in self.sites if site in self._security.sites)
        self._waiting = self.sites if ask.to is None else (ask.to,)
        if not set(self._waiting) <= set(self.sites):
            raise ProtocolError(f"{ask.to}: is gone and cannot be asked for {ask.kind!r}")
        return [(site, data) for site in self._waiting]


class SiteProgram(Interface):
    """An algorithm's part at a site: readings, latent vectors and coordinates live here."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Dimensions known so far, such as ``{"slots": N, "rank": k}``: messages must fit them."""

    def answer(self, kind: str, body: Mapping[str, np.ndarray]) -> Reply:
        """Answer one question. What the schema marks ``sum`` is put in fixed point on the way."""


@dataclass(frozen=True)
class SiteState:
    """The run a site is in, its last question, and for which sites its sums were prepared."""

    run: str | None = None
    number: int = 0
    cohort: tuple[str, ...] = ()


class Site:
    """One owner's process, the trust boundary. With ``security`` it hides its answers in sums, and
    gives no sum in the plain."""

    def __init__(
        self,
        name: str,
        program: SiteProgram,
        protocol: Protocol,
        security: SecureClient | None = None,
    ) -> None:
        self.name, self.program, self.state = name, program, SiteState()
        self._protocol, self._security = protocol, security

    def receive(self, data: bytes) -> bytes:
        """Answer a question, or a message of the secure sum; a refused one changes nothing."""
        asked, security = None, self._security
        if data.startswith(SECURE):
            if security is None:
                raise ProtocolError(f"{self.name}: takes no part in secure sums")
            come = security.receive(data)
            if isinstance(come, bytes):
                return come
            asked, data = come, come.question
        question = decode(Question, data, self._protocol, self.program.sizes)
        run, number, kind = question.run, question.number, question.kind
        exchange = self._protocol[kind]
        self._check(question, asked)
        cohort = asked.members if asked and exchange.cohort == "fixes" else self.state.cohort
        self.state = SiteState(run, number, cohort)
        # What the schema marks as a sum goes in fixed point.
        body: dict[str, np.ndarray] = {}
        for name, value in self.program.answer(kind, question.body).items():
            if isinstance(value, Fixed):
                body[name] = value.values
            elif name in exchange.answer and exchange.answer[name].type == "sum":
                body[name] = to_fixed(np.asarray(value, np.float64))
            else:
                body[name] = np.asarray(value)
        if asked is None or security is None:
            return encode(Answer(run, number, kind, self.name, body), self._protocol)
        check_body(body, exchange.answer, {}, kind)
        arrays = [body[name] for name in exchange.answer]
        return security.mask(asked, arrays, whole=exchange.cohort == "whole")

    def _check(self, question: Question, asked: Asked | None) -> None:
        """Refuse a question that may not be answered now."""
        state, kind, exchange = self.state, question.kind, self._protocol[question.kind]
        types = {field.type for field in exchange.answer.values()}
        if question.site not in ("*", self.name):
            raise ProtocolError(f"{self.name}: a question for {question.site} came here")
        if state.run not in (None, question.run):
            raise ProtocolError(f"{self.name}: question of run {question.run!r}, not {state.run!r}")
        if question.number <= state.number:
            raise ProtocolError(f"{self.name}: question {question.number} is old or repeated")
        # Not even beside other fields: what is a sum never leaves this site as it is.
        if asked is None and self._security is not None and "sum" in types:
            raise ProtocolError(f"{self.name}: {kind!r} is answered in secure sums only")
        if asked is not None and types != {"sum"}:
            raise ProtocolError(f"{self.name}: {kind!r} is not answered by sums")
        # What was computed for one cohort is not given to a smaller one.
        if asked is not None and exchange.cohort == "whole" and asked.members != state.cohort:
            lost = ", ".join(sorted(set(state.cohort) - set(asked.members)))
            raise ProtocolError(
                f"{self.name}: {kind!r} is for all of the sites that prepared it; {lost} left"
            )
