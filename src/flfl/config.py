"""Every setting of a run or a network, validated in one place.

A complaint names the key, what is wrong with it, and the nearest right one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, cast, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)

from flfl.clock import Schedule
from flfl.errors import InputError, explained, nearest

T = TypeVar("T", bound="Settings")


class Settings(BaseModel):
    """Settings that are checked when they are made, and never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def check(
        cls: type[T], given: Mapping[str, Any], where: str = "", folder: Path | None = None
    ) -> T:
        """Settings from plain values; an :class:`InputError` names the first key that is wrong.

        ``where`` is the place that they come from; relative paths are taken from ``folder``.

        Examples
        --------
        >>> MethodSettings.check({"shaer": 0.5})
        Traceback (most recent call last):
        flfl.errors.InputError: shaer: there is no such setting. Did you mean 'share'?
        """
        try:
            return cls.model_validate(dict(given), context={"folder": folder})
        except ValidationError as error:
            raise _complaint(cls, error, where) from None


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    with explained("the file cannot be read", where=str(path), remedy="Check the name"):
        data = path.read_bytes()
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"this is not TOML ({error})", where=str(path)) from None


def read_settings(kind: type[T], path: Path) -> T:
    """The settings in a TOML file; relative paths in it are taken from its folder."""
    return kind.check(read_toml(path), str(path), path.resolve().parent)


_GONE = {
    ("GridSettings", "slots"): "The times go on with the clock: leave it out, or give"
    ' stop = "2024-12-31" for a period that is over',
    ("RunSettings", "every"): 'Give schedule = "daily 03:30" instead',
}
"""Settings of earlier versions, and what replaces them."""


def _complaint(model: type[Settings], error: ValidationError, where: str) -> InputError:
    """The first complaint of a validation, in our words."""
    # A misspelt key comes before the one that is missing because of it.
    first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    keys, owner = _place(model, first["loc"])
    place = ": ".join(part for part in (where, ".".join(keys)) if part)
    if first["type"] == "extra_forbidden":
        known = list(owner.model_fields)
        if (gone := _GONE.get((owner.__name__, keys[-1]))) is not None:
            return InputError("this setting is gone", where=place, remedy=gone)
        return InputError("there is no such setting", where=place, remedy=nearest(keys[-1], known))
    if first["type"] == "missing":
        return InputError("this setting is missing", where=place, remedy="Give it")
    own = first.get("ctx", {}).get("error")
    if isinstance(own, InputError):
        return InputError(own.problem, where=place, remedy=own.remedy)
    return InputError(f"{first['input']!r} cannot be used", where=place, remedy=first["msg"])


def _place(model: type[Settings], parts: tuple[int | str, ...]) -> tuple[list[str], type[Settings]]:
    """The keys that lead to what is wrong, and its table. Branches of a union are no keys."""
    keys: list[str] = []
    for part in map(str, parts):
        keys.append(part)
        if part not in model.model_fields:
            break
        kind = model.model_fields[part].annotation
        tables = [t for t in (kind, *get_args(kind)) if isinstance(t, type)]
        if not (inner := [table for table in tables if issubclass(table, Settings)]):
            break
        model = inner[0]
    return keys, model


Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


def check_parameters(estimator: Any) -> None:
    """Check an estimator's parameters by its own model, or by the types of a dataclass's fields; an
    :class:`InputError` names the first that is wrong."""
    given, kind = estimator.get_params(), cast(Any, type(estimator))
    if kind.settings is not None:
        kind.settings.check(given)
    elif is_dataclass(estimator):
        _parameters(kind).check(given, kind.__name__)


@cache
def _parameters(kind: type) -> type[Settings]:
    hints = get_type_hints(kind, include_extras=True)
    given: dict[str, Any] = {one.name: (hints[one.name], one.default) for one in fields(kind)}
    return create_model(kind.__name__, __base__=TomlTable, **given)


SENTINELS = (-999.0, -9999.0)
"""Numbers that stand for a missing reading, in files and frames alike."""


class MethodSettings(Settings):
    """The default method's settings; :class:`flfl.FLFL` says what each means."""

    added_error: NotNegative | str = 1.0
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    effort: Literal["full", "quick"] = "full"
    rank: Count = 20
    rounds: Count = 5
    pilot: bool = True
    transformation: Literal["none", "sqrt", "log1p"] | None = None
    season: Whole | None = None
    sharing: Literal["network", "nothing", "everything"] = "network"
    coverage: Annotated[float, Field(gt=0, lt=1)] = 0.9
    n_regions: Count | None = None
    secure: bool | None = None
    missing: Sequence[float] = SENTINELS
    random_state: Whole = 0


# --- a network between machines: `flfl coordinator` and `flfl site` -----------------------------


