"""What a reader keeps of OpenAQ, Parquet and NetCDF files, so that they can be written again."""

from __future__ import annotations

import builtins
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flfl.errors import InputError
from flfl.io.read import read_readings
from flfl.io.sensors import Sensors
from flfl.io.write import write_result

GALLERY = Path(__file__).parent / "gallery"


def test_openaq_units_places_and_columns_go_along() -> None:
    table = read_readings(GALLERY / "openaq_v2.csv")
    assert table.unit == "µg/m³"
    sensors = Sensors.of_table(table)
    assert sensors.kind == "latlon"
    assert sensors.coordinates is not None
    assert sensors.coordinates.tolist() == [[52.52, 13.40], [52.54, 13.35]]
    source = table.source
    assert source is not None
    header = (GALLERY / "openaq_v2.csv").read_text().partition("\n")[0]
    held = {column.name: column for column in source.columns}
    assert ",".join(held) == header
    assert held["parameter"].cells.to_pylist() == ["pm25", "pm25"]
    assert held["local"].cells.to_pylist()[0] == "2024-01-01T01:00:00+01:00"


def test_a_line_is_named_right_among_the_rows_of_one_parameter(tmp_path: Path) -> None:
    text = (GALLERY / "openaq_archive.csv").read_text().replace(",pm10,µg/m³,21", ",pm10,µg/m³,?")
    (tmp_path / "a.csv").write_text(text)
    line = 1 + next(i for i, row in enumerate(text.splitlines()) if row.endswith("?"))
    with pytest.raises(InputError, match=rf"line {line}, column 'value': '\?' is not a number"):
        read_readings(tmp_path / "a.csv", parameter="pm10")


def test_parquet_keeps_types_zone_and_metadata() -> None:
    table = read_readings(GALLERY / "small_types.parquet")
    assert table.units == ("ug m-3", "ug m-3")
    source = table.source
    assert source is not None
    assert source.zone == "Europe/Berlin"
    assert source.form is not None
    assert source.form.field("a").type == pa.int16()
    assert source.form.field("time").type.tz == "Europe/Berlin"
    assert source.form.metadata[b"title"] == b"two sensors"


def stations(dtype: str = "f4"):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    times = pd.date_range("2024-01-01", periods=5, freq="h")
    values = np.array([[1.5, np.nan, 2.25, 3, 4], [5, 6, 7, 8, np.nan]], dtype=dtype)
    return xr.Dataset(
        {"pm10": (("station", "time"), values, {"units": "ug m-3", "cell_methods": "time: mean"})},
        coords={
            "time": times,
            "station": ("station", ["DE1", "DE2"], {"cf_role": "timeseries_id"}),
            "lat": ("station", [50.0, 51.0], {"standard_name": "latitude"}),
            "lon": ("station", [8.0, 9.0], {"standard_name": "longitude"}),
        },
        attrs={"featureType": "timeSeries", "title": "two stations"},
    )


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_netcdf_keeps_what_surrounds_the_readings(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "a.nc"
    stations().to_netcdf(
        path, engine=engine, encoding={"time": {"units": "minutes since 2020-01-01"}}
    )
    table = read_readings(path)
    np.testing.assert_array_equal(
        table.values.to_numpy().T, stations()["pm10"].to_numpy().astype(np.float64)
    )
    assert table.unit == "ug m-3"
    assert table.coordinates is not None
    assert table.coordinates.tolist() == [[50, 8], [51, 9]]
    write_result(tmp_path / "o.nc", None, table, table.values)
    xr = pytest.importorskip("xarray")
    with (
        xr.open_dataset(path, engine=engine, decode_cf=False) as before,
        xr.open_dataset(tmp_path / "o.nc", engine="h5netcdf", decode_cf=False) as after,
    ):
        assert after["pm10"].dims == ("station", "time")
        assert after["pm10"].dtype == np.float32
        assert after["pm10"].attrs["cell_methods"] == "time: mean"
        assert after.attrs["title"] == "two stations"
        assert after["time"].attrs["units"] == "minutes since 2020-01-01"
        np.testing.assert_array_equal(after["time"], before["time"])
    again = read_readings(tmp_path / "o.nc")
    pd.testing.assert_frame_equal(again.values, table.values)


def test_netcdf_rows_out_of_order_and_twice(tmp_path: Path) -> None:
    shuffled = stations().isel(time=[2, 0, 1, 4, 3])
    shuffled.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    table = read_readings(tmp_path / "a.nc")
    np.testing.assert_array_equal(table.values["DE2"], [5, 6, 7, 8, np.nan])
    assert table.order is not None
    twice = stations().isel(time=[0, 1, 1, 2])
    twice.to_netcdf(tmp_path / "same.nc", engine="h5netcdf")
    assert read_readings(tmp_path / "same.nc").values["DE2"].tolist() == [5, 6, 7]
    name = next(iter(twice.data_vars))
    twice[name][{"time": 2}] = 60.0
    twice.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="rows 2 and 3: the time '2024-01-01 01:00:00"):
        read_readings(tmp_path / "b.nc")
    table = read_readings(tmp_path / "b.nc", duplicates="first")
    assert table.values["DE2"].tolist() == [5, 6, 7]


