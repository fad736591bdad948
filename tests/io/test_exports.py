"""Files as agencies export them go in without editing, and no cell changes on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from exports import FILES, READINGS, TIMES, Export, epa_daily, header, jitter, rows, text
from flfl.errors import InputError
from flfl.io.read import read_readings
from flfl.io.write import write_result

NEEDS = {".xlsx": "python_calamine", ".ods": "python_calamine"}


def check(table, export: Export) -> None:
    """The readings, the times and the texts are those that were written."""
    assert list(table.sensor_ids) == export.ids
    expected = np.array([[float(c or "nan") for c in cells] for cells in export.cells.values()]).T
    np.testing.assert_array_equal(table.values.to_numpy(), expected)
    index = table.values.index
    assert (index.tz is not None) == export.zone
    assert list(index.tz_localize(None)) == list(export.times)
    for word in export.notes:
        assert word in " ".join(table.notes)


def given(name: str, folder) -> tuple[Export, object]:
    if "xlsx" in name or "ods" in name:
        pytest.importorskip("python_calamine")
        pytest.importorskip("openpyxl" if "xlsx" in name else "odf")
    export = FILES[name]
    return export, read_readings(export.write(folder), **export.options)


@pytest.mark.parametrize("name", FILES)
def test_every_export_is_read_as_it_comes(name: str, tmp_path) -> None:
    export, table = given(name, tmp_path)
    check(table, export)


def test_most_need_no_option() -> None:
    assert len(FILES) >= 38
    some = sum(bool(export.options) for export in FILES.values())
    assert some <= len(FILES) * 4 / 38
    assert all(len(export.options) <= 1 for export in FILES.values())
    page = (Path(__file__).parents[2] / "docs" / "inputs.md").read_text("utf-8")
    told = f"{len(FILES)} such files: {len(FILES) - some} go in without an option, {some} with one"
    assert told in page


@pytest.mark.parametrize("name", [name for name, export in FILES.items() if export.options])
def test_the_message_names_the_option_that_settles_it(name: str, tmp_path) -> None:
    with pytest.raises(InputError) as caught:
        read_readings(FILES[name].write(tmp_path))
    assert FILES[name].hint in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_observed_cells_stay_as_they_were_written(name: str, tmp_path) -> None:
    """Filled and written, read again: the same readings, the same texts, the gaps filled."""
    export, table = given(name, tmp_path)
    values = table.values.to_numpy()
    if table.source.texts:
        for i, cells in enumerate(export.cells.values()):
            shown = table.source.texts.columns()[i].to_pylist()
            known = [c for c in cells if c]
            kept = [
                str(s).replace(",", ".") for s, v in zip(shown, values[:, i], strict=True) if v == v
            ]
            plain = known if "with a sheet" not in name else [f"{float(c):g}" for c in known]
            assert kept == plain
    filled = np.where(np.isnan(values), 1.0, values)
    target = tmp_path / "filled.csv"
    write_result(target, None, table, filled)
    again = read_readings(target, encoding=export.options.get("encoding"))
    np.testing.assert_array_equal(again.values.to_numpy(), filled)
    assert list(again.sensor_ids) == list(table.sensor_ids)
    assert list(again.values.index.tz_localize(None)) == list(export.times)


SUFFIXES = (".xlsx", ".ods", ".parquet", ".tsv.gz", ".nc")


def every_pair():
    """Every export in every format; the fast suite has each export in one of them, in turn."""
    for number, name in enumerate(FILES):
        for place, suffix in enumerate(SUFFIXES):
            other = number % len(SUFFIXES) != place
            yield pytest.param(name, suffix, marks=[pytest.mark.slow] * other)


@pytest.mark.parametrize(("name", "suffix"), list(every_pair()))
def test_every_export_goes_out_in_every_format(name: str, suffix: str, tmp_path) -> None:
    """Written in another format and read again: the same readings, times and sensors."""
    export, table = given(name, tmp_path)
    filled = np.where(table.known, table.values, 1.0)
    target, flags = tmp_path / f"filled{suffix}", tmp_path / f"flags{suffix}"
    flags = flags.with_suffix(".xlsx") if suffix == ".nc" else flags
    write_result(target, flags, table, filled)
    options = {"date_order": "day-first"} if name == "two-digit years" else {}
    options |= {"encoding": "shift_jis"} if name == "Shift-JIS" and suffix == ".tsv.gz" else {}
    again = read_readings(target, **options)
    wanted = pd.DataFrame(filled, list(export.times), list(table.sensor_ids))
    got = again.values.set_axis(list(again.values.index.tz_localize(None)))
    pd.testing.assert_frame_equal(got[wanted.columns], wanted, check_index_type=False)
    told = read_readings(flags, layout="long", **options)
    got = told.values.set_axis(list(told.values.index.tz_localize(None)))
    pd.testing.assert_frame_equal(got[wanted.columns], wanted, check_index_type=False)


@pytest.mark.parametrize("old", [False, True])
def test_the_daily_files_of_the_epa(old: bool, tmp_path) -> None:
    table = read_readings(text("ad_viz_plotval_data.csv", epa_daily(old))(tmp_path))
    assert table.sensor_ids == ("60010010", "60010034", "60010065")
    assert table.grid.name == "daily"
    assert table.unit == "ug/m3 LC"
    assert table.coordinates is not None
    wanted = np.array([[float(c or "nan") for c in cells] for cells in READINGS.values()]).T
    np.testing.assert_array_equal(table.values.to_numpy(), wanted)


class TestNothingIsReadWrongInSilence:
    def test_jitter_is_refused_and_a_step_settles_it(self, tmp_path) -> None:
        path = text("jitter.csv", jitter())(tmp_path)
        with pytest.raises(InputError, match="step=1h"):
            read_readings(path)
        table = read_readings(path, step="1h")
        assert table.values.shape == (40, 3)
        assert table.values.notna().all().all()
        assert table.values.iloc[3].tolist() == [10.3, 11.3, 12.3]

    def test_quantities_are_no_sensors(self, tmp_path) -> None:
        lines = ["time,humidity,temperature,pm2.5,pm10", "2024-01-01,40,12,8,14"]
        path = text("one.csv", [*lines, "2024-01-02,41,11,9,15"])(tmp_path)
        with pytest.raises(InputError, match="quantities, not sensors"):
            read_readings(path)
        table = read_readings(path, parameter="pm10")
        assert table.sensor_ids == ("one",)
        assert table.values["one"].tolist() == [14, 15]

    def test_a_mean_of_others_is_no_sensor_whatever_its_name(self, tmp_path) -> None:
        export = FILES["mean column"]
        path = export.write(tmp_path)
        path.write_text(path.read_text().replace("Mean", "Zentrale"))
        check(read_readings(path), export)

    def test_places_are_no_sensors(self, tmp_path) -> None:
        lines = ["time,value,lat,lon", *(f"2024-01-0{d},{d}.5,52.5,13.4" for d in range(1, 6))]
        path = text("one.csv", lines)(tmp_path)
        table = read_readings(path)
        assert table.sensor_ids == ("value",)
        assert "hold no readings (time_column keeps every other column): lat, lon" in table.notes[1]
        assert read_readings(path, time_column="time").values.shape == (5, 3)

    @pytest.mark.parametrize(
        ("first", "names", "what"),
        [("Hour", range(1, 32), "days of a month"), ("Month", range(2019, 2023), "years")],
    )
    def test_parts_of_the_time_across_are_refused(self, first, names, what, tmp_path) -> None:
        lines = [f"{first},{','.join(map(str, names))}"]
        lines += [f"{row}," + ",".join(f"{row + 7 * n}.5" for n in names) for row in range(1, 13)]
        path = text("across.csv", lines)(tmp_path)
        with pytest.raises(InputError, match=f"look like .*{what.split()[0]}.*layout=wide"):
            read_readings(path)
        assert read_readings(path, layout="wide").values.shape == (12, len(names))

    def test_several_quantities_at_each_station_are_refused(self, tmp_path) -> None:
        lines = ["time,A_PM10,A_NO2,B_PM10,B_NO2"]
        lines += [f"2024-01-0{d},{d}.1,{d}.2,{d}.3,{d}.4" for d in range(1, 6)]
        path = text("both.csv", lines)(tmp_path)
        with pytest.raises(InputError, match=r"2 quantities each: no2, pm10.*parameter"):
            read_readings(path)
        assert read_readings(path, parameter="NO2").sensor_ids == ("A_NO2", "B_NO2")

    def test_a_web_page_is_no_table(self, tmp_path) -> None:
        for name in ("login.csv", "report.xls"):
            path = text(name, ["<!DOCTYPE html>", "<html><body>Log in, please</body></html>"])
            with pytest.raises(InputError, match="a web page, not a table"):
                read_readings(path(tmp_path))

    def test_a_minus_sign_is_one(self, tmp_path) -> None:
        path = text("t.csv", ["time,a", "2024-01-01,\u22121.5", "2024-01-02,2.5"])(tmp_path)
        assert read_readings(path).values["a"].tolist() == [-1.5, 2.5]

    def test_every_word_that_may_mean_missing_is_named_at_once(self, tmp_path) -> None:
        lines = [f"2024-01-{d:02d},{d}.5,{d}.25" for d in range(1, 20)]
        lines[3], lines[9] = "2024-01-04,<Samp,4.25", "2024-01-10,10.5,InVld"
        path = text("words.csv", ["Date & Time,a,b", *lines])(tmp_path)
        with pytest.raises(InputError, match="missing='<Samp' and missing='InVld'"):
            read_readings(path)
        assert read_readings(path, missing=["<Samp", "InVld"]).values.isna().sum().sum() == 2

    def test_a_column_of_readings_that_nobody_knows_is_asked_for(self, tmp_path) -> None:
        lines = ["agency_cd\tsite_no\tdatetime\t63158_00060\tcd", "5s\t15s\t20d\t14n\t10s"]
        lines += [f"USGS\t0{s}\t2024-01-0{d}\t{s + d}\tP" for s in (7, 8) for d in range(1, 6)]
        path = text("usgs.txt", ["# a comment", "#", *lines])(tmp_path)
        with pytest.raises(InputError, match="value_column='63158_00060'"):
            read_readings(path)
        table = read_readings(path, value_column="63158_00060")
        assert table.sensor_ids == ("07", "08")

    def test_a_number_that_counts_slots_is_no_epoch(self, tmp_path) -> None:
        table = read_readings(text("n.csv", ["time,a", "1,5", "2,6"])(tmp_path))
        assert table.values.index.tolist() == [1, 2]
        path = FILES["epoch seconds"].write(tmp_path)
        table = read_readings(path, time_unit="number")
        assert table.values.index[0] == TIMES[0].timestamp()


@pytest.mark.parametrize(
    ("how", "wanted"), [("mean", [2.0, 5.0]), ("median", [1.5, 5.0]), ("last", [3.5, 5.0])]
)
def test_a_step_gathers_readings(how: str, wanted: list[float], tmp_path) -> None:
    stamps = ["00:01:07", "00:29:50", "00:58:11", "02:15:00"]
    lines = [f"2024-01-01 {s},{v}" for s, v in zip(stamps, (1.0, 1.5, 3.5, 5.0), strict=True)]
    path = text("odd.csv", ["time,a", *lines])(tmp_path)
    table = read_readings(path, step="1h", aggregate=how)
    assert table.values["a"].tolist()[::2] == wanted
    assert np.isnan(table.values["a"].iloc[1])
    assert table.grid.name == "hourly"
    assert "4 times were put into 3 slots" in " ".join(table.notes)


def test_irregular_times_are_noticed(tmp_path) -> None:
    lines = [f"2024-01-01 {h:02d}:{h * 7 % 60:02d},{h}" for h in range(10)]
    table = read_readings(text("odd.csv", ["time,a", *lines])(tmp_path))
    assert not table.grid.regular
    assert "step=1h" in " ".join(table.notes)


@pytest.mark.parametrize("step", ["soon", "0h", "-1h"])
def test_steps_that_are_none(step: str, tmp_path) -> None:
    with pytest.raises(InputError, match="no step"):
        read_readings(FILES["plain wide"].write(tmp_path), step=step)


def test_flags_that_mean_missing(tmp_path) -> None:
    path = FILES["values and flags"].write(tmp_path)
    path.write_text(path.read_text().replace("12.1,V", "12.1,S"))
    table = read_readings(path, bad_flags=["s", "n"])
    assert np.isnan(table.values.iloc[0, 0])
    assert "readings flagged s, n are missing" in " ".join(table.notes)


def test_half_of_the_limit(tmp_path) -> None:
    path = FILES["below a limit"].write(tmp_path)
    table = read_readings(path, censored="half")
    assert table.values.iloc[0, 2] == 1.0
    assert table.source.texts.columns()[2][0].as_py() == "<2.0"
    assert table.ceiling is None
    assert read_readings(path).ceiling[0, 2] == 2.0


def test_a_reading_below_a_limit_is_never_filled_above_it(tmp_path) -> None:
    from flfl import recover

    t = np.arange(60)
    frame = pd.DataFrame({"a": 5 + np.sin(t / 3), "b": 4 + np.cos(t / 3)})
    lines = [f"{i},{a:.2f},{b:.2f}" for i, (a, b) in enumerate(frame.to_numpy())]
    lines[20] = "20,<2.0,4.00"
    table = read_readings(text("c.csv", ["time,a,b", *lines])(tmp_path))
    result = recover(table, method="linear")
    assert result.values.iloc[20, 0] <= 2.0
    assert result.upper.iloc[20, 0] <= 2.0
    free = recover(replace(table, ceiling=None), method="linear")
    assert free.values.iloc[20, 0] > 2.0


def test_files_of_a_folder_may_not_contradict_each_other(tmp_path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        text(f"{name}.csv", ["time,x", f"2024-01-01,{value}", "2024-01-02,3"])(tmp_path)
    with pytest.raises(InputError, match="differ from an earlier file"):
        read_readings(tmp_path)
    table = read_readings(tmp_path, duplicates="mean")
    assert table.values["x"].tolist() == [1.5, 3]


def test_a_format_may_be_forced(tmp_path) -> None:
    with pytest.raises(InputError, match="not a download of eea"):
        read_readings(FILES["plain wide"].write(tmp_path), format="eea")
    path = FILES["OpenAQ"].write(tmp_path)
    assert read_readings(path, format="openaq").sensor_ids == ("4000", "4001", "4002")


def test_an_encoding_may_be_named(tmp_path) -> None:
    path = text("k.csv", ["время,a", "2024-01-01,1", "2024-01-02,2"], "koi8-r")(tmp_path)
    table = read_readings(path, encoding="koi8-r")
    assert table.source.time_column == "время"
    for encoding, words in (("utf-8", "not UTF-8"), ("martian", "no encoding")):
        with pytest.raises(InputError, match=words):
            read_readings(path, encoding=encoding)


def test_a_sheet_may_be_named(tmp_path) -> None:
    pytest.importorskip("python_calamine")
    pytest.importorskip("openpyxl")
    path = FILES["xlsx with a sheet of notes"].write(tmp_path)
    assert read_readings(path, sheet="PM10").sensor_ids == tuple(READINGS)
    with pytest.raises(InputError, match="the sheets are Info, PM10"):
        read_readings(path, sheet="PM25")


def parts_of(kind: str) -> list[str]:
    """The table with its times, or more beside its readings, as loggers have them."""
    lines = []
    for i, (time, row) in enumerate(zip(TIMES, rows(",", ""), strict=True)):
        lines.append(
            {
                "parts": f"{time.year},{time.month},{time.day},{time.hour}{row}",
                "hours": f"{time:%Y-%m-%d},{time.hour}{row}",
                "serial": f"{(time - pd.Timestamp('1899-12-30')) / pd.Timedelta(days=1):.6f}{row}",
                "counted": f"{i + 1},{time}{row}",
                "remarks": f"{time}{row},{'Wartung' if i == 3 else ''}",
                "words": f"{time}{row}".replace(",,", ",n.v.,"),
            }[kind]
        )
    first = {"parts": "year,month,day,hour", "hours": "Date,H", "counted": "No,time"}
    more = ",Bemerkung" if kind == "remarks" else ""
    return [header(first=first.get(kind, "time")) + more, *lines]


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        ("parts", "three columns: year, month, day"),
        ("hours", "two columns"),
        ("serial", "day numbers"),
        ("counted", "numbers the rows or holds remarks: No"),
        ("remarks", "numbers the rows or holds remarks: Bemerkung"),
        ("words", "A wide table"),
    ],
)
def test_more_that_loggers_write(kind: str, note: str, tmp_path) -> None:
    table = read_readings(text("l.csv", parts_of(kind))(tmp_path))
    check(table, Export(lambda folder: folder, notes=(note,)))


def test_a_cell_that_blanks_hide_is_named(tmp_path) -> None:
    lines = FILES["separated by blanks"].write(tmp_path).read_text().splitlines()
    lines[4] = lines[4].replace("20.8", "    ")
    with pytest.raises(InputError, match=r"line 5.*runs of blanks.*write NaN"):
        read_readings(text("a.txt", lines)(tmp_path))


@pytest.mark.parametrize("lines", [["some words", "and 3 more"], ["time", "2024-01-01 00:00"]])
def test_words_are_not_columns_because_of_blanks(lines: list[str], tmp_path) -> None:
    with pytest.raises(InputError, match=r"no sensor column|not a number|cannot be read"):
        read_readings(text("a.txt", lines)(tmp_path))


@pytest.mark.parametrize("name", ["Latitude", "Lon."])
def test_places_below_the_names_are_named(name: str, tmp_path) -> None:
    lines = [header(), f"{name},52.54,52.49,52.51", *rows()]
    with pytest.raises(InputError, match=r"line 2: this row holds places.*sensors file"):
        read_readings(text("a.csv", lines)(tmp_path))


def test_a_readme_is_no_table(tmp_path) -> None:
    path = FILES["a folder of stations"].write(tmp_path)
    (path / "readme.txt").write_text("Readings of the city.\nNo warranty.\n")
    check(read_readings(path), FILES["a folder of stations"])


def test_thousands_marks_are_named(tmp_path) -> None:
    path = text("t.csv", ["time;a", "2024-01-01;1.234,5", "2024-01-02;2,5"])(tmp_path)
    with pytest.raises(InputError, match="without thousands marks") as caught:
        read_readings(path)
    assert "missing=" not in str(caught.value)


class TestRowsAsTheyCame:
    """After ``step`` the file's own rows come back, its stamps and texts as they were."""

    LINES = (
        "2024-01-01 00:01:07,a,1.0,ok", "2024-01-01 00:29:50,a,1.5,ok",
        "2024-01-01 01:10:00,a,-999,bad", "2024-01-01 02:15:00,a,5.0,ok",
        "2024-01-01 00:02:00,b,2.0,ok", "2024-01-01 01:20:00,b,,bad",
        "2024-01-01 01:40:00,b,4.25,ok",
        "2024-01-01 02:25:00,b,6.0,ok",
    )  # fmt: skip

    def test_long(self, tmp_path) -> None:
        lines = ["# logger 7", "when;time;sensor;value;status"]
        lines += [f"x;{line.replace(',', ';')}" for line in self.LINES]
        table = read_readings(text("l.csv", lines, "utf-16")(tmp_path), step="1h")
        assert table.counts.tolist() == [[2, 1], [0, 1], [1, 1]]
        filled = table.values.fillna(3.123456)
        flags, rows = tmp_path / "flags.csv", tmp_path / "rows.csv"
        write_result(None, flags, table, filled, rows_path=rows)
        got = rows.read_text("utf-16").splitlines()
        wanted = [*lines]
        wanted[4] = wanted[4].replace("-999", "3.1235")
        # Another row of the same slot has a reading: that is the slot's.
        wanted[7] = wanted[7].replace(";;", ";4.25;")
        assert got == wanted
        told = pd.read_csv(flags, sep=";", encoding="utf-16", comment="#")
        assert told["readings"].tolist() == [2, 0, 1, 1, 1, 1]

    def test_wide_with_units_flags_and_a_mean(self, tmp_path) -> None:
        lines = ["time,a,a_flag,b,Mean", "UTC,ug/m3,-,ug/m3,ug/m3"]
        for i in range(12):
            cells = ("" if i == 4 else f"{i}.5", "B" if i == 6 else "V", f"{2 * i}.25", "7")
            lines.append(f"2024-01-01 {i:02d}:{7 * i % 50:02d},{','.join(cells)}")
        table = read_readings(
            text("w.csv", lines)(tmp_path), step="1h", bad_flags=["B"], aggregate="median"
        )
        write_result(None, None, table, table.values.fillna(9.0), rows_path=tmp_path / "rows.csv")
        wanted = [*lines]
        wanted[6] = wanted[6].replace(",,", ",9.0,")
        wanted[8] = wanted[8].replace("6.5,B", "9.0,B")
        assert (tmp_path / "rows.csv").read_text().splitlines() == wanted

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_parquet(self, suffix: str, tmp_path) -> None:
        times = pd.to_datetime([f"2024-01-01 {h:02d}:{h * 7 % 60:02d}" for h in range(10)])
        frame = pd.DataFrame({"time": times, "a": [1.0, np.nan, *range(8)], "b": range(10)})
        frame.to_parquet(tmp_path / "p.parquet", index=False)
        table = read_readings(tmp_path / "p.parquet", step="1h")
        path = tmp_path / f"rows.{suffix}"
        write_result(None, None, table, table.values.fillna(0.5), rows_path=path)
        again = pd.read_parquet(path) if suffix == "parquet" else pd.read_csv(path, parse_dates=[0])
        pd.testing.assert_frame_equal(again, frame.fillna(0.5), check_dtype=suffix == "parquet")

    @pytest.mark.parametrize(
        "name",
        [
            n
            for n in FILES
            if not any(
                w in n
                for w in (
                    "transposed",
                    "xlsx",
                    "ods",
                    "folder",
                    "zip",
                    "a file a",
                    "archive",
                    "across",
                )
            )
        ],
    )
    def test_every_export_keeps_its_rows(self, name: str, tmp_path) -> None:
        """Reading the written rows gives the filled table."""
        export = FILES[name]
        path = export.write(tmp_path)
        table = read_readings(path, step="1h", **export.options)
        filled = table.values.fillna(4.0)
        rows = tmp_path / "rows" / path.name
        # A text that calls itself a spreadsheet is written as what it is.
        rows = rows.with_suffix(".csv") if rows.suffix == ".xls" else rows
        rows.parent.mkdir()
        write_result(None, None, table, filled, rows_path=rows)
        # What stood for the total of the others is that no more.
        again = read_readings(rows, step="1h", **export.options).values[list(table.sensor_ids)]
        # These have no row without a reading, or call such a row not valid.
        rowless = name.startswith(("EPA", "OpenAQ", "EEA")) and "one sensor" not in name
        pd.testing.assert_frame_equal(again, table.values if rowless else filled)

    def test_frames(self) -> None:
        from flfl import recover

        t = pd.date_range("2024-01-01", periods=90, freq="h") + pd.to_timedelta(
            np.arange(90) * 37 % 600, unit="s"
        )
        frame = pd.DataFrame(
            {"time": t, "a": np.sin(np.arange(90) / 5), "b": np.cos(np.arange(90) / 5)}
        )
        frame.loc[30:33, "a"] = np.nan
        result = recover(frame, method="linear", reading={"step": "1h"}, verbose=0)
        rows = result.to_rows()
        assert rows["time"].tolist() == t.tolist()
        assert rows["a"].notna().all()
        pd.testing.assert_series_equal(rows["b"], frame["b"])
        assert rows["a"].iloc[31] == result.values["a"].iloc[31]
        assert result.summary()["readings_of_a_cell"] == {"0": 4, "1": 176}

    def test_where_rows_stayed_rows(self, tmp_path) -> None:
        table = read_readings(FILES["plain wide"].write(tmp_path))
        with pytest.raises(InputError, match="those of the filled table"):
            write_result(None, None, table, table.values.fillna(1.0), rows_path=tmp_path / "r.csv")
        assert not (tmp_path / "r.csv").exists()
