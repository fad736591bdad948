"""NetCDF out: conventions that the checker agrees with, and nothing of the table lost."""

import numpy as np
import pandas as pd
import pytest

from cf import complaints
from flfl import recover
from flfl.errors import InputError
from flfl.io.read import from_frame, read_readings
from flfl.io.sensors import Sensors
from flfl.io.write import write_result

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
        path, None, table, result.values, result.lower, result.upper,
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


def grid(dtype):
    """A model's grid: time x latitude x longitude, packed where the type is a whole number."""
    rng = np.random.default_rng(0)
    t = np.arange(30)
    field = 280 + 5 * np.sin(t / 4)[:, None, None] + rng.normal(size=(1, 3, 4))
    packing = {"_FillValue": dtype(-32768)}
    if np.issubdtype(dtype, np.integer):
        packing |= {"scale_factor": 0.01, "add_offset": 280.0}
    stored = (field - packing.get("add_offset", 0)) / packing.get("scale_factor", 1)
    stored = (np.rint(stored) if "scale_factor" in packing else stored).astype(dtype)
    stored[5:8, 1, 1] = stored[12, 2, 3] = stored[:, 0, 0] = packing["_FillValue"]
    words = {"standard_name": "air_temperature", "units": "K", "cell_methods": "time: mean"}
    dataset = xarray.Dataset(
        {
            "t2m": (("time", "lat", "lon"), stored, words | packing),
            "height": ((), np.float32(2), {"units": "m", "standard_name": "height",
                       "positive": "up"}),
        },
        {
            "time": ("time", 6 * t.astype(np.int32), {"units": "hours since 2024-01-01 00:00:00",
                     "standard_name": "time", "calendar": "standard", "axis": "T"}),
            "lat": ("lat", np.float32([50, 51, 52]), {"units": "degrees_north",
                    "standard_name": "latitude", "axis": "Y"}),
            "lon": ("lon", np.float32([8, 9, 10, 11]), {"units": "degrees_east",
                    "standard_name": "longitude", "axis": "X"}),
        },
        {"Conventions": "CF-1.8", "title": "A model", "history": "made", "institution": "here"},
    )  # fmt: skip
    for variable in dataset.variables.values():
        if "_FillValue" not in variable.attrs:
            variable.encoding["_FillValue"] = None
    return dataset


def raw(path):
    with xarray.open_dataset(path, engine="h5netcdf", decode_cf=False) as opened:
        return opened.load()


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64])
def test_a_grid_keeps_its_types_packing_attributes_and_observed_numbers(dtype, tmp_path):
    grid(dtype).to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    assert complaints(tmp_path / "in.nc", tmp_path) == []
    table = read_readings(tmp_path / "in.nc")
    result = written(tmp_path / "out.nc", table)
    before, after = raw(tmp_path / "in.nc"), raw(tmp_path / "out.nc")
    assert complaints(tmp_path / "out.nc", tmp_path) == []
    assert set(after.variables) - set(before.variables) == {
        "t2m_flag", "t2m_lower", "t2m_upper"
    }  # fmt: skip
    for name, variable in before.variables.items():
        assert after[name].dtype == variable.dtype
        assert after[name].dims == variable.dims
        assert variable.attrs.items() <= after[name].attrs.items()
        if name != "t2m":
            np.testing.assert_array_equal(after[name], variable)
    known = before.t2m.values != before.t2m.attrs["_FillValue"]
    np.testing.assert_array_equal(after.t2m.values[known], before.t2m.values[known])
    np.testing.assert_array_equal(after.t2m_flag.values == 0, known)
    assert (after.t2m.values[:, 0, 0] == before.t2m.attrs["_FillValue"]).all()
    assert (after.t2m_flag.values[:, 0, 0] == 2).all()
    with xarray.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as decoded:
        wanted = result.values.to_numpy().reshape(30, 3, 4)
        np.testing.assert_allclose(decoded.t2m, wanted, atol=0.006)
    assert after.attrs["institution"] == "here"
    assert after.attrs["history"].startswith("made\nflfl ")
    again = read_readings(tmp_path / "out.nc")
    assert again.sensor_ids == table.sensor_ids
    pd.testing.assert_index_equal(again.values.index, table.values.index)


