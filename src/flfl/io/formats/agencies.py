"""Downloads of agencies and networks, recognised by their columns and read as they come.

Each is a line of :data:`LAYOUTS`: which columns it has, and which of them are the time, the sensor
and the reading. What comes out is a long table with common names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from flfl.io.columns import Columns, listing

Pick = tuple[str, ...]
"""Names of columns; those that are not there are left out."""


@dataclass(frozen=True)
class Layout:
    """One agency's layout.

    ``needs`` tells it from others. ``time`` are one or two columns, ``sensor`` one or more, joined
    with dashes. Readings for which ``valid`` is below 1 are missing. ``zone`` is added to times.
    ``value`` is empty where the columns themselves are quantities.
    """

    name: str
    title: str
    needs: Pick
    time: Pick
    sensor: Pick
    value: Pick = ()
    unit: str = ""
    parameter: str = ""
    valid: str = ""
    latitude: str = ""
    longitude: str = ""
    zone: str = ""
    words: tuple[tuple[str, str], ...] = ()


_EEA_CODES = (("1", "SO2"), ("5", "PM10"), ("7", "O3"), ("8", "NO2"), ("9", "NOX"), ("10", "CO"),
              ("20", "C6H6"), ("38", "NO"), ("6001", "PM2.5"))  # fmt: skip

_EPA_DAILY = (
    "Daily Mean PM2.5 Concentration", "Daily Mean PM10 Concentration",
    "Daily Max 8-hour Ozone Concentration", "Daily Max 8-hour CO Concentration",
    "Daily Max 1-hour NO2 Concentration", "Daily Max 1-hour SO2 Concentration", "Concentration",
)  # fmt: skip

LAYOUTS = (
    Layout(
        "eea", "European Environment Agency (reported data)",
        ("AirQualityStationEoICode", "Concentration", "DatetimeBegin", "AirPollutant"),
        ("DatetimeBegin",), ("AirQualityStationEoICode", "SamplingPoint"), ("Concentration",),
        "UnitOfMeasurement", "AirPollutant", "Validity",
    ),
    Layout(
        "eea", "European Environment Agency (Parquet downloads)",
        ("Samplingpoint", "Pollutant", "Start", "Value", "Validity"),
        ("Start",), ("Samplingpoint",), ("Value",), "Unit", "Pollutant", "Validity",
        zone="+01:00", words=_EEA_CODES,
    ),
    Layout(
        "aqs", "EPA AQS (hourly)",
        ("State Code", "County Code", "Site Num", "Date GMT", "Time GMT", "Sample Measurement"),
        ("Date GMT", "Time GMT"), ("State Code", "County Code", "Site Num", "POC"),
        ("Sample Measurement",), "Units of Measure", "Parameter Name", "", "Latitude", "Longitude",
        "Z",
    ),
    Layout(
        "aqs", "EPA AQS (daily)",
        ("State Code", "County Code", "Site Num", "Date Local", "Arithmetic Mean"),
        ("Date Local",), ("State Code", "County Code", "Site Num", "POC"), ("Arithmetic Mean",),
        "Units of Measure", "Parameter Name", "", "Latitude", "Longitude",
    ),
    Layout(
        "aqs", "EPA outdoor air quality (daily)",
        ("Date", "Site ID", "POC", "Daily AQI Value"),
        ("Date",), ("Site ID", "POC"), _EPA_DAILY, "Units", "", "", "Site Latitude",
        "Site Longitude",
    ),
    Layout(
        "aqs", "EPA outdoor air quality (daily, until 2023)",
        ("Date", "Site ID", "POC", "DAILY_AQI_VALUE"),
        ("Date",), ("Site ID", "POC"), _EPA_DAILY, "UNITS", "", "", "SITE_LATITUDE",
        "SITE_LONGITUDE",
    ),
    Layout(
        "openaq", "OpenAQ (explorer)",
        ("location_id", "parameter", "value", "datetimeUtc"),
        ("datetimeUtc",), ("location_id",), ("value",), "unit", "parameter", "", "latitude",
        "longitude",
    ),
    Layout(
        "openaq", "OpenAQ (API, version 3)",
        ("value", "parameter.name", "period.datetimeFrom.utc"),
        ("period.datetimeFrom.utc",), ("sensor_id", "sensors_id", "sensorsId", "location_id"),
        ("value",), "parameter.units", "parameter.name", "", "coordinates.latitude",
        "coordinates.longitude",
    ),
    Layout(
        "sensor.community", "Sensor.Community",
        ("sensor_id", "sensor_type", "timestamp", "P1", "P2"), ("timestamp",), ("sensor_id",),
        latitude="lat", longitude="lon", zone="Z", words=(("P1", "pm10"), ("P2", "pm2.5")),
    ),
    Layout(
        "purpleair", "PurpleAir (history)", ("time_stamp", "sensor_index"),
        ("time_stamp",), ("sensor_index",),
    ),
    Layout("purpleair", "PurpleAir (one sensor)", ("time_stamp", "humidity"), ("time_stamp",), ()),
    Layout(
        "purpleair", "PurpleAir (ThingSpeak)", ("created_at", "entry_id"), ("created_at",), (),
    ),
    Layout(
        "uba", "Umweltbundesamt", ("Stationscode", "Datum"), ("Datum", "Uhrzeit"),
        ("Stationscode",), ("Messwert", "Messwert (in µg/m³)"),
    ),
)  # fmt: skip
"""In the order in which they are tried."""

_BUOY = ("WDIR", "WSPD", "GST", "WVHT", "ATMP", "WTMP")
_BUOY_CODES = dict.fromkeys(("WSPD", "GST", "WVHT", "DPD", "APD", "VIS", "TIDE"), "99")
_BUOY_CODES |= dict.fromkeys(("WDIR", "MWD", "ATMP", "WTMP", "DEWP"), "999") | {"PRES": "9999"}
"""What stands for a missing reading in files of buoys, by column, beside MM."""


def recognised(columns: Columns, wanted: str = "auto") -> Columns:
    """The columns of an agency's download by common names; others as they are."""
    for layout in LAYOUTS:
        if wanted in ("auto", layout.name) and set(layout.needs) <= set(columns.names):
            return _translated(columns, layout)
    if wanted in ("auto", "ndbc") and set(_BUOY) <= set(columns.names):
        return _buoy(columns)
    if wanted not in ("auto", "plain"):
        found = listing(columns.names, 8)
        problem = f"this is not a download of {wanted}; the columns are {found}"
        raise columns.error(problem, "Leave format out")
    return columns


