"""Flower carries the messages: the one file that knows ``flwr``.

Each Flower message starts a process at a site that opens its state folder, replies and ends. Nodes
have no names: a reply is signed with the key that the roster lists, over the message's nonce and
everything in the reply, so that nobody else can answer for a site or use an old answer.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flfl.codec import CodecError, pack, unpack
from flfl.errors import FLFLError, InputError
from flfl.secagg import Identity, Roster
from flfl.secagg.keys import digest
from flfl.transport.link import COORDINATOR, NOT_TOLD, Message, Received

try:
    from flwr.app import Array, ArrayRecord, RecordDict
    from flwr.app import Message as FlowerMessage
    from flwr.serverapp import Grid
except ImportError:  # pragma: no cover - the tests have it
    raise InputError("Flower needs flwr", remedy="pip install 'flfl[flower]'") from None

_LOG = logging.getLogger("flfl.flower")
ACTION = "flfl"
"""Of the site's app, in Flower's words."""
_RECORD, _NONCE = "flfl", 16
_POLL = 0.5
"""Seconds between two looks at replies, and at which nodes are there."""
_RETRY, _LONGEST_RETRY = 2.0, 60.0
"""Seconds before a node that failed is tried again; doubled each time."""
_AGAIN = 30.0
"""Seconds after which an unanswered announcement (no question) is sent again; doubled each time."""
_GIVE_UP = 120.0
"""Seconds of nothing but failures after which the grid is given up."""
_LAST = 30.0
"""Seconds for the last announcement to reach the sites."""


def seal(data: bytes) -> RecordDict:
    """Bytes as the content of a Flower message: as an array, which Flower cuts into pieces."""
    return RecordDict({_RECORD: ArrayRecord({"": Array("uint8", (len(data),), "bytes", data)})})


def unseal(content: RecordDict) -> bytes:
    """The bytes back; a :class:`CodecError` for other content."""
    arrays = content.array_records.get(_RECORD, ArrayRecord())
    if set(content) != {_RECORD} or set(arrays) != {""}:
        raise CodecError("this is no message of FLFL")
    return bytes(arrays[""].data)


def check_reply(
    data: bytes, network: str, nonce: bytes, roster: Roster
) -> tuple[str, dict[str, str], list[Message]]:
    """Who replied, its status and its messages; an :class:`FLFLError` for a reply that no site of
    the roster has signed for this network and nonce."""
    if not data:
        raise FLFLError(NOT_TOLD)
    try:
        signed, signature = unpack(data)
        site, *asked, status, messages = unpack(signed)
        if asked != [network, nonce] or not all(type(text) is str for text in status.values()):
            raise CodecError("the reply is to another message")
        roster.verify(site, signature, digest("reply", signed))
        return site, status, [Message.from_bytes(message) for message in messages]
    except (ValueError, TypeError, AttributeError):
        raise CodecError("the reply makes no sense, or is to another message") from None


@dataclass
class _Node:
    """A node, the site that it has proved to be, and the messages that it has not answered."""

    number: int
    boot: str
    retry: float
    again: float
    site: str = ""
    told: Message | None = None
    open: dict[str, tuple[bytes, Message]] = field(default_factory=dict)
    retry_at: float = 0.0
    again_at: float = math.inf


class GridLink:
    """The coordinator's link to the sites behind a Flower grid.

    The grid is only pushed to and pulled from, so that every wait here has an end.

    Guarantees
    ----------
    * A node has one message at a time, and a second one only when it is sent the same again.
    * What was told to a site is sent until it is answered, wherever the site appears.
    * Only replies to the message that was sent, signed with a site's key in the roster, are taken.
    """

    def __init__(self, grid: Grid, network: str, roster: Roster, poll: float = _POLL) -> None:
        self._grid, self._network, self._roster, self._poll = grid, network, roster, poll
        self.boot, self.connected = os.urandom(6).hex(), True
        self.dropped: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()
        self._nodes: dict[int, _Node] = {}
        self._home: dict[str, int] = {}
        self._announced: Message | None = None
        self._to: dict[str, Message] = {}
        self._overdue: set[str] = set()
        self._received: deque[Received] = deque()
        self._worked = time.monotonic()

    def tell(self, site: str, message: Message) -> bool:
        """The newest message to a site takes the place of one that it has not had. The same again
        means that the answer is overdue: it may have been lost on the way."""
        if self._to.get(site) == message:
            self._overdue.add(site)
        self._to[site] = message
        return True

    def announce(self, message: Message) -> bool:
        """To every node, before anything else."""
        self._announced = message
        return True

    def say(self, **status: Any) -> None:
        """Nobody else can read a status here: the coordinator's log tells how far the run is."""
        here = {"state": "here", "boot": self.boot}
        self._received.append(Received("status", COORDINATOR, None, here))

    def next(self, seconds: float) -> Received | None:
        """What came next."""
        until = time.monotonic() + seconds
        while not self._received:
            self._look()
            self._send()
            self._collect()
            left = until - time.monotonic()
            if not self._received and left <= 0:
                return None
            time.sleep(0.0 if self._received else min(self._poll, left))
        return self._received.popleft()

    def close(self) -> None:
        """Let those who are there have the last announcement."""
        self._to.clear()
        last, until = self._announced, time.monotonic() + _LAST
        while last is not None and time.monotonic() < until:
            self.next(self._poll)
            if all(self._nodes[number].told == last for number in self._home.values()):
                break

    def _look(self) -> None:
        """Which nodes are there?"""
        there = {node.node_id: node.last_activated_at for node in self._grid.get_nodes()}
        for number, node in list(self._nodes.items()):
            if there.get(number) != node.boot:
                del self._nodes[number]
                if self._home.get(node.site) == number:
                    del self._home[node.site]
                    self._status(node, {"state": "gone"})
        for number, boot in there.items():
            if number not in self._nodes:
                self._nodes[number] = _Node(number, boot, _RETRY, _AGAIN)

    def _due(self, node: _Node) -> Message | None:
        """What is to be sent to a node; of a site's nodes, only to the last that replied."""
        if node.site and self._home.setdefault(node.site, node.number) != node.number:
            return None
        if self._announced is not None and node.told != self._announced:
            return self._announced
        return self._to.get(node.site)

    def _send(self) -> None:
        now = time.monotonic()
        for node in self._nodes.values():
            again = node.site in self._overdue or now >= node.again_at
            message = self._due(node)
            if message is None or now < node.retry_at or (node.open and not again):
                continue
            self._overdue.discard(node.site)
            node.again_at = now + node.again if message is self._announced else math.inf
            node.again *= 2
            nonce = os.urandom(_NONCE)
            content = seal(pack([self._network, nonce, message.to_bytes()]))
            sealed = FlowerMessage(content, node.number, f"query.{ACTION}")
            # One by one: grids differ in what they return for those of many that they do not take.
            if key := next(iter(self._grid.push_messages([sealed])), ""):
                node.open[key] = nonce, message
            else:
                self._failed(node, "the SuperLink did not take the message")

    def _collect(self) -> None:
        now = time.monotonic()
        for node in list(self._nodes.values()):
            for key, asked in list(node.open.items()):
                try:
                    # One by one: a reply that Flower itself cannot read must cost no other's.
                    replies = list(self._grid.pull_messages([key]))
                    self._worked = now
                except Exception as error:
                    if now - self._worked > _GIVE_UP:
                        raise
                    self._failed(node, f"its reply cannot be read ({error})")
                    break
                for reply in replies:
                    self._take(node, *asked, reply)

    def _take(self, node: _Node, nonce: bytes, asked: Message, reply: FlowerMessage) -> None:
        if reply.has_error():
            self._failed(node, f"{reply.error.reason} (Flower's error {reply.error.code})")
            return
        try:
            content = unseal(reply.content)
            site, status, messages = check_reply(content, self._network, nonce, self._roster)
        except FLFLError as error:
            self._failed(node, str(error)[:500])
            return
        if self._home.get(site) != node.number:
            _LOG.info("%s is at node %d", site, node.number)
            self._home = {name: at for name, at in self._home.items() if at != node.number}
            self._home[site] = node.number
        node.site, node.retry, node.again = site, _RETRY, _AGAIN
        node.open.clear()
        if asked == self._announced:
            node.told = asked
        if asked == self._to.get(site):
            del self._to[site]
        self._status(node, {**status, "state": "here"})
        self._received += [Received("from", site, message) for message in messages]

    def _failed(self, node: _Node, why: str) -> None:
        """No answer, or none that counts: what was to be sent stays to be sent."""
        name = node.site or f"node {node.number}"
        _LOG.warning("%s: %s", name, why)
        self.dropped[name] += 1
        node.open.clear()
        node.retry_at = time.monotonic() + node.retry
        node.retry = min(2 * node.retry, _LONGEST_RETRY)
        if node.site:
            self._status(node, {"state": "here", "problem": why[:500]})

    def _status(self, node: _Node, status: Mapping[str, Any]) -> None:
        boot = f"{node.number} {node.boot}"
        self._received.append(Received("status", node.site, None, {**status, "boot": boot}))


