"""Files that are refused: each message names the place, the problem and the remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl.errors import FLFLError, InputError
from flfl.io.read import from_frame, read_readings

# name, content, options, words that the message must hold
CASES: list[tuple[str, str | bytes, dict[str, object], list[str]]] = [
    ("infinite", "time,a\n2024-01-01,1\n2024-01-02,inf\n", {}, ["line 3", "'a'", "infinite"]),
    ("overflow", "time,a\n2024-01-01,1e999\n2024-01-02,1\n", {}, ["line 2", "infinite"]),
    (
        "text",
        "time,a,b\n2024-01-01,1,2\n\n2024-01-02,1,broken\n",
        {},
        ["readings.csv, line 4, column 'b'", "'broken' is not a number", "leave it empty"],
    ),
    (
        "long file taken for wide",
        "when,who,what\n2024-01-01,x,1\n2024-01-02,x,2\n",
        {},
        ["line 2, column 'who'", "sensor_column"],
    ),
    (
        "text in a long file",
        "time,sensor,value\n2024-01-01,x,1\n2024-01-02,x,low\n",
        {},
        ["line 3, column 'value'", "'low'"],
    ),
    (
        "duplicate time",
        "time,a\n2024-01-01,1\n2024-01-02,2\n2024-01-01,3\n",
        {},
        ["lines 2 and 4", "'2024-01-01'", "duplicates=mean", "duplicates=first"],
    ),
    (
        "duplicate pair",
        "time,sensor,value\n2024-01-01,x,1\n2024-01-01,y,1\n2024-01-01,y,2\n2024-01-02,x,1\n",
        {},
        ["lines 3 and 4", "'y'", "duplicates=mean"],
    ),
    (
        "daylight saving",
        "time,a\n2024-10-27 01:00,1\n2024-10-27 02:00,2\n2024-10-27 02:00,3\n2024-10-27 03:00,4\n",
        {},
        ["lines 3 and 4", "daylight saving ends", "offset", "duplicates=mean"],
    ),
    ("zero bytes", "", {}, ["readings.csv", "empty"]),
    ("only blanks", "\n\n  \n", {}, ["empty"]),
    ("header only", "time,a,b\n", {}, ["header but no rows"]),
    ("header and blanks", "time,a,b\n\n\n", {}, ["header but no rows"]),
    ("no sensor", "time\n2024-01-01\n2024-01-02\n", {}, ["no sensor column", "semicolon"]),
    ("nothing known", "time,a\n2024-01-01,\n2024-01-02,NaN\n", {}, ["no reading at all"]),
    ("empty name", "time,a,\n2024-01-01,1,2\n2024-01-02,1,2\n", {}, ["column 3 has no name"]),
    (
        "nameless counter",
        ",time,a\n0,2024-01-01,1\n1,2024-01-02,2\n",
        {},
        ["column 1 has no name"],
    ),
    (
        "same name twice",
        "time,a, a\n2024-01-01,1,2\n2024-01-02,1,2\n",
        {},
        ["columns 2 and 3", "'a'", "own name"],
    ),
    (
        "short row",
        "time,a,b\n2024-01-01,1,2\n2024-01-02,1\n",
        {},
        ["line 3", "2 cells, the header has 3", "empty cell"],
    ),
    ("long row", "time,a\n2024-01-01,1\n2024-01-02,1,2\n", {}, ["line 3", "3 cells"]),
    (
        "latin-1",
        "time,a\n2024-01-01,1\n2024-01-02,\xb5\n".encode("latin-1"),
        {"encoding": "utf-8"},
        ["line 3", "UTF-8"],
    ),
    (
        "time missing",
        "time,a\n2024-01-01,1\n,2\n",
        {},
        ["line 3, column 'time'", "time is missing"],
    ),
    ("no time at all", "time,a\nmonday,1\ntuesday,2\n", {}, ["line 2", "'monday'", "2024-01-31"]),
    (
        "one bad time",
        "time,a\n2024-01-01,1\n2024-01-32,2\n",
        {},
        ["line 3", "'2024-01-32'", "'2024-01-01'"],
    ),
    (
        "mixed forms",
        "time,a\n2024-01-01,1\n02.01.2024,2\n",
        {},
        ["line 3", "'02.01.2024'", "one form"],
    ),
    (
        "mixed offsets",
        "time,a\n2024-01-01T00:00Z,1\n2024-01-01T01:00,2\n",
        {},
        ["line 3", "offset", "none"],
    ),
    ("pandas words", "time,a\nnow,1\ntoday,2\n", {}, ["'now'"]),
    (
        "day or month",
        "time,a\n01/02/2024,1\n02/03/2024,2\n",
        {},
        ["'01/02/2024'", "day then month", "year-month-day"],
    ),
    ("one slot", "time,a\n2024-01-01,1\n", {}, ["only one time", "at least two rows"]),
    ("unknown layout", "time,a\n2024-01-01,1\n", {"layout": "tall"}, ["layout", "'tall'", "wide"]),
    ("unknown rule", "time,a\n", {"duplicates": "last"}, ["duplicates", "'last'", "refuse"]),
    (
        "unknown column",
        "time,a\n2024-01-01,1\n2024-01-02,1\n",
        {"time_column": "when"},
        ["'when'", "time, a", "time_column"],
    ),
    (
        "not long",
        "time,a\n2024-01-01,1\n2024-01-02,1\n",
        {"layout": "long"},
        ["time, a", "sensor_column, value_column"],
    ),
    (
        "sensor missing",
        "time,sensor,value\n2024-01-01,x,1\n2024-01-02,,1\n",
        {},
        ["line 3, column 'sensor'", "sensor name is missing"],
    ),
    (
        "no grid to complete",
        "time,a\n2024-01-01 00:00:00,1\n2024-01-01 01:00:07,2\n2024-01-01 01:59:58,3\n",
        {"complete_grid": True},
        ["irregular", "complete_grid"],
    ),
    (
        "a wrong time far away",
        "time,a\n1,1\n2,1\n3,1\n9000000000,1\n",
        {"complete_grid": True},
        ["insert", "far from the others"],
    ),
    (
        "comma as thousands mark",
        'time,a\n2024-01-01,"1,5"\n2024-01-02,2\n',
        {},
        ["'1,5' is not a number"],
    ),
]


@pytest.mark.parametrize(
    ("content", "options", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_refused(tmp_path: Path, content, options, words) -> None:
    path = tmp_path / "readings.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        read_readings(path, **options)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "\n" not in message
    assert caught.value.remedy
    if not {"layout", "duplicates"} & set(caught.value.where.split()):
        assert str(path) in message


def test_no_such_file_directory_and_suffix(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_readings(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="no file of readings in it"):
        read_readings(tmp_path / "folder.csv")
    (tmp_path / "a.docx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"'\.docx'.*\.csv.*\.parquet"):
        read_readings(tmp_path / "a.docx")
    (tmp_path / "a.zip").write_bytes(b"x")
    with pytest.raises(InputError, match="not a readable zip"):
        read_readings(tmp_path / "a.zip")
    with pytest.raises(InputError, match="no suffix"):
        read_readings(tmp_path / "readings")


def test_not_gzip_and_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(b"time,a\n1,2\n")
    with pytest.raises(InputError, match=r"not gzip.*without \.gz"):
        read_readings(path)
    path.write_bytes(gzip.compress(b"time,a\n" + b"1,2\n" * 1000)[:-20])
    with pytest.raises(InputError, match="damaged or cut short"):
        read_readings(path)


def test_bad_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_readings(path)
    times = pd.date_range("2024-01-01", periods=2, name="time")
    pd.DataFrame({"a": ["1", "x"]}, index=times).to_parquet(path)
    with pytest.raises(InputError, match="row 2, column 'a': 'x' is not a number"):
        read_readings(path)
    pd.DataFrame({"a": [True, False]}, index=times).to_parquet(path)
    with pytest.raises(InputError, match="column 'a': the column holds bool"):
        read_readings(path)
    pd.DataFrame({"time": [None, "2024-01-01"], "a": [1, 2]}).to_parquet(path)
    with pytest.raises(InputError, match="row 1, column 'time'"):
        read_readings(path)


def test_bad_frames() -> None:
    good = pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(InputError, match="column 'a': the reading is infinite"):
        from_frame(good.replace(2.0, np.inf))
    with pytest.raises(InputError, match="row 2, column 'a': 'x' is not a number"):
        from_frame(pd.DataFrame({"a": ["1", "x"]}))
    with pytest.raises(InputError, match="mixes"):
        from_frame(pd.DataFrame({"a": [1.0, "x"]}))
    with pytest.raises(InputError, match="both named '1'"):
        from_frame(pd.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]))
    with pytest.raises(InputError, match="rows 1 and 2"):
        from_frame(pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[5, 5, 6]))
    with pytest.raises(InputError, match="no rows"):
        from_frame(good.iloc[:0])
    with pytest.raises(InputError, match="only one time"):
        from_frame(good.iloc[:1])
    with pytest.raises(InputError, match="no sensor column"):
        from_frame(good[[]])
    with pytest.raises(InputError, match="several levels"):
        from_frame(good.set_index(pd.MultiIndex.from_tuples([(1, 2), (1, 3)])))
    with pytest.raises(InputError, match="3 dimensions"):
        from_frame(np.zeros((2, 2, 2)))


def test_long_columns_that_hardly_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"{i},s{i},1\n" for i in range(12_000))
    path.write_text("time,sensor,value\n" + rows)
    with pytest.raises(InputError, match="hardly ever meet"):
        read_readings(path)


def test_errors_are_of_their_kinds() -> None:
    error = InputError("it broke", where="here", remedy="Mend it")
    assert isinstance(error, FLFLError)
    assert isinstance(error, ValueError)
    assert str(error) == "here: it broke. Mend it."
    assert str(InputError("it broke")) == "it broke."


@pytest.mark.parametrize(
    "first", ["2024-01-01 00:00,1.5,2", "01/02/2024,1,1", "20240101,1,", "0,1.5,2", "-1.5,3,4"]
)
def test_a_file_without_a_header(tmp_path: Path, first: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n{first}\n")
    with pytest.raises(InputError, match=r"first line holds the time .*Put a header"):
        read_readings(path)


@pytest.mark.parametrize(
    "text",
    [
        "# made by hand\ntime;a;b\n2024-01-01;1;2\n2024-01-02;1;2\n",
        "\n# hand, made, now, then\ntime,a,b\n2024-01-01,1,2\n2024-01-02,1,2\n",
        "# one, two, three\n# four, five, six\ntime,a,b\n2024-01-01,1,2\n2024-01-02,1,2\n",
    ],
)
def test_a_comment_above_the_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    table = read_readings(path)
    assert table.sensor_ids == ("a", "b")
    assert "above the column names" in " ".join(table.notes)


def test_nothing_but_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("# nothing else\n")
    with pytest.raises(InputError, match=r"line 1: this line is a comment, .*Remove the lines"):
        read_readings(path)


def test_parquet_that_does_not_say_where_the_time_is(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"a": [3.0, 1.0, 2.0], "b": [1.0, 2.0, 3.0]})
    frame.to_parquet(path)
    with pytest.raises(InputError, match=r"the first, 'a', holds numbers.*time_column"):
        read_readings(path)
    assert read_readings(path, time_column="a").sensor_ids == ("b",)
