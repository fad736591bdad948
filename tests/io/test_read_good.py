"""Files that are fine, or that have one stated reading."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl.errors import InputError
from flfl.io.read import from_frame, read_readings
from flfl.io.write import write_result


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str, name: str = "readings.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return _write


def notes(table) -> str:
    return " ".join(table.notes)


def test_wide_csv(write) -> None:
    table = read_readings(write("time,a,b\n2024-01-01 00:00,1.50,\n2024-01-01 01:00,NaN,2\n"))
    assert table.sensor_ids == ("a", "b")
    np.testing.assert_array_equal(table.values.to_numpy(), [[1.5, np.nan], [np.nan, 2.0]])
    assert table.values.to_numpy().dtype == np.float64
    assert table.step == pd.Timedelta(hours=1)
    assert table.positions.tolist() == [0.0, 1.0]
    assert isinstance(table.values.index, pd.DatetimeIndex)
    assert table.source is not None
    assert table.source.layout == "wide"
    assert table.source.time_texts == ("2024-01-01 00:00", "2024-01-01 01:00")
    assert "2 sensors and 2 hourly slots" in notes(table)
    assert table.known.sum() == 2


def test_long_csv_is_recognised(write) -> None:
    text = "station_id,value,timestamp\nx,1,2024-01-01\ny,2,2024-01-01\nx,3,2024-01-02\n"
    table = read_readings(write(text))
    assert table.source is not None
    assert table.source.layout == "long"
    assert table.sensor_ids == ("x", "y")
    np.testing.assert_array_equal(table.values.to_numpy(), [[1, 2], [3, np.nan]])


def test_long_with_the_quantity_as_value_name(write) -> None:
    table = read_readings(write("date,station,PM10\n2024-01-01,x,1\n2024-01-02,x,2\n"))
    assert table.source is not None
    assert [column.name for column in table.source.columns if column.by == "cell"] == ["PM10"]


def test_long_with_named_columns_and_extras(write) -> None:
    text = (
        "unit,when,who,what,local,remark\nC,2024-01-01,x,1,one,fine\nC,2024-01-02,x,2,two,\n"
        "C,2024-01-01,y,3,one,poor\n"
    )
    table = read_readings(write(text), time_column="when", sensor_column="who", value_column="what")
    assert table.values["x"].tolist() == [1, 2]
    assert table.units == ("C", "C")
    assert table.unit == "C"
    assert "not carried over: remark" in notes(table)
    assert table.source is not None
    held = {column.name: column for column in table.source.columns}
    assert list(held) == ["unit", "when", "who", "what", "local"]
    assert held["unit"].cells.to_pylist() == ["C", "C"]
    assert held["local"].cells.to_pylist() == ["one", "two"]


def test_wide_file_with_a_sensor_called_value_stays_wide(write) -> None:
    table = read_readings(write("time,value,other\n2024-01-01,1,2\n2024-01-02,3,4\n"))
    assert table.sensor_ids == ("value", "other")


@pytest.mark.parametrize(
    "mark", ["", "NaN", "nan", "NA", "null", "None", " ", "n/a", "#N/A", "<NA>"]
)
def test_missing_marks(write, mark: str) -> None:
    table = read_readings(write(f"time,a\n2024-01-01,{mark}\n2024-01-02,1\n"))
    assert np.isnan(table.values["a"].iloc[0])


def test_sentinels_are_missing_and_counted(write) -> None:
    path = write("time,a,b\n2024-01-01,-999,-9999.0\n2024-01-02,1,-999.00\n")
    table = read_readings(path)
    assert table.values.isna().to_numpy().tolist() == [[True, True], [False, True]]
    assert "2 values equal to -999 read as missing." in table.notes
    assert "1 value equal to -9999 read as missing." in table.notes
    assert read_readings(path, missing=()).values["a"].iloc[0] == -999


def test_unsorted_rows_are_sorted_with_a_note(write) -> None:
    table = read_readings(write("time,a\n2024-01-03,3\n2024-01-01,1\n2024-01-02,2\n"))
    assert table.values["a"].tolist() == [1, 2, 3]
    assert "not in time order" in notes(table)
    assert table.source is not None
    assert table.source.time_texts[0] == "2024-01-01"


def test_absent_rows_stay_absent(write) -> None:
    path = write("time,a\n2024-01-01 00:00,1\n2024-01-01 01:00,2\n2024-01-01 05:00,3\n")
    table = read_readings(path)
    assert table.positions.tolist() == [0, 1, 5]
    assert "3 of 6 hourly rows are absent; they stay absent." in table.notes


def test_complete_grid_inserts_absent_rows(write) -> None:
    path = write("time,a\n2024-01-01 00:00,1\n2024-01-01 01:00,2\n2024-01-01 04:00,3\n")
    table = read_readings(path, complete_grid=True)
    assert table.positions.tolist() == [0, 1, 2, 3, 4]
    assert table.values["a"].isna().tolist() == [False, False, True, True, False]
    assert table.source is not None
    assert table.source.time_texts[2] == "2024-01-01 02:00"
    assert "they have been inserted" in notes(table)


@pytest.mark.parametrize(
    ("times", "positions"),
    [
        (["2024-01-01", "2024-02-01", "2024-03-01", "2024-05-01"], [0, 1, 2, 4]),
        (["2024-01-31", "2024-02-29", "2024-03-31"], [0, 1, 2]),
        (["2024-01-30", "2024-02-29", "2024-03-30"], [0, 1, 2]),
        (["2024-01", "2024-02", "2024-04"], [0, 1, 3]),
        (["202401", "202402", "202404"], [0, 1, 3]),
        (["2001-01-01", "2002-01-01", "2004-01-01"], [0, 1, 3]),
        (["2001", "2002", "2004"], [0, 1, 3]),
        (["20240131", "20240201", "20240202"], [0, 1, 2]),
        (["2024013123", "2024020100", "2024020101"], [0, 1, 2]),
        (["1", "2", "5"], [0, 1, 4]),
        (["0.1", "0.2", "0.3", "0.6"], [0, 1, 2, 5]),
        (["31.01.2024 23:00", "01.02.2024 00:00"], [0, 1]),
        (["12/31/2024 11:00 PM", "01/01/2025 12:00 AM"], [0, 1]),
        (["2024-01-01T00:00Z", "2024-01-01T00:10Z", "2024-01-01T00:40Z"], [0, 1, 4]),
        (["2024-01-01 00:00:00", "2024-01-01 01:00:00", "2024-01-01 02:30:00"], [0, 2, 5]),
        (["2024-01-01", "2024-01-08", "2024-01-22"], [0, 1, 3]),
    ],
)
def test_time_forms_and_grids(write, times: list[str], positions: list[float]) -> None:
    rows = "".join(f"{text},{i}\n" for i, text in enumerate(times))
    table = read_readings(write("time,a\n" + rows))
    np.testing.assert_allclose(table.positions, positions)
    assert table.source is not None
    assert table.source.time_texts == tuple(times)


def test_monthly_grid_completes_month_ends(write) -> None:
    path = write("time,a\n2024-01-31,1\n2024-03-31,2\n2024-04-30,3\n")
    table = read_readings(path, complete_grid=True)
    assert table.values.index[1] == pd.Timestamp("2024-02-29")
    assert table.source is not None
    assert table.source.time_texts[1] == "2024-02-29"


def test_irregular_times_are_said_to_be(write) -> None:
    rows = "2024-01-01 00:00:00,1\n2024-01-01 01:00:07,2\n2024-01-01 01:59:58,3\n"
    table = read_readings(write("time,a\n" + rows))
    assert "irregular" in notes(table)
    assert table.positions[0] == 0
    assert (np.diff(table.positions) > 0).all()


def test_offsets_that_change_with_daylight_saving(write) -> None:
    hours = ["2024-10-27T01:00+02:00", "2024-10-27T02:00+02:00", "2024-10-27T02:00+01:00",
             "2024-10-27T03:00+01:00"]  # fmt: skip
    table = read_readings(write("time,a\n" + "".join(f"{h},1.5\n" for h in hours)))
    assert table.positions.tolist() == [0, 1, 2, 3]
    assert str(table.values.index.tz) == "UTC"
    assert table.source is not None
    assert table.source.time_texts == tuple(hours)
    assert "UTC" in notes(table)


def test_days_and_months_in_local_time_are_regular(write) -> None:
    days = ["2024-03-30T00:00+01:00", "2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00",
            "2024-04-03T00:00+02:00"]  # fmt: skip
    table = read_readings(write("time,a\n" + "".join(f"{d},1\n" for d in days)))
    assert table.positions.tolist() == [0, 1, 2, 4]
    months = ["2024-03-01T00:00+01:00", "2024-04-01T00:00+02:00", "2024-05-01T00:00+02:00"]
    table = read_readings(write("time,a\n" + "".join(f"{m},1\n" for m in months)))
    assert table.positions.tolist() == [0, 1, 2]
    assert "monthly" in notes(table)


def test_spring_jump_of_naive_local_time_is_one_absent_row(write) -> None:
    table = read_readings(
        write("time,a\n2024-03-31 00:00,1\n2024-03-31 01:00,2\n2024-03-31 03:00,3\n")
    )
    assert table.positions.tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("time,a,b\n2024-01-01,1.50,\n2024-01-02,2,3\n2024-01-01,1.5,\n", "1 row repeated"),
        ("time,sensor,value\n1,x,1.5\n1,y,2\n2,x,3\n1,x,1.50\n2,x,3\n", "2 readings repeated"),
    ],
)
def test_rows_that_say_the_same_are_read_once(write, text: str, again: str) -> None:
    table = read_readings(write(text))
    assert any(again in note for note in table.notes)
    assert table.values.shape == (2, 2)
    assert table.values.iloc[0, 0] == 1.5
    with pytest.raises(InputError, match=r"different readings.*duplicates=first"):
        read_readings(write(text.replace("1.5,\n", "1.6,\n").replace("1.50\n", "1.6\n")))


def wide_text(rows: int, end: str = "\n", blank: int = 0) -> tuple[str, np.ndarray]:
    """So many sensors that their cells are numbers at once; texts that numbers do not give back."""
    rng = np.random.default_rng(rows)
    cells = np.array([f"{n:.3f}" for n in rng.normal(5, 2, rows * 80)], object).reshape(rows, 80)
    cells[rng.random(cells.shape) < 0.2] = ""
    cells[2, 3], cells[3, 3], cells[4, 5] = "+1.50", " 7.0", "1e1"
    lines = [",".join(["time", *(f"s{i}" for i in range(80))])]
    lines += [
        f"2024-01-{i // 24 + 1:02d} {i % 24:02d}:00," + ",".join(cells[i]) for i in range(rows)
    ]
    lines[5:5] = [""] * blank
    return end.join(lines) + end, cells


@pytest.mark.parametrize(("end", "blank"), [("\n", 0), ("\r\n", 0), ("\r", 0), ("\n", 2)])
def test_many_sensors_keep_their_texts(write, tmp_path, end: str, blank: int) -> None:
    text, cells = wide_text(60, end, blank)
    path = write("")
    path.write_bytes(text.encode())
    table = read_readings(path)
    wanted = np.array([[float(c or "nan") for c in row] for row in cells])
    np.testing.assert_array_equal(table.values.to_numpy(), wanted)
    kept = np.array([one.to_pylist() for one in table.source.texts.columns()]).T
    np.testing.assert_array_equal(kept[table.known], cells[table.known])
    write_result(tmp_path / "out.csv", None, table, table.values.fillna(2.25))
    written = [row.split(",")[1:] for row in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert np.array(written, object)[table.known].tolist() == cells[table.known].tolist()


def test_many_sensors_out_of_order(write) -> None:
    text, cells = wide_text(40)
    head, *lines = text.splitlines()
    table = read_readings(write("\n".join([head, *lines[::-1], ""])))
    kept = np.array([one.to_pylist() for one in table.source.texts.columns()]).T
    np.testing.assert_array_equal(kept[table.known], cells[table.known])


@pytest.mark.parametrize("row", ["UTC" + "," * 80, "\r"])
def test_a_row_that_is_none_among_many_sensors(write, row: str) -> None:
    text, cells = wide_text(40)
    head, *lines = text.splitlines()
    path = write("")
    path.write_bytes("\n".join([head, row, *lines, "", ""]).encode())
    table = read_readings(path)
    kept = np.array([one.to_pylist() for one in table.source.texts.columns()]).T
    np.testing.assert_array_equal(kept[table.known], cells[table.known])


def test_a_column_that_goes_among_many_sensors(write) -> None:
    text, cells = wide_text(40)
    head, *lines = text.splitlines()
    rows = [f"{time},{cell},,{rest}" for time, cell, rest in (x.split(",", 2) for x in lines)]
    table = read_readings(write("\n".join([head.replace("s0", "s0,s0 unit", 1), *rows])))
    kept = np.array([one.to_pylist() for one in table.source.texts.columns()]).T
    np.testing.assert_array_equal(kept[table.known], cells[table.known])


def test_one_odd_cell_among_many_sensors(write) -> None:
    text, _ = wide_text(40)
    lines = text.splitlines()
    lines[30] = lines[30].rsplit(",", 1)[0] + ",<2.0"
    table = read_readings(write("\n".join(lines)))
    assert table.ceiling[29, 79] == 2.0
    lines[30] = lines[30].replace("<2.0", "broken")
    with pytest.raises(InputError, match=r"line 31, column 's79'.*'broken'"):
        read_readings(write("\n".join(lines)))


def test_duplicates_by_option(write) -> None:
    path = write("time,a,b\n2024-01-01,1,\n2024-01-01,2,7\n2024-01-02,3,4\n")
    mean = read_readings(path, duplicates="mean")
    assert mean.values.to_numpy().tolist() == [[1.5, 7], [3, 4]]
    first = read_readings(path, duplicates="first")
    assert first.values.to_numpy().tolist() == [[1, 7], [3, 4]]
    assert "1 repeated row averaged." in mean.notes


def test_duplicates_by_option_in_a_long_file(write) -> None:
    path = write("time,sensor,value\n2024-01-01,x,1\n2024-01-01,x,2\n2024-01-02,x,3\n")
    assert read_readings(path, duplicates="mean").values["x"].tolist() == [1.5, 3]
    assert read_readings(path, duplicates="first").values["x"].tolist() == [1, 3]


def test_empty_and_constant_sensors_are_kept_with_a_note(write) -> None:
    table = read_readings(write("time,a,b,c\n2024-01-01,,5,1\n2024-01-02,,5,2\n"))
    assert table.sensor_ids == ("a", "b", "c")
    assert "1 sensor has no readings: a." in table.notes
    assert "1 sensor has one constant value: b (5)." in table.notes


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_and_decimal_comma(write, delimiter: str) -> None:
    rows = [["time", "a"], ["2024-01-01", "1,25"], ["2024-01-02", "3"]]
    table = read_readings(write("\n".join(delimiter.join(row) for row in rows)))
    assert table.values["a"].tolist() == [1.25, 3]


def test_windows_file(write) -> None:
    table = read_readings(write("\ufefftime,a\r\n2024-01-01,1\r\n2024-01-02,2\r\n"))
    assert table.values.index.name == "time"
    assert table.source is not None
    assert table.source.dialect.line_end == "\r\n"


def test_quotes_blank_lines_and_spaces(write) -> None:
    table = read_readings(write('time," a,b ","c"\n\n"2024-01-01", 1 ,"2"\n\n2024-01-02,+3,.5\n'))
    assert table.sensor_ids == ("a,b", "c")
    assert table.values.to_numpy().tolist() == [[1, 2], [3, 0.5]]


def test_index_without_a_name_as_pandas_writes_it(write, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.date_range("2024-01-01", periods=2))
    frame.to_csv(tmp_path / "p.csv")
    assert read_readings(tmp_path / "p.csv").sensor_ids == ("a",)


def test_gzip_by_content(write) -> None:
    packed = gzip.compress(b"time,a\n2024-01-01,1\n2024-01-02,2\n")
    for name in ("a.csv.gz", "a.csv", "a.txt"):
        assert read_readings(write(packed, name)).values["a"].tolist() == [1, 2]


def test_parquet_wide_long_and_index(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = pd.date_range("2024-01-01", periods=3, freq="1h", name="time")
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1.5, None, 2.5]}, index=times)
    for written in (frame, frame.reset_index(), frame.rename_axis(None)):
        written.to_parquet(path)
        table = read_readings(path)
        assert table.sensor_ids == ("a", "b")
        np.testing.assert_array_equal(table.values["b"], [1.5, np.nan, 2.5])
    long = frame.reset_index().melt(id_vars="time", var_name="sensor", value_name="value")
    long.to_parquet(path)
    table = read_readings(path)
    assert table.source is not None
    assert table.source.layout == "long"
    np.testing.assert_array_equal(table.values["b"], [1.5, np.nan, 2.5])


def test_parquet_with_a_time_zone(tmp_path: Path) -> None:
    times = pd.date_range("2024-03-30", periods=4, freq="D", tz="Europe/Berlin", name="time")
    pd.DataFrame({"a": range(4)}, index=times).to_parquet(tmp_path / "a.parquet")
    table = read_readings(tmp_path / "a.parquet")
    assert table.positions.tolist() == [0, 1, 2, 3]
    assert str(table.values.index.tz) == "UTC"


def test_from_frame_and_array() -> None:
    frame = pd.DataFrame(
        {1: [1.0, np.nan, 3.0], "b": [4, 5, 6]},
        index=pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-04"]),
    )
    table = from_frame(frame)
    assert table.sensor_ids == ("1", "b")
    assert table.source is None
    assert table.positions.tolist() == [0, 1, 3]
    assert table.values["b"].tolist() == [5, 4, 6]
    array = from_frame(np.array([[1.0, 2.0], [3.0, np.nan]]))
    assert array.sensor_ids == ("0", "1")
    assert array.values.index.tolist() == [0, 1]


def test_from_frame_with_a_time_column_and_periods() -> None:
    frame = pd.DataFrame({"Time": ["2024-01-01", "2024-01-02"], "a": [1.0, 2.0]})
    assert from_frame(frame).sensor_ids == ("a",)
    periods = pd.period_range("2024-01", periods=3, freq="M")
    assert from_frame(pd.DataFrame({"a": [1, 2, 3]}, index=periods)).positions.tolist() == [0, 1, 2]


def test_from_frame_does_not_touch_its_input() -> None:
    frame = pd.DataFrame({"a": [-999.0, 1.0, 2.0]})
    before = frame.copy()
    table = from_frame(frame)
    table.values.iloc[1, 0] = 7.0
    pd.testing.assert_frame_equal(frame, before)


def test_delimiters_inside_quotes_do_not_count(write) -> None:
    table = read_readings(write('time;"a,b,c,d";"e,f"\n2024-01-01;1,5;2\n2024-01-02;3;4\n'))
    assert table.sensor_ids == ("a,b,c,d", "e,f")
    assert table.values.iloc[0, 0] == 1.5


def test_a_hash_before_the_first_name_is_still_a_header(write) -> None:
    assert read_readings(write("#time,a\n2024-01-01,1\n2024-01-02,2\n")).sensor_ids == ("a",)


def test_it_is_said_which_column_was_taken_as_the_time(write) -> None:
    table = read_readings(write("Quand,a\n2024-01-01,1\n2024-01-02,2\n"))
    assert "the first, 'Quand', was taken" in notes(table)
    assert "was taken" not in notes(read_readings(write("time,a\n2024-01-01,1\n2024-01-02,2\n")))


def test_parquet_with_a_named_number_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([3, 4], name="tick"))
    frame.to_parquet(tmp_path / "r.parquet")
    assert read_readings(tmp_path / "r.parquet").values.index.tolist() == [3, 4]


def test_a_frame_has_the_sentinels_of_a_file() -> None:
    frame = pd.DataFrame({"a": [-999.0, 1.0, 2.0]})
    assert np.isnan(from_frame(frame).values.iloc[0, 0])
    assert "equal to -999 read as missing" in notes(from_frame(frame))
    assert from_frame(frame, missing=()).values.iloc[0, 0] == -999.0


def test_the_order_of_the_rows_is_kept_beside_the_sorted_table() -> None:
    table = from_frame(pd.DataFrame({"a": [3.0, 1.0, 2.0]}, index=[30, 10, 20]))
    assert table.values["a"].tolist() == [1.0, 2.0, 3.0]
    assert table.order is not None
    assert table.values["a"].to_numpy()[table.order].tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("days", [["07", "04", "04", "05"], ["04", "04", "05", "07"]])
def test_merged_rows_on_a_completed_grid(write, days: list[str]) -> None:
    """As many slots as rows, but not the same ones."""
    rows = "".join(f"2024-01-{day},{'' if day == '07' else day}\n" for day in days)
    table = read_readings(write("time,a\n" + rows), duplicates="mean", complete_grid=True)
    np.testing.assert_array_equal(table.values["a"], [4, 5, np.nan, np.nan])
    assert table.order is None
