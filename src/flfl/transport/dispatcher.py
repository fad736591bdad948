"""The coordinator's part of a run between machines: who was asked what, who is late."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from flfl.clock import Clock
from flfl.config import DeadlineSettings
from flfl.errors import FLFLError
from flfl.protocol.journal import JournalError
from flfl.protocol.messages import bytes_by_kind, sender
from flfl.protocol.session import Coordinator, Envelope
from flfl.protocol.traffic import Traffic
from flfl.transport.link import CoordinatorLink, Message, Received

_LOG = logging.getLogger("flfl.coordinator")
_LOOKS = 2.0
"""Seconds between two looks at the deadlines, at the most, of a coordinator that is at work."""


class StalledError(FLFLError):
    """A run that did not end within its deadline."""


class RefusedBySiteError(FLFLError):
    """A site refuses a question that the run cannot do without."""


@dataclass
class _Asked:
    message: Message
    since: float
    sent: float = 0.0
    missed: int = 0


class Dispatcher:
    """The coordinator's side of one run: it sends questions, takes answers, and sets sites aside.

    With fewer sites than ``quorum`` the run pauses until others are back. A site that says it is
    waiting is not sent its question twice within ``again`` seconds.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        link: CoordinatorLink,
        run: str,
        traffic: Traffic,
        deadlines: DeadlineSettings,
        quorum: int = 1,
        again: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        self.coordinator, self.link, self.run, self.traffic = coordinator, link, run, traffic
        self.deadlines, self.quorum = deadlines, quorum
        self.aside: dict[str, str] = {}
        self.paused, self._again = "", again
        self._asked: dict[str, _Asked] = {}
        self._now = (clock or Clock()).monotonic
        self._began = self._looked = self._now()

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Sites that have not answered."""
        return tuple(self._asked)

    def begin(self, without: Sequence[str] = ()) -> None:
        """Send the messages that are still to be answered; ``without`` have no part in this run."""
        self._began = self._looked = self._now()
        waiting = dict(self.coordinator.start())
        for site in without:
            waiting.pop(site, None)
            self.aside[site] = "it was not ready when the run began"
            waiting |= dict(self.coordinator.absent(site))
        self._post(list(waiting.items()))

    def take(self, received: Received) -> None:
        """Something came from a site."""
        message = received.message
        if received.branch == "link":
            # The broker may have forgotten everything.
            self._send(*self._asked)
        if message is None or message.kind not in ("here", "answer", "refused", "left"):
            return
        if message.run != self.run:
            self._drop("another run", received.name)
        elif message.kind == "here":
            self._is_here(received.name)
        elif message.kind == "left":
            self._has_left(received.name, str(message.about.get("why", ""))[:200])
        else:
            self._answered(received.name, message)

    def check(self) -> float:
        """Act on deadlines that have passed (:class:`StalledError` for the whole run's); returns
        seconds until the next one. Time during which this party was not connected, or did not
        look, is nobody else's."""
        now, deadlines = self._now(), self.deadlines
        lost = now - self._looked - (_LOOKS if self.link.connected else 0.0)
        self._looked = now
        if lost > 0:
            self._began += lost
            for asked in self._asked.values():
                asked.since += lost
        left = self._began + deadlines.finish_within - now
        if left <= 0:
            late = f"within {deadlines.finish_within:g} s; it was waiting for"
            raise StalledError(
                f"the run did not finish {late} {', '.join(self._asked) or 'nobody'}"
            )
        for site, asked in list(self._asked.items()):
            if self._asked.get(site) is asked and now - asked.since >= deadlines.answer_within:
                self._missed(site, asked, now)
        due = [asked.since + deadlines.answer_within - now for asked in self._asked.values()]
        return max(0.0, min([left, *due]))

    def _answered(self, site: str, message: Message) -> None:
        asked = self._asked.get(site)
        if asked is None or message.about.get("re") != asked.message.id:
            # Sent twice by the site or by the broker; it was counted the first time.
            self._drop("repeated", site, logging.DEBUG)
            return
        if message.kind == "refused":
            why = str(message.about.get("why", ""))
            if not self._can_lose(site):
                raise RefusedBySiteError(f"{why} (the run cannot go on without {site})")
            self._go_on_without(site, f"it refuses: {why}")
            return
        if sender(message.data) not in (None, site):
            self._drop("another site's name", site)
            return
        try:
            envelopes = self.coordinator.receive(message.data)
        except JournalError:
            raise
        except Exception as error:
            if self.coordinator.broken:
                raise
            # Nothing that a site can send ends the coordinator's process, nor the run.
            self._drop(str(error) or type(error).__name__, site)
            return
        self.traffic.sent_up(bytes_by_kind(message.data))
        del self._asked[site]
        self._post(envelopes)

    def _is_here(self, site: str) -> None:
        if site in self.aside:
            self._tell_aside(site)
        asked = self._asked.get(site)
        if asked is not None and self._now() - asked.sent >= self._again:
            self._send(site)

    def _has_left(self, site: str, why: str) -> None:
        """A site cannot go on with the run."""
        if site in self.coordinator.sites and self._can_lose(site):
            self._go_on_without(site, f"it has left: {why}")
        elif site in self._asked:
            raise RefusedBySiteError(f"{site} has left ({why}), and the run cannot do without it")

    def _missed(self, site: str, asked: _Asked, now: float) -> None:
        asked.missed, asked.since = asked.missed + 1, now
        why = f"no answer for {asked.missed * self.deadlines.answer_within:g} s"
        if asked.missed < self.deadlines.misses:
            _LOG.warning("%s missed a deadline (%d)", site, asked.missed)
        elif self._can_lose(site):
            self._go_on_without(site, why)
            return
        else:
            self.paused = f"waiting for {site} ({why}): the run cannot go on without it"
            _LOG.warning("paused: %s", self.paused)
        self._send(site)

    def _can_lose(self, site: str) -> bool:
        return len(self.coordinator.sites) > self.quorum and self.coordinator.can_lose(site)

    def _go_on_without(self, site: str, why: str) -> None:
        self.aside[site] = why
        _LOG.warning("going on without %s: %s", site, why)
        self._asked.pop(site, None)
        self._tell_aside(site)
        self._post(self.coordinator.absent(site))

    def _tell_aside(self, site: str) -> None:
        self.link.tell(site, Message("aside", self.run, {"why": self.aside[site]}))

    def _post(self, envelopes: Sequence[Envelope]) -> None:
        self.paused = ""
        for site, data in envelopes:
            self.traffic.sent_down(bytes_by_kind(data))
            self._asked[site] = _Asked(Message("question", self.run, {}, data), self._now())
            self._send(site)

    def _send(self, *sites: str) -> None:
        for site in sites:
            self._asked[site].sent = self._now()
            self.link.tell(site, self._asked[site].message)

    def _drop(self, why: str, site: str, level: int = logging.WARNING) -> None:
        self.link.dropped[site] += 1
        _LOG.log(level, "dropped a message of %s: %s", site, why)
