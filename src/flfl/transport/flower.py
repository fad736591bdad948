"""Flower carries the messages: the one file that knows ``flwr``.

Every Flower message starts a process at a site and waits for a poll, and a site speaks only in
reply: so it carries a parcel (``parcels``). Nodes have no names. Which site a node stands for is
known from the signature of its replies, so a SuperNode that was started again under another number
is recognised, and no node, nor the SuperLink, can answer for a site.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flfl.errors import FLFLError, InputError
from flfl.secagg import Roster
from flfl.transport.link import Heard, Message
from flfl.transport.parcels import Parcel, ParcelError, check_reply, question, read_parcel, unable

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
except ImportError:  # pragma: no cover - the tests have it
    raise InputError("the Flower engine needs flwr", remedy="pip install 'flfl[flower]'") from None

_LOG = logging.getLogger("flfl.flower")
_HEAD, _PARTS = "parcel", "parts"
_ACTION = "flfl"
_KIND = f"query.{_ACTION}"
_POLL = 0.5
_LOOK = 2.0
"""Seconds between two looks at replies, and at who is there."""
_RETRY, _LONGEST_RETRY = 2.0, 60.0
"""Seconds before a node is tried again that failed; doubled each time."""
_AGAIN = 30.0
"""Seconds after which a parcel that holds no question, and so has no deadline of the run's, is
sent again; doubled each time."""
_GIVE_UP = 120.0
"""Seconds that nothing but failures may come of the grid."""
_GOODBYE = 30.0
"""Seconds for the last announcement to reach those who are there."""


def seal(parcel: Parcel) -> RecordDict:
    """A parcel as the content of a Flower message.

    Bytes travel as arrays: Flower cuts those into pieces, and takes what is the same in many
    parcels once.

    Examples
    --------
    >>> parcel = Parcel({"site": "north"}, (Message("answer", "run", {"re": "x"}, b"123"),))
    >>> unseal(seal(parcel)) == parcel
    True
    """
    arrays = {
        str(number): Array("uint8", (len(part),), "bytes", part)
        for number, part in enumerate(parcel.parts())
    }
    head = ConfigRecord({"head": parcel.head()})
    return RecordDict({_HEAD: head, _PARTS: ArrayRecord(arrays)})


def unseal(content: RecordDict) -> Parcel:
    """The parcel back.

    Raises
    ------
    ParcelError
        For the content of something else.
    """
    head = content.config_records.get(_HEAD, ConfigRecord()).get("head")
    arrays = content.array_records.get(_PARTS, ArrayRecord())
    names = [str(number) for number in range(len(arrays))]
    if set(content) != {_HEAD, _PARTS} or not isinstance(head, str) or set(arrays) != set(names):
        raise ParcelError("this is no parcel")
    return read_parcel(head, [arrays[name].data for name in names])


# --- the coordinator's side --------------------------------------------------------------------


@dataclass
class _Node:
    """A node, the site that it has proved to be, and the parcels that it has not answered yet."""

    number: int
    boot: str
    retry: float
    again: float
    site: str = ""
    open: dict[str, Parcel] = field(default_factory=dict)
    told: Message | None = None
    retry_at: float = 0.0
    again_at: float = math.inf


@dataclass
class _Words:
    """What is to be said: to everyone, with every question, and to each site."""

    announced: Message | None = None
    shared: Message | None = None
    to: dict[str, Message] = field(default_factory=dict)

    def parcel(self, site: str) -> list[Message]:
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
    * A node has one parcel at a time, and a second one only when a site is told the same again.
    * What was told to a site is in its parcels until one is answered, wherever the site appears.
    * Only replies to the parcel that was sent, signed with a site's key in the roster, are heard.
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
        self._overdue: set[str] = set()
        self._heard: deque[Heard] = deque()
        self._looked = self._polled = -math.inf
        self._singly, self._worked = False, time.monotonic()
        self._progress: tuple[Any, ...] = ()

    connected = True

    def wait(self, seconds: float) -> bool:
        """The grid is there as long as this process is."""
        return True

    def tell(self, site: str, message: Message) -> bool:
        """The newest word to a site takes the place of one that it has not had.

        The same word again means that the answer is overdue: it may have been lost on the way.
        """
        if self._words.to.get(site) == message:
            self._overdue.add(site)
        self._words.to[site] = message
        return True

    def announce(self, message: Message) -> bool:
        """To everyone, at the head of every parcel."""
        self._words.announced = message
        return True

    def share(self, message: Message) -> bool:
        """Goes along with the questions that refer to it."""
        self._words.shared = message
        return True

    def unshare(self) -> None:
        """Leave it out of further parcels."""
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
            if all(self._nodes[number].told == last for number in self._home.values()):
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
                self._nodes[number] = _Node(number, boot, retry=_RETRY, again=_AGAIN)

    def _gone(self, node: _Node) -> None:
        del self._nodes[node.number]
        if self._home.get(node.site) == node.number:
            del self._home[node.site]
            self._status(node, {"state": "gone"})

    def _status(self, node: _Node, status: Mapping[str, Any]) -> None:
        boot = f"{node.number} {node.boot}"
        self._heard.append(Heard("status", node.site, None, {**status, "boot": boot}))

    # --- parcels ---------------------------------------------------------------------------

    def _send(self) -> None:
        now = time.monotonic()
        for node in self._nodes.values():
            if now < node.retry_at or not self._has_news(node):
                continue
            self._overdue.discard(node.site)
            parcel = question(self._network, self._words.parcel(node.site))
            node.again_at = math.inf if node.site in self._words.to else now + node.again
            node.again *= 2
            # One by one: grids differ in what they return for those of many that they do not take.
            sealed = FlowerMessage(seal(parcel), node.number, _KIND)
            if key := next(iter(self._grid.push_messages([sealed])), ""):
                node.open[key] = parcel
            else:
                self._failed(node, "the SuperLink did not take the parcel")

    def _has_news(self, node: _Node) -> bool:
        overdue = node.site in self._overdue or time.monotonic() >= node.again_at
        if node.open and not overdue:
            return False
        if not node.site:
            return True
        if self._home.setdefault(node.site, node.number) != node.number:
            return False
        announced = self._words.announced
        return node.site in self._words.to or (announced is not None and announced != node.told)

    def _collect(self) -> None:
        waiting = {key: node for node in self._nodes.values() for key in node.open}
        now = time.monotonic()
        if not waiting or now - self._polled < self._poll:
            return
        self._polled = now
        groups = [[key] for key in waiting] if self._singly else [list(waiting)]
        for keys in groups:
            for reply in self._pull(keys, {waiting[key].number for key in keys}):
                node = waiting.get(reply.metadata.reply_to_message_id)
                if node is not None:
                    asked = node.open.pop(reply.metadata.reply_to_message_id, None)
                    if asked is not None:
                        self._take(node, asked, reply)

    def _pull(self, keys: list[str], numbers: set[int]) -> list[FlowerMessage]:
        """Replies to these parcels. One that Flower itself cannot read must cost no other's."""
        try:
            replies = list(self._grid.pull_messages(keys))
        except Exception as error:
            if time.monotonic() - self._worked > _GIVE_UP:
                raise
            self._singly = True
            for number in numbers & set(self._nodes):
                self._failed(self._nodes[number], f"its reply cannot be read ({error})")
            return []
        self._worked = time.monotonic()
        return replies

    def _take(self, node: _Node, asked: Parcel, reply: FlowerMessage) -> None:
        if reply.has_error():
            self._failed(node, f"{reply.error.reason} (Flower's error {reply.error.code})")
            return
        try:
            parcel = unseal(reply.content)
            site, status = check_reply(asked, parcel, self._roster)
        except FLFLError as error:
            self._failed(node, str(error))
            return
        self._arrived(node, site, asked.messages)
        self._status(node, {**status, "state": "here"})
        self._heard += [Heard("from", site, message) for message in parcel.messages]

    def _arrived(self, node: _Node, site: str, said: Sequence[Message]) -> None:
        """A good reply: what was in the parcel has been said, and other parcels are old."""
        node.open.clear()
        if site not in self._home or node.site != site:
            _LOG.info("%s is at node %d", site, node.number)
            if self._home.get(node.site) == node.number:
                del self._home[node.site]
            self._home[site] = node.number
        node.site, node.retry, node.again = site, _RETRY, _AGAIN
        if self._words.announced in said:
            node.told = self._words.announced
        if self._words.to.get(site) in said:
            del self._words.to[site]

    def _failed(self, node: _Node, why: str) -> None:
        """No answer, or none that counts: what was to be said stays to be said."""
        name = node.site or f"node {node.number}"
        _LOG.warning("%s: %s", name, why)
        self.dropped[name] += 1
        node.open.clear()
        node.retry_at = time.monotonic() + node.retry
        node.retry = min(2 * node.retry, _LONGEST_RETRY)
        if node.site:
            self._status(node, {"state": "here", "problem": why[:500]})


Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Where:
    """Where a parcel has come to: the node's own settings, the run's, and the run's number."""

    node: Settings
    run: Settings
    number: int


