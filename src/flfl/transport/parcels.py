"""Parcels: all that one party has to say to another at once, and how a site signs its own.

Where a site can only reply, and every exchange is dear, messages travel together::

    coordinator -> site    network, nonce | announcement, shared part, question
    site -> coordinator    site, status, signature | answer, word that the result is written

A site is known by the key that the roster lists. Its replies are signed with it, over the parcel's
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

from flfl.errors import FLFLError, InputError
from flfl.secagg import Identity, Roster, SecureSumError
from flfl.secagg.keys import digest
from flfl.transport.link import AT_HOME, LARGEST_MESSAGE, Heard, Message

_NONCE = 16
_MOST_MESSAGES = 8
"""In one parcel: an announcement, a shared part, a question or an answer, few words beside."""
LARGEST_HEAD = 2**18
LARGEST_PARCEL = 2 * LARGEST_MESSAGE


class ParcelError(FLFLError):
    """A parcel that is dropped, with the reason."""


@dataclass(frozen=True)
class Parcel:
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


def read_parcel(head: str, parts: Sequence[bytes]) -> Parcel:
    """The parcel back.

    Raises
    ------
    ParcelError
        For anything that is not one.

    Examples
    --------
    >>> parcel = Parcel({"site": "north"}, (Message("answer", "run", {"re": "x"}, b"123"),))
    >>> read_parcel(parcel.head(), parcel.parts()) == parcel
    True
    """
    if len(head) > LARGEST_HEAD:
        raise ParcelError("the head of a parcel is too long")
    try:
        header, rows = json.loads(head)
        messages = [_message(row, part) for row, part in zip(rows, parts, strict=True)]
        if len(messages) > _MOST_MESSAGES or not _texts(header):
            raise ParcelError("this is no parcel")
    except (ValueError, TypeError, RecursionError):
        raise ParcelError("this is no parcel") from None
    return Parcel(header, tuple(messages))


def _texts(header: Any) -> bool:
    return isinstance(header, dict) and all(type(value) is str for value in header.values())


def _message(row: Any, data: bytes) -> Message:
    kind, run, about, size = row
    if (type(kind), type(run), type(about), type(size)) != (str, str, dict, int):
        raise ParcelError("a message must have kind, run, facts and size")
    if not all(type(value) in (str, int) for value in about.values()):
        raise ParcelError("a message's facts must be texts and whole numbers")
    if size != len(data) or size > LARGEST_MESSAGE:
        raise ParcelError(f"a message of {len(data)} bytes")
    return Message(kind, run, about, data)


def question(network: str, messages: Iterable[Message]) -> Parcel:
    """A parcel to a site, with a nonce that no other parcel has."""
    return Parcel({"network": network, "nonce": os.urandom(_NONCE).hex()}, tuple(messages))


def _said(asked: Parcel, reply: Parcel) -> bytes:
    """All that a reply says, to which parcel."""
    header = {name: text for name, text in reply.header.items() if name != "signature"}
    words = [asked.header.get("network", ""), asked.header.get("nonce", "")]
    return digest("reply", *words, Parcel(header, reply.messages).head(), *reply.parts())


class ReplyLink:
    """A site's link while it reads one parcel: what it says goes into the reply."""

    connected = True

    def __init__(self) -> None:
        self.replies: list[Message] = []
        self.status: dict[str, Any] = {}
        self.dropped: Counter[str] = Counter()

    def next(self, seconds: float) -> Heard | None:
        """Nothing comes but the parcel."""
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
        """The parcel is answered."""


class Answering(Interface):
    """A site as a parcel finds it."""

    name: str
    network: str
    identity: Identity | None

    def handle(self, come: Iterable[Heard], link: ReplyLink) -> None:
        """Take what has come, and answer on the link."""


def answer(site: Answering, asked: Parcel) -> Parcel:
    """A site's signed reply.

    Raises
    ------
    ParcelError
        For a parcel of another network.
    InputError
        For a site without an identity.
    """
    if site.identity is None:
        raise InputError(
            "under Flower a site is known by its identity",
            where=site.name,
            remedy="Make one with `flfl keys site`, and give identity and roster",
        )
    if asked.header.get("network") != site.network:
        network = asked.header.get("network", "")[:80]
        raise ParcelError(f"a parcel of network {network!r} came to {site.network!r}")
    link = ReplyLink()
    site.handle([_heard(site.name, message) for message in asked.messages], link)
    header = {"site": site.name, "status": json.dumps(link.status)}
    said = _said(asked, reply := Parcel(header, tuple(link.replies)))
    return Parcel({**header, "signature": site.identity.sign(said).hex()}, reply.messages)


def unable() -> Parcel:
    """The reply of a site that cannot even sign."""
    return Parcel({"problem": AT_HOME})


def _heard(name: str, message: Message) -> Heard:
    return Heard("to" if message.kind in ("question", "aside") else "all", name, message)


def check_reply(asked: Parcel, reply: Parcel, roster: Roster) -> tuple[str, dict[str, Any]]:
    """Who replied, and the status that goes with it.

    Raises
    ------
    ParcelError
        For a reply that no site of the roster has signed for this parcel, or that tells of trouble.
    """
    if problem := reply.header.get("problem"):
        raise ParcelError(problem[:500])
    site = reply.header.get("site", "")
    try:
        signature = bytes.fromhex(reply.header.get("signature", ""))
        roster.verify(site, signature, _said(asked, reply))
        status = json.loads(reply.header.get("status", "{}"))
    except SecureSumError as error:
        raise ParcelError(str(error)[:500]) from None
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise ParcelError("the reply's signature or status makes no sense")
    return site, status