def test_stations_first_and_times_unsorted(tmp_path):
    source = grid(np.float32).stack(station=("lat", "lon"), create_index=False)
    source = source.transpose("station", "time").isel(time=[2, 0, 1, *range(3, 30)])
    source = source.assign_coords(name=("station", [f"cell {i}" for i in range(12)]))
    source["t2m"].attrs["coordinates"] = "lat lon name"
    source.reset_coords(["lat", "lon", "name"]).to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    table = read_readings(tmp_path / "in.nc")
    written(tmp_path / "out.nc", table)
    before, after = raw(tmp_path / "in.nc"), raw(tmp_path / "out.nc")
    assert after.t2m.dims == ("station", "time")
    np.testing.assert_array_equal(after.time, before.time)
    known = before.t2m.values != before.t2m.attrs["_FillValue"]
    np.testing.assert_array_equal(after.t2m.values[known], before.t2m.values[known])
    np.testing.assert_array_equal(after.t2m_flag.values == 0, known)


def test_rows_that_were_inserted_have_no_place_in_the_old_form(tmp_path):
    grid(np.float32).isel(time=[*range(9), *range(11, 30)]).to_netcdf(
        tmp_path / "in.nc", engine="h5netcdf"
    )
    table = read_readings(tmp_path / "in.nc", complete_grid=True)
    written(tmp_path / "out.nc", table)
    assert complaints(tmp_path / "out.nc", tmp_path) == []
    with xarray.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as found:
        assert found.t2m.shape == (12, 30)
        assert found.t2m.attrs["units"] == "K"
        assert found.latitude.values[0] == 50


def test_csv_from_a_grid_and_a_grid_from_what_came_out(tmp_path):
    grid(np.float32).to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    table = read_readings(tmp_path / "in.nc")
    written(tmp_path / "out.csv", table)
    assert read_readings(tmp_path / "out.csv").sensor_ids == table.sensor_ids
    written(tmp_path / "once.nc", table)
    written(tmp_path / "twice.nc", read_readings(tmp_path / "once.nc"))
    names = raw(tmp_path / "twice.nc").t2m.attrs["ancillary_variables"].split()
    assert names == ["t2m_flag", "t2m_lower", "t2m_upper"]


def test_what_xarray_writes_by_itself_is_mended(tmp_path):
    t = np.arange(50.0)
    index = pd.date_range("2024-01-01", periods=50, freq="h")
    values = np.sin(t / 5)[:, None] + np.arange(3.0)
    values[4:6, 1] = np.nan
    north = {"units": "degrees_north", "standard_name": "latitude"}
    plain = xarray.Dataset(
        {"no2": (("station", "time"), values.T, {"units": "1e-9", "long_name": "NO2"})},
        {"time": index, "lat": ("station", [50.0, 51.0, 52.0], north)},
    )
    plain.to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    assert raw(tmp_path / "in.nc").time.dtype == np.int64
    assert complaints(tmp_path / "in.nc", tmp_path)
    written(tmp_path / "out.nc", read_readings(tmp_path / "in.nc"))
    assert complaints(tmp_path / "out.nc", tmp_path) == []
    with xarray.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as found:
        assert (found.time.values == index).all()


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_names_stored_letter_by_letter_stay_words(form, tmp_path):
    """As NetCDF 3 stores all text: station x letters."""
    names = np.array(["Zürich", "b", "c"], dtype=object)
    stored = xarray.Dataset(
        {"pm10": (("level", "time", "station"), gappy().to_numpy()[None])},
        {
            "time": pd.date_range("2024-01-01", periods=40, freq="h"),
            "station": ("station", names, {"cf_role": "timeseries_id"}),
            "code": ("station", np.array([b"1", b"2", b"3"])),
        },
    )
    engine = "scipy" if form == "NETCDF3_CLASSIC" else "h5netcdf"
    letters = {"station": {"dtype": "S1"}, "code": {"dtype": "S1"}}
    stored.to_netcdf(tmp_path / "a.nc", format=form, engine=engine, encoding=letters)
    table = read_readings(tmp_path / "a.nc")
    assert table.sensor_ids == ("Zürich", "b", "c")
    written(tmp_path / "o.nc", table)
    with (
        xarray.open_dataset(tmp_path / "a.nc", engine=engine) as before,
        xarray.open_dataset(tmp_path / "o.nc", engine="h5netcdf") as after,
    ):
        for name in ("station", "code"):
            assert after[name].dims == before[name].dims == ("station",)
            assert after[name].values.tolist() == before[name].values.tolist()
