"""Settings from a TOML file: each key checked, a wrong one answered with the nearest right one."""

from __future__ import annotations

import difflib
import tomllib
import types
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from flfl.errors import InputError, explained
from flfl.transport.dispatcher import Patience

T = TypeVar("T")
_NOISE = (
    "Remove it. Each owner's own noise protects it now: added_error in a site's [terms] is the"
    " owner's floor, in the coordinator's [run] the network's wish"
)
_AT_HOME = "Remove it, and give it in [out] of each site: an owner finishes at home, as it likes"
_GONE = {
    **dict.fromkeys(
        ("max_exposure", "projection", "collusion", "blur", "epsilon", "delta", "bounds"), _NOISE
    ),
    **dict.fromkeys(("sensors", "learned", "account"), _NOISE),
    **dict.fromkeys(("effort", "coverage"), _AT_HOME),
    "seed": "Remove it. Each site draws from its own secret",
    "flower": "Remove it. Give the SuperNode this file: --node-config 'site=\"/path/of/it\"'",
}
"""What earlier versions had, and what replaces it."""


@dataclass(frozen=True)
class BrokerSettings:
    """Where the broker is. Without ``plaintext = true`` the three files are needed."""

    host: str
    port: int = 8883
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    plaintext: bool = False
    protocol: int = 0
    keepalive: int = 20
    piece: int = 2**18
    largest: int = 2**26
    compress: bool = False


@dataclass(frozen=True)
class GridSettings:
    """The common times: the first one (UTC), the step (``"1h"``, ``"1 month"``), how many."""

    start: str
    step: str
    slots: int


@dataclass(frozen=True)
class MapSettings:
    """The published map: a file with all sensors' places, or the ranges that they lie in."""

    sensors: Path | None = None
    latitude: list[float] | None = None
    longitude: list[float] | None = None
    x: list[float] | None = None
    y: list[float] | None = None


@dataclass(frozen=True)
class RunSettings:
    """How a run is done, and how often. See :class:`flfl.FLFL` for those it shares.

    ``added_error`` is the network's wish; an owner's own setting is a floor that holds anyway.
    """

    added_error: float = 1.0
    share: float = 0.5
    rank: int = 20
    rounds: int = 5
    pilot: bool = True
    transformation: str | None = None
    season: int | None = None
    secure: bool = True
    every: float = 0.0


@dataclass(frozen=True)
class DeadlineSettings:
    """Seconds: for sites to come together, for one answer, for the whole run."""

    gather_within: float = 600.0
    answer_within: float = 300.0
    misses: int = 3
    finish_within: float = 86400.0


@dataclass(frozen=True)
class SiteList:
    """Who may take part, and how many are enough (at least the secure sum's threshold)."""

    roster: Path
    quorum: int = 0


@dataclass(frozen=True)
class ReportSettings:
    """Logs (JSON lines, to stderr without a file) and metrics (Prometheus text; off by default)."""

    log: Path | None = None
    level: str = "info"
    metrics_file: Path | None = None
    metrics_port: int = 0


@dataclass(frozen=True)
class CoordinatorConfig:
    """``flfl coordinator``."""

    network: str
    sites: SiteList
    grid: GridSettings
    broker: BrokerSettings | None = None
    state: Path = Path("state")
    map: MapSettings | None = None
    run: RunSettings = field(default_factory=RunSettings)
    deadlines: DeadlineSettings = field(default_factory=DeadlineSettings)
    report: ReportSettings = field(default_factory=ReportSettings)


@dataclass(frozen=True)
class ReadingSettings:
    """One of ``file``, ``folder`` (all readable files in it) and ``query`` with ``database``."""

    file: Path | None = None
    folder: Path | None = None
    query: str | None = None
    database: str | None = None
    sensors: Path | None = None
    layout: str = "auto"
    time_column: str | None = None
    sensor_column: str | None = None
    value_column: str | None = None
    missing: list[float] | None = None
    duplicates: str = "refuse"


@dataclass(frozen=True)
class OutSettings:
    """Where the site's own result goes, and how it is made at home."""

    file: Path
    flags: Path | None = None
    effort: str = "full"
    coverage: float = 0.9


@dataclass(frozen=True)
class Terms:
    """What the owner insists on, whatever a run asks for.

    ``added_error`` is the least noise in its copies: a multiple of each sensor's own error in time,
    or a text such as ``"2 ug/m3"``. 0 means that the coordinator is trusted.
    """

    added_error: float | str = 1.0
    secure: bool = True


