"""A site's state machine: it answers questions from its own data, which it never sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol as Interface

import numpy as np

from flfl.federation.coordinator import ProtocolError
from flfl.federation.fixed_point import Fixed, to_fixed
from flfl.federation.messages import Answer, Protocol, Schema, decode_question, encode

Reply = Mapping[str, np.ndarray | float | Fixed]


class SiteProgram(Interface):
    """An algorithm's part at a site: readings, latent vectors and coordinates live here."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Dimensions known so far, such as ``{"slots": N, "rank": k}``: messages must fit them."""

    def answer(self, kind: str, body: Mapping[str, np.ndarray]) -> Reply:
        """Answer one question. What the schema marks ``sum`` is put in fixed point on the way."""

    def recover(self) -> np.ndarray:
        """This site's own series (sensors x slots). Stays at home."""


class Site:
    """One owner's process, the trust boundary.

    Parameters
    ----------
    name : as in the roster
    program : the algorithm's part here
    protocol : the kinds of messages it answers
    """

    def __init__(self, name: str, program: SiteProgram, protocol: Protocol) -> None:
        self.name = name
        self.program = program
        self._protocol = protocol
        self._run: str | None = None
        self._number = 0

    def receive(self, data: bytes) -> bytes:
        """Answer one encoded question.

        Raises
        ------
        MessageError
            When the message is malformed; nothing has changed then.
        ProtocolError
            When it is for another site or run, or not newer than the last one answered.
        """
        question = decode_question(data, self._protocol, self.program.sizes)
        if question.to not in ("*", self.name):
            raise ProtocolError(f"{self.name}: a question for {question.to} came here")
        if self._run not in (None, question.run):
            raise ProtocolError(f"{self.name}: question of run {question.run!r}, not {self._run!r}")
        if question.number <= self._number:
            raise ProtocolError(f"{self.name}: question {question.number} is old or repeated")
        self._run, self._number = question.run, question.number
        body = self.program.answer(question.kind, question.body)
        wire = _to_wire(body, self._protocol[question.kind].answer)
        answer = Answer(question.run, question.number, question.kind, self.name, wire)
        return encode(answer, self._protocol)


def _to_wire(body: Reply, schema: Schema) -> dict[str, np.ndarray]:
    def convert(name: str, value: np.ndarray | float | Fixed) -> np.ndarray:
        if isinstance(value, Fixed):
            return value.values
        if schema[name].type == "sum":
            return to_fixed(np.asarray(value, dtype=np.float64))
        return np.asarray(value)

    return {name: convert(name, value) for name, value in body.items()}
