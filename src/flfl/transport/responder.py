"""A site's side of a run between machines: it answers questions, and asks again when none come."""

from __future__ import annotations

from collections.abc import Callable

from flfl.clock import Clock
from flfl.protocol.client import Refusal
from flfl.protocol.journal import DurableSite, JournalError
from flfl.protocol.messages import ProtocolError
from flfl.protocol.session import Site
from flfl.secagg import SecureSumError
from flfl.transport.link import NOT_TOLD, Message, SiteLink

_PUBLIC = (Refusal, ProtocolError, SecureSumError)
"""Errors that follow from messages alone; the text of any other may hold a reading."""


def told(error: Exception) -> str:
    """What others are told of an error, at most 500 characters.

    Examples
    --------
    >>> told(ProtocolError("question 3 is old")), told(ValueError("12.5 at station 7"))
    ('question 3 is old', 'it cannot answer; its own log says why')
    """
    return str(error)[:500] if isinstance(error, _PUBLIC) else NOT_TOLD


class Responder:
    """A site's side of one run: questions in, answers out. After ``again`` seconds without one it
    says that it is waiting; ``refused`` is given an error that the site raised, and may raise."""

    def __init__(
        self,
        site: Site | DurableSite,
        link: SiteLink,
        run: str,
        again: float,
        refused: Callable[[Exception], None],
        clock: Clock | None = None,
    ) -> None:
        self._site, self._link, self._run = site, link, run
        self._again, self._refused = again, refused
        self._answered: Message | None = None
        self._now = (clock or Clock()).monotonic
        self._received_at, self.answers = self._now(), 0

    def here(self) -> None:
        """Say that this site is in the run and waits for its question."""
        self._received_at = self._now()
        self._link.reply(Message("here", self._run))

    def tick(self) -> None:
        """Ask again when nothing was received for a while."""
        if self._now() - self._received_at >= self._again:
            self.here()

    def take(self, question: Message) -> None:
        """Answer a question; the same one again with the same message."""
        if question.run != self._run:
            self._link.dropped["another run"] += 1
            return
        answer = self._answered
        if answer is None or answer.about["re"] != question.id:
            answer = self._answer(question)
        self._link.reply(answer)
        self._received_at = self._now()

    def _answer(self, question: Message) -> Message:
        try:
            data = self._site.receive(question.data)
        except Exception as error:
            cause = error.__cause__ or error
            if isinstance(cause, JournalError) or getattr(cause, "code", "") == "store damaged":
                # Not a refusal: the disk is full, say, so the answer has not been given.
                raise cause from None
            # Whatever a question makes go wrong, it ends neither the process nor says why.
            self._refused(error)
            return Message("refused", self._run, {"re": question.id, "why": told(error)})
        self._answered = Message("answer", self._run, {"re": question.id}, data)
        self.answers += 1
        return self._answered
