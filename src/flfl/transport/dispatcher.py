"""The coordinator's part of a run between machines: who was asked what, who is late."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

from flfl.errors import FLFLError
from flfl.protocol.journal import JournalError
from flfl.protocol.messages import bytes_by_kind, sender
from flfl.protocol.session import Envelope
from flfl.protocol.traffic import Traffic
from flfl.secagg.wire import FORM, question_span
from flfl.transport.link import CoordinatorLink, Heard, Message

_LOG = logging.getLogger("flfl.coordinator")
Tap = Callable[[str, str, bytes], None]


class StalledError(FLFLError):
    """A run that did not end within its deadline."""


class RefusedBySiteError(FLFLError):
    """A site refuses a question that the run cannot do without."""


class Coordinating(Interface):
    """What is conducted: a :class:`~flfl.protocol.session.Coordinator`, or one that
    remembers."""

    @property
    def done(self) -> bool:
        """Whether the program has ended."""

    @property
    def broken(self) -> bool:
        """Whether an error has ended it."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Those that are in the run."""

    def start(self) -> list[Envelope]:
        """The first messages to send."""

    def receive(self, data: bytes) -> list[Envelope]:
        """Take an answer."""

    def absent(self, site: str) -> list[Envelope]:
        """Go on without a site."""

    def can_lose(self, site: str) -> bool:
        """Whether it could."""


@dataclass(frozen=True)
class Patience:
    """How long is waited for whom.

    Attributes
    ----------
    answer_within : seconds that a site has for an answer
    misses : deadlines that it may miss in a row before the run goes on without it
    finish_within : seconds that the whole run has
    quorum : fewer sites than that do not go on: the run pauses until others are back
    """

    answer_within: float = 300.0
    misses: int = 3
    finish_within: float = 86400.0
    quorum: int = 1


@dataclass
class _Asked:
    message: Message
    since: float
    sent: float
    missed: int = 0


