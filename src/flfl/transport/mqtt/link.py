"""One party's connection to the broker: the one file that knows paho-mqtt.

A link never raises because of what others send, or because the broker is away: what cannot be read
is dropped and counted, what cannot be sent is reported as not sent, and the party asks again.
"""

from __future__ import annotations

import json
import logging
import queue
import socket
import ssl
import threading
import time
import uuid
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flfl.errors import FLFLError, InputError
from flfl.transport.link import COORDINATOR, LARGEST_MESSAGE, Heard, Message
from flfl.transport.mqtt.packets import PIECE, Inbox, packets
from flfl.transport.mqtt.topics import Topics

try:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError:  # pragma: no cover - the tests have it
    paho = None  # type: ignore[assignment]

_LOG = logging.getLogger("flfl.mqtt")
_WINDOW = 32
"""Packets that may be on their way to the broker: more would only wait in memory."""
_LARGEST_STATUS = 2**16
_LARGEST_NETWORK_STATUS = 2**20
_UNREAD = 4
"""Messages of full size that may wait here from one party; what it sends beyond is dropped."""
_HEARD_BYTES = 2**12
"""Bytes that anything heard takes at the most, besides what it carries."""
_STALL = 20.0
"""Seconds after which a broker that takes nothing counts as away."""


