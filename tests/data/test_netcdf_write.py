"""NetCDF out: conventions that the checker agrees with, and nothing of the table lost."""

import numpy as np
import pandas as pd
import pytest

from data.cf import complaints
from flfl import recover
from flfl.data import Sensors, from_frame, write_result
from flfl.errors import InputError

xarray = pytest.importorskip("xarray")


def gappy(index=None, sensors=("A 1", "B/2", "ü")):
    t = np.arange(40.0)
    values = np.column_stack([np.sin(t / 5 + i) + 3 for i in range(len(sensors))])
    values[5:9, 0] = values[30, 1] = np.nan
    values[:, 2] = np.nan
    if index is None:
        index = pd.date_range("2024-03-30 18:00", periods=40, freq="h", tz="Europe/Berlin")
    return pd.DataFrame(values, index=index, columns=list(sensors))


def written(path, table, sensors=None):
    result = recover(table, method="linear", bounds=(0, None), max_gap=3)
    write_result(
        path, None, table, result.values, result.flags, result.lower, result.upper,
        result.provenance, sensors,
    )  # fmt: skip
    return result


NETWORKS = {
    "latitude and longitude": ("latlon", [[50.0, 8.0], [51.0, 9.0], [52.0, -3.5]]),
    "metres": ("metric", [[0.0, 0.0], [10.0, 0.0], [0.0, 25.5]]),
    "no coordinates": (None, None),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_the_checker_has_nothing_against_it(network, tmp_path):
    kind, places = NETWORKS[network]
    table = from_frame(gappy())
    where = None if places is None else np.array(places)
    written(tmp_path / "o.nc", table, Sensors(table.sensor_ids, where, kind))
    assert complaints(tmp_path / "o.nc", tmp_path) == []


def test_the_checker_is_awake(tmp_path):
    bad = xarray.Dataset({"a": ("time", [1.0, 2.0])}, {"time": ("time", [0.0, 1.0])})
    bad["time"].attrs["units"] = "fortnights since yesterday"
    bad.to_netcdf(tmp_path / "bad.nc", engine="h5netcdf")
    assert complaints(tmp_path / "bad.nc", tmp_path)


def test_values_flags_intervals_places_and_times(tmp_path):
    table = from_frame(gappy())
    places = np.array(NETWORKS["latitude and longitude"][1])
    result = written(tmp_path / "o.nc", table, Sensors(table.sensor_ids, places, "latlon"))
    with xarray.open_dataset(tmp_path / "o.nc", engine="h5netcdf") as found:
        assert found.attrs["featureType"] == "timeSeries"
        assert found.attrs["flfl_run_id"] == result.run_id
        assert found.station_name.values.tolist() == list(table.sensor_ids)
        np.testing.assert_array_equal(found.latitude, places[:, 0])
        stamps = pd.DatetimeIndex(found.time.values).tz_localize("UTC")
        assert (stamps == table.values.index).all()
        np.testing.assert_array_equal(found.reading.values.T, result.values)
        flags = found.reading_flag
        words = np.array(flags.flag_meanings.split())
        assert (words[flags.values.T] == result.flags.to_numpy()).all()
        assert flags.flag_values.dtype == flags.dtype == np.int8
        filled = (result.flags == "recovered").to_numpy()
        for end in ("lower", "upper"):
            bound = found[f"reading_{end}"].values.T
            np.testing.assert_array_equal(bound[filled], getattr(result, end).to_numpy()[filled])
            assert np.isnan(bound[~filled]).all()
        names = found.reading.attrs["ancillary_variables"].split()
        assert names == ["reading_flag", "reading_lower", "reading_upper"]


def test_numbered_slots_are_no_times(tmp_path):
    table = from_frame(gappy(index=range(40)))
    written(tmp_path / "o.nc", table)
    assert complaints(tmp_path / "o.nc", tmp_path) == []
    with xarray.open_dataset(tmp_path / "o.nc", engine="h5netcdf") as found:
        assert found.slot.values.tolist() == list(range(40))
        assert "featureType" not in found.attrs


def test_the_same_run_gives_the_same_bytes(tmp_path):
    table = from_frame(gappy())
    for name in ("a.nc", "b.nc"):
        written(tmp_path / name, table)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_flags_go_to_a_table_not_to_netcdf(tmp_path):
    table = from_frame(gappy())
    with pytest.raises(InputError, match="suffix"):
        write_result(None, tmp_path / "flags.nc", table, table.values)
    assert not list(tmp_path.iterdir())