def _buoy(columns: Columns) -> Columns:
    """NOAA's standard meteorological files without their codes for missing readings."""
    arrays, lost = list(columns.arrays), 0
    for i, name in enumerate(columns.names):
        if not name.isupper() or name in ("YY", "MM", "DD"):
            continue
        found = pc.match_substring_regex(arrays[i], rf"^(MM|{_BUOY_CODES.get(name, 'MM')}(\.0+)?)$")
        arrays[i], lost = pc.if_else(found, "", arrays[i]), lost + int(pc.sum(found).as_py() or 0)
    told = f"The file is a download of NOAA's buoys; {lost} cells of MM, 99, 999 and 9999, each"
    told += " where that is the column's code, are missing."
    return replace(columns, arrays=tuple(arrays), notes=(*columns.notes, told))


def _translated(columns: Columns, layout: Layout) -> Columns:
    at = {name: i for i, name in enumerate(columns.names)}
    texts: Callable[[str], pa.Array] = lambda name: pc.fill_null(  # noqa: E731
        pc.utf8_trim_whitespace(_text(columns.arrays[at[name]])), ""
    )
    there = [name for name in layout.time if name in at]
    times = (
        pc.binary_join_element_wise(*map(texts, there), " ")
        if len(there) > 1
        else (columns.arrays[at[there[0]]])
    )
    if layout.zone:
        times = pc.binary_join_element_wise(_text(times), layout.zone, "")
    notes = [f"The file is a download of {layout.title}."]
    made: dict[str, pa.Array] = {"time": times}
    if sensors := [name for name in layout.sensor if name in at]:
        made["sensor"] = _identity(columns, [texts(name) for name in sensors])
    value = next((name for name in layout.value if name in at), None)
    if value is None:
        # The other columns are quantities, of which one will be chosen.
        used = {*there, *sensors}
        called = {name: dict(layout.words).get(name, name) for name in at if name not in used}
        made |= {called[name]: columns.arrays[at[name]] for name in called}
        return _with(columns, made, notes, {called.get(name, name): i for name, i in at.items()})
    made["value"] = columns.arrays[at[value]]
    if layout.valid in at:
        numbers = pc.cast(texts(layout.valid), pa.float64(), safe=False)
        bad = pc.fill_null(pc.less(numbers, 1), False)
        if lost := int(pc.sum(bad).as_py() or 0):
            made["value"] = pc.if_else(bad, pa.scalar(None, made["value"].type), made["value"])
            notes.append(f"{lost} readings that are marked as not valid are missing.")
        if pa.types.is_string(made["value"].type):
            made["value"] = pc.fill_null(made["value"], "")
    for name, source in (
        ("unit", layout.unit), ("parameter", layout.parameter),
        ("latitude", layout.latitude), ("longitude", layout.longitude),
    ):  # fmt: skip
        if source in at:
            made[name] = texts(source)
    if layout.words and "parameter" in made:
        for code, word in layout.words:
            same = pc.equal(made["parameter"], code)
            made["parameter"] = pc.if_else(same, word, made["parameter"])
    return _with(columns, made, notes, {"value": at[value]})


def _text(array: pa.Array) -> pa.Array:
    """Texts of any column; times in ISO 8601."""
    if pa.types.is_timestamp(array.type):
        return pc.strftime(array, "%Y-%m-%d %H:%M:%S").cast(pa.string())
    return pc.cast(array, pa.string())


def _identity(columns: Columns, parts: list[pa.Array]) -> pa.Array:
    """A sensor's name: its parts with dashes, without the last where that adds nothing."""
    if len(parts) == 1:
        return parts[0]
    short, joined = (pc.binary_join_element_wise(*some, "-") for some in (parts[:-1], parts))
    return short if len(pc.unique(joined)) == len(pc.unique(short)) else joined


def _with(
    columns: Columns, made: dict[str, pa.Array], notes: list[str], at: dict[str, int]
) -> Columns:
    """The columns that were made; ``at`` says where those with readings come from."""
    return replace(
        columns,
        names=tuple(made),
        arrays=tuple(made.values()),
        units=None,
        form=None,
        homes=tuple(at.get(name, -1) for name in made),
        notes=(*columns.notes, *notes),
    )
