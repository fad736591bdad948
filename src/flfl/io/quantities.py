"""Quantities in the names of columns: which of several holds the readings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flfl.io.columns import PARAMETER_NAMES, Columns, drop, key, listing

TYPES = (*PARAMETER_NAMES, "type")
"""Names of a column that says which quantity a row of a wide table holds."""
_WEATHER = (
    "humidity|humidité|humedad|umidità|umidade|luftfeuchte|rh|temp|pressure|pression|presión"
    "|presion|luftdruck|dew|wind|viento|rain|lluvia|precip|noise|uptime|rssi|aqi|luftqualit|voc"
    "|scattering|deciviews|visual_range|particle|entry_id"
)
_QUANTITY = re.compile(
    r"(?:(?:hi|high|low|lo|min|max|avg|mean|out|in|outside|inside|outdoor|indoor|abs|rel)[ _.]+)*"
    r"(pm[ _]?(?:<sub>)?(10|1|2[.,_]?5|4)(\.0)?|no2?|nox|o3|so2|co2?|nh3|c6h6|tvoc|hum|dewpoint"
    rf"|{_WEATHER}|wdir|wspd|gst|wvht|dpd|apd|mwd|pres|atmp|wtmp|dewp|vis|ptdy|tide"
    r"|nitrogen|nitric|ozone|ozono|sulphur|sulfur|carbon|benzene|dioxyde|dióxido|monoxyde"
    r"|feinstaub|ozon|stickstoff|schwefel|kohlenmonoxid)"
    r"([ _\-(,.<].*|(er)?atur(e|a)?.*|ita(tion|ci[oó]n).*|\d.*|mon?oxid.*|dioxid.*|ätsindex.*|$)",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    rf"({_WEATHER}).*",
    re.IGNORECASE,
)


def only_quantity(columns: Columns, time: int, parameter: str | None) -> Columns:
    """One quantity of a station whose columns are quantities, not sensors, or of all stations where
    each has several."""
    others = [i for i in range(len(columns.names)) if i != time]
    if by_station := kinds_by_station(columns, time):
        return _one_of_each(columns, by_station, parameter)
    kinds = {i: m[1].lower() for i in others if (m := _QUANTITY.match(columns.names[i]))}
    if len(set(kinds.values())) < 2 or len(kinds) * 2 <= len(others):
        return columns
    column = _pick(columns, list(kinds), parameter)
    gone = [i for i in others if i != column]
    name = columns.names[column]
    names = tuple(columns.path.stem if i == column else n for i, n in enumerate(columns.names))
    told = f"The columns are quantities of one station; the readings are {name!r}."
    return drop(replace(columns, names=names), gone, told)


def kinds_by_station(columns: Columns, time: int) -> dict[int, str]:
    """The quantity in the name of each column (``A_PM10``, ``NO2 B``) where stations have several;
    nothing where they do not."""
    kinds, stations = dict[int, str](), dict[str, set[str]]()
    for i, name in enumerate(columns.names):
        if i == time:
            continue
        cuts = [0, *(match.end() for match in re.finditer(r"[ _/:|\-]+", name))]
        found = [(cut, match[1]) for cut in cuts if (match := _QUANTITY.match(name[cut:]))]
        if not found:
            return {}
        cut, kind = found[0]
        rest = name[:cut] if cut else re.sub(r"^[^ _/:|\-]+", "", name)
        kinds[i] = kind.lower()
        stations.setdefault(kind.lower(), set()).add(rest.strip(" _/:|-").lower())
    shared = len(stations) > 1 and len(set.intersection(*stations.values()) - {""})
    return kinds if shared and shared > 1 else {}


def _one_of_each(columns: Columns, kinds: dict[int, str], parameter: str | None) -> Columns:
    """The columns of one quantity; refuses several when none is chosen."""
    every = sorted(set(kinds.values()))
    main = [kind for kind in every if not _BESIDE.fullmatch(kind)]
    if parameter is not None:
        main = [kind for kind in every if key(kind) == key(parameter)]
    if len(main) != 1:
        problem = f"the stations have {len(every)} quantities each: {listing(every, 8)}"
        raise columns.error(problem, f"Choose one with parameter, for example {every[0]}")
    gone = [i for i, kind in kinds.items() if kind != main[0]]
    told = f"The stations have {len(every)} quantities; the readings are {main[0]}"
    return drop(columns, gone, f"{told} ({len(kinds) - len(gone)} columns).")


def pick_parameter(
    columns: Columns, column: int, parameter: str | None
) -> tuple[Columns, list[str]]:
    """The rows of one parameter, and a note on it; refuses several when none is chosen."""
    cells = pc.utf8_trim_whitespace(pc.cast(columns.arrays[column], pa.string())).fill_null("")
    found = sorted(str(name) for name in pc.unique(cells).to_pylist())
    if len(found) > 1 if parameter is None else parameter not in found:
        lacks = "" if parameter is None else f"there is no parameter {parameter!r}; "
        problem = f"{lacks}the file holds {len(found)} parameters: {listing(found, 12)}"
        remedy = f"Choose one with parameter, for example parameter={found[0] or found[-1]}"
        raise columns.error(problem, remedy, column=column)
    if len(found) > 1:
        columns = columns.pick(np.flatnonzero(pc.equal(cells, parameter)))
    chosen = parameter or found[0]
    return columns, [f"The parameter is {chosen}."] if chosen else []


def is_quantity(name: str) -> bool:
    """Whether a name is that of a quantity, not of a sensor.

    Examples
    --------
    >>> [is_quantity(name) for name in ("pm2.5_atm", "Ozon (O3)", "humidity", "Mitte", "p002")]
    [True, True, True, False, False]
    """
    return _QUANTITY.match(name) is not None


def value_column(columns: Columns, used: Sequence[int], parameter: str | None) -> int | None:
    """The column of readings in a file that has a time, a sensor and several quantities."""
    others = [i for i in range(len(columns.names)) if i not in used]
    kinds = [i for i in others if _QUANTITY.match(columns.names[i])]
    return _pick(columns, kinds, parameter) if kinds else None


def without_others(
    columns: Columns, roles: tuple[int, int, int]
) -> tuple[Columns, tuple[int, int, int]]:
    """The columns and their roles without the quantities that were not chosen."""
    gone = [i for i, name in enumerate(columns.names) if i not in roles and is_quantity(name)]
    if not gone:
        return columns, roles
    chosen, others = columns.names[roles[2]], listing([columns.names[i] for i in gone], 4)
    left = drop(columns, gone, f"The readings are {chosen!r}; not read: {others}.")
    time, who, value = (left.names.index(columns.names[i]) for i in roles)
    return left, (time, who, value)


def _pick(columns: Columns, kinds: Sequence[int], parameter: str | None) -> int:
    """The column that ``parameter`` names, or the only one that is no weather and no index."""
    names = [columns.names[i] for i in kinds]
    if parameter is not None:
        if parameter in names:
            return kinds[names.index(parameter)]
        inside = [i for i in kinds if parameter.lower() in columns.names[i].lower()]
        if len(inside) == 1:
            return inside[0]
        problem = f"there is no parameter {parameter!r}; the file has {listing(names, 12)}"
        raise columns.error(problem, f"Choose one with parameter, for example {names[0]}")
    main = [i for i in kinds if not _BESIDE.fullmatch(columns.names[i])]
    if len(main) == 1:
        return main[0]
    problem = f"the columns are quantities, not sensors: {listing(names, 15)}"
    example = columns.names[(main or kinds)[0]]
    raise columns.error(problem, f"Choose one with parameter, for example parameter={example!r}")
