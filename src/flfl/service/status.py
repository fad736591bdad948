"""A party's status: one document for the page, the JSON, the metrics and the health check.

The coordinator's holds what sites tell everybody, and nothing of their readings, scores or results.
A site's own may hold the figures of its own runs, and is served on its own machine only.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from flfl.config import BrokerSettings
from flfl.service import certificates
from flfl.service.diary import Diary, stamp
from flfl.service.versions import VERSION, WIRE

if TYPE_CHECKING:
    from flfl.service.site import SiteService

_STALE = 900.0
"""Seconds without a new status after which a party counts as stuck; finishing at home may take
minutes."""
_SHOWN = 60
"""Runs of the diary in a status."""


@dataclass(frozen=True)
class Status:
    """A party now. Times are UTC; an empty text means never or none.

    Attributes
    ----------
    doing : what it is at, in words
    problem : what is wrong, in words
    certificates : when each ends, by name
    sites : the coordinator's view of every site of the roster
    run : figures of the run under way
    counters : sums since the process began
    totals, last_success, nights : over all processes
    """

    party: str
    network: str
    doing: str
    connected: bool
    broker: str
    since: str
    at: str = field(default_factory=stamp)
    version: str = VERSION
    wire: int = WIRE
    problem: str = ""
    next_run: str = ""
    certificates: Mapping[str, str] = field(default_factory=dict)
    deadlines: Mapping[str, float] = field(default_factory=dict)
    sites: tuple[Mapping[str, str], ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    last_success: str = ""
    nights: tuple[Mapping[str, Any], ...] = ()

    def document(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def address(broker: BrokerSettings | None) -> str:
    """Where the broker is, for people."""
    return "none" if broker is None else f"{broker.host}:{broker.port}"


def from_diary(diary: Diary) -> dict[str, Any]:
    """What a status takes from the diary."""
    runs = tuple(run.model_dump() for run in diary.runs[-_SHOWN:])
    return {"totals": diary.totals, "last_success": diary.last_success, "nights": runs}


def moment(when: Any) -> str:
    """A time in seconds since 1970, as far as it is one; 0 is none."""
    try:
        return stamp(float(when)) if when else ""
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def site_status(service: SiteService) -> Status:
    """A site's status, for its owner."""
    settings, link, agreement = service.settings, service.link, service.agreement
    run: dict[str, Any] = {}
    doing = "Waiting to be called."
    if agreement is not None:
        doing = f"In run {agreement.run}."
        run = {"run": agreement.run, "sites": list(agreement.sites)}
    heard = service.heard
    counters = {"dropped": sum(link.dropped.values()), "answers": service.answers}
    counters |= {f"bytes_{way}": link.carried[way] for way in ("up", "down")}
    return Status(
        party=settings.name,
        network=settings.network,
        doing=f"{doing} The coordinator is {heard.get('state', 'not heard of yet')}.",
        connected=link.connected,
        broker=address(settings.broker),
        since=service.since,
        problem=service.problem,
        next_run=moment(heard.get("next_run")),
        certificates=certificates.ends(settings.broker, settings.name),
        run=run,
        counters=counters,
        **from_diary(service.diary),
    )


def seconds_until(when: str, now: float | None = None) -> float | None:
    """Seconds until a time of a status; None for what is no time.

    Examples
    --------
    >>> seconds_until("1970-01-01T00:01:00Z", 10.0), seconds_until("")
    (50.0, None)
    """
    try:
        then = datetime.datetime.fromisoformat(when).timestamp()
    except ValueError:
        return None
    return then - (time.time() if now is None else now)


def health(status: Status, now: float | None = None) -> str:
    """What is wrong with a party, in words; empty when all is well."""
    for name, end in status.certificates.items():
        left = seconds_until(end, now)
        if left is None or left <= 0:
            return f"the {name} has ended or cannot be read ({end})"
    age = -(seconds_until(status.at, now) or 0.0)
    if age > _STALE:
        return f"the process has not told its status for {age:.0f} s"
    if not status.connected:
        return f"there is no connection to the broker at {status.broker}"
    if status.problem:
        return status.problem
    if status.nights and (why := status.nights[-1]["failed"]):
        return f"the last run failed: {why}"
    return ""


Figure = tuple[str, str, Mapping[str, str], float]
"""A metric's name, what it is, its labels besides the party's name, and its value."""


def figures(status: Status, now: float | None = None) -> Iterator[Figure]:
    """The metrics of a status. Those that end in ``_total`` are counters."""
    now = time.time() if now is None else now
    about = {"version": status.version, "protocol": str(status.wire)}
    yield "flfl_info", "Version and protocol of this party", about, 1.0
    yield "flfl_connected", "Whether the broker is there", {}, float(status.connected)
    yield "flfl_problem", "Whether something is wrong", {}, float(bool(health(status, now)))
    times = {"start": status.since, "last_success": status.last_success,
             "next_run": status.next_run}  # fmt: skip
    for name, when in times.items():
        if (left := seconds_until(when, now)) is not None:
            text = f"{name.replace('_', ' ').capitalize()}, seconds since 1970"
            yield f"flfl_{name}_timestamp_seconds", text, {}, now + left
    for name, when in status.certificates.items():
        left = seconds_until(when, now) or 0.0
        labels = {"file": name}
        yield "flfl_certificate_expiry_seconds", "Seconds until it ends", labels, max(left, 0.0)
    for name, count in status.totals.items():
        yield f"flfl_{name}_total", f"{name} of all runs, kept over restarts", {}, float(count)
    for name, count in status.counters.items():
        yield f"flfl_{name}_total", f"{name} since the process began", {}, float(count)
    for name, value in status.run.items():
        if name in ("question", "round"):
            yield f"flfl_{name}", f"The {name} of the run under way", {}, float(value)
        elif isinstance(value, list):
            yield f"flfl_{name}", f"Sites: {name.replace('_', ' ')}", {}, float(len(value))
    for row in status.sites:
        here = float(row.get("state") == "here")
        yield "flfl_site_here", "Whether a site is here", {"site": row["site"]}, here
