"""Letters: all that one party has to say to another at once, and how a site signs its own.

Where a site can only reply, and every exchange is dear, messages travel together::

    coordinator -> site    network, nonce | announcement, shared part, question
    site -> coordinator    site, status, signature | answer, word that the result is written

A site is known by the key that the roster lists. Its replies are signed with it, over the letter's
nonce and all that the reply says: whoever carries a reply can neither change it nor give one for
another site, and an old one is worth nothing.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from flfl.engines.link import LARGEST_MESSAGE, Heard, Message
from flfl.errors import FLFLError
from flfl.privacy.secure_sum import Identity, Roster, SecureSumError
from flfl.privacy.secure_sum.kdf import digest

_NONCE = 16
_MOST_MESSAGES = 8
"""In one letter: an announcement, a shared part, a question or an answer, few words beside."""
LARGEST_HEAD = 2**18
LARGEST_LETTER = 2 * LARGEST_MESSAGE
AT_HOME = "it cannot answer; its own log says why"
"""What others are told of an error at a site: the error itself may quote a reading or a path."""


class LetterError(FLFLError):
    """A letter that is dropped, with the reason."""


@dataclass(frozen=True)
class Letter:
    """Messages that travel together, under a few words."""

    header: Mapping[str, str]
    messages: tuple[Message, ...] = ()

    def head(self) -> str:
        """All of it but the bytes that the messages carry."""
        rows = [[m.kind, m.run, dict(m.about), len(m.data)] for m in self.messages]
        return json.dumps([dict(self.header), rows])

    def parts(self) -> list[bytes]:
        """The bytes that the messages carry."""
        return [message.data for message in self.messages]


def read_letter(head: str, parts: Sequence[bytes]) -> Letter:
    """The letter back.

    Raises
    ------
    LetterError
        For anything that is not one.

    Examples
    --------
    >>> letter = Letter({"site": "north"}, (Message("answer", "run", {"re": "x"}, b"123"),))
    >>> read_letter(letter.head(), letter.parts()) == letter
    True
    """
    if len(head) > LARGEST_HEAD:
        raise LetterError("the head of a letter is too long")
    try:
        header, rows = json.loads(head)
        messages = [_message(row, part) for row, part in zip(rows, parts, strict=True)]
        if len(messages) > _MOST_MESSAGES or not _texts(header):
            raise LetterError("this is no letter")
    except (ValueError, TypeError, RecursionError):
        raise LetterError("this is no letter") from None
    return Letter(header, tuple(messages))


def _texts(header: Any) -> bool:
    return isinstance(header, dict) and all(type(value) is str for value in header.values())


def _message(row: Any, data: bytes) -> Message:
    kind, run, about, size = row
    if (type(kind), type(run), type(about), type(size)) != (str, str, dict, int):
        raise LetterError("a message must have kind, run, facts and size")
    if not all(type(value) in (str, int) for value in about.values()):
        raise LetterError("a message's facts must be texts and whole numbers")
    if size != len(data) or size > LARGEST_MESSAGE:
        raise LetterError(f"a message of {len(data)} bytes")
    return Message(kind, run, about, data)


def question(network: str, messages: Iterable[Message]) -> Letter:
    """A letter to a site, with a nonce that no other letter has."""
    return Letter({"network": network, "nonce": os.urandom(_NONCE).hex()}, tuple(messages))


def _said(asked: Letter, reply: Letter) -> bytes:
    """All that a reply says, to which letter."""
    header = {name: text for name, text in reply.header.items() if name != "signature"}
    words = [asked.header.get("network", ""), asked.header.get("nonce", "")]
    return digest("reply", *words, Letter(header, reply.messages).head(), *reply.parts())


class ReplyLink:
    """A site's link while it reads one letter: what it says goes into the reply."""

    connected = True

    def __init__(self) -> None:
        self.replies: list[Message] = []
        self.status: dict[str, Any] = {}
        self.dropped: Counter[str] = Counter()

    def next(self, seconds: float) -> Heard | None:
        """Nothing comes but the letter."""
        return None

    def reply(self, message: Message) -> bool:
        """Into the reply. Whoever replies is here: that needs no words."""
        if message.kind != "here":
            self.replies.append(message)
        return True

    def say(self, **status: Any) -> None:
        """Into the reply, too."""
        self.status.update(status)

    def close(self) -> None:
        """The letter is answered."""


class Attending(Interface):
    """A site as a letter finds it."""

    name: str
    network: str
    identity: Identity

    def attend(self, come: Iterable[Heard], link: ReplyLink) -> None:
        """Take what has come, and answer on the link."""


def answer(site: Attending, asked: Letter) -> Letter:
    """A site's signed reply.

    Raises
    ------
    LetterError
        For a letter of another network.
    """
    if asked.header.get("network") != site.network:
        network = asked.header.get("network", "")[:80]
        raise LetterError(f"a letter of network {network!r} came to {site.network!r}")
    link = ReplyLink()
    site.attend([_heard(site.name, message) for message in asked.messages], link)
    header = {"site": site.name, "status": json.dumps(link.status)}
    said = _said(asked, reply := Letter(header, tuple(link.replies)))
    return Letter({**header, "signature": site.identity.sign(said).hex()}, reply.messages)


def unable() -> Letter:
    """The reply of a site that cannot even sign."""
    return Letter({"problem": AT_HOME})


def _heard(name: str, message: Message) -> Heard:
    return Heard("to" if message.kind in ("question", "aside") else "all", name, message)


def check_reply(asked: Letter, reply: Letter, roster: Roster) -> tuple[str, dict[str, Any]]:
    """Who replied, and the status that goes with it.

    Raises
    ------
    LetterError
        For a reply that no site of the roster has signed for this letter, or that tells of trouble.
    """
    if problem := reply.header.get("problem"):
        raise LetterError(problem[:500])
    site = reply.header.get("site", "")
    try:
        signature = bytes.fromhex(reply.header.get("signature", ""))
        roster.verify(site, signature, _said(asked, reply))
        status = json.loads(reply.header.get("status", "{}"))
    except SecureSumError as error:
        raise LetterError(str(error)[:500]) from None
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise LetterError("the reply's signature or status makes no sense")
    return site, status
