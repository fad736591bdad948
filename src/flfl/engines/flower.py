"""Flower carries the messages: the one file that knows ``flwr``.

A Flower message is a *letter*: what one party has to say to another, in one piece, because every
letter starts a process at the site and waits for a poll. A site speaks only in reply.

::

    coordinator -> node    nonce | announcement, shared part, question
    node -> coordinator    site, status, signature | answer, word that the result is written

Nodes have no names. A site is known by the key that the roster lists: every reply is signed with
it, over the letter's nonce and all that the reply says. So a SuperNode that was started again under
another number is recognised, and no node, nor the SuperLink, can answer for a site.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from typing import Protocol as Interface

from flfl.engines.link import LARGEST_MESSAGE, Heard, Message
from flfl.errors import FLFLError, InputError
from flfl.privacy.secure_sum import Identity, Roster, SecureSumError
from flfl.privacy.secure_sum.kdf import digest

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict
    from flwr.app import Message as Letter
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
except ImportError:  # pragma: no cover - the tests have it
    raise InputError("the Flower engine needs flwr", remedy="pip install 'flfl[flower]'") from None

_LOG = logging.getLogger("flfl.flower")
_HEADER = "flfl"
_ACTION = "flfl"
_NONCE = 16
_MOST_MESSAGES = 8
"""In one letter: an announcement, a shared part, a question or answer, and few words beside."""
_LARGEST_TEXT = 2**16
_POLL = 0.2
_LOOK = 2.0
"""Seconds between two looks at replies, and at who is there."""
_RETRY, _LONGEST_RETRY = 2.0, 60.0
"""Seconds before a node is tried again that failed; doubled each time."""
_GOODBYE = 30.0
"""Seconds for the last announcement to reach those who are there."""
AT_HOME = "it cannot answer; its own log says why"
"""What others are told of an error at a site: the error itself may quote a reading or a path."""


class LetterError(FLFLError):
    """A letter that is dropped, with the reason."""


# --- letters -----------------------------------------------------------------------------------


def seal(messages: Iterable[Message], header: Mapping[str, str | bytes]) -> RecordDict:
    """Messages as the content of a Flower message.

    Bytes travel as arrays: Flower cuts those into pieces, and sends one that many nodes get once.

    Examples
    --------
    >>> letter = seal([Message("answer", "run", {"re": "x"}, b"123")], {"site": "north"})
    >>> unseal(letter)
    ({'site': 'north'}, [Message(kind='answer', run='run', about={'re': 'x'})])
    """
    records: dict[str, Any] = {_HEADER: ConfigRecord(dict(header))}
    for number, message in enumerate(messages):
        about = json.dumps(dict(message.about))
        records[str(number)] = ConfigRecord(
            {"kind": message.kind, "run": message.run, "about": about}
        )
        if message.data:
            array = Array("uint8", (len(message.data),), "bytes", message.data)
            records[f"{number} data"] = ArrayRecord({"data": array})
    return RecordDict(records)


def unseal(content: RecordDict) -> tuple[dict[str, str | bytes], list[Message]]:
    """Header and messages of a letter.

    Raises
    ------
    LetterError
        For one that is not of this form, or too large.
    """
    configs, arrays = dict(content.config_records), dict(content.array_records)
    header = dict(configs.pop(_HEADER, {}))
    numbers = [str(number) for number in range(len(configs))]
    if set(configs) != set(numbers) or len(numbers) > _MOST_MESSAGES or content.metric_records:
        raise LetterError("it holds other records than a letter of FLFL")
    if not all(type(value) in (str, bytes) for value in header.values()):
        raise LetterError("its header holds more than texts and bytes")
    messages = [_message(configs[n], arrays.pop(f"{n} data", None)) for n in numbers]
    if arrays:
        raise LetterError("it holds arrays that belong to no message")
    return header, messages  # type: ignore[return-value]


def _message(words: ConfigRecord, carried: ArrayRecord | None) -> Message:
    if set(words) != {"kind", "run", "about"} or not all(type(w) is str for w in words.values()):
        raise LetterError("a message must have kind, run and about, all of them texts")
    kind, run, about = (str(words[name]) for name in ("kind", "run", "about"))
    if len(about) > _LARGEST_TEXT:
        raise LetterError("a message's facts are too long")
    try:
        facts = json.loads(about)
    except (ValueError, RecursionError):
        raise LetterError("a message's facts are not JSON") from None
    if not isinstance(facts, dict) or not all(type(v) in (str, int) for v in facts.values()):
        raise LetterError("a message's facts must be texts and whole numbers")
    data = b""
    if carried is not None:
        if set(carried) != {"data"} or len(carried["data"].data) > LARGEST_MESSAGE:
            raise LetterError(f"a message carries more than one array of {LARGEST_MESSAGE} bytes")
        data = bytes(carried["data"].data)
    return Message(kind, run, facts, data)


def _said(network: str, header: Mapping[str, str | bytes], messages: Sequence[Message]) -> bytes:
    """All that a reply says, as it is signed."""
    parts: list[bytes | str] = ["flower reply", network]
    parts += [header.get(name, b"") for name in ("nonce", "site", "status")]
    for message in messages:
        about = json.dumps(dict(message.about), sort_keys=True)
        parts += [message.kind, message.run, about, message.data]
    return digest(*parts)


# --- the coordinator's side --------------------------------------------------------------------


@dataclass
class _Node:
    """A node, the site that it has proved to be, and the letter that it has not answered yet."""

    number: int
    boot: str
    site: str = ""
    letter: str = ""
    nonce: bytes = b""
    sent: tuple[str, ...] = ()
    told: str = ""
    retry_at: float = 0.0
    retry: float = _RETRY


@dataclass
class _Words:
    """What is to be said: to everyone, with every question, and to each site."""

    announced: Message | None = None
    shared: Message | None = None
    to: dict[str, Message] = field(default_factory=dict)

    def letter(self, site: str) -> list[Message]:
        """All that a process needs which knows nothing but its own disk."""
        own = self.to.get(site)
        words = [self.announced]
        if own is not None and self.shared is not None and own.about.get("shared"):
            words.append(self.shared)
        return [message for message in (*words, own) if message is not None]


class GridLink:
    """The coordinator's link to the sites behind a Flower grid.

    Parameters
    ----------
    grid : Flower's; only pushed to and pulled from, so that every wait here has an end
    network : what the sites' settings call it
    roster : the sites with their keys

    Guarantees
    ----------
    * A node has one letter at a time. What was told to a site is in its letters until one is
      answered, wherever the site appears.
    * Only replies to the letter that was sent, signed with a site's key in the roster, are heard.
    """

    def __init__(
        self, grid: Grid, network: str, roster: Roster, poll: float = _POLL, look: float = _LOOK
    ) -> None:
        self._grid, self._network, self._roster = grid, network, roster
        self._poll, self._look_every = poll, look
        self.boot = os.urandom(6).hex()
        self.dropped: Counter[str] = Counter()
        self._nodes: dict[int, _Node] = {}
        self._home: dict[str, int] = {}
        self._words = _Words()
        self._heard: deque[Heard] = deque()
        self._looked = self._polled = -float("inf")
        self._progress: tuple[Any, ...] = ()

    connected = True

    def wait(self, seconds: float) -> bool:
        """The grid is there as long as this process is."""
        return True

    def tell(self, site: str, message: Message) -> bool:
        """The newest word to a site takes the place of one that it has not had."""
        self._words.to[site] = message
        return True

    def announce(self, message: Message) -> bool:
        """To everyone, at the head of every letter."""
        self._words.announced = message
        return True

    def share(self, message: Message) -> bool:
        """Goes along with the questions that refer to it."""
        self._words.shared = message
        return True

    def unshare(self) -> None:
        """Leave it out of further letters."""
        self._words.shared = None

    def say(self, **status: Any) -> None:
        """Nobody can look on: the log tells how far the run is."""
        progress = tuple(status.get(name) for name in ("phase", "question", "round", "paused"))
        if progress != self._progress and status.get("phase") == "run":
            late = ", ".join(status.get("waiting_for", ())) or "nobody"
            _LOG.info("question %s, round %s: waiting for %s", *progress[1:3], late)
        self._progress = progress

    def say_again(self) -> None:
        """Nobody can write over it."""

    def next(self, seconds: float) -> Heard | None:
        """What came next."""
        until = time.monotonic() + seconds
        while not self._heard:
            self._look()
            self._send()
            self._collect()
            left = until - time.monotonic()
            if self._heard or left <= 0:
                break
            time.sleep(min(self._poll, left))
        return self._heard.popleft() if self._heard else None

    def close(self) -> None:
        """Let those who are there hear the last announcement."""
        last, until = self._words.announced, time.monotonic() + _GOODBYE
        self._words.to.clear()
        while last is not None and time.monotonic() < until:
            self.next(self._poll)
            if all(node.told == last.id for node in self._nodes.values() if node.site):
                break

    # --- who is there ----------------------------------------------------------------------

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < self._look_every:
            return
        self._looked = now
        there = {node.node_id: node.last_activated_at for node in self._grid.get_nodes()}
        for number, node in list(self._nodes.items()):
            if there.get(number) != node.boot:
                self._gone(node)
        for number, boot in there.items():
            if number not in self._nodes:
                # Later nodes stand behind earlier ones: the last to prove itself is a site's home.
                self._nodes[number] = _Node(number, boot)

    def _gone(self, node: _Node) -> None:
        del self._nodes[node.number]
        if self._home.get(node.site) == node.number:
            del self._home[node.site]
            self._status(node, {"state": "gone"})

    def _status(self, node: _Node, status: Mapping[str, Any]) -> None:
        boot = f"{node.number} {node.boot}"
        self._heard.append(Heard("status", node.site, None, {**status, "boot": boot}))

    # --- letters ---------------------------------------------------------------------------

    def _send(self) -> None:
        now, due = time.monotonic(), []
        for node in self._nodes.values():
            if not node.letter and now >= node.retry_at and self._has_news(node):
                due.append(node)
        letters = [self._letter(node) for node in due]
        if not letters:
            return
        ids = list(self._grid.push_messages(letters)) or [""] * len(letters)
        for node, letter in zip(due, ids, strict=True):
            node.letter = letter or ""
            if not letter:
                self._failed(node, "the SuperLink did not take the letter")

    def _has_news(self, node: _Node) -> bool:
        if not node.site:
            return True
        if self._home.setdefault(node.site, node.number) != node.number:
            return False
        announced = self._words.announced
        return node.site in self._words.to or (announced is not None and announced.id != node.told)

    def _letter(self, node: _Node) -> Letter:
        messages = self._words.letter(node.site)
        node.nonce, node.sent = os.urandom(_NONCE), tuple(message.id for message in messages)
        content = seal(messages, {"network": self._network, "nonce": node.nonce})
        return Letter(content, node.number, f"query.{_ACTION}")

    def _collect(self) -> None:
        waiting = {node.letter: node for node in self._nodes.values() if node.letter}
        now = time.monotonic()
        if not waiting or now - self._polled < self._poll:
            return
        self._polled = now
        for reply in self._grid.pull_messages(list(waiting)):
            node = waiting.get(reply.metadata.reply_to_message_id)
            if node is not None:
                node.letter = ""
                self._take(node, reply)

    def _take(self, node: _Node, reply: Letter) -> None:
        if reply.has_error():
            self._failed(node, f"{reply.error.reason} (Flower's error {reply.error.code})")
            return
        try:
            header, messages = unseal(reply.content)
            if problem := header.get("problem"):
                raise LetterError(str(problem)[:500])
            site, status = self._signed(node, header, messages)
        except FLFLError as error:
            self._failed(node, str(error))
            return
        self._arrived(node, site)
        self._status(node, {**status, "state": "here"})
        self._heard += [Heard("from", site, message) for message in messages]

    def _signed(
        self, node: _Node, header: Mapping[str, str | bytes], messages: Sequence[Message]
    ) -> tuple[str, dict[str, Any]]:
        site, signature = header.get("site"), header.get("signature")
        said = {**header, "nonce": node.nonce}
        if not isinstance(site, str) or not isinstance(signature, bytes):
            raise LetterError("the reply is not signed")
        try:
            self._roster.verify(site, signature, _said(self._network, said, messages))
            status = json.loads(str(header.get("status", "{}"))[:_LARGEST_TEXT])
        except SecureSumError as error:
            raise LetterError(str(error)) from None
        except (ValueError, RecursionError):
            status = None
        if not isinstance(status, dict):
            raise LetterError("its status is no JSON object")
        return site, status

    def _arrived(self, node: _Node, site: str) -> None:
        """A good reply: what was in the letter has been said."""
        if site not in self._home or node.site != site:
            _LOG.info("%s is at node %d", site, node.number)
            self._home[site] = node.number
        node.site, node.retry = site, _RETRY
        announced, own = self._words.announced, self._words.to.get(site)
        if announced is not None and announced.id in node.sent:
            node.told = announced.id
        if own is not None and own.id in node.sent:
            del self._words.to[site]

    def _failed(self, node: _Node, why: str) -> None:
        """No answer, or none that counts: what was to be said stays to be said."""
        name = node.site or f"node {node.number}"
        _LOG.warning("%s: %s", name, why)
        self.dropped[name] += 1
        node.retry_at = time.monotonic() + node.retry
        node.retry = min(2 * node.retry, _LONGEST_RETRY)
        if node.site:
            self._status(node, {"state": "here", "problem": why[:500]})


# --- a site's side -----------------------------------------------------------------------------


class ReplyLink:
    """A site's link in a process that lives for one letter: what is said goes into the reply."""

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