Answer = Callable[[Where, Parcel], Parcel]


@dataclass(frozen=True)
class Start:
    """How Flower starts a run: its settings and number, the nodes that are there, what connects,
    and whether the nodes are simulated."""

    settings: Settings
    run: int
    nodes: int
    connect: Callable[[str, Roster], GridLink]
    simulated: bool = True


Serve = Callable[[Start], None]


def client_app(answer: Answer) -> ClientApp:
    """The app that Flower starts at a site for every parcel."""
    app = ClientApp()

    @app.query(_ACTION)
    def reply(parcel: FlowerMessage, context: Context) -> FlowerMessage:
        where = Where(context.node_config, context.run_config, context.run_id)
        try:
            answered = answer(where, unseal(parcel.content))
        except FLFLError as error:
            _LOG.error("%s", error)
            answered = unable()
        except Exception:
            # Flower would send the text of the error to the SuperLink; it may quote a reading.
            _LOG.exception("the parcel could not be answered")
            answered = unable()
        return FlowerMessage(seal(answered), reply_to=parcel)

    return app


def server_app(serve: Serve) -> ServerApp:
    """The app that Flower starts beside the SuperLink for a run."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        nodes = len(list(grid.get_node_ids()))
        # A simulation's grid is in memory; nothing else tells an app where it is.
        simulated = type(grid).__name__ != "HttpGrid"
        connect = partial(GridLink, grid)
        serve(Start(context.run_config, context.run_id, nodes, connect, simulated))

    return app