def test_netcdf_on_a_rotated_grid_with_a_level(tmp_path: Path) -> None:
    times = pd.date_range("2024-01-01", periods=3, freq="D")
    places = {
        "lat": (("y", "x"), [[50.0, 50.1], [51.0, 51.1]], {"units": "degrees_north"}),
        "lon": (("y", "x"), [[8.0, 9.0], [8.1, 9.1]], {"units": "degrees_east"}),
    }
    readings = (("time", "height", "y", "x"), np.arange(12.0).reshape(3, 1, 2, 2))
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    grid = xr.Dataset({"no2": readings}, coords={"time": times, "height": [2.0], **places})
    grid.to_netcdf(tmp_path / "g.nc", engine="h5netcdf")
    table = read_readings(tmp_path / "g.nc")
    assert table.sensor_ids == ("0_0", "0_1", "1_0", "1_1")
    assert table.values.iloc[1].tolist() == [4, 5, 6, 7]
    assert table.coordinates is not None
    assert table.coordinates.tolist() == [[50, 8], [50.1, 9], [51, 8.1], [51.1, 9.1]]


def test_without_xarray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name in ("xarray", "h5netcdf"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'flfl\[netcdf\]'"):
        read_readings(GALLERY / "stations.nc")


def test_damaged_netcdf(tmp_path: Path) -> None:
    stations().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    content = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "b.nc").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="not a readable NetCDF file"):
        read_readings(tmp_path / "b.nc")


@pytest.mark.parametrize("complete", [False, True])
def test_texts_of_the_file_stay_with_their_cells(tmp_path: Path, complete: bool) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(
        b"time,a,b\r\n2024-01-05, 1.50,-7.\r\n\r\n2024-01-01,+2,3e0\r\n2024-01-02,NA,0001\r\n"
    )
    table = read_readings(path, complete_grid=complete)
    write_result(tmp_path / "o.csv", None, table, table.values)
    rows = ["2024-01-05, 1.50,-7.", "2024-01-01,+2,3e0", "2024-01-02,,0001"]
    if complete:
        rows = [rows[1], rows[2], "2024-01-03,,", "2024-01-04,,", rows[0]]
    assert (tmp_path / "o.csv").read_text().splitlines() == ["time,a,b", *rows]


@pytest.mark.parametrize(
    ("times", "zone", "added"),
    [
        (["2024-01-01T00:00+02:00", "2024-01-01T01:00+02:00", "2024-01-01T03:00+02:00"], None,
         "2024-01-01T02:00+02:00"),
        (["2024-01-01 00:00:00Z", "2024-01-01 01:00:00Z", "2024-01-01 03:00:00Z"], None,
         "2024-01-01 02:00:00Z"),
        (["2024-03-31 00:00", "2024-03-31 01:00", "2024-03-31 04:00"], "Europe/Berlin",
         "2024-03-31 03:00"),
    ],
)  # fmt: skip
def test_added_rows_are_written_in_the_zone_of_the_file(tmp_path, times, zone, added) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,a\n" + "".join(f"{time},1\n" for time in times))
    table = read_readings(path, complete_grid=True, time_zone=zone)
    assert table.source.time_texts == (*times[:2], added, times[2])
