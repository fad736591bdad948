"""All parties in one process. Every message is still encoded, carried as bytes and decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from flfl.protocol.messages import bytes_by_kind
from flfl.protocol.session import Coordinator, Envelope, Site
from flfl.protocol.traffic import Traffic
from flfl.secagg import Identity, Roster, SecureClient, SecureServer

Tap = Callable[[str, str, bytes], None]


def run(
    coordinator: Coordinator, sites: Sequence[Site], traffic: Traffic, tap: Tap | None = None
) -> None:
    """Carry messages until the coordinator's program ends; ``traffic`` counts their bytes, ``tap``
    is called with ("up" or "down", site, bytes) for each."""
    by_name = {site.name: site for site in sites}
    tell: Tap = tap or (lambda direction, site, data: None)
    outbox: deque[Envelope] = deque(coordinator.start())
    while outbox:
        name, question = outbox.popleft()
        traffic.sent_down(bytes_by_kind(question))
        tell("down", name, question)
        answer = by_name[name].receive(question)
        traffic.sent_up(bytes_by_kind(answer))
        tell("up", name, answer)
        outbox.extend(coordinator.receive(answer))


def secure(names: Sequence[str], run: str = "run") -> tuple[SecureServer, dict[str, SecureClient]]:
    """Secure sums among parties of this process, with identities made for this run only."""
    identities = {name: Identity.generate() for name in names}
    roster = Roster({name: identity.public for name, identity in identities.items()})
    sites = {name: SecureClient(name, identity, roster) for name, identity in identities.items()}
    return SecureServer(roster, run), sites
