"""What the two sides of a run need of whoever carries their messages.

An engine between machines gives each party a link. ``dispatcher`` and ``responder`` are written
against links alone: a broker and Flower's grid carry the same messages between the same parties.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Protocol as Interface

COORDINATOR = "coordinator"
"""The name of the coordinator among the parties; no site may have it."""
LARGEST_MESSAGE = 2**26
"""Bytes of a message, unless told otherwise: a release of 5,000 slots is 2.6 MB at the most."""
AT_HOME = "it cannot answer; its own log says why"
"""What others are told of an error at a site: the error itself may quote a reading or a path."""


@dataclass(frozen=True)
class Message:
    """What one party says to another.

    Attributes
    ----------
    kind : ``question``, ``shared``, ``answer``, ``plan``, ...
    run : the run it belongs to; empty outside of runs
    about : small facts (texts and whole numbers)
    data : the bytes that it carries
    """

    kind: str
    run: str = ""
    about: Mapping[str, str | int] = field(default_factory=dict)
    data: bytes = field(default=b"", repr=False)

    @property
    def id(self) -> str:
        """The same for the same message, and for no other."""
        head = json.dumps([self.kind, self.run, dict(self.about)], sort_keys=True)
        return hashlib.sha256(head.encode() + b"\0" + self.data).hexdigest()[:32]


@dataclass(frozen=True)
class Heard:
    """Something that came: a message on a branch, from or about whom; or, with no message, that
    this party is connected anew (``branch`` is then ``"link"``). ``size`` is what it takes while
    it waits to be read.

    Branches are ``to`` (for this site alone), ``all`` (for everyone), ``from`` (of a site) and
    ``status`` (who is here, with what to say).
    """

    branch: str
    name: str
    message: Message | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0


class Link(Interface):
    """A party's link. It never raises because of what others send, or because they are away."""

    dropped: Counter[str]

    @property
    def connected(self) -> bool:
        """Whether others can be reached now."""

    def next(self, seconds: float) -> Heard | None:
        """What came next; None when nothing did for so long."""

    def say(self, **status: Any) -> None:
        """Change what others are told of this party."""

    def close(self) -> None:
        """Say goodbye."""


class CoordinatorLink(Link, Interface):
    """The coordinator's link."""

    boot: str

    def wait(self, seconds: float) -> bool:
        """Wait until others can be reached."""

    def tell(self, site: str, message: Message) -> bool:
        """Say something to one site; False when it was not sent. Who gets no answer asks again."""

    def announce(self, message: Message) -> bool:
        """Say something to everyone, also to those who come later, until the next announcement."""

    def share(self, message: Message) -> bool:
        """Give everyone what the coming questions have in common, until the next such part."""

    def unshare(self) -> None:
        """Take back what was shared."""

    def say_again(self) -> None:
        """Repeat this party's status: somebody has written over it."""


class SiteLink(Link, Interface):
    """A site's link."""

    def reply(self, message: Message) -> bool:
        """Say something to the coordinator."""