@dataclass(frozen=True)
class Certificates:
    """Files of a TLS connection: the authority, and this party's certificate and key."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Broker:
    """Where the broker is and how it is spoken to.

    Attributes
    ----------
    certificates : None speaks in the plain, for a broker on the same machine only
    protocol : 5, 3 (for 3.1.1), or 0: 5 where the broker knows it
    piece : bytes of a message in one packet at the most
    compress : whether messages are sent through zstd
    """

    host: str = "localhost"
    port: int = 8883
    certificates: Certificates | None = None
    protocol: int = 0
    keepalive: int = 20
    piece: int = PIECE
    largest: int = LARGEST_MESSAGE
    compress: bool = False


class Link:
    """A party's connection, kept up by itself.

    Parameters
    ----------
    name : of the site, or ``coordinator``
    network : names the topic tree
    observer : only looks on: hears the coordinator's status, says nothing and leaves no will
    """

    def __init__(self, broker: Broker, network: str, name: str, *, observer: bool = False) -> None:
        if paho is None:
            raise InputError("the MQTT engine needs paho-mqtt", remedy="pip install 'flfl[mqtt]'")
        self.name, self.broker, self.topics = name, broker, Topics(network)
        self.boot = uuid.uuid4().hex[:12]
        self.dropped: Counter[str] = Counter()
        self.problem = ""
        self._status: dict[str, Any] = {}
        self._observer = observer
        self._heard: queue.Queue[Heard] = queue.Queue()
        self._unread: Counter[str] = Counter()
        self._inboxes: dict[tuple[str, str], Inbox] = {}
        self._pending: deque[Any] = deque()
        self._lock = threading.Lock()
        self._up = threading.Event()
        self._piece = broker.piece
        self._shared_pieces = 0
        self._protocol = broker.protocol or 5
        self._connect()

    # --- sending -----------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether the broker is there now."""
        return self._up.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for the connection."""
        return self._up.wait(seconds)

    def send(self, topic: str, message: Message, *, retain: bool = False) -> bool:
        """Publish a message; False when the broker is away (then nobody has it, or some pieces).

        A retained message has a topic for each of its pieces, so that whoever comes later finds
        all of them.
        """
        parts = packets(message, self._piece, self.broker.compress)
        for number, part in enumerate(parts):
            if not self._publish(f"{topic}/{number}" if retain else topic, part, retain):
                return False
        return True

    def tell(self, site: str, message: Message) -> bool:
        """To one site."""
        return self.send(self.topics.to_site(site), message)

    def reply(self, message: Message) -> bool:
        """A site's word to the coordinator."""
        return self.send(self.topics.from_site(self.name), message)

    def announce(self, message: Message) -> bool:
        """To everyone; the broker keeps it for those who come later."""
        return self.send(self.topics.everyone("plan"), message, retain=True)

    def share(self, message: Message) -> bool:
        """What questions have in common is published once, for all, and kept by the broker."""
        count = len(packets(message, self._piece, self.broker.compress))
        self._shared_pieces = max(self._shared_pieces, count)
        return self.send(self.topics.everyone("shared"), message, retain=True)

    def unshare(self) -> None:
        """Take it back, with the pieces of longer ones that came before."""
        for number in range(self._shared_pieces):
            self._publish(f"{self.topics.everyone('shared')}/{number}", b"", True)
        self._shared_pieces = 0

    def say(self, **status: Any) -> None:
        """Change this party's status."""
        self._status.update(status)
        if self.connected:
            self._publish_status()

    def say_again(self) -> None:
        """Repeat this party's status: somebody has written over it."""
        if self.connected:
            self._publish_status()

    def _publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        while len(self._pending) >= _WINDOW:
            oldest = self._pending.popleft()
            if not self._delivered(oldest):
                return False
        if not self.connected:
            return False
        self._pending.append(self._client.publish(topic, payload, qos=1, retain=retain))
        return True

    def _delivered(self, info: Any) -> bool:
        until = time.monotonic() + _STALL
        while not info.is_published():
            if not self.connected or time.monotonic() > until:
                return False
            try:
                info.wait_for_publish(0.5)
            except (RuntimeError, ValueError):
                return False
        return True

    def _publish_status(self) -> None:
        if self._observer:
            return
        document = {"state": "here", "boot": self.boot, **self._status}
        self._client.publish(self._own_status, json.dumps(document).encode(), qos=1, retain=True)

    @property
    def _own_status(self) -> str:
        if self.name == COORDINATOR:
            return self.topics.everyone("status")
        return self.topics.status(self.name)

    # --- receiving ---------------------------------------------------------------------------

    def next(self, seconds: float) -> Heard | None:
        """What came next; None when nothing did."""
        try:
            heard = self._heard.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None
        with self._lock:
            self._unread[heard.name] -= heard.size
        return heard

    def _keep(self, heard: Heard) -> None:
        """Until it is read. Who sends faster than this party reads must not fill its memory."""
        with self._lock:
            if self._unread[heard.name] + heard.size > _UNREAD * self.broker.largest:
                raise FLFLError("more than this party can read has come")
            self._unread[heard.name] += heard.size
        self._heard.put(heard)

    def close(self) -> None:
        """Say goodbye and disconnect."""
        if self.connected and not self._observer:
            said = json.dumps({**self._status, "state": "left"}).encode()
            self._pending.append(self._client.publish(self._own_status, said, qos=1, retain=True))
            while self._pending and self._delivered(self._pending.popleft()):
                pass
        self._up.clear()
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, _client: Any, _data: Any, packet: Any) -> None:
        # Nothing that anybody sends may end this thread.
        try:
            self._take(packet.topic, bytes(packet.payload))
        except FLFLError as error:
            self._drop(str(error), packet.topic)
        except Exception as error:
            self._drop(f"{type(error).__name__}: {error}", packet.topic)

    def _take(self, topic: str, payload: bytes) -> None:
        branch, name = self.topics.parse(topic)
        if not payload:
            return
        if branch == "status" or (branch == "all" and name == "status"):
            who = name if branch == "status" else COORDINATOR
            most = _LARGEST_NETWORK_STATUS if who == COORDINATOR else _LARGEST_STATUS
            if len(payload) > most:
                raise FLFLError(f"a status of {len(payload)} bytes")
            document = json.loads(payload)
            if not isinstance(document, dict):
                raise FLFLError("a status that is no JSON object")
            self._keep(Heard("status", who, None, document, len(payload) + _HEARD_BYTES))
            return
        inbox = self._inboxes.setdefault((branch, name), Inbox(self.broker.largest))
        message = inbox.add(payload)
        if message is not None:
            self._keep(Heard(branch, name, message, size=len(message.data) + _HEARD_BYTES))

    def _drop(self, why: str, topic: str) -> None:
        self.dropped["unreadable"] += 1
        self.problem = f"{topic}: {why}"
        _LOG.warning("dropped a packet on %s: %s", topic, why)

    # --- connecting --------------------------------------------------------------------------

    def _connect(self) -> None:
        version = paho.MQTTv5 if self._protocol == 5 else paho.MQTTv311
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"flfl-{self.name}-{self.boot}",
            clean_session=None if self._protocol == 5 else True,
            protocol=version,
        )
        client.max_inflight_messages_set(_WINDOW)
        client.reconnect_delay_set(1, 8)
        if self.broker.certificates is not None:
            client.tls_set_context(_tls(self.broker.certificates))
        if not self._observer:
            will = {"state": "gone", "boot": self.boot}
            client.will_set(self._own_status, json.dumps(will).encode(), 1, True)
        client.on_connect, client.on_message = self._on_connect, self._on_message
        client.on_connect_fail, client.on_subscribe = self._on_connect_fail, self._on_subscribe
        client.on_disconnect, client.on_socket_open = self._on_disconnect, _at_once
        client.connect_async(self.broker.host, self.broker.port, self.broker.keepalive)
        # Before its thread begins: that one may be refused, and fall back, at once.
        self._client = client
        client.loop_start()

    def _on_connect(self, client: Any, _data: Any, _flags: Any, code: Any, facts: Any) -> None:
        if code.is_failure:
            self.problem = f"the broker refuses the connection: {code}"
            _LOG.warning("%s", self.problem)
            if self._protocol == 5 and not self.broker.protocol and "protocol" in str(code).lower():
                self._fall_back()
            return
        self._client = client
        limit = getattr(facts, "MaximumPacketSize", None)
        if limit:
            self._piece = max(1024, min(self.broker.piece, limit - 16384))
        client.subscribe([(topic, 1) for topic in self._wanted()])

    def _on_subscribe(self, _client: Any, _data: Any, _mid: Any, codes: Any, _facts: Any) -> None:
        """Connected is who hears: from now on nothing that is said to this party is lost."""
        if any(code.is_failure for code in codes):
            _LOG.warning("the broker does not let this party read all that it should")
        self._pending.clear()
        self._up.set()
        self.problem = ""
        self._publish_status()
        self._heard.put(Heard("link", self.name))

    def _on_connect_fail(self, _client: Any, _data: Any) -> None:
        why = "it does not answer, or refuses this party's certificate"
        if not self.problem:
            _LOG.warning("the broker at %s:%d: %s", self.broker.host, self.broker.port, why)
        self.problem = why

    def _wanted(self) -> list[str]:
        if self._observer:
            return [self.topics.everyone("status")]
        if self.name == COORDINATOR:
            return self.topics.heard_by_coordinator()
        return self.topics.heard_by_site(self.name)

    def _fall_back(self) -> None:
        """Speak 3.1.1 from now on. The old client cannot be stopped from its own thread."""
        old, self._protocol = self._client, 3
        _LOG.warning("the broker does not know MQTT 5: speaking 3.1.1")

        def swap() -> None:
            old.disconnect()
            old.loop_stop()
            self._connect()

        threading.Thread(target=swap, daemon=True).start()

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, code: Any, _facts: Any) -> None:
        if self._up.is_set():
            _LOG.warning("the connection to the broker is lost: %s", code)
        self._up.clear()


def _at_once(_client: Any, _data: Any, connection: Any) -> None:
    """Small packets leave when they are written: a question's answer waits for nothing."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _tls(files: Certificates) -> ssl.SSLContext:
    for path in (files.authority, files.certificate, files.key):
        if not path.is_file():
            raise InputError(
                "there is no such file", where=str(path), remedy="Make it with `flfl keys`"
            )
    try:
        context = ssl.create_default_context(cafile=str(files.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(str(files.certificate), str(files.key))
    except (ssl.SSLError, OSError) as error:
        raise InputError(
            f"the certificate cannot be used ({error})", where=str(files.certificate)
        ) from None
    return context
