"""The sensors file: found by name, put in order, refused with the sensor and the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl.errors import InputError
from flfl.io.sensors import Sensors, read_sensors, read_sites
from flfl.io.write import write_sensors

GOOD = (
    "sensor_id,latitude,longitude,region,owner\n"
    "b,50.5,8,north,City\nc,1,2,x,y\na,51,9.5,south,Farm\n"
)


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str, name: str = "sensors.csv") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return _write


def test_reordered_with_regions_and_sites(write) -> None:
    sensors = read_sensors(write(GOOD), ["a", "b"])
    assert sensors.ids == ("a", "b")
    assert sensors.kind == "latlon"
    np.testing.assert_array_equal(sensors.coordinates, [[51, 9.5], [50.5, 8]])
    assert sensors.regions == ("south", "north")
    assert sensors.sites == ("Farm", "City")
    assert sensors.notes == ("Rows for sensors that have no readings are ignored: c.",)


def test_metric_coordinates_and_other_names(write) -> None:
    sensors = read_sensors(write("Station;X;Y\n007;1,5;2\n8;3;4\n"), ["8", "007"])
    assert sensors.kind == "metric"
    np.testing.assert_array_equal(sensors.coordinates, [[3, 4], [1.5, 2]])
    assert sensors.sites is None


def test_no_coordinates_and_all_sensors_of_the_file(write) -> None:
    sensors = read_sensors(write("id,owner,region_id\na,F,north\n"))
    assert (sensors.ids, sensors.coordinates, sensors.kind) == (("a",), None, None)
    assert (sensors.sites, sensors.regions) == (("F",), ("north",))


def test_parquet_and_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame({"sensor_id": [2, 1], "lat": [1.0, 2.0], "lon": [3, 4]})
    frame.to_parquet(tmp_path / "s.parquet")
    for sensors in (
        read_sensors(tmp_path / "s.parquet", ["1", "2"]),
        read_sensors(frame, ["1", "2"]),
        read_sensors(frame.set_index("sensor_id"), ["1", "2"]),
    ):
        np.testing.assert_array_equal(sensors.coordinates, [[2, 4], [1, 3]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sensor_id,lat,lon\nx,1,2\n", ["none of the 2 sensors", "a, b"]),
        (
            "sensor_id,lat,lon\na,1,2\nb,95,2\n",
            ["line 3", "'b' has lat 95, outside -90 to 90", "metres"],
        ),
        ("sensor_id,lat,lon\na,1,400\nb,5,2\n", ["line 2", "'a' has lon 400"]),
        ("sensor_id,lat,lon\na,1,2\nb,north,2\n", ["line 3, column 'lat'", "'north'"]),
        ("sensor_id,lat,lon\na,1,2\nb,1,2\na,3,4\n", ["lines 2 and 4", "'a' has two rows"]),
        ("sensor_id,lat\na,1\nb,2\n", ["'lat'", "'longitude'"]),
        ("name_of,lat,lon\na,1,2\nb,1,2\n", ["name_of, lat, lon", "sensor_id"]),
        ("sensor_id,region\na,\nb,x\n", ["line 2, column 'region'", "'a' has no region"]),
        ("sensor_id,lat,lon\n", ["header but no rows"]),
    ],
)
def test_refused(write, text: str, words: list[str]) -> None:
    path = write(text)
    with pytest.raises(InputError) as caught:
        read_sensors(path, ["a", "b"])
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_rows_of_other_sensors_may_lack_coordinates(write) -> None:
    sensors = read_sensors(write("sensor_id,lat,lon\na,1,2\nz,,\n"), ["a"])
    assert sensors.ids == ("a",)


@pytest.mark.parametrize("text", ["a,50,8\n", "a,50,8\nb,,8\n", "a,50,8\nb,,\n"])
def test_a_missing_row_or_place_costs_that_sensor_its_place(write, text: str) -> None:
    sensors = read_sensors(write(f"sensor_id,lat,lon\n{text}c,52,10\n"), ["a", "b", "c"])
    np.testing.assert_array_equal(sensors.coordinates, [[50, 8], [51, 9], [52, 10]])
    assert sensors.unplaced == ("b",)
    assert "1 sensors have no place" in " ".join(sensors.notes)


def test_a_sensor_without_a_row_is_its_own_owner(write) -> None:
    sensors = read_sensors(write("id,owner\na,City\n"), ["a", "b"])
    assert sensors.sites == ("City", "b")


def test_ids_match_whatever_their_case_and_blanks(write) -> None:
    sensors = read_sensors(write("Station ; Breite ; Länge\n DEBE 010;52,5;13,3\n"), ["debe010"])
    np.testing.assert_array_equal(sensors.coordinates, [[52.5, 13.3]])
    assert "'DEBE 010' is 'debe010'" in " ".join(sensors.notes)


@pytest.mark.parametrize(
    "header",
    ["Stationscode;Breitengrad;Längengrad;Betreiber", "estación;latitud;longitud;propietario",
     "code_station;latitude;longitude;exploitant", "station code;lat;lon;agency"],
)  # fmt: skip
def test_names_of_columns_in_other_languages(write, header: str) -> None:
    sensors = read_sensors(write(f"{header}\na;52;13;X\nb;53;12;Y\n"), ["a", "b"])
    np.testing.assert_array_equal(sensors.coordinates, [[52, 13], [53, 12]])
    assert sensors.sites == ("X", "Y")


def test_swapped_coordinates_are_put_right(write) -> None:
    rows = "a,52.1,13.1\nb,52.2,13.3\nc,13.2,52.3\nd,52.4,13.0\n"
    sensors = read_sensors(write(f"id,lat,lon\n{rows}"))
    np.testing.assert_array_equal(sensors.coordinates[2], [52.3, 13.2])
    assert "of c were swapped" in " ".join(sensors.notes)
    sensors = read_sensors(write("id,lat,lon\na,116.3,39.9\nb,116.5,40.0\n"))
    np.testing.assert_array_equal(sensors.coordinates, [[39.9, 116.3], [40.0, 116.5]])
    assert "swapped throughout" in " ".join(sensors.notes)
    far = "a,52.1,13.1\nb,52.2,13.3\nc,-33.9,151.2\nd,52.4,13.0\n"
    np.testing.assert_array_equal(
        read_sensors(write(f"id,lat,lon\n{far}")).coordinates[2], [-33.9, 151.2]
    )


def test_sites_from_a_file_or_a_column(write) -> None:
    sensors = write(GOOD)
    assert read_sites("region", ["b", "a"], sensors_path=sensors) == ("north", "south")
    assert read_sites(write("sensor,site\na,P\nb,Q\n", "sites.csv"), ["b", "a"]) == ("Q", "P")
    assert read_sites(write("sensor,firm\na,P\nb,Q\n", "sites.csv"), ["a"]) == ("P",)
    with pytest.raises(InputError, match="no column 'firm'"):
        read_sites("firm", ["a"], sensors_path=sensors)
    with pytest.raises(InputError, match=r"'firm' is not a file.*sensor and site"):
        read_sites("firm", ["a"])
    with pytest.raises(InputError, match="no such file"):
        read_sites("absent.csv", ["a"])
    with pytest.raises(InputError, match="no row: z"):
        read_sites("region", ["a", "z"], sensors_path=sensors)
    with pytest.raises(InputError, match="Name the column site"):
        read_sites(write("sensor,p,q\na,1,2\n", "sites.csv"), ["a"])


def test_bare_subset_and_with_sites(write) -> None:
    bare = Sensors(("a", "b"))
    assert bare.with_sites(["x", "y"]).sites == ("x", "y")
    with pytest.raises(InputError, match="1 sites are given for 2 sensors"):
        bare.with_sites(["x"])
    whole = read_sensors(write(GOOD), ["a", "b", "c"])
    part = whole.subset(np.array([True, False, True]))
    assert (part.ids, part.sites) == (("a", "c"), ("Farm", "y"))
    np.testing.assert_array_equal(part.coordinates, [[51, 9.5], [1, 2]])


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.parquet"])
def test_written_sensors_read_back(write, tmp_path: Path, name: str) -> None:
    sensors = read_sensors(write(GOOD), ["a", "b"])
    write_sensors(tmp_path / name, sensors)
    again = read_sensors(tmp_path / name, ["a", "b"])
    np.testing.assert_array_equal(again.coordinates, sensors.coordinates)
    assert (again.kind, again.regions, again.sites) == ("latlon", sensors.regions, sensors.sites)
