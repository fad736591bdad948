"""A site's part of a run between machines: questions in, answers out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol as Interface

from flfl.protocol.client import Refusal
from flfl.protocol.journal import JournalError
from flfl.protocol.messages import ProtocolError
from flfl.secagg import SecureSumError
from flfl.transport.link import AT_HOME, Message, SiteLink

_PUBLIC = (Refusal, ProtocolError, SecureSumError)
"""Errors that follow from messages alone; the text of any other may hold a reading."""
_TEXT = 500
"""Characters of a reason that are sent at the most."""


def told(error: Exception) -> str:
    """What others are told of an error.

    Examples
    --------
    >>> told(ProtocolError("question 3 is old")), told(ValueError("12.5 at station 7"))
    ('question 3 is old', 'it cannot answer; its own log says why')
    """
    return str(error)[:_TEXT] if isinstance(error, _PUBLIC) else AT_HOME


class Answering(Interface):
    """What answers: a :class:`~flfl.protocol.session.Site`, or one that remembers."""

    def receive(self, data: bytes) -> bytes:
        """Answer one question."""


class Responder:
    """One site in one run.

    Parameters
    ----------
    again : seconds after which a site that hears nothing says that it is waiting
    refused : is given an error that the site raised; raise in it to stop
    """

    def __init__(
        self,
        site: Answering,
        link: SiteLink,
        run: str,
        again: float = 5.0,
        refused: Callable[[Exception], None] | None = None,
    ) -> None:
        self.link = link
        self._site, self._run, self._again = site, run, again
        self._refused = refused or _ignore
        self._shared: dict[str, bytes] = {}
        self._question: Message | None = None
        self._answered: Message | None = None
        self._heard_at = time.monotonic()
        self.answers = 0

    def here(self) -> None:
        """Say that this site is in the run and waits: for its question, or for the part of it
        that all sites share."""
        self._heard_at = time.monotonic()
        about: dict[str, str | int] = {}
        if self._question is not None:
            about["lacks"] = self._question.about.get("shared", "")
        self._send(Message("here", self._run, about))

    def tick(self) -> None:
        """Ask again when nothing was heard for a while."""
        if time.monotonic() - self._heard_at >= self._again:
            self.here()

    def take(self, branch: str, message: Message) -> None:
        """A message of this run that came to this site, or to all."""
        if message.run != self._run:
            self.link.dropped["another run"] += 1
            return
        self._heard_at = time.monotonic()
        if message.kind == "shared":
            self._shared = {message.id: message.data}
        elif branch == "to" and message.kind == "question":
            self._question = message
        if self._question is not None:
            self._answer(self._question)

    def _answer(self, question: Message) -> None:
        if self._answered is not None and self._answered.about["re"] == question.id:
            self._send(self._answered)
            self._question = None
            return
        data = self._whole(question)
        if data is None:
            return
        self._question = None
        try:
            answer = Message("answer", self._run, {"re": question.id}, self._site.receive(data))
            self._answered = answer
            self.answers += 1
        except Exception as error:
            cause = error.__cause__ or error
            if isinstance(cause, JournalError) or getattr(cause, "code", "") == "store damaged":
                # Not a refusal: the disk is full, say, so the answer has not been given.
                raise cause from None
            # Whatever a question makes go wrong, it ends neither the process nor says why.
            refusal = Message("refused", self._run, {"re": question.id, "why": told(error)})
            self._send(refusal)
            self._refused(error)
            return
        self._send(answer)
        self._heard_at = time.monotonic()

    def _whole(self, question: Message) -> bytes | None:
        """The question with the part that all sites share, if that has come."""
        shared, cut = question.about.get("shared", ""), question.about.get("cut", 0)
        if not shared:
            return question.data
        common = self._shared.get(str(shared))
        if common is None or not isinstance(cut, int):
            return None
        return question.data[:cut] + common + question.data[cut:]

    def _send(self, answer: Message) -> None:
        self.link.reply(answer)


def _ignore(error: Exception) -> None:
    """The coordinator has been told."""
