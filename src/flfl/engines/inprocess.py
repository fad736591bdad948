"""All parties in one process. Every message is still encoded, carried as bytes and decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from flfl.federation.coordinator import Coordinator, Envelope
from flfl.federation.ledger import Ledger
from flfl.federation.messages import kind_of
from flfl.federation.site import Site

Tap = Callable[[str, str, bytes], None]


def run(
    coordinator: Coordinator, sites: Sequence[Site], ledger: Ledger, tap: Tap | None = None
) -> None:
    """Carry messages until the coordinator's program ends.

    Parameters
    ----------
    ledger : counts the bytes of every message
    tap : called with ("up" or "down", site, bytes) for each message; for counting and for tests
    """
    by_name = {site.name: site for site in sites}
    heard = tap or _nobody
    outbox: deque[Envelope] = deque(coordinator.start())
    while outbox:
        name, question = outbox.popleft()
        kind = kind_of(question)
        ledger.sent_down(kind, len(question))
        heard("down", name, question)
        answer = by_name[name].receive(question)
        ledger.sent_up(kind, len(answer))
        heard("up", name, answer)
        outbox.extend(coordinator.receive(answer))


def _nobody(direction: str, site: str, data: bytes) -> None:
    """Nobody listens."""
