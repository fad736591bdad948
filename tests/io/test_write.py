"""Files out: the source's own words, all or nothing."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl.errors import InputError
from flfl.io.files import check_writable, write_files
from flfl.io.read import from_frame, read_readings
from flfl.io.write import flags_of, write_result


def read_text(tmp_path: Path, text: str, **options: object):
    path = tmp_path / "in.csv"
    path.write_bytes(text.encode())
    return read_readings(path, **options)


def fill(table, value: float = 1.23456789) -> np.ndarray:
    values = table.values.to_numpy().copy()
    values[np.isnan(values)] = value
    return values


def out(tmp_path: Path, table, values, name: str = "out.csv") -> str:
    write_result(tmp_path / name, None, table, values)
    return (tmp_path / name).read_bytes().decode()


ODD = (
    'time,"a,1",b\n2024-01-01 00:00, 1.50 ,+2\n'
    "2024-01-01 01:00,,3e0\n2024-01-01 03:00,0001.0,-999\n"
)


def test_observed_cells_keep_their_text(tmp_path: Path) -> None:
    table = read_text(tmp_path, ODD)
    assert out(tmp_path, table, fill(table)) == (
        'time,"a,1",b\n2024-01-01 00:00, 1.50 ,+2\n2024-01-01 01:00,1.2346,3e0\n'
        "2024-01-01 03:00,0001.0,1.234568\n"
    )


def test_refused_cells_are_empty(tmp_path: Path) -> None:
    table = read_text(tmp_path, "time,a,b\n2024-01-01,NA,1\n2024-01-02,2,3\n")
    text = out(tmp_path, table, table.values.to_numpy())
    assert text == "time,a,b\n2024-01-01,,1\n2024-01-02,2,3\n"


@pytest.mark.parametrize(
    ("observed", "value", "written"),
    [
        ("12.5", 3.14159, "3.142"),
        ("12.5", 3.1, "3.1"),
        ("12", 3.14159, "3.14"),
        ("12.000", 3.14159265, "3.14159"),
        ("12", -0.0001, "0.0"),
        ("1e-9", 1.23456789e-9, "1.234568e-09"),
        ("1e-9", -0.0, "-0.0"),
        ("123456789012345678", 1e17 / 3, repr(float(round(1e17 / 3)))),
        ("1" + "0" * 300, 1e300, "1e+300"),
    ],
)
def test_digits_of_recovered_cells(tmp_path: Path, observed, value, written) -> None:
    table = read_text(tmp_path, f"time,a\n2024-01-01,{observed}\n2024-01-02,\n")
    text = out(tmp_path, table, fill(table, value))
    assert text.splitlines()[2].split(",")[1] == written


def test_rows_in_the_order_of_the_file(tmp_path: Path) -> None:
    table = read_text(tmp_path, "time,a\n2024-01-03,3\n2024-01-01,\n2024-01-02,2\n")
    text = out(tmp_path, table, fill(table))
    assert text == "time,a\n2024-01-03,3\n2024-01-01,1.23\n2024-01-02,2\n"
    write_result(tmp_path / "o.parquet", None, table, fill(table))
    assert pd.read_parquet(tmp_path / "o.parquet")["a"].round(2).tolist() == [3, 1.23, 2]


def test_dialect_is_kept(tmp_path: Path) -> None:
    table = read_text(tmp_path, "time;a\r\n2024-01-01;1,5\r\n2024-01-02;\r\n")
    assert out(tmp_path, table, fill(table)) == "time;a\r\n2024-01-01;1,5\r\n2024-01-02;1,235\r\n"
    assert "2024-01-02\t1,235" in out(tmp_path, table, fill(table), "o.tsv")


@pytest.mark.parametrize(
    ("rows", "by_sensor"),
    [("1,x,1.0\n1,y,2\n2,x,3.0\n", False), ("1,x,1.0\n2,x,3.0\n1,y,2\n", True)],
)
def test_long_layout_and_order(tmp_path: Path, rows: str, by_sensor: bool) -> None:
    table = read_text(tmp_path, "time,sensor,value\n" + rows)
    text = out(tmp_path, table, fill(table))
    cells = {"1,x,1.0", "1,y,2", "2,x,3.0", "2,y,1.23"}
    lines = text.splitlines()
    assert lines[0] == "time,sensor,value"
    assert set(lines[1:]) == cells
    assert [line.split(",")[1] for line in lines[1:]] == (
        list("xxyy") if by_sensor else list("xyxy")
    )
    values = fill(table)
    write_result(None, tmp_path / "f.csv", table, values, values - 1, values + 1)
    lines = (tmp_path / "f.csv").read_text().splitlines()
    assert lines[0] == "time,sensor,value,flag,lower,upper"
    assert "2,y,1.23,recovered,0.23,2.23" in lines


def test_duplicates_are_written_once(tmp_path: Path) -> None:
    text = "time,a,b\n2024-01-01,1.50,\n2024-01-01,1.50,2\n2024-01-02,3,4.00\n2024-01-02,5,4.00\n"
    table = read_text(tmp_path, text, duplicates="mean")
    written = out(tmp_path, table, fill(table))
    assert written == "time,a,b\n2024-01-01,1.50,2\n2024-01-02,4.0,4.00\n"


def test_offsets_are_written_as_they_were(tmp_path: Path) -> None:
    text = "time,a\n2024-10-27T02:00+02:00,1\n2024-10-27T02:00+01:00,2\n2024-10-27T03:00+01:00,3\n"
    table = read_text(tmp_path, text)
    assert out(tmp_path, table, fill(table)) == text


def test_completed_grid_is_written_in_the_files_form(tmp_path: Path) -> None:
    text = "time,a\n01.01.2024,1\n02.01.2024,2\n14.01.2024,3\n"
    table = read_text(tmp_path, text, complete_grid=True)
    lines = out(tmp_path, table, fill(table)).splitlines()
    assert len(lines) == 15
    assert lines[3] == "03.01.2024,1.23"


def test_flags_file(tmp_path: Path) -> None:
    table = read_text(tmp_path, "time,a,b\n2024-01-01,1.50,\n2024-01-02,,2\n")
    values = table.values.to_numpy().copy()
    values[0, 1] = 5.5
    write_result(None, tmp_path / "f.csv", table, values, values - 1, values + 1)
    assert (tmp_path / "f.csv").read_text() == (
        "time,sensor,value,flag,lower,upper\n2024-01-01,a,1.50,observed,,\n"
        "2024-01-01,b,5.5,recovered,4.5,6.5\n2024-01-02,a,,refused,,\n2024-01-02,b,2,observed,,\n"
    )
    write_result(None, tmp_path / "f.parquet", table, values)
    assert flags_of(table, values).tolist() == [["observed", "recovered"], ["refused", "observed"]]
    frame = pd.read_parquet(tmp_path / "f.parquet")
    assert frame["flag"].tolist() == ["observed", "recovered", "refused", "observed"]
    assert list(frame) == ["time", "sensor", "value", "flag", "lower", "upper"]


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.txt", "o.tsv.gz", "o.parquet", "o.pq"])
def test_every_suffix_reads_back(tmp_path: Path, name: str) -> None:
    table = read_text(tmp_path, "time,a,b\n2024-01-01,1.25,\n2024-01-02,0.1,2\n")
    write_result(tmp_path / name, None, table, fill(table, 7.0))
    again = read_readings(tmp_path / name)
    pd.testing.assert_frame_equal(again.values, table.values.fillna(7.0))
    assert sorted(os.listdir(tmp_path)) == sorted(["in.csv", name])


def test_frames_without_a_source(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [0.1, np.nan]}, index=pd.date_range("2024-01-01", periods=2))
    table = from_frame(frame)
    assert out(tmp_path, table, fill(table)) == "time,a\n2024-01-01,0.1\n2024-01-02,1.235\n"
    table = from_frame(np.array([[1.0], [2.0]]))
    assert out(tmp_path, table, fill(table)) == "time,a\n0,1.0\n1,2.0\n".replace("a", "0", 1)


def test_gzip_is_reproducible(tmp_path: Path) -> None:
    table = read_text(tmp_path, ODD)
    write_result(tmp_path / "a.csv.gz", None, table, fill(table))
    first = (tmp_path / "a.csv.gz").read_bytes()
    write_result(tmp_path / "b.csv.gz", None, table, fill(table))
    assert first == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress(first).startswith(b"time")


def test_observed_values_are_never_altered(tmp_path: Path) -> None:
    table = read_text(tmp_path, ODD)
    values = fill(table)
    values[0, 0] += 1
    with pytest.raises(ValueError, match="never altered"):
        write_result(tmp_path / "o.csv", None, table, values)
    with pytest.raises(ValueError, match="shape"):
        write_result(tmp_path / "o.csv", None, table, values[:1])
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")

    def fail(file) -> None:
        file.write(b"new" * 1000)
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_files({path: fail})
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [name]


def test_a_failure_within_the_writer(tmp_path: Path) -> None:
    table = read_text(tmp_path, "time,a\n2024-01-01,1\n2024-01-02,\n")
    (tmp_path / "o.csv").write_text("old")
    # A lone surrogate cannot be written as UTF-8: the failure comes after the first bytes.
    assert table.source is not None
    broken = replace(table, source=replace(table.source, time_texts=("2024-01-01", "\udcff")))
    with pytest.raises(UnicodeEncodeError):
        write_result(tmp_path / "o.csv", None, broken, fill(table))
    assert (tmp_path / "o.csv").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "o.csv"]


def test_mode_and_links_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "real.csv"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    write_files({link: lambda file: file.write(b"new")})
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_bad_outputs_are_refused_beforehand(tmp_path: Path) -> None:
    table = read_text(tmp_path, ODD)
    source = tmp_path / "in.csv"
    with pytest.raises(InputError, match=r"nowhere' does not exist\. Make it first"):
        check_writable(tmp_path / "nowhere" / "o.csv")
    with pytest.raises(InputError, match=r"'\.docx'.*\.parquet"):
        check_writable(tmp_path / "o.docx")
    with pytest.raises(InputError, match="directory"):
        check_writable(tmp_path)
    for path in (source, tmp_path / "." / "in.csv"):
        with pytest.raises(InputError, match="file that was read"):
            write_result(path, None, table, fill(table))
    (tmp_path / "link.csv").symlink_to(source)
    with pytest.raises(InputError, match="file that was read"):
        write_result(None, tmp_path / "link.csv", table, fill(table))
    assert source.read_text() == ODD
    check_writable(tmp_path / "o.csv", inputs=[source])
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "link.csv"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a directory nobody can write")
def test_unwritable_directory() -> None:
    with pytest.raises(InputError, match="cannot be written to"):
        check_writable("/proc/o.csv")


def test_outputs_are_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "old.csv")
    (tmp_path / "new-link.csv").symlink_to(tmp_path / "new.csv")
    for first, second in (("o.csv", "o.csv"), ("old.csv", "link.csv"), ("new.csv", "new-link.csv")):
        with pytest.raises(InputError, match="two outputs have the same name"):
            check_writable(tmp_path / first, tmp_path / second)
    check_writable(tmp_path / "a.csv", tmp_path / "b.csv", inputs=[tmp_path / "old.csv"])


def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("old")
    (tmp_path / "o.csv").chmod(0o444)
    with pytest.raises(InputError, match=r"o\.csv: the file is read-only"):
        check_writable(tmp_path / "o.csv")


def test_both_files_or_neither(tmp_path: Path) -> None:
    table = read_text(tmp_path, "time,a\n2024-01-01,1\n2024-01-02,\n")
    assert table.source is not None
    (tmp_path / "o.parquet").write_text("old")
    # Parquet holds no time texts: only the second file, a CSV, fails.
    broken = replace(table, source=replace(table.source, time_texts=("2024-01-01", "\udcff")))
    with pytest.raises(UnicodeEncodeError):
        write_result(tmp_path / "o.parquet", tmp_path / "f.csv", broken, fill(table))
    assert (tmp_path / "o.parquet").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "o.parquet"]
    write_result(tmp_path / "o.parquet", tmp_path / "f.csv", table, fill(table))
    assert pd.read_parquet(tmp_path / "o.parquet")["a"].tolist() == fill(table)[:, 0].tolist()
    assert "extrapolated" in (tmp_path / "f.csv").read_text()


def test_frames_are_written_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    table = from_frame(pd.DataFrame({"a": [3.0, 1.0]}, index=[30, 10]))
    assert out(tmp_path, table, fill(table)) == "time,a\n30,3.0\n10,1.0\n"