def _beside(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder")
    return path if folder is None else folder / path


def _ordered(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] >= ends[1]:
        raise InputError(f"{ends[0]:g} is not below {ends[1]:g}", remedy="Give the lower one first")
    return ends


def _degrees(most: float) -> AfterValidator:
    def check(ends: tuple[float, float]) -> tuple[float, float]:
        if max(map(abs, ends)) > most:
            raise InputError(
                f"{ends[0]:g} to {ends[1]:g} is not on the globe",
                remedy=f"Give degrees between -{most:g} and {most:g}; x and y are for metres",
            )
        return ends

    return AfterValidator(check)


def _network(name: str) -> str:
    if name != name.strip() or not _NETWORK.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a network",
            remedy="Give 1 to 64 letters without / + # and control characters",
        )
    return name


def check_name(name: str) -> str:
    """A party's name; it becomes part of topics, files and certificates."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a party",
            remedy="Use letters, digits, dots, dashes and underscores, at most 64",
        )
    return name


def _not_empty(text: str) -> str:
    if not text.strip():
        raise InputError("it is empty", remedy="Give it")
    return text


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NETWORK = re.compile(r"[^/+#\x00-\x1f\x7f]{1,64}")
FilePath = Annotated[Path, Strict(False), AfterValidator(_beside)]
Seconds = Annotated[float, Field(gt=0, le=366 * 86400)]
Range = Annotated[tuple[float, float], Strict(False), AfterValidator(_ordered)]
Network = Annotated[str, AfterValidator(_network)]
Name = Annotated[str, AfterValidator(check_name)]
Words = Annotated[str, AfterValidator(_not_empty)]


class TomlTable(Settings):
    """A table of a TOML file: each value must have the type that it is declared with."""

    model_config = ConfigDict(strict=True, validate_default=True)


class BrokerSettings(TomlTable):
    """Where the broker is. Without ``plaintext = true`` the three files are needed. ``piece`` is
    the most bytes of a packet, ``largest`` of a message."""

    host: Words
    port: Annotated[int, Field(ge=1, le=65535)] = 8883
    authority: FilePath | None = None
    certificate: FilePath | None = None
    key: FilePath | None = None
    plaintext: bool = False
    keepalive: Annotated[int, Field(ge=1, le=65535)] = 20
    piece: Annotated[int, Field(ge=2**10, le=2**28)] = 2**18
    largest: Annotated[int, Field(ge=2**10, le=2**30)] = 2**26

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if not self.plaintext and None in (self.authority, self.certificate, self.key):
            raise InputError(
                "TLS needs authority, certificate and key",
                remedy="Make them with `flfl keys`; plaintext = true is for one machine only",
            )
        if self.plaintext and any((self.authority, self.certificate, self.key)):
            raise InputError(
                "plaintext = true, and yet there are certificates",
                remedy="Remove plaintext to use TLS, or remove the three files",
            )
        return self


class GridSettings(TomlTable):
    """The common times: the first one (UTC) and the step (``"1h"``, ``"1 month"``). They go on for
    ever, or until the day, or the time, ``stop``, which belongs to them."""

    start: str
    step: str
    stop: str | None = None


class MapSettings(TomlTable):
    """The published map: a file with all sensors' places, or the ranges that they lie in."""

    sensors: FilePath | None = None
    latitude: Annotated[Range, _degrees(90.0)] | None = None
    longitude: Annotated[Range, _degrees(180.0)] | None = None
    x: Range | None = None
    y: Range | None = None

    @model_validator(mode="after")
    def _has_one_kind(self) -> Self:
        pairs = ((self.latitude, self.longitude), (self.x, self.y))
        whole = [pair for pair in pairs if None not in pair]
        begun = [pair for pair in pairs if pair != (None, None)]
        if whole != begun or len(whole) + (self.sensors is not None) != 1:
            raise InputError(
                "a map is a sensors file, or two ranges",
                remedy="Give latitude = [south, north] and longitude = [west, east], or x and y",
            )
        return self


def _is_schedule(text: str) -> str:
    if text:
        Schedule.parse(text)
    return text


class RunSettings(TomlTable):
    """How a run is done, and when (``schedule``, UTC: ``"daily 03:30"``, ``"hourly :10"``,
    ``"weekly mon 03:30"``; once without one). ``added_error`` is the network's wish above each
    owner's own floor; :class:`flfl.FLFL` says what the others mean.

    A slot is released once, ``grace`` hours after its end. A run looks at the last ``window`` days;
    all ``history`` days are fitted anew as often as ``refit`` says. What comes ``late`` is used by
    its owner at home or, with ``"release"`` and by owners whose terms say so too, released as noisy
    copies one by one.
    """

    added_error: Annotated[float, Field(ge=0)] = 1.0
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    rank: Count = 20
    rounds: Count = 5
    pilot: bool = True
    transformation: Literal["none", "sqrt", "log1p"] | None = None
    season: Whole | None = None
    secure: bool = True
    schedule: Annotated[str, AfterValidator(_is_schedule)] = ""
    grace: NotNegative = 48.0
    refit: Literal["monthly", "weekly", "always"] = "monthly"
    window: Positive = 90.0
    history: Positive = 400.0
    late: Literal["home", "release"] = "home"

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        if self.history < self.window:
            raise InputError(
                f"history is {self.history:g} days, and window {self.window:g}",
                remedy="Give a longer history, or a shorter window",
            )
        return self


