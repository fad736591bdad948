"""The gallery: small files, each with one thing wrong or odd, and what becomes of every one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flfl.errors import InputError
from flfl.io.read import read_readings

GALLERY = Path(__file__).parent / "gallery"
NAN = float("nan")
BERLIN = {"time_zone": "Europe/Berlin"}

# file, options, words that the message must hold
REFUSED: list[tuple[str, dict[str, object], list[str]]] = [
    ("asterisk.csv", {}, ["line 2, column 'a'", "'45*' is not a number"]),
    ("clock_back_once.csv", BERLIN, ["line 3", "02:00:00 in Europe/Berlin comes twice", "UTC"]),
    ("clock_back_twice.csv", {}, ["lines 3 and 4", "daylight saving", "time_zone"]),
    ("clock_back_twice.csv", {"time_zone": "Europe/Berl"}, ["no time zone 'Europe/Berl'"]),
    ("clock_forward.csv", BERLIN, ["line 3", "does not exist: the clocks skip it"]),
    ("csv_called_netcdf.nc", {}, ["not NetCDF"]),
    ("day_or_month.csv", {}, ["line 2", "'01/02/2024'", "date_order=day-first"]),
    ("day_first_told_late.csv", {"date_order": "month-first"}, ["line 4", "'13/02/2024'"]),
    ("epoch_seconds.csv", BERLIN, ["offsets of their own", "Leave time_zone out"]),
    ("full_width_digits.csv", {}, ["line 2, column 'a'", "is not a number"]),
    ("no_times.nc", {}, ["no variable holds the times"]),
    ("noleap.nc", {}, ["calendar 'noleap'", "standard calendar"]),
    ("offsets_over_summer_time.csv", BERLIN, ["offsets of their own", "Leave time_zone out"]),
    ("openaq_archive.csv", {}, ["2 parameters: no2, pm10", "parameter=no2"]),
    ("openaq_archive.csv", {"parameter": "o3"}, ["no parameter 'o3'", "no2, pm10"]),
    ("openaq_mixed_units.csv", {}, ["column 'unit'", "several units"]),
    ("openaq_same_location_twice.csv", {}, ["lines 2 and 4", "sensor '7'", "sensor_column"]),
    ("percent.csv", {}, ["line 2, column 'a'", "'45%' is not a number"]),
    ("quoted_decimal_comma.csv", {}, ["line 2, column 'a'", "'1,5'", "decimal=comma"]),
    ("semicolon_both_marks.csv", {}, ["line 3, column 'a'", "'2.5'", "decimal commas"]),
    ("semicolon_thousands.csv", {}, ["line 2, column 'a'", "'1,234'", "decimal=comma"]),
    ("semicolon_thousands.csv", {"decimal": "point"}, ["'1,234' is not a number"]),
    ("thirteen_pm.csv", {}, ["line 3", "'01/31/2024 13:00 PM'"]),
    ("thousands_blank.csv", {}, ["line 2, column 'a'", "'1 234' is not a number"]),
    ("thousands_point.csv", {}, ["line 2, column 'a'", "'1.234,5'", "decimal commas"]),
    ("times_by_station.nc", {}, ["'when' differ from station to station"]),
    ("title_with_a_comma.csv", {}, ["line 2", "3 cells, the header has 2", "a title"]),
    ("two_variables.nc", {}, ["t2m, u10", "Choose one with parameter"]),
    ("two_variables.nc", {"parameter": "v10"}, ["no variable 'v10'", "t2m, u10"]),
    ("stations.nc", BERLIN, ["times in UTC", "time_zone means nothing here"]),
    ("stations.nc", {"value_column": "pm10"}, ["value_column", "with parameter"]),
    ("words_for_missing.csv", {}, ["line 3, column 'a'", "'Invalid'", "missing="]),
    ("unclosed_quote.csv", {}, ["line 2", "is not a number"]),
    ("unknown_time_units.nc", {}, ["CF conventions", "units of the time"]),
    ("unquoted_decimal_comma.csv", {}, ["line 2", "3 cells, the header has 2"]),
    ("minus_nine.csv", {"parameter": "pm10"}, ["no parameter", "Leave parameter out"]),
]

# file, options, sensors, readings (time x sensor), first time in the index, words of the notes
READ: list[tuple[str, dict[str, object], list[str], list[list[float]], str, list[str]]] = [
    (
        "clock_back_twice.csv",
        BERLIN,
        ["a"],
        [[1], [2], [3], [4]],
        "2024-10-26T23:00:00+00:00",
        ["in Europe/Berlin"],
    ),
    ("blanks_for_delimiters.csv", {}, ["a", "b"], [[1, 2], [2, 3]], "2024-01-01", ["of blanks"]),
    ("clock_forward.csv", {}, ["a"], [[1], [2], [4]], "2024-03-31T01:00:00", []),
    ("quoted_decimal_comma.csv", {"decimal": "comma"}, ["a"], [[1.5], [2.25]], "2024-01-01", []),
    (
        "words_for_missing.csv",
        {"missing": ["--", "INVALID"]},
        ["a", "b"],
        [[1.5, NAN], [NAN, 2.5], [NAN, 3.5]],
        "2024-01-01",
        ["1 value equal to -999 read as missing"],
    ),
    (
        "verified_throughout.csv",
        {},
        ["a", "b"],
        [[1, 4], [2, NAN], [3, 6]],
        "2024-01-01",
        ["not carried over: qc"],
    ),
    ("day_or_month.csv", {"date_order": "day-first"}, ["a"], [[1], [2], [3]], "2024-02-01", []),
    (
        "day_or_month.csv",
        {"date_order": "month-first"},
        ["a"],
        [[1], [2], [3]],
        "2024-01-02",
        ["monthly"],
    ),
    ("day_first_told_late.csv", {}, ["a"], [[1], [2], [3]], "2024-02-11", ["daily"]),
    (
        "epoch_seconds.csv",
        {},
        ["a"],
        [[1], [2], [3]],
        "2024-01-01T00:00:00+00:00",
        ["seconds since 1970", "1 of 4"],
    ),
    (
        "epoch_seconds.csv",
        {"time_unit": "number"},
        ["a"],
        [[1], [2], [3]],
        "1704067200.0",
        ["3600-unit", "1 of 4"],
    ),
    (
        "below_detection.csv",
        {},
        ["a", "b"],
        [[1, 2], [NAN, 3]],
        "2024-01-01",
        ["below a limit of detection"],
    ),
    (
        "below_detection.csv",
        {"censored": "half"},
        ["a", "b"],
        [[1, 2], [0.25, 3]],
        "2024-01-01",
        ["half the limit"],
    ),
    ("date_and_clock_apart.csv", {}, ["a"], [[1], [2]], "2024-01-01", ["in two columns"]),
    ("hour_24.csv", {}, ["a"], [[1], [2]], "2024-01-01T23:00:00", ["24:00 is read as"]),
    ("row_of_means.csv", {}, ["a"], [[1], [3]], "2024-01-01", ["not read: 'Mean,2'"]),
    ("row_of_units.csv", {}, ["a", "b"], [[1, 2], [2, 3]], "2024-01-01", ["units: ug/m3"]),
    ("title_above_header.csv", {}, ["a", "b"], [[1, 2], [1, 2]], "2024-01-01", ["1 line above"]),
    ("titles_above_header.csv", {}, ["a", "b"], [[1, 2], [3, NAN]], "2024-01-01", ["2 lines"]),
    ("two_digit_year.csv", {}, ["a"], [[1], [2]], "2024-02-01", []),
    ("unicode_text_of_a_spreadsheet.csv", {}, ["a"], [[1], [2]], "2024-01-01", ["utf-16-le"]),
    ("minus_nine.csv", {"missing": [-9]}, ["a"], [[NAN], [4]], "2024-01-01", ["equal to -9"]),
    ("month_first_told_late.csv", {}, ["a"], [[1], [2], [3]], "2024-02-11T23:00:00", []),
    ("noon_and_midnight.csv", {}, ["a"], [[1], [2], [3]], "2024-01-01T11:00:00", ["hourly"]),
    (
        "offsets_over_summer_time.csv",
        {},
        ["a"],
        [[1], [2], [4]],
        "2024-03-31T00:00:00+00:00",
        ["+01:00/+02:00", "hourly"],
    ),
    (
        "openaq_v2.csv",
        {},
        ["Mitte", "Wedding"],
        [[8.1, 7], [NAN, 6.5], [9, 7.25]],
        "2024-01-01T00:00:00+00:00",
        ["parameter is pm25", "equal to -999"],
    ),
    (
        "openaq_archive.csv",
        {"parameter": "pm10"},
        ["1", "2"],
        [[10, 20], [11, 21], [12, 22]],
        "2024-10-27T00:00:00+00:00",
        ["parameter is pm10", "hourly"],
    ),
    (
        "openaq_same_location_twice.csv",
        {"sensor_column": "sensors_id"},
        ["1", "2"],
        [[1, 2], [2, 3]],
        "2023-12-31T23:00:00+00:00",
        [],
    ),
    (
        "openaq_moving_station.csv",
        {},
        ["Bus"],
        [[1], [2], [3]],
        "2024-01-01T00:00:00+00:00",
        ["coordinates of a sensor change; they are not used"],
    ),
    (
        "openaq_place_missing.csv",
        {},
        ["Mitte", "Wedding"],
        [[3, 5], [4, NAN]],
        "2024-01-01T00:00:00+00:00",
        ["not all there"],
    ),
    (
        "openaq_units_by_sensor.csv",
        {},
        ["Mitte", "Wedding"],
        [[40, 0.02], [40, 0.02]],
        "2024-01-01T00:00:00+00:00",
        ["different units: ppm, µg/m³"],
    ),
    (
        "packed_grid.nc",
        {},
        ["50_8", "50_9", "50_10", "51_8", "51_9", "51_10"],
        (280 + np.arange(24.0).reshape(4, 6) / 10).tolist(),
        "2024-01-01T00:00:00+00:00",
        ["variable 't2m'", "hourly"],
    ),
    (
        "semicolon_decimal_comma.csv",
        {},
        ["Nord", "Süd"],
        [[1.25, -0.5], [NAN, 3], [0.5, 4]],
        "2024-02-01",
        ["288 of 291 hourly rows"],
    ),
    (
        "semicolon_thousands.csv",
        {"decimal": "comma"},
        ["a"],
        [[1.234], [12.5]],
        "2024-01-01",
        [],
    ),
    (
        "small_types.parquet",
        {},
        ["a", "b"],
        [[1, 1.5], [NAN, 2], [3, NAN], [4, 4]],
        "2023-12-31T23:00:00+00:00",
        ["in Europe/Berlin"],
    ),
    (
        "stations.nc",
        {},
        ["DE1", "DE2"],
        [[1.5, 4], [NAN, 5], [2.5, 6], [3, 7]],
        "2024-01-01T00:00:00+00:00",
        ["in UTC"],
    ),
]


@pytest.mark.parametrize(("name", "options", "words"), REFUSED)
def test_refused(name: str, options, words) -> None:
    if name.endswith(".nc"):
        pytest.importorskip("h5netcdf")
    with pytest.raises(InputError) as caught:
        read_readings(GALLERY / name, **options)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "\n" not in message
    assert caught.value.remedy


@pytest.mark.parametrize(("name", "options", "sensors", "readings", "first", "words"), READ)
def test_read(name: str, options, sensors, readings, first, words) -> None:
    if name.endswith(".nc"):
        pytest.importorskip("h5netcdf")
    table = read_readings(GALLERY / name, **options)
    assert list(table.sensor_ids) == sensors
    np.testing.assert_allclose(table.values.to_numpy(), readings, rtol=1e-12)
    start = table.values.index[0]
    shown = start.isoformat() if hasattr(start, "isoformat") else str(start)
    assert shown.removesuffix("T00:00:00") == first
    for word in words:
        assert word in " ".join(table.notes)


def test_every_file_is_in_a_table() -> None:
    told = {name for name, *_ in REFUSED} | {name for name, *_ in READ}
    assert told == {path.name for path in GALLERY.iterdir()}
    assert len(told) >= 25
