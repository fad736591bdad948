"""One party's connection to an MQTT broker: the one file that knows paho-mqtt.

The topics, and who writes where::

    flfl/NETWORK/to/SITE       coordinator to one site
    flfl/NETWORK/from/SITE     one site to the coordinator
    flfl/NETWORK/status/SITE   whether the site is here (retained; its last will says no)
    flfl/NETWORK/all/...       coordinator to everyone (retained): status, plan

``deploy/acl`` lets a site use its own topics only. A message is sent in packets ``[hash of its
bytes, number of the piece, how many pieces, piece]``: sent twice it is the same message.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import secrets
import socket
import ssl
import threading
import time
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from flfl.codec import CodecError, pack, unpack
from flfl.config import BrokerSettings
from flfl.errors import FLFLError, InputError
from flfl.transport.link import COORDINATOR, Message, Received

try:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError:  # pragma: no cover - the tests have it
    paho = None  # type: ignore[assignment]

_LOG = logging.getLogger("flfl.mqtt")
_WINDOW = 32
"""Packets that may be on their way to the broker: more would only wait in memory."""
_LARGEST_STATUS, _LARGEST_NETWORK_STATUS = 2**16, 2**20
_UNREAD = 4
"""Messages of full size that may wait here from one party; what it sends beyond is dropped."""
_RECEIVED_BYTES = 2**12
"""Bytes that anything received takes at the most, besides what it carries."""
_HASH, _HEADER = 16, 64
"""Bytes of a message's hash, and of a packet besides its piece, at the most."""
_MOST_PIECES = 2**16
"""Of one message: small ones cost more memory than they carry."""
_RENEW = 5.0
"""Seconds between two looks for a renewed certificate."""
_STALL = 20.0
"""Seconds after which a broker that takes nothing counts as away."""


class Topics:
    """Topics of one network.

    Examples
    --------
    >>> topics = Topics("north")
    >>> topics.of("from", "a/b"), topics.parse("flfl/north/from/a%2Fb")
    ('flfl/north/from/a%2Fb', ('from', 'a/b'))
    """

    def __init__(self, network: str) -> None:
        self._root = f"flfl/{quote(network, safe='')}"

    def of(self, branch: str, name: str) -> str:
        """The topic of a name on a branch."""
        return f"{self._root}/{branch}/{quote(name, safe='')}"

    def status(self, party: str) -> str:
        """Where a party says whether it is here."""
        return self.of("all", "status") if party == COORDINATOR else self.of("status", party)

    def wanted(self, party: str) -> list[str]:
        """What a party subscribes to."""
        if party != COORDINATOR:
            return [self.of("to", party), f"{self._root}/all/#"]
        return [f"{self._root}/from/+", f"{self._root}/status/+", self.status(COORDINATOR)]

    def parse(self, topic: str) -> tuple[str, str]:
        """The branch of a topic and the name after it (without the number of a piece)."""
        branch, _, rest = topic.removeprefix(self._root + "/").partition("/")
        return branch, unquote(rest.partition("/")[0])