class Dispatcher:
    """One run.

    Parameters
    ----------
    again : a site that says it is waiting is not sent its question twice within these seconds
    tap : called with ("up" or "down", site, bytes) for each message
    """

    def __init__(
        self,
        coordinator: Coordinating,
        link: CoordinatorLink,
        run: str,
        traffic: Traffic,
        patience: Patience | None = None,
        tap: Tap | None = None,
        again: float = 1.0,
    ) -> None:
        self.coordinator, self.link, self.run, self.traffic = coordinator, link, run, traffic
        self.patience = patience or Patience()
        self.aside: dict[str, str] = {}
        self.paused = ""
        self.dropped: Counter[str] = Counter()
        self._tap, self._again = tap or _nobody, again
        self._asked: dict[str, _Asked] = {}
        self._shared: Message | None = None
        self._began = time.monotonic()

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Sites that have not answered."""
        return tuple(self._asked)

    def begin(self, without: Sequence[str] = ()) -> None:
        """Send the first messages (of a resumed run: those that are still to be answered).

        ``without`` are sites of the roster that have no part in this run.
        """
        self._began = time.monotonic()
        waiting = dict(self.coordinator.start())
        for site in without:
            waiting.pop(site, None)
            self.aside[site] = "it was not ready when the run began"
            waiting |= dict(self.coordinator.absent(site))
        self._post(list(waiting.items()))

    def take(self, heard: Heard) -> None:
        """Something came from a site."""
        message = heard.message
        if heard.branch == "link":
            # Perhaps it is the broker that has forgotten everything.
            if self._shared is not None:
                self.link.share(self._shared)
            self._post_again(list(self._asked))
        if heard.branch != "from" or message is None:
            return
        if message.kind not in ("here", "answer", "refused"):
            return
        if message.run != self.run:
            self._drop("another run", heard.name)
        elif message.kind == "here":
            self._is_here(heard.name, message.about.get("lacks"))
        else:
            self._answered(heard.name, message)

    def check(self) -> float:
        """Act on deadlines that have passed; returns seconds until the next one.

        Raises
        ------
        StalledError
            When the whole run is late.
        """
        now, patience = time.monotonic(), self.patience
        left = self._began + patience.finish_within - now
        if left <= 0:
            late = ", ".join(self._asked) or "nobody"
            raise StalledError(
                f"the run did not finish within {patience.finish_within:g} s;"
                f" it was waiting for {late}"
            )
        for site, asked in list(self._asked.items()):
            if self._asked.get(site) is asked and now - asked.since >= patience.answer_within:
                self._missed(site, asked, now)
        deadlines = [a.since + patience.answer_within - now for a in self._asked.values()]
        return max(0.0, min([left, *deadlines]))

    def end(self) -> None:
        """Take the shared question back."""
        self.link.unshare()

    # --- answers -----------------------------------------------------------------------------

    def _answered(self, site: str, message: Message) -> None:
        asked = self._asked.get(site)
        if asked is None or message.about.get("re") != asked.message.id:
            # Sent twice by the site or by the broker; it was counted the first time.
            self._drop("repeated", site, logging.DEBUG)
            return
        if message.kind == "refused":
            self._refused(site, str(message.about.get("why", "")))
            return
        if sender(message.data) not in (None, site):
            self._drop("another site's name", site)
            return
        self._tap("up", site, message.data)
        try:
            envelopes = self.coordinator.receive(message.data)
        except FLFLError as error:
            if self.coordinator.broken or isinstance(error, JournalError):
                raise
            self._drop(str(error), site)
            return
        self.traffic.sent_up(bytes_by_kind(message.data))
        del self._asked[site]
        self._post(envelopes)

    def _refused(self, site: str, why: str) -> None:
        if not self._can_lose(site):
            raise RefusedBySiteError(f"{why} (the run cannot go on without {site})")
        self._go_on_without(site, f"it refuses: {why}")

    def _is_here(self, site: str, lacks: str | int | None) -> None:
        if site in self.aside:
            self._tell_aside(site)
        asked, shared = self._asked.get(site), self._shared
        if asked is None or time.monotonic() - asked.sent < self._again:
            return
        if shared is not None and lacks == shared.id:
            # It should have been kept for whoever comes; now it goes to this site alone.
            self.link.tell(site, shared)
        self._post_again([site])

    # --- lateness ----------------------------------------------------------------------------

    def _missed(self, site: str, asked: _Asked, now: float) -> None:
        asked.missed += 1
        asked.since = now
        if asked.missed < self.patience.misses:
            _LOG.warning("%s missed a deadline (%d)", site, asked.missed)
            self._post_again([site])
            return
        total = asked.missed * self.patience.answer_within
        self._set_aside(site, f"no answer for {total:g} s")

    def _set_aside(self, site: str, why: str) -> None:
        if self._can_lose(site):
            self._go_on_without(site, why)
            return
        self.paused = f"waiting for {site} ({why}): the run cannot go on without it"
        _LOG.warning("paused: %s", self.paused)
        self._post_again([site])

    def _can_lose(self, site: str) -> bool:
        enough = len(self.coordinator.sites) - 1 >= self.patience.quorum
        return enough and self.coordinator.can_lose(site)

    def _go_on_without(self, site: str, why: str) -> None:
        self.aside[site] = why
        _LOG.warning("going on without %s: %s", site, why)
        self._asked.pop(site, None)
        self._tell_aside(site)
        self._post(self.coordinator.absent(site))

    def _tell_aside(self, site: str) -> None:
        self.link.tell(site, Message("aside", self.run, {"why": self.aside[site]}))

    # --- questions ---------------------------------------------------------------------------

    def _post(self, envelopes: Sequence[Envelope]) -> None:
        self.paused = ""
        if not envelopes:
            return
        self._share(envelopes)
        now = time.monotonic()
        for site, data in envelopes:
            self.traffic.sent_down(bytes_by_kind(data))
            self._tap("down", site, data)
            message = self._addressed(data)
            self._asked[site] = _Asked(message, now, now)
            self.link.tell(site, message)

    def _share(self, envelopes: Sequence[Envelope]) -> None:
        """What the questions have in common is said once, to all."""
        parts = {_common(data) for _, data in envelopes}
        if len(parts) == 1 and len(envelopes) > 1 and (common := parts.pop()):
            self._shared = Message("shared", self.run, {}, common)
            self.link.share(self._shared)

    def _addressed(self, data: bytes) -> Message:
        shared = self._shared
        if shared is not None:
            start, stop = _span(data)
            if start < stop and data[start:stop] == shared.data:
                about: dict[str, str | int] = {"shared": shared.id, "cut": start}
                return Message("question", self.run, about, data[:start] + data[stop:])
        return Message("question", self.run, {}, data)

    def _post_again(self, sites: Sequence[str]) -> None:
        for site in sites:
            asked = self._asked[site]
            asked.sent = time.monotonic()
            self.link.tell(site, asked.message)

    def _drop(self, why: str, site: str, level: int = logging.WARNING) -> None:
        self.dropped[site] += 1
        _LOG.log(level, "dropped a message of %s: %s", site, why)


def _span(data: bytes) -> tuple[int, int]:
    """Where the part that all sites share stands."""
    return question_span(data) if data.startswith(FORM) else (0, len(data))


def _common(data: bytes) -> bytes:
    start, stop = _span(data)
    return data[start:stop]


def _nobody(direction: str, site: str, data: bytes) -> None:
    """Nobody listens."""