@dataclass(frozen=True)
class SiteConfig:
    """``flfl site``.

    ``copies`` is the folder of the secret and the copies, ``state`` if not given. One owner's sites
    in several networks have one such folder: a reading has one copy.
    """

    network: str
    name: str
    readings: ReadingSettings
    out: OutSettings
    broker: BrokerSettings | None = None
    identity: Path | None = None
    roster: Path | None = None
    state: Path = Path("state")
    copies: Path | None = None
    terms: Terms = field(default_factory=Terms)
    report: ReportSettings = field(default_factory=ReportSettings)
    again: float = 5.0


def read_config(path: Path, kind: type[T]) -> T:
    """Read a file of settings; paths in it are taken from where it lies.

    Raises
    ------
    InputError
        For a key that is unknown (the nearest known one is named), missing, or of a wrong type.
    """
    remedy = "Give the file that describes this party"
    with explained("the settings cannot be read", where=str(path), remedy=remedy):
        data = path.read_bytes()
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not TOML: {error}", where=str(path)) from None
    return _build(kind, document, str(path), "", path.resolve().parent)


def _build(kind: type[T], given: Any, where: str, section: str, folder: Path) -> T:
    if not isinstance(given, dict):
        raise InputError(f"{section!r} must be a section", where=where)
    hints = get_type_hints(kind)
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            _unknown(name, list(known), where, section)
    values = {}
    for name, item in known.items():
        label = f"{section}.{name}" if section else name
        if name in given:
            values[name] = _value(given[name], hints[name], where, label, folder)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise InputError(f"{label!r} is missing", where=where, remedy=f"Add {label}")
    built = kind(**values)
    return _with_paths(built, folder)


def _with_paths(built: T, folder: Path) -> T:
    """Default paths too are taken from the settings' folder."""
    for item in fields(built):  # type: ignore[arg-type]
        value = getattr(built, item.name)
        if isinstance(value, Path) and not value.is_absolute():
            object.__setattr__(built, item.name, folder / value)
    return built


def _unknown(name: str, known: list[str], where: str, section: str) -> None:
    place = f" in [{section}]" if section else ""
    if name in _GONE and section in ("", "run", "terms"):
        raise InputError(f"{name!r}{place} is no more", where=where, remedy=_GONE[name])
    near = difflib.get_close_matches(name, known, 1, 0.5)
    remedy = f"Did you mean {near[0]!r}" if near else f"Known are {', '.join(sorted(known))}"
    raise InputError(f"unknown key {name!r}{place}", where=where, remedy=remedy + "?" * bool(near))


def _value(given: Any, hint: Any, where: str, label: str, folder: Path) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [part for part in get_args(hint) if part is not type(None)]
        hint = str if str in kinds and isinstance(given, str) else kinds[0]
    if is_dataclass(hint):
        return _build(hint, given, where, label, folder)  # type: ignore[arg-type]
    if get_origin(hint) is list:
        inner = get_args(hint)[0]
        if not isinstance(given, list):
            raise InputError(f"{label} must be a list", where=where)
        return [_value(item, inner, where, label, folder) for item in given]
    if hint is Path and isinstance(given, str):
        return folder / given
    if hint is float and type(given) is int:
        return float(given)
    if type(given) is not hint:
        words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InputError(f"{label} must be {words.get(hint, 'a text')}, not {given!r}", where=where)
    return given


def check_coordinator(config: CoordinatorConfig, n_sites: int, where: str) -> None:
    """Refuse deadlines and a quorum with which no run can go well."""
    for item in fields(DeadlineSettings):
        if not (value := getattr(config.deadlines, item.name)) > 0:
            raise InputError(
                f"{item.name} is {value:g}",
                where=f"{where}: [deadlines]",
                remedy="Give more than 0",
            )
    if not 0 <= config.sites.quorum <= n_sites:
        raise InputError(
            f"quorum is {config.sites.quorum}, and the roster lists {n_sites} sites",
            where=f"{where}: [sites]",
            remedy="Give a smaller one, or none: the threshold of the roster is kept anyway",
        )


def patience_of(settings: DeadlineSettings, quorum: int) -> Patience:
    """How long is waited for whom."""
    return Patience(settings.answer_within, settings.misses, settings.finish_within, max(1, quorum))