def packets(message: Message, piece: int) -> list[bytes]:
    """The packets of a message, each with at most ``piece`` bytes of it.

    Examples
    --------
    >>> parts = packets(Message("answer", "run", {}, bytes(1000)), piece=400)
    >>> inbox = Inbox(largest=10_000)
    >>> [inbox.add(part) is not None for part in parts]
    [False, False, True]
    """
    data = message.to_bytes()
    key, count = hashlib.sha256(data).digest()[:_HASH], -(-len(data) // piece)
    return [pack([key, n, count, data[n * piece : (n + 1) * piece]]) for n in range(count)]


@dataclass
class _Partial:
    pieces: dict[int, bytes] = field(default_factory=dict)
    size: int = 0


class Inbox:
    """Puts packets of one sender together.

    A message has at most ``largest`` bytes; beyond ``unfinished`` ones the oldest is given up.

    Guarantees
    ----------
    * A message comes out once it is whole, and equals what was sent.
    * Whatever is put in, it holds at most ``unfinished * largest`` bytes.
    """

    def __init__(self, largest: int, unfinished: int = 4) -> None:
        self._largest, self._unfinished = largest, unfinished
        self._partial: OrderedDict[tuple[bytes, int], _Partial] = OrderedDict()

    def add(self, packet: bytes) -> Message | None:
        """Take one packet; the message that it completes, if it does. A :class:`CodecError` when
        the packet, or the message, is damaged or too large."""
        if len(packet) > self._largest + _HEADER:
            raise CodecError(f"a packet of {len(packet)} bytes is too large")
        key, number, count, piece = _read(packet)
        partial = self._partial.setdefault((key, count), _Partial())
        self._partial.move_to_end((key, count))
        if number not in partial.pieces:
            partial.pieces[number] = piece
            partial.size += len(piece)
        if partial.size > self._largest:
            del self._partial[key, count]
            raise CodecError(f"a message of more than {self._largest} bytes")
        while len(self._partial) > self._unfinished:
            self._partial.popitem(last=False)
        if len(partial.pieces) < count:
            return None
        del self._partial[key, count]
        data = b"".join(partial.pieces[n] for n in range(count))
        if hashlib.sha256(data).digest()[:_HASH] != key:
            raise CodecError("the message was damaged on the way")
        return Message.from_bytes(data)


def _read(packet: bytes) -> tuple[bytes, int, int, bytes]:
    value = unpack(packet)
    types = [type(part) for part in value] if isinstance(value, list) else []
    if types != [bytes, int, int, bytes]:
        raise CodecError("this is no packet of a message")
    key, number, count, piece = value
    if len(key) != _HASH or not 0 <= number < count <= _MOST_PIECES or not piece:
        raise CodecError("the numbers of a packet do not fit together")
    return key, number, count, piece


class Link:
    """A party's connection, kept up by itself.

    It never raises because of what others send, or because the broker is away: what cannot be read
    is dropped and counted, what cannot be sent is reported as not sent, and the party asks again.

    ``name`` is the site's, or ``coordinator``. An ``observer`` reads the coordinator's status only,
    sends nothing and leaves no will. ``renewed`` is asked every few seconds whether the party's
    certificate is another one now: the link then connects anew with it.
    """

    def __init__(
        self, broker: BrokerSettings, network: str, name: str, *, observer: bool = False
    ) -> None:
        if paho is None:
            raise InputError("MQTT needs paho-mqtt", remedy="pip install 'flfl[mqtt]'")
        self.name, self.broker, self.topics = name, broker, Topics(network)
        self.boot = uuid.uuid4().hex[:12]
        self.dropped: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()
        self.problem, self._observer = "", observer
        self.renewed: Callable[[], bool] = lambda: False
        # Not what others are told: whoever knew it could have the broker disconnect this party.
        self._id, self._ask_at = f"flfl-{name}-{secrets.token_hex(12)}", 0.0
        self._status: dict[str, Any] = {}
        self._received: queue.Queue[Received] = queue.Queue()
        self._unread: Counter[str] = Counter()
        self._inboxes: dict[tuple[str, str], Inbox] = {}
        self._pending: deque[Any] = deque()
        self._lock, self._up = threading.Lock(), threading.Event()
        self._client = self._new_client()
        self._start()

    def _start(self) -> None:
        self._client.connect_async(self.broker.host, self.broker.port, self.broker.keepalive)
        self._client.loop_start()

    @property
    def connected(self) -> bool:
        """Whether the broker is there now."""
        return self._up.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for the connection."""
        return self._up.wait(seconds)

    def tell(self, site: str, message: Message) -> bool:
        """Send to one site."""
        return self.send(self.topics.of("to", site), message)

    def reply(self, message: Message) -> bool:
        """Send to the coordinator."""
        return self.send(self.topics.of("from", self.name), message)

    def announce(self, message: Message) -> bool:
        """Send to everyone; the broker keeps it for those who come later."""
        return self.send(self.topics.of("all", "plan"), message, retain=True)

    def send(self, topic: str, message: Message, *, retain: bool = False) -> bool:
        """Publish a message; False when the broker is away (then nobody has it, or some pieces).
        A retained one has a topic for each piece: whoever comes later finds all of them."""
        for number, part in enumerate(packets(message, self.broker.piece)):
            if not self._publish(f"{topic}/{number}" if retain else topic, part, retain):
                return False
        return True

    def say(self, **status: Any) -> None:
        """Change this party's status, and tell it again."""
        self._status.update(status)
        if self.connected and not self._observer:
            self._publish_status("here")

    def _publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        while len(self._pending) >= _WINDOW:
            if not self._delivered(self._pending.popleft()):
                return False
        if not self.connected:
            return False
        self._pending.append(self._client.publish(topic, payload, qos=1, retain=retain))
        self.carried["up"] += len(payload)
        return True

    def _publish_status(self, state: str) -> Any:
        document = pack({**self._status, "state": state, "boot": self.boot})
        return self._client.publish(self.topics.status(self.name), document, qos=1, retain=True)

    def _delivered(self, info: Any) -> bool:
        until = time.monotonic() + _STALL
        try:
            while not info.is_published() and self.connected and time.monotonic() < until:
                info.wait_for_publish(0.5)
            return bool(info.is_published())
        except (RuntimeError, ValueError):
            return False

    def close(self) -> None:
        """Say that this party has left, and disconnect."""
        if self.connected and not self._observer:
            self._pending.append(self._publish_status("left"))
            while self._pending and self._delivered(self._pending.popleft()):
                pass
        self._up.clear()
        self._client.disconnect()
        self._client.loop_stop()

    def next(self, seconds: float) -> Received | None:
        """What came next; None when nothing did."""
        if time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _RENEW
            if self.renewed():
                self._connect_anew()
        try:
            received = self._received.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None
        with self._lock:
            self._unread[received.name] -= received.size
        return received

    def _connect_anew(self) -> None:
        """What was on its way is lost with the old connection; parties ask again."""
        self._up.clear()
        self._client.disconnect()
        self._client.loop_stop()
        self._client = self._new_client()
        self._start()

    def _keep(self, received: Received) -> None:
        """Until it is read. Who sends faster than this party reads must not fill its memory."""
        with self._lock:
            if self._unread[received.name] + received.size > _UNREAD * self.broker.largest:
                raise FLFLError("more than this party can read has come")
            self._unread[received.name] += received.size
        self._received.put(received)

    def _on_message(self, _client: Any, _data: Any, packet: Any) -> None:
        # Nothing that anybody sends may end this thread.
        self.carried["down"] += len(packet.payload)
        try:
            if packet.payload:
                self._take(*self.topics.parse(packet.topic), bytes(packet.payload))
        except Exception as error:
            self.dropped["unreadable"] += 1
            self.problem = f"{packet.topic}: {error}"
            _LOG.warning("dropped a packet on %s: %s", packet.topic, error)

    def _take(self, branch: str, name: str, payload: bytes) -> None:
        if branch == "status" or (branch, name) == ("all", "status"):
            who = name if branch == "status" else COORDINATOR
            most = _LARGEST_NETWORK_STATUS if who == COORDINATOR else _LARGEST_STATUS
            if len(payload) > most or not isinstance(status := unpack(payload), dict):
                raise FLFLError(f"a status of {len(payload)} bytes that is none")
            self._keep(Received("status", who, None, status, len(payload) + _RECEIVED_BYTES))
            return
        inbox = self._inboxes.setdefault((branch, name), Inbox(self.broker.largest))
        if (message := inbox.add(payload)) is not None:
            self._keep(Received(branch, name, message, size=len(message.data) + _RECEIVED_BYTES))

    def _new_client(self) -> Any:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._id,
            clean_session=True,
            protocol=paho.MQTTv311,
        )
        client.max_inflight_messages_set(_WINDOW)
        client.reconnect_delay_set(1, 8)
        if not self.broker.plaintext:
            client.tls_set_context(_tls(self.broker))
        if not self._observer:
            will = pack({"state": "gone", "boot": self.boot})
            client.will_set(self.topics.status(self.name), will, 1, True)
        client.on_connect, client.on_message = self._on_connect, self._on_message
        client.on_connect_fail, client.on_subscribe = self._on_connect_fail, self._on_subscribe
        client.on_disconnect, client.on_socket_open = self._on_disconnect, _without_delay
        return client

    def _on_connect(self, client: Any, _data: Any, _flags: Any, code: Any, _facts: Any) -> None:
        if code.is_failure:
            self.problem = f"the broker refuses the connection: {code}"
            _LOG.warning("%s", self.problem)
            return
        observed = [self.topics.status(COORDINATOR)]
        wanted = observed if self._observer else self.topics.wanted(self.name)
        client.subscribe([(topic, 1) for topic in wanted])

    def _on_subscribe(self, _client: Any, _data: Any, _mid: Any, codes: Any, _facts: Any) -> None:
        """Connected is who has subscribed: from now on nothing sent to this party is lost."""
        if any(code.is_failure for code in codes):
            _LOG.warning("the broker does not let this party read all that it should")
        self._pending.clear()
        self._up.set()
        self.problem = ""
        self.say()
        self._received.put(Received("link", self.name))

    def _on_connect_fail(self, _client: Any, _data: Any) -> None:
        why = "it does not answer, or refuses this party's certificate"
        if not self.problem:
            _LOG.warning("the broker at %s:%d: %s", self.broker.host, self.broker.port, why)
        self.problem = why

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, code: Any, _facts: Any) -> None:
        if self._up.is_set():
            _LOG.warning("the connection to the broker is lost: %s", code)
        elif code.is_failure and not self.problem:
            # With TLS 1.3 a client has connected before the server looks at its certificate.
            self.problem = "the broker ends the connection: a revoked certificate, perhaps"
            _LOG.warning("%s; the broker's log says why", self.problem)
        self._up.clear()