class DeadlineSettings(TomlTable):
    """Seconds: for sites to come together, for one answer, for the whole run. After ``misses``
    missed deadlines in a row the run goes on without a site."""

    gather_within: Seconds = 600.0
    answer_within: Seconds = 300.0
    misses: Count = 3
    finish_within: Seconds = 86400.0


class SiteList(TomlTable):
    """Who may take part, and how many are enough (at least the secure sum's threshold)."""

    roster: FilePath
    quorum: Whole = 0


class ReportSettings(TomlTable):
    """Logs (JSON lines, to stderr without a file) and the status page with its metrics, on a port
    of 127.0.0.1 (0: none). A log of ``log_size`` bytes becomes ``log.1`` and so on, ``log_files``
    are kept; with 0 it grows, and goes on in a new file when another program moves it away."""

    log: FilePath | None = None
    log_size: Whole = 10_000_000
    log_files: Count = 5
    level: Literal["debug", "info", "warning", "error"] = "info"
    status_port: Annotated[int, Field(ge=0, le=65535)] = 0

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, given: Any) -> Any:
        if isinstance(given, dict) and "metrics_port" in given:
            raise InputError(
                "metrics_port is gone",
                remedy="Write status_port: it serves /metrics, the status page and /healthz",
            )
        return given


class CoordinatorSettings(TomlTable):
    """``flfl coordinator``. Under Flower there is no broker."""

    network: Network
    sites: SiteList
    grid: GridSettings
    broker: BrokerSettings | None = None
    state: FilePath = Path("state")
    map: MapSettings | None = None
    run: RunSettings = RunSettings()
    deadlines: DeadlineSettings = DeadlineSettings()
    report: ReportSettings = ReportSettings()


def _said(words: str) -> Any:
    """A field with what it means, which is also the help of its option."""
    return Field(description=words)


Duplicates = Literal["refuse", "mean", "first"]
Aggregate = Literal["mean", "median", "last"]
Censored = Literal["missing", "half"]
Decimal = Literal["auto", "point", "comma"]
DateOrder = Literal["auto", "day-first", "month-first"]
TimeUnit = Literal[
    "auto", "seconds", "milliseconds", "microseconds", "nanoseconds", "days", "number"
]


class ReadingRules(Settings):
    """How a file of readings is to be read, where there is a choice.

    The one list of them: options of the command line, keys of a site's ``[readings]``, and
    ``reading={...}`` in Python.

    Examples
    --------
    >>> ReadingRules(missing=[-99, "--"]).sentinels, ReadingRules(missing=["--"]).sentinels
    ((-99.0,), (-999.0, -9999.0))
    """

    layout: Annotated[
        Literal["auto", "wide", "long"], _said("Wide: one column each. Long: time, sensor, value.")
    ] = "auto"
    time_column: Annotated[str | None, _said("Name of the time column.")] = None
    sensor_column: Annotated[str | None, _said("Name of the sensor column (long layout).")] = None
    value_column: Annotated[str | None, _said("Name of the value column (long layout).")] = None
    missing: Annotated[
        Sequence[float | str],
        _said(
            "A number or a word that means 'missing'; may be repeated. Default: -999, -9999;"
            " numbers replace these, words come on top."
        ),
    ] = SENTINELS
    duplicates: Annotated[Duplicates, _said("Where a time occurs twice.")] = "refuse"
    parameter: Annotated[
        str | None, _said("Which quantity (column parameter) or NetCDF variable, of several.")
    ] = None
    date_order: Annotated[DateOrder, _said("01/02/2024; auto: as other dates tell.")] = "auto"
    time_zone: Annotated[
        str | None, _said("Zone of times without offset, for example Europe/Berlin.")
    ] = None
    time_unit: Annotated[
        TimeUnit,
        _said(
            "What times that are numbers count; auto: seconds since 1970, or thousandths and so on,"
            " or a spreadsheet's days, where they look so."
        ),
    ] = "auto"
    step: Annotated[
        str | None, _said("Put times that are on no grid on one with this step: 1h, 10min, 1D.")
    ] = None
    aggregate: Annotated[
        Aggregate, _said("With --step: what several readings of a slot become.")
    ] = "mean"
    decimal: Annotated[Decimal, _said("The decimal mark. auto: as the cells tell.")] = "auto"
    encoding: Annotated[
        str | None,
        _said("Of a text file, for example windows-1252. Default: as the bytes tell."),
    ] = None
    sheet: Annotated[
        str | None, _said("Which sheet of a spreadsheet. Default: the one that holds a table.")
    ] = None
    format: Annotated[
        Literal[
            "auto", "plain", "purpleair", "openaq", "eea", "aqs", "uba", "sensor.community", "ndbc"
        ],
        _said("Whose download it is; auto: as the columns tell, plain: nobody's."),
    ] = "auto"
    censored: Annotated[Censored, _said("Readings such as <2.0: missing, or half the limit.")] = (
        "missing"
    )
    bad_flags: Annotated[
        Sequence[str], _said("A word of flag columns that means 'missing'; may be repeated.")
    ] = ()
    complete_grid: Annotated[bool, _said("Insert the rows that the time grid lacks.")] = False

    @property
    def sentinels(self) -> tuple[float, ...]:
        """Numbers that mean missing."""
        numbers = tuple(float(one) for one in self.missing if not isinstance(one, str))
        return numbers if numbers or not self.missing else SENTINELS

    @property
    def words(self) -> tuple[str, ...]:
        """Words that mean missing, beside the usual ones."""
        return tuple(one for one in self.missing if isinstance(one, str))

    @property
    def merges(self) -> bool:
        """Whether several rows may become one slot."""
        return self.step is not None or self.duplicates != "refuse"

    @property
    def several(self) -> Duplicates | Aggregate:
        """What several readings of one slot become."""
        return self.duplicates if self.step is None else self.aggregate


