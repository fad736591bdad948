"""One coordinator a network: who is at work answers another one that comes."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Mapping
from typing import Any

from flfl.transport.link import COORDINATOR, CoordinatorLink, Received

_LOG = logging.getLogger("flfl.coordinator")
_SECONDS = 60.0
"""In which a coordinator that is at work answers another one."""


class Lease:
    """Whether this coordinator may work. ``holder`` is the same for all processes of one state
    folder: a process that was killed is no rival."""

    def __init__(self, holder: str, link: CoordinatorLink) -> None:
        self.holder, self.claimed, self._link = holder, False, link
        self._rivals: Counter[str] = Counter()
        self._until: float | None = None

    def ask(self) -> None:
        """Say that this one is here; one that is at work answers."""
        where = f"{socket.gethostname()}, process {os.getpid()}"
        self._link.say(holder=self.holder, where=where)

    def rival(self, received: Received | None, now: float) -> str:
        """Where another one is at work, if one has answered; claims the work when none has."""
        boot = None if received is None else str(received.status.get("boot", ""))
        if received is not None and received.name == COORDINATOR and boot == self._link.boot:
            # What was said before may be of one that is gone; what comes now is an answer.
            self._until = self._until or now + _SECONDS
            self._rivals = Counter(dict.fromkeys(self._rivals, 0))
        answers = self._rivals.items() if self._until is not None else ()
        if found := next((who for who, said in answers if said), ""):
            return found
        self.claimed = self._until is not None and (not self._rivals or now >= self._until)
        return ""

    def hears(self, status: Mapping[str, Any]) -> None:
        """What a coordinator says of itself: this one, one that is gone, or another one."""
        boot, state = str(status.get("boot", "")), status.get("state")
        if boot == self._link.boot:
            return
        if state != "here":
            # The broker has word of an earlier process only now.
            self._rivals.clear()
            self._link.say()
        elif status.get("holder") != self.holder:
            where = f"{status.get('where', 'unknown')}, start {boot}"[:120]
            self._rivals[where] += 1
            if self.claimed:
                _LOG.warning("another coordinator is, or just was, at work: %s", where)
                self._link.say()
