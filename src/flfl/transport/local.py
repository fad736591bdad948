"""All parties in one process. Every message is still encoded, carried as bytes and decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from flfl.protocol.coordinator import Coordinator, Envelope
from flfl.protocol.messages import bytes_by_kind
from flfl.protocol.site import Site
from flfl.protocol.traffic import Traffic
from flfl.secagg import Identity, Roster, SecureSite, SecureSums, Signer

Tap = Callable[[str, str, bytes], None]


def run(
    coordinator: Coordinator, sites: Sequence[Site], traffic: Traffic, tap: Tap | None = None
) -> None:
    """Carry messages until the coordinator's program ends.

    Parameters
    ----------
    traffic : counts the bytes of every message
    tap : called with ("up" or "down", site, bytes) for each message; for counting and for tests
    """
    by_name = {site.name: site for site in sites}
    heard = tap or _nobody
    outbox: deque[Envelope] = deque(coordinator.start())
    while outbox:
        name, question = outbox.popleft()
        traffic.sent_down(bytes_by_kind(question))
        heard("down", name, question)
        answer = by_name[name].receive(question)
        traffic.sent_up(bytes_by_kind(answer))
        heard("up", name, answer)
        outbox.extend(coordinator.receive(answer))


def secure(
    names: Sequence[str], run: str = "run"
) -> tuple[SecureSums, dict[str, SecureSite], dict[str, Signer]]:
    """Secure sums among parties of this process, with identities made for this run only."""
    identities = {name: Identity.generate() for name in names}
    roster = Roster({name: identity.public for name, identity in identities.items()})
    sites = {name: SecureSite(name, identity, roster) for name, identity in identities.items()}
    signers = {name: Signer(identity, roster) for name, identity in identities.items()}
    return SecureSums(roster, run), sites, signers


def _nobody(direction: str, site: str, data: bytes) -> None:
    """Nobody listens."""
