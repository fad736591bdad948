"""The coordinator's state machine: it carries a program from question to question."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flfl.errors import FLFLError
from flfl.federation import fixed_point
from flfl.federation.messages import Answer, Protocol, Question, decode_answer, encode


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
    """

    total: Mapping[str, np.ndarray]
    by_site: Mapping[str, Mapping[str, np.ndarray]]


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
    """

    def __init__(
        self,
        program: Program,
        protocol: Protocol,
        roster: Sequence[str],
        sizes: Mapping[str, int],
        run: str = "run",
        witness: Witness | None = None,
    ) -> None:
        if len(set(roster)) != len(roster):
            raise ProtocolError("a site is listed twice in the roster")
        self._program = program
        self._protocol = protocol
        self._roster = tuple(roster)
        self._sizes = sizes
        self._run = run
        self._witness = witness
        self._number = 0
        self._ask: Ask | None = None
        self._waiting: tuple[str, ...] = ()
        self._answers: dict[str, Answer] = {}

    @property
    def done(self) -> bool:
        """Whether the program has ended."""
        return self._number > 0 and self._ask is None

    def start(self) -> list[Envelope]:
        """The first messages to send."""
        return self._next(next(self._program, None))

    def receive(self, data: bytes) -> list[Envelope]:
        """Take one site's answer; returns the messages to send now, if any."""
        answer = decode_answer(data, self._protocol, self._sizes)
        self._check(answer)
        self._answers[answer.site] = answer
        if len(self._answers) < len(self._waiting):
            return []
        replies = self._replies()
        if self._witness is not None and self._ask is not None:
            self._witness(self._ask, replies)
        try:
            return self._next(self._program.send(replies))
        except StopIteration:
            return self._next(None)

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
        return Replies(total, rest)

    def _next(self, ask: Ask | None) -> list[Envelope]:
        self._ask = ask
        self._answers = {}
        self._number += 1
        if ask is None:
            self._waiting = ()
            return []
        self._waiting = self._roster if ask.to is None else (ask.to,)
        body = {name: np.asarray(value) for name, value in ask.body.items()}
        question = Question(self._run, self._number, ask.kind, ask.to or "*", body)
        data = encode(question, self._protocol)
        return [(site, data) for site in self._waiting]
