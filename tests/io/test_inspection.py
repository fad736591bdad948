"""What is said of a table before anything is done with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from flfl.cli import main
from flfl.io.inspection import inspect_table
from flfl.io.read import from_frame, read_readings
from flfl.io.sensors import Sensors

GALLERY = Path(__file__).parent / "gallery"


def frame(columns: int = 4, slots: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    index = pd.date_range("2024-01-01", periods=slots, freq="h", name="time")
    values = 20 + np.round(rng.standard_normal((slots, columns)), 2)
    return pd.DataFrame(values, index, list("abcdefgh"[:columns]))


def kinds(table: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    return {found.kind: found.sensors for found in inspect_table(from_frame(table)).suspicious}


def test_a_sound_table_is_not_suspicious() -> None:
    assert kinds(frame()) == {}


def test_gaps_by_length_and_share_missing() -> None:
    table = frame(3)
    table.iloc[0, 0] = np.nan
    table.iloc[10:14, 0] = np.nan
    table.iloc[100:130, 1] = np.nan
    table["c"] = np.nan
    found = inspect_table(from_frame(table))
    assert {gap.name: (gap.gaps, gap.cells) for gap in found.gaps} == {
        "1": (1, 1),
        "2 to 6": (1, 4),
        "7 to 24": (0, 0),
        "25 to 168": (1, 30),
        "169 and more": (0, 0),
    }
    assert (found.observed, found.missing, found.to_fill) == (365, 235, 35)
    assert found.empty == ("c",)
    assert [name for name, _ in found.worst] == ["c", "b", "a"]
    assert found.worst[1][1] == pytest.approx(0.15)


def test_gaps_add_up_whatever_the_table() -> None:
    rng = np.random.default_rng(1)
    for share in (0.0, 0.3, 0.9):
        table = frame(5)
        table = table.mask(rng.random(table.shape) < share)
        table.iloc[0] = 1.0
        found = inspect_table(from_frame(table))
        assert sum(gap.cells for gap in found.gaps) == found.to_fill == found.missing


def test_the_grid_is_told(tmp_path: Path) -> None:
    table = frame().drop(frame().index[50:53])
    found = inspect_table(from_frame(table))
    assert (found.step, found.regular, found.absent, found.slots) == ("hourly", True, 3, 197)
    jitter = frame()
    jitter.index += pd.to_timedelta(np.arange(200) ** 2 % 7, unit="s")
    found = inspect_table(from_frame(jitter))
    assert not found.regular
    assert found.absent == 0


@pytest.mark.parametrize(
    ("kind", "slots", "value"),
    [
        ("negative", [7], -0.5),
        ("stuck", list(range(60, 90)), 21.37),
        ("far outside", [40], 900.0),
        ("another level", list(range(200)), 9000.0),
    ],
)
def test_faults_are_found_where_they_are(kind: str, slots: list[int], value: float) -> None:
    table = frame()
    if kind == "another level":
        table["b"] *= 1000
    else:
        table.iloc[slots, 1] = value
    assert kinds(table)[kind] == ("b",)


def test_rounded_and_repeated_sensors() -> None:
    table = frame()
    table["b"] = table["b"].round()
    table["d"] = table["a"]
    assert kinds(table) == {"rounded": ("b",), "repeated": ("a", "d")}


def test_dry_spells_and_quantities_below_zero_are_no_faults() -> None:
    table = frame()
    table["a"] = 0.0
    table.iloc[::40, 0] = np.arange(5) + 0.5
    assert "stuck" not in kinds(table)
    assert "negative" not in kinds(frame() - 20)


def test_sentences_of_files() -> None:
    table = read_readings(GALLERY / "semicolon_decimal_comma.csv")
    said = " ".join(inspect_table(table).sentences())
    for words in (
        "2 sensors and 3 hourly slots",
        "288 of 291 hourly rows are absent",
        "delimited by semicolon, with decimal comma",
        "name no zone",
        "names no unit",
        "the spatial part is off",
        "`recover` would keep 5 observed readings as they are and has 1 cell to fill",
    ):
        assert words in said
    pytest.importorskip("h5netcdf")
    table = read_readings(GALLERY / "stations.nc")
    said = " ".join(inspect_table(table, Sensors.of_table(table)).sentences())
    assert "NetCDF" in said
    assert "The unit is ug m-3." in said
    assert "latitude and longitude" in said


def test_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke(main, ["inspect", str(GALLERY / "openaq_v2.csv"), "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.output)
    assert (found["sensors"], found["slots"], found["observed"], found["to_fill"]) == (2, 3, 5, 1)
    assert found["units"] == ["µg/m³"]
    assert found["coordinates"] == "latlon"
    run = CliRunner().invoke(main, ["inspect", str(GALLERY / "openaq_v2.csv")])
    assert "The parameter is pm25." in run.output
    assert "gap length in slots" in run.output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openaq_archive.csv", "--parameter no2"),
        ("day_or_month.csv", "--date-order day-first"),
        ("semicolon_thousands.csv", "--decimal comma"),
        ("clock_back_twice.csv", "name the zone with --time-zone"),
        ("two_variables.nc", "Choose one with --parameter"),
    ],
)
def test_the_command_names_the_option_that_settles_it(name: str, words: str) -> None:
    if name.endswith(".nc"):
        pytest.importorskip("h5netcdf")
    run = CliRunner().invoke(main, ["inspect", str(GALLERY / name)])
    assert run.exit_code == 2
    assert words in run.stderr