@dataclass(frozen=True)
class Rights:
    """What a broker lets a party do: write its ``own`` topic, and that of ``others``; ``status`` is
    what the coordinator last said, None where it was never here."""

    own: bool
    others: bool
    status: dict[str, Any] | None


def probe(broker: BrokerSettings, network: str, name: str, seconds: float = 10.0) -> Rights:
    """Try a broker as a party, without its status or anybody's message being touched. An
    :class:`InputError` says why it cannot be used."""
    if paho is None:
        raise InputError("MQTT needs paho-mqtt", remedy="pip install 'flfl[mqtt]'")
    where, context = f"{broker.host}:{broker.port}", None if broker.plaintext else _tls(broker)
    _try_connection(broker, context, where, seconds)
    topics, heard = Topics(network), queue.Queue[tuple[str, Any]]()
    kept = list[Any]()
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    if context is not None:
        client.tls_set_context(context)
    client.on_connect = lambda _c, _d, _f, code, _p: heard.put(("connected", code))
    client.on_publish = lambda _c, _d, _mid, code, _p: heard.put(("published", code))
    client.on_message = lambda _c, _d, packet: heard.put(("status", bytes(packet.payload)))
    client.on_subscribe = lambda _c, _d, _mid, codes, _p: heard.put(("subscribed", codes))
    client.on_disconnect = lambda _c, _d, _f, code, _p: heard.put(("lost", code))

    def wait(what: str, within: float = seconds) -> Any:
        until = time.monotonic() + within
        with suppress(queue.Empty):
            while (left := until - time.monotonic()) > 0:
                found, value = heard.get(timeout=left)
                if found == "status":
                    kept.append(value)
                if found == what:
                    return value
                if found == "lost":
                    break
        raise InputError(
            "the broker ends the connection, or does not answer",
            where=where,
            remedy="The broker's log says why: a revoked certificate, perhaps, or no MQTT 5",
        )

    own, other = ("to", "check") if name == COORDINATOR else ("from", name), ("from", "check")
    try:
        client.connect(broker.host, broker.port, broker.keepalive)
        client.loop_start()
        if (code := wait("connected")).is_failure:
            remedy = "Give the broker this party's certificate, or rights"
            raise InputError(f"the broker refuses: {code}", where=where, remedy=remedy)
        client.subscribe(topics.status(COORDINATOR), 1)
        wait("subscribed")
        allowed: dict[tuple[str, str], bool] = {}
        for topic in (own, other):  # the last is refused, and some brokers then hang up
            client.publish(topics.of(*topic), packets(Message("check"), 1024)[0], qos=1)
            allowed[topic] = not wait("published").is_failure
        # What the broker keeps has come before that, but from some.
        with suppress(InputError):
            if not kept:
                wait("status", 2.0)
    finally:
        client.disconnect()
        client.loop_stop()
    status = None
    with suppress(CodecError):
        status = unpack(kept[-1]) if kept else None
    return Rights(allowed[own], allowed[other], status if isinstance(status, dict) else None)


