"""What a coordinator is at: between runs, calling sites together, or in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flfl import constants
from flfl.config import RunSettings
from flfl.protocol.journal import DurableCoordinator
from flfl.protocol.network import Network
from flfl.protocol.plan import Addition, Fit
from flfl.protocol.server import Coordination
from flfl.service.agreement import Agreement
from flfl.service.grid import TimeGrid
from flfl.transport.dispatcher import Dispatcher
from flfl.transport.link import Message


@dataclass(frozen=True)
class Resting:
    """Between runs."""


@dataclass(frozen=True)
class Gathering:
    """Sites are asked who can take part; ``holds`` is which history each keeps, and how long."""

    announcement: Message
    ready: frozenset[str] = frozenset()
    unable: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    given: Mapping[str, bytes] = field(default_factory=dict)

    def answered(self, site: str, message: Message) -> Gathering:
        """The same with a site's answer."""
        about = message.about
        unable = {name: why for name, why in self.unable.items() if name != site}
        if message.kind == "ready":
            stop = about.get("stop", 0)
            held = (str(about.get("holds", ""))[:64], stop if type(stop) is int else 0)
            holds = {**self.holds, site: held}
            return replace(self, ready=self.ready | {site}, unable=unable, holds=holds)
        if message.kind == "unable":
            unable[site] = str(about.get("why", ""))[:500]
            return replace(self, ready=self.ready - {site}, unable=unable)
        if message.kind == "given":
            return replace(self, given={**self.given, site: message.data})
        return self


@dataclass(frozen=True)
class Running:
    """A run is under way; ``done`` are the sites that have written their results."""

    announcement: Message
    agreement: Agreement
    coordination: Coordination
    journal: DurableCoordinator
    dispatcher: Dispatcher
    history: bytes = b""
    done: frozenset[str] = frozenset()


def how_to_add(run: RunSettings, grid: TimeGrid, before: Network, fitted: int) -> Addition:
    """How a run's slots are added to what is public: in a window or, as often as wanted, with a fit
    anew; ``fitted`` is the slot after the last one that the last such fit had."""
    keep = max(grid.since(run.history, constants.WINDOW_SLOTS), before.first)
    keep = min(keep, before.stop - 1)
    first = min(max(grid.since(run.window, constants.WINDOW_SLOTS), keep), before.stop - 1)
    unit = {"monthly": "M8[M]", "weekly": "M8[W]"}.get(run.refit)
    if unit is not None and 0 < fitted <= grid.slots:
        then, now = grid.stamps()[[fitted - 1, -1]].astype("M8[s]").astype(unit)
        if then == now:
            # What is forgotten is forgotten when all is fitted anew.
            return Addition(before.first, first, Fit.KEPT)
    return Addition(keep, keep, Fit.ANEW)
