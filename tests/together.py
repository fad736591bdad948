"""All parties of a run in one process, each with its own connection to a real broker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import Any

from flfl.config import BrokerSettings, DeadlineSettings
from flfl.errors import FLFLError
from flfl.protocol.messages import sender
from flfl.protocol.session import Coordinator, Envelope, Site
from flfl.protocol.traffic import Traffic
from flfl.transport.dispatcher import Dispatcher, RefusedBySiteError
from flfl.transport.link import COORDINATOR
from flfl.transport.local import Tap
from flfl.transport.mqtt import Link
from flfl.transport.responder import Responder
from waiting import PATIENCE


class Watched:
    """A coordinator whose messages ``tap`` is shown; it does not know."""

    def __init__(self, coordinator: Coordinator, tap: Tap) -> None:
        self._inner, self._tap = coordinator, tap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def start(self) -> list[Envelope]:
        return self._sent(self._inner.start())

    def receive(self, data: bytes) -> list[Envelope]:
        self._tap("up", sender(data) or "", data)
        return self._sent(self._inner.receive(data))

    def _sent(self, envelopes: list[Envelope]) -> list[Envelope]:
        for site, data in envelopes:
            self._tap("down", site, data)
        return envelopes


def run(
    coordinator: Coordinator,
    sites: Sequence[Site],
    traffic: Traffic,
    tap: Tap | None = None,
    *,
    broker: BrokerSettings,
    deadlines: DeadlineSettings | None = None,
) -> None:
    """As :func:`flfl.transport.local.run`, with the messages carried by a broker.

    What a site raises is raised here too.
    """
    network, name = f"test-{uuid.uuid4().hex[:12]}", uuid.uuid4().hex[:8]
    deadlines = deadlines or DeadlineSettings(answer_within=60, finish_within=PATIENCE)
    ended = threading.Event()
    errors: list[Exception] = []
    refusal: RefusedBySiteError | None = None

    def respond(site: Site, link: Link) -> None:
        def refused(error: Exception) -> None:
            errors.append(error)
            ended.set()

        responder = Responder(site, link, name, again=1.0, refused=refused)
        try:
            while not ended.is_set():
                heard = link.next(0.1)
                if heard is not None and heard.message is not None:
                    responder.take(heard.message)
                responder.tick()
        except Exception as error:
            errors.append(error)
            ended.set()

    links = [Link(broker, network, site.name) for site in sites]
    centre = Link(broker, network, COORDINATOR)
    threads = [
        threading.Thread(target=respond, args=pair, daemon=True)
        for pair in zip(sites, links, strict=True)
    ]
    try:
        for link in (centre, *links):
            if not link.wait(PATIENCE):
                raise FLFLError(f"no connection to the broker: {link.problem}")
        for thread in threads:
            thread.start()
        watched: Any = coordinator if tap is None else Watched(coordinator, tap)
        dispatcher = Dispatcher(watched, centre, name, traffic, deadlines)
        dispatcher.begin()
        while not coordinator.done and not ended.is_set():
            heard = centre.next(min(dispatcher.check(), 0.1))
            if heard is not None and not ended.is_set():
                dispatcher.take(heard)
    except RefusedBySiteError as error:
        # The site's own error, which tells more, may not be there yet.
        refusal = error
    finally:
        ended.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(PATIENCE)
        for link in (centre, *links):
            link.close()
    if errors:
        raise errors[0]
    if refusal is not None:
        raise refusal
