"""What travelled: bytes and messages, counted on the real encoded messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Traffic:
    """Bytes and messages by kind, from the sites (up) and to them (down).

    ``rounds`` are training rounds, ``exchanges`` are counted by kind of question, ``numbers`` are
    independent numbers about readings that were released, and ``notes`` are plain sentences on what
    the run did by itself.

    Examples
    --------
    >>> traffic = Traffic()
    >>> traffic.sent_up({"gradient": 100})
    >>> traffic.bytes_up, traffic.bytes_down
    (100, 0)
    """

    up: Counter[str] = field(default_factory=Counter)
    down: Counter[str] = field(default_factory=Counter)
    messages_up: Counter[str] = field(default_factory=Counter)
    messages_down: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    exchanges: Counter[str] = field(default_factory=Counter)
    numbers: int = 0
    notes: list[str] = field(default_factory=list)

    def sent_up(self, parts: Mapping[str, int]) -> None:
        """A site sent a message: its bytes by kind, the message's own kind first."""
        self.up.update(parts)
        self.messages_up[next(iter(parts))] += 1

    def sent_down(self, parts: Mapping[str, int]) -> None:
        """The coordinator sent a message: its bytes by kind, the message's own kind first."""
        self.down.update(parts)
        self.messages_down[next(iter(parts))] += 1

    def numbers_per_reading(self, readings: int) -> float:
        """Independent numbers released for each reading. At one or more, nothing is hidden."""
        return self.numbers / max(readings, 1)

    @property
    def bytes_up(self) -> int:
        """All bytes that left the sites."""
        return sum(self.up.values())

    @property
    def bytes_down(self) -> int:
        """All bytes that the sites received."""
        return sum(self.down.values())
