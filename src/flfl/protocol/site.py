"""A site's state machine: it answers questions from its own data, which it never sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol as Interface
from typing import runtime_checkable

import numpy as np

from flfl.protocol.coordinator import ProtocolError
from flfl.protocol.fixed_point import Fixed, to_fixed
from flfl.protocol.messages import (
    Answer,
    Protocol,
    Question,
    Schema,
    check_answer,
    decode_question,
    encode,
    is_sum,
)
from flfl.secagg import SecureSite
from flfl.secagg.wire import is_frame, peek

Reply = Mapping[str, np.ndarray | float | Fixed]


class SiteProgram(Interface):
    """An algorithm's part at a site: readings, latent vectors and coordinates live here."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Dimensions known so far, such as ``{"slots": N, "rank": k}``: messages must fit them."""

    def answer(self, kind: str, body: Mapping[str, np.ndarray]) -> Reply:
        """Answer one question. What the schema marks ``sum`` is put in fixed point on the way."""


@runtime_checkable
class KnowsCohort(Interface):
    """A program that wants to know who takes part in a sum that fixes the cohort."""

    def joined(self, sites: tuple[str, ...]) -> None:
        """These sites are in it, this one among them."""


class Site:
    """One owner's process, the trust boundary.

    Parameters
    ----------
    name : as in the roster
    program : the algorithm's part here
    protocol : the kinds of messages it answers
    security : hides this site's answers in sums; then it gives no sum in the plain
    """

    def __init__(
        self,
        name: str,
        program: SiteProgram,
        protocol: Protocol,
        security: SecureSite | None = None,
    ) -> None:
        self.name = name
        self.program = program
        self._protocol = protocol
        self._security = security
        self._run: str | None = None
        self._number = 0
        self._cohort: tuple[str, ...] = ()

    def receive(self, data: bytes) -> bytes:
        """Answer one encoded question, or a message of the secure sum.

        Raises
        ------
        MessageError, SecureSumError
            When the message is malformed or not allowed; nothing has changed then.
        ProtocolError
            When it is for another site or run, or not newer than the last one answered.
        """
        if is_frame(data):
            return self._secure(data)
        question = self._read(data)
        fields = self._protocol[question.kind].answer.values()
        # Not even beside other fields: what is a sum never leaves this site as it is.
        if self._security is not None and any(field.type == "sum" for field in fields):
            raise ProtocolError(f"{self.name}: {question.kind!r} is answered in secure sums only")
        wire = self._answer(question)
        answer = Answer(question.run, question.number, question.kind, self.name, wire)
        return encode(answer, self._protocol)

    def _secure(self, data: bytes) -> bytes:
        if self._security is None:
            raise ProtocolError(f"{self.name}: takes no part in secure sums")
        if peek(data).kind != "ask":
            return self._security.receive(data)
        asked = self._security.open(data)
        question = self._read(asked.question)
        if not is_sum(self._protocol, question.kind):
            raise ProtocolError(f"{self.name}: {question.kind!r} is not answered by sums")
        self._check_cohort(question.kind, asked.members)
        wire = self._answer(question)
        check_answer(wire, self._protocol, question.kind, {})
        arrays = [wire[name] for name in self._protocol[question.kind].answer]
        joined = np.concatenate([np.asarray(array, np.int64).ravel() for array in arrays])
        whole = self._protocol[question.kind].cohort == "whole"
        return self._security.mask(asked, joined, [array.shape for array in arrays], whole=whole)

    def _check_cohort(self, kind: str, members: tuple[str, ...]) -> None:
        """What was computed for one cohort is not given to a smaller one."""
        rule = self._protocol[kind].cohort
        if rule == "fixes":
            self._cohort = members
            if isinstance(self.program, KnowsCohort):
                self.program.joined(members)
        if rule == "whole" and members != self._cohort:
            lost = ", ".join(sorted(set(self._cohort) - set(members)))
            raise ProtocolError(
                f"{self.name}: {kind!r} is for all of the sites that prepared it; {lost} left"
            )

    def _read(self, data: bytes) -> Question:
        question = decode_question(data, self._protocol, self.program.sizes)
        if question.to not in ("*", self.name):
            raise ProtocolError(f"{self.name}: a question for {question.to} came here")
        if self._run not in (None, question.run):
            raise ProtocolError(f"{self.name}: question of run {question.run!r}, not {self._run!r}")
        if question.number <= self._number:
            raise ProtocolError(f"{self.name}: question {question.number} is old or repeated")
        return question

    def _answer(self, question: Question) -> dict[str, np.ndarray]:
        self._run, self._number = question.run, question.number
        body = self.program.answer(question.kind, question.body)
        return _to_wire(body, self._protocol[question.kind].answer)


def _to_wire(body: Reply, schema: Schema) -> dict[str, np.ndarray]:
    def convert(name: str, value: np.ndarray | float | Fixed) -> np.ndarray:
        if isinstance(value, Fixed):
            return value.values
        if schema[name].type == "sum":
            return to_fixed(np.asarray(value, dtype=np.float64))
        return np.asarray(value)

    return {name: convert(name, value) for name, value in body.items()}