Settings = Mapping[str, Any]
OpenSite = Callable[[Settings, Settings, int], AbstractContextManager[Attending]]
"""Opens the site from the node's own settings, the run's, and Flower's number of the run."""
Connect = Callable[[str, Roster], GridLink]
Serve = Callable[[Connect, Settings, int], None]
"""Carries a run: is given what connects, the run's settings, and Flower's number of the run."""


def client_app(open_site: OpenSite) -> ClientApp:
    """The app that Flower starts at a site for every letter."""
    app = ClientApp()

    @app.query(_ACTION)
    def answer(letter: Letter, context: Context) -> Letter:
        try:
            header, messages = unseal(letter.content)
            with open_site(context.node_config, context.run_config, context.run_id) as site:
                content = _answer(site, header, messages)
        except FLFLError as error:
            _LOG.error("%s", error)
            content = seal([], {"problem": AT_HOME})
        except Exception:
            # Flower would send the text of the error to the SuperLink; it may quote a reading.
            _LOG.exception("the letter could not be answered")
            content = seal([], {"problem": AT_HOME})
        return Letter(content, reply_to=letter)

    return app


def _answer(
    site: Attending, header: Mapping[str, str | bytes], messages: Sequence[Message]
) -> RecordDict:
    if header.get("network") != site.network:
        raise LetterError(f"a letter of network {header.get('network')!r}, not {site.network!r}")
    link = ReplyLink()
    site.attend([_heard(site.name, message) for message in messages], link)
    reply: dict[str, str | bytes] = {"site": site.name, "status": json.dumps(link.status)}
    said = {**reply, "nonce": header.get("nonce", b"")}
    reply["signature"] = site.identity.sign(_said(site.network, said, link.replies))
    return seal(link.replies, reply)


def _heard(name: str, message: Message) -> Heard:
    return Heard("to" if message.kind in ("question", "aside") else "all", name, message)


def server_app(serve: Serve) -> ServerApp:
    """The app that Flower starts beside the SuperLink for a run."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        serve(partial(GridLink, grid), context.run_config, context.run_id)

    return app