class ReadingSettings(TomlTable, ReadingRules):
    """Where a site's readings are, and how to read them: every rule of :class:`ReadingRules`.

    One of ``file``, ``folder`` (all readable files in it) and ``query`` with ``database``.
    """

    file: FilePath | None = None
    folder: FilePath | None = None
    query: Words | None = None
    database: Words | None = None
    sensors: FilePath | None = None

    @property
    def rules(self) -> dict[str, Any]:
        """The rules alone, as far as they are given."""
        given = self.model_dump(exclude_unset=True)
        return {name: given[name] for name in ReadingRules.model_fields if name in given}

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(one is not None for one in (self.file, self.folder, self.query)) != 1:
            raise InputError("give one of file, folder and query", remedy="Remove the others")
        if self.complete_grid:
            raise InputError("a site has the network's grid", remedy="Leave complete_grid out")
        if self.database is not None and self.query is None:
            raise InputError("there is a database and no query", remedy="Give the query, too")
        return self


class OutSettings(TomlTable):
    """Where the site's own result goes, and how it is made at home.

    Slots that nobody in the network observed stay empty, but for ``extrapolate`` beyond others. The
    last ``history`` days are estimated anew after every run, all days when all is fitted anew.
    ``page`` (.html) shows the result beside the owner's own without the network, and the nights
    before; ``scores`` (.json) are its figures.
    """

    file: FilePath
    flags: FilePath | None = None
    page: FilePath | None = None
    scores: FilePath | None = None
    extrapolate: Whole = 0
    effort: Literal["full", "quick"] = "full"
    coverage: Annotated[float, Field(gt=0, lt=1)] = 0.9
    history: Positive = 90.0


class Terms(TomlTable):
    """What the owner insists on, whatever a run asks for.

    ``added_error`` is the least noise in its copies: a multiple of each sensor's own error in time,
    or a text such as ``"2 ug/m3"``. 0 means that the coordinator is trusted. ``share`` is the most
    that a run may release, in numbers for each reading: above one half the coordinator learns about
    as much as the copies hold. ``late = "release"``
    lets noisy copies of readings that come late leave one by one, where the network releases them.
    """

    added_error: Annotated[float, Field(ge=0)] | str = 1.0
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    secure: bool = True
    late: Literal["home", "release"] = "home"


class SiteSettings(TomlTable):
    """``flfl site``.

    ``copies`` is the folder of the secret and the copies, ``state`` if not given. One owner's sites
    in several networks have one such folder: a reading has one copy. ``again`` is after how many
    seconds without a message a site says that it waits.
    """

    network: Network
    name: Name
    readings: ReadingSettings
    out: OutSettings
    broker: BrokerSettings | None = None
    identity: FilePath | None = None
    roster: FilePath | None = None
    state: FilePath = Path("state")
    copies: FilePath | None = None
    terms: Terms = Terms()
    report: ReportSettings = ReportSettings()
    again: Seconds = 5.0

    @model_validator(mode="after")
    def _has_name(self) -> Self:
        if self.name == "coordinator":
            raise InputError("no site may be called 'coordinator'", remedy="Choose another name")
        return self