def _try_connection(
    broker: BrokerSettings, context: ssl.SSLContext | None, where: str, seconds: float
) -> None:
    """Reach the broker, and see that it is the one that its certificate names."""
    try:
        with socket.create_connection((broker.host, broker.port), seconds) as plain:
            if context is not None:
                context.wrap_socket(plain, server_hostname=broker.host).close()
    except socket.gaierror:
        problem, remedy = "there is no machine of this name", "Check host and this machine's DNS"
    except ssl.SSLCertVerificationError as error:
        problem = f"the broker's certificate is not trusted ({error.verify_message})"
        remedy = "Check authority; the broker's certificate must name this host (`--host`)"
    except ssl.SSLError as error:
        problem = f"there is no TLS with it ({error.reason})"
        remedy = "Check port: 8883 is usual for TLS"
    except OSError as error:
        problem = f"it cannot be reached ({error.strerror or error})"
        remedy = "Check port and firewall, and that the broker runs"
    else:
        return
    raise InputError(problem, where=where, remedy=remedy)


def _without_delay(_client: Any, _data: Any, connection: Any) -> None:
    """Small packets leave when they are written: a question's answer waits for nothing."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _tls(broker: BrokerSettings) -> ssl.SSLContext:
    authority, certificate, key = map(str, (broker.authority, broker.certificate, broker.key))
    for path in (authority, certificate, key):
        if not Path(path).is_file():
            raise InputError("there is no such file", where=path, remedy="See `flfl keys`")
    try:
        context = ssl.create_default_context(cafile=authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise InputError(f"the certificate cannot be used ({error})", where=certificate) from None
    return context
