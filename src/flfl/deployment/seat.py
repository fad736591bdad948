"""A site that answers letters: in Flower's own process, or behind a door in the owner's."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flfl.deployment.site import SiteService, Tables
from flfl.engines.door import Door, hand_out
from flfl.engines.letters import Letter, ReplyLink, answer, unable
from flfl.engines.link import Heard
from flfl.errors import FLFLError, InputError
from flfl.federation.journal import JournalError

_LOG = logging.getLogger("flfl.site")


class Seat:
    """A site's service as letters find it."""

    def __init__(self, service: SiteService) -> None:
        if service.identity is None:
            raise InputError(
                "under Flower a site is known by its identity",
                where=str(service.path),
                remedy="Make one with `flfl keys site`, and give identity and roster",
            )
        self.name, self.network = service.config.name, service.config.network
        self.identity, self.service = service.identity, service

    def attend(self, come: Iterable[Heard], link: ReplyLink) -> None:
        """Take what has come."""
        self.service.attend(come, link)


@contextmanager
def open_seat(path: Path, tables: Tables | None = None, patience: float = 0.0) -> Iterator[Seat]:
    """The site that the settings at ``path`` describe; see :class:`SiteService`."""
    service = SiteService(path, tables, patience)
    try:
        yield Seat(service)
    finally:
        service.close()


def serve_door(
    service: SiteService, path: Path, once: bool = False, idle: float = math.inf
) -> None:
    """Answer the letters that come to a door at ``path``, until stopped.

    Parameters
    ----------
    once : also end when a run is over
    idle : also end when no letter has come for so many seconds, or when the settings have changed

    Raises
    ------
    JournalError
        When an answer cannot be written down; the run goes on when there is room again.
    """
    door = None
    try:
        seat, door = Seat(service), Door(path)
        service.open_metrics()
        last, settings = time.monotonic(), _content(service.path)
        while not service.stopping and time.monotonic() - last < idle:
            with door.visit(0.5) as come:
                if come is not None:
                    letter, caller = come
                    if idle < math.inf and _content(service.path) != settings:
                        # Nobody knows that this process stayed: the next one reads them.
                        hand_out(unable(), caller)
                        break
                    hand_out(_reply(seat, letter), caller)
                    last = time.monotonic()
            if not door.found:
                _LOG.warning("%s was removed: opened again", path)
                door.close()
                door = Door(path)
            service.write_metrics()
            if once and service.runs and service.agreement is None:
                break
    finally:
        if door is not None:
            door.close()
        service.close()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _reply(seat: Seat, letter: Letter) -> Letter:
    try:
        return answer(seat, letter)
    except JournalError:
        raise
    except FLFLError as error:
        _LOG.error("%s", error)
    except Exception:
        # No letter ends the owner's process.
        _LOG.exception("the letter could not be answered")
    return unable()