class ReplyLink:
    """A site's link while it answers one message: all that it sends goes into the reply."""

    def __init__(self, data: bytes, network: str, name: str, identity: Identity) -> None:
        try:
            self._asked, self._nonce, message = unpack(data)
            came = Message.from_bytes(message)
        except (ValueError, TypeError):
            raise CodecError("this is no message of FLFL") from None
        if self._asked != network:
            raise FLFLError(f"a message of network {self._asked!r:.80} came to {network!r}")
        self.received = Received("to", name, came)
        self._name, self._identity, self.connected = name, identity, True
        self.dropped: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()
        self._messages: list[bytes] = []
        self._status: dict[str, str] = {}

    def next(self, seconds: float) -> Received | None:
        """Nothing comes but the message."""
        return None

    def reply(self, message: Message) -> bool:
        """Into the reply. Whoever replies is here: that needs no message."""
        if message.kind != "here":
            self._messages.append(message.to_bytes())
        return True

    def say(self, **status: Any) -> None:
        """Into the reply, too."""
        self._status.update(status)

    def close(self) -> None:
        """The message is answered."""

    def signed(self) -> bytes:
        """The reply."""
        signed = pack([self._name, self._asked, self._nonce, self._status, self._messages])
        return pack([signed, self._identity.sign(digest("reply", signed))])
