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
        ("sensor_id,lat,lon\na,1,2\n", ["1 of 2 sensors", "no row: b", "Add a row"]),
        ("sensor_id,lat,lon\na,1,2\nb,,2\n", ["line 3, column 'lat'", "'b' has no lat"]),
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
