"""What can be known to be wrong before a party joins: at every start, and with ``--check``.

At a start nothing large is loaded and nobody is asked. A party that has finished a run before does
not stop for what may come back by itself: a file of readings, an output folder, a name in the DNS.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from flfl.config import (
    BrokerSettings,
    CoordinatorSettings,
    ReportSettings,
    SiteSettings,
    read_settings,
)
from flfl.errors import InputError, explained
from flfl.io.files import NETCDF_SUFFIXES, OUTPUT_SUFFIXES, check_writable
from flfl.service.agreement import AgreementError
from flfl.service.diary import Diary
from flfl.service.grid import TimeGrid
from flfl.service.home import copies_folder, floor_of, identified
from flfl.service.keys import check_keys
from flfl.service.versions import check_version, own_version
from flfl.transport.link import COORDINATOR
from flfl.transport.mqtt import Rights, probe

_ROOM = 2**26
"""Bytes that the disk of the output and of the state should have left."""
PAGES, SCORES = (".html", ".htm"), (".json",)


class Step(NamedTuple):
    """One thing to look at: its name, the setting that it is about, and what tells how it is. That
    raises an :class:`InputError` where something is wrong."""

    name: str
    key: str
    look: Callable[[], str]


@dataclass(frozen=True)
class Finding:
    """What was found: ``ok`` or not, in words, and what to do about it."""

    name: str
    ok: bool
    says: str
    remedy: str = ""


def at_start(steps: Iterable[Step]) -> None:
    """Refuse settings that cannot work: an :class:`InputError` of the first step that finds one."""
    for step in steps:
        step.look()


def _named(path: Path, key: str, look: Callable[[], str]) -> Callable[[], str]:
    """The same look; its error names the file of settings and the key."""

    def named() -> str:
        try:
            return look()
        except AgreementError as error:
            raise InputError(str(error), where=f"{path}: {key}") from None
        except InputError as error:
            place = str(error.where or "")
            inner = "" if key in place or place in ("", str(path)) else f" ({place})"
            where = f"{path}: {place if key in place else key}{inner}"
            remedy = error.remedy or "Correct it"
            raise InputError(error.problem, where=where, remedy=remedy) from None

    return named


def _steps(path: Path, looks: Iterable[tuple[str, str, Callable[[], str]]]) -> list[Step]:
    return [Step(name, key, _named(path, key, look)) for name, key, look in looks]


def _has_run(state: Path) -> bool:
    return bool(Diary(state).runs) if state.is_dir() else False


def site_steps(settings: SiteSettings, path: Path, *, every: bool = False) -> list[Step]:
    """What is looked at when a site starts; ``every`` thing with ``--check``."""
    looks = [
        ("keys", "broker", lambda: _keys(settings.broker, settings.name)),
        ("identity and roster", "identity", lambda: _identity(settings, path)),
        ("added error", "terms.added_error", lambda: _floor(settings)),
        ("state folder", "state", lambda: _folder(settings.state)),
        ("copies", "copies", lambda: _folder(copies_folder(settings))),
        ("log", "report.log", lambda: _log(settings.report)),
        ("page", "out.page", lambda: _page_extra(settings)),
    ]
    if every or not _has_run(settings.state):
        looks += [
            ("output", "out", lambda: _output(settings, path)),
            ("source", "readings", lambda: _source(settings)),
            ("broker's name", "broker.host", lambda: _host(settings.broker)),
        ]
    return _steps(path, looks)


def coordinator_steps(
    settings: CoordinatorSettings, path: Path, *, every: bool = False
) -> list[Step]:
    """What is looked at when a coordinator starts; ``every`` thing with ``--check``."""
    looks = [
        ("keys", "broker", lambda: _keys(settings.broker, COORDINATOR)),
        ("roster, times and map", "sites.roster", lambda: _terms(settings, path)),
        ("state folder", "state", lambda: _folder(settings.state)),
        ("log", "report.log", lambda: _log(settings.report)),
    ]
    if every or not _has_run(settings.state):
        looks.append(("broker's name", "broker.host", lambda: _host(settings.broker)))
    return _steps(path, looks)


def check_party(kind: type[SiteSettings] | type[CoordinatorSettings], path: Path) -> list[Finding]:
    """Look at everything, join nothing: every line ok, or what to do."""
    try:
        settings = read_settings(kind, path)
    except InputError as error:
        return [_finding("settings", error)]
    found = [Finding("settings", True, str(path))]
    if isinstance(settings, SiteSettings):
        network, name = settings.network, settings.name
        steps = site_steps(settings, path, every=True)
    else:
        network, name = settings.network, COORDINATOR
        steps = coordinator_steps(settings, path, every=True)
    found += [_look(step) for step in steps]
    heard: list[Rights] = []
    if settings.broker is not None:
        broker = settings.broker

        def reach() -> str:
            heard.append(probe(broker, network, name))
            return f"{broker.host}:{broker.port} answers{'' if broker.plaintext else ', with TLS'}"

        found += [_look(step) for step in _steps(path, [("broker", "broker", reach)])]
    rights = heard[0] if heard else None
    if rights is not None:
        found += [_look(step) for step in _steps(path, _broker_looks(rights, name))]
    if isinstance(settings, SiteSettings):
        found += _readings(settings, path, None if rights is None else rights.status)
    return found


def _look(step: Step) -> Finding:
    try:
        return Finding(step.name, True, step.look())
    except InputError as error:
        return _finding(step.name, error)


def _finding(name: str, error: InputError) -> Finding:
    place = f"{error.where}: " if error.where else ""
    return Finding(name, False, f"{place}{error.problem}", error.remedy or "")


def as_document(found: Iterable[Finding]) -> dict[str, Any]:
    """For JSON."""
    rows = [asdict(one) for one in found]
    return {"ok": all(row["ok"] for row in rows), "checks": rows, **own_version()}


def _keys(broker: BrokerSettings | None, name: str) -> str:
    if broker is None:
        return "no broker: for Flower"
    if broker.plaintext:
        return "plaintext: for one machine only"
    return check_keys(broker, name) or "they fit each other, this party and this day"


def _identity(settings: SiteSettings, path: Path) -> str:
    roster, _ = identified(settings, str(path))
    return "none, and none is asked for" if roster is None else f"one of {len(roster.names)} sites"


def _floor(settings: SiteSettings) -> str:
    floor_of(settings)
    return str(settings.terms.added_error)


def _terms(settings: CoordinatorSettings, path: Path) -> str:
    # It reads tables of sensors, which a site does without.
    from flfl.service.plan import agreement_of, checked_roster, grid_at

    roster = checked_roster(settings, path)
    agreement_of(settings, "", TimeGrid(settings.grid.start, settings.grid.step, 2))
    grid_at(settings, 0.0)
    return f"{len(roster.names)} sites"


def _folder(path: Path) -> str:
    remedy = "Give a folder that this user can write"
    with explained("the folder cannot be used", where=str(path), remedy=remedy):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=path):
            pass
    return f"{path}, {_room(path)}"


def _log(report: ReportSettings) -> str:
    if report.log is None:
        return "to stderr"
    remedy = "Choose another file for the log"
    with explained("the log cannot be written", where=str(report.log), remedy=remedy):
        report.log.open("ab").close()
    return str(report.log)


def _room(path: Path) -> str:
    left = shutil.disk_usage(path).free
    if left < _ROOM:
        raise InputError(
            f"the disk has {left / 1e6:.0f} MB left",
            where=str(path),
            remedy=f"Make room: {_ROOM / 1e6:.0f} MB at least",
        )
    return f"{left / 1e9:.1f} GB left"


def _output(settings: SiteSettings, path: Path) -> str:
    out, read = settings.out, settings.readings
    inputs = [p for p in (path, read.file, read.sensors, settings.identity, settings.roster) if p]
    suffixes = OUTPUT_SUFFIXES + NETCDF_SUFFIXES
    kinds = [(out.file, suffixes), (out.flags, OUTPUT_SUFFIXES), (out.page, PAGES),
             (out.scores, SCORES)]  # fmt: skip
    given = [(one, known) for one, known in kinds if one is not None]
    for one, known in given:
        check_writable(one, inputs=inputs, suffixes=known)
    every = suffixes + PAGES + SCORES
    check_writable(*(one for one, _ in given), inputs=inputs, suffixes=every)
    if read.folder is not None:
        for one, _ in given:
            if one.resolve().parent == read.folder.resolve():
                raise InputError(
                    "the output is in the folder of readings, and would be read as readings",
                    where=str(one),
                    remedy="Give another folder",
                )
    return f"{out.file}, {_room(out.file.parent)}"


def _page_extra(settings: SiteSettings) -> str:
    if settings.out.page is None:
        return "none is wanted"
    lacking = [name for name in ("bokeh", "jinja2") if find_spec(name) is None]
    if lacking:
        raise InputError(
            f"the page needs {' and '.join(lacking)}", remedy="pip install 'flfl[report]'"
        )
    return str(settings.out.page)


def _source(settings: SiteSettings) -> str:
    read = settings.readings
    for path in (read.file, read.sensors):
        if path is not None:
            with explained("the file cannot be read", where=str(path), remedy="Check the name"):
                path.open("rb").close()
    if read.folder is not None and not read.folder.is_dir():
        raise InputError("this is no folder", where=str(read.folder), remedy="Check the name")
    if read.query is not None and not (read.database or os.environ.get("FLFL_DATABASE")):
        raise InputError(
            "the query has no database",
            remedy="Give database, or set FLFL_DATABASE to keep the password out of the file",
        )
    if read.query is not None and find_spec("sqlalchemy") is None:
        raise InputError("a database needs SQLAlchemy", remedy="pip install 'flfl[sql]'")
    return str(read.file or read.folder or "a query")


def _host(broker: BrokerSettings | None) -> str:
    if broker is None:
        return "no broker: for Flower"
    try:
        socket.getaddrinfo(broker.host, broker.port)
    except (socket.gaierror, UnicodeError):
        raise InputError(
            f"there is no machine called {broker.host!r}",
            remedy="Check the name, and this machine's DNS",
        ) from None
    return broker.host


def _broker_looks(rights: Rights, name: str) -> Iterator[tuple[str, str, Callable[[], str]]]:
    """What the broker lets this party do, and what it keeps of the coordinator."""
    acl = "Give the broker deploy/acl"

    def allowed() -> str:
        if not rights.own:
            raise InputError("this party may not write on its own topic", remedy=acl)
        if rights.others:
            raise InputError("this party may write in others' names", remedy=acl)
        return "its own topic, and no other's"

    yield "rights", "broker", allowed
    if name == COORDINATOR:
        return

    def versions() -> str:
        if rights.status is None:
            return "the coordinator was never here: nothing to compare with"
        check_version(rights.status)
        here, there = own_version()["version"], rights.status.get("version")
        return f"flfl {there} at the coordinator, {here} here"

    yield "versions", "network", versions


def _readings(settings: SiteSettings, path: Path, status: dict[str, Any] | None) -> list[Finding]:
    """The readings as they are now, against the network's times where these are known."""
    from flfl.service.tables import aligned, source_table

    found: list[tuple[str, Any]] = []

    def read() -> str:
        found.append(source_table(settings.readings))
        table = found[0][1]
        if not (known := int(table.known.sum())):
            raise InputError("there is no reading", remedy="Check the file and its columns")
        return f"{known} readings of {len(table.sensor_ids)} sensors"

    def units() -> str:
        named = sorted({unit for unit in found[0][1].units or () if unit})
        floor = settings.terms.added_error
        wanted = floor.lstrip("0123456789.e+- ").strip() if isinstance(floor, str) else ""
        if wanted and named and named != [wanted]:
            raise InputError(
                f"the readings are in {', '.join(named)}, and the added error in {wanted}",
                where="terms.added_error",
                remedy="Give it in the readings' unit",
            )
        return ", ".join(named) or "the readings name none"

    def times() -> str:
        given = (status or {}).get("grid")
        if not isinstance(given, dict):
            return "the network's are not known yet: ask again when the coordinator runs"
        start, step, stop = (given.get(name) for name in ("start", "step", "stop"))
        slots = TimeGrid.closed(str(start), str(step), time.time(), stop and str(stop))
        grid = TimeGrid(str(start), str(step), max(slots, 2))
        where, table = found[0]
        aligned(table, grid, where)
        return f"they are the network's: {grid.step} from {grid.start}"

    def places() -> str:
        if settings.readings.sensors is None:
            return "none are given: for a network without a map"
        from flfl.io.sensors import read_sensors

        sensors = read_sensors(settings.readings.sensors, found[0][1].sensor_ids)
        if sensors.coordinates is None or sensors.unplaced:
            lacking = ", ".join(sensors.unplaced[:5]) or "all sensors"
            raise InputError(
                f"there is no place for {lacking}",
                where=str(settings.readings.sensors),
                remedy="Give their coordinates",
            )
        return f"{sensors.kind} places of {len(sensors.ids)} sensors"

    (first,) = _steps(path, [("readings", "readings", read)])
    rows = [_look(first)]
    if rows[0].ok:
        looks = [("units", "readings", units), ("times", "readings", times),
                 ("places", "readings.sensors", places)]  # fmt: skip
        rows += [_look(step) for step in _steps(path, looks)]
    return rows
