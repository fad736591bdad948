"""What the two sides of a run (``dispatcher``, ``responder``) need of who carries their messages.

A broker and Flower's grid give each party such a link, and carry the same messages.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from typing import Protocol as Interface

from flfl.codec import CodecError, pack, unpack
from flfl.errors import FLFLError

COORDINATOR = "coordinator"
"""The name of the coordinator among the parties; no site may have it."""
NOT_TOLD = "it cannot answer; its own log says why"
"""What others are told of an error at a site: the error itself may quote a reading or a path."""


@dataclass(frozen=True)
class Message:
    """What one party sends to another: its kind (``call``, ``plan``, ``question``, ...), its run,
    small facts about it (texts and whole numbers) and the bytes that it carries."""

    kind: str
    run: str = ""
    about: Mapping[str, str | int] = field(default_factory=dict)
    data: bytes = field(default=b"", repr=False)

    def to_bytes(self) -> bytes:
        """The byte form, the same for the same message."""
        return pack([self.kind, self.run, dict(sorted(self.about.items())), self.data])

    @property
    def id(self) -> str:
        """The same for the same message, and for no other."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:32]

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """The message back; a :class:`CodecError` for anything else.

        Examples
        --------
        >>> message = Message("answer", "run", {"re": "x"}, b"123")
        >>> Message.from_bytes(message.to_bytes()) == message
        True
        """
        value = unpack(data)
        types = [type(part) for part in value] if isinstance(value, list) else []
        if types != [str, str, dict, bytes]:
            raise CodecError("a message must have kind, run, facts and bytes")
        if not all(type(fact) in (str, int) for fact in value[2].values()):
            raise CodecError("a message's facts must be texts and whole numbers")
        return cls(*value)


SIGNATURE = "signature"


def sign(message: Message, by: Callable[[bytes], bytes]) -> Message:
    """The same message with a signature over all of it.

    A certificate says who may write on a topic; a thief of it may, too. What a site answers is
    signed with its identity besides.
    """
    return replace(message, about={**message.about, SIGNATURE: by(_signed(message)).hex()})


def is_signed(message: Message, verify: Callable[[bytes, bytes], None]) -> bool:
    """Whether a message has a signature that ``verify(signature, text)`` accepts."""
    text = replace(message, about={k: v for k, v in message.about.items() if k != SIGNATURE})
    try:
        verify(bytes.fromhex(str(message.about.get(SIGNATURE, ""))), _signed(text))
    except (FLFLError, ValueError):
        return False
    return True


def _signed(message: Message) -> bytes:
    return b"flfl message" + hashlib.sha256(message.to_bytes()).digest()


@dataclass(frozen=True)
class Received:
    """Something that came. Branches are ``to`` (for this site alone), ``all`` (for everyone),
    ``from`` (of a site), ``status`` (of a party) and ``link`` (this party is connected anew).

    ``name`` is from or about whom; ``size`` is what it takes while it waits to be read.
    """

    branch: str
    name: str
    message: Message | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0


class Link(Interface):
    """A party's link. It never raises because of what others send, or because they are away.

    ``dropped`` counts what could not be used, by reason; ``carried`` the bytes ``up`` and ``down``.
    """

    dropped: Counter[str]
    carried: Counter[str]

    @property
    def connected(self) -> bool:
        """Whether others can be reached now."""

    def next(self, seconds: float) -> Received | None:
        """What came next; None when nothing did for so long."""

    def say(self, **status: Any) -> None:
        """Change what others are told of this party, and tell it again."""

    def close(self) -> None:
        """Disconnect."""


class CoordinatorLink(Link, Interface):
    """The coordinator's link."""

    boot: str

    def tell(self, site: str, message: Message) -> bool:
        """Send to one site; False when it was not sent. Who gets no answer asks again."""

    def announce(self, message: Message) -> bool:
        """Send to everyone, also to those who come later, until the next announcement."""


class SiteLink(Link, Interface):
    """A site's link."""

    def reply(self, message: Message) -> bool:
        """Send to the coordinator."""


class SignedLink:
    """A site's link that signs what it replies."""

    def __init__(self, link: SiteLink, by: Callable[[bytes], bytes]) -> None:
        self._link, self._by = link, by

    def reply(self, message: Message) -> bool:
        """Sign and send to the coordinator."""
        return self._link.reply(sign(message, self._by))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)
