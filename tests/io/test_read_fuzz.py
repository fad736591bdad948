"""Whatever the bytes, the reader gives a right table or an InputError."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.errors import InputError
from flfl.io.read import read_readings
from flfl.io.table import Table
from flfl.io.write import write_result

fuzz = settings(derandomize=True, deadline=None, max_examples=60)

cells = st.sampled_from(
    ["", "1", "2.50", "-3", "1e3", "+4", " 5 ", "NaN", "NA", "-999", "inf", "x", '"', '"6"', "7,5",
     '"a\nb"', "1e308", "0x1", "é", "\x00", "1_0", "--", "true"]
)  # fmt: skip
times = st.sampled_from(
    ["2024-01-01", "2024-01-02", "2024-01-03 04:00", "2024-01-01T00:00Z", "2024-02-01T00:00+01:00",
     "01.02.2024", "03/04/2024", "5", "6", "7.5", "20240101", "", "now", "2024-13-01", "1e30",
     "9999-12-31", "0001-01-01", "nan", "2024-01"]
)  # fmt: skip
names = st.sampled_from(["time", "a", "b", "sensor", "value", "", "station", " a", '"q"', "time "])


@st.composite
def files(draw) -> str:
    delimiter = draw(st.sampled_from([",", ",", ";", "\t"]))
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    width = draw(st.integers(1, 4))
    # Mostly sound, so that every check is reached and not only the first.
    sound = draw(st.integers(0, 2)) > 0
    header = ["time", "a", "b", "c"][:width]
    rows = [header if sound else draw(st.lists(names, min_size=width, max_size=width))]
    cell = (
        cells
        if not sound
        else st.sampled_from(["", "1", " 2.50", "-3", "1e3", "NA", '"6"', "1e308"])
    )
    for row in range(draw(st.integers(0, 5))):
        odd = draw(st.integers(0, 15)) == 0 and not sound
        day = draw(times) if not sound else f"2024-01-{draw(st.integers(row + 1, 9)):02d}"
        rows.append([day, *(draw(cell) for _ in range(width - 1 + odd))])
    return end.join(delimiter.join(row) for row in rows) + draw(st.sampled_from(["", end, end * 2]))


def check(table: Table, folder: Path) -> None:
    values = table.values.to_numpy()
    assert values.dtype == np.float64
    assert not np.isinf(values).any()
    assert (~np.isnan(values)).any()
    assert len(table.positions) == len(values) >= 2
    assert table.positions[0] == 0
    assert (np.diff(table.positions) > 0).all()
    assert np.isfinite(table.positions).all()
    assert table.values.index.is_monotonic_increasing
    assert table.values.index.is_unique
    assert all(isinstance(name, str) and name for name in table.sensor_ids)
    assert len(set(table.sensor_ids)) == len(table.sensor_ids)
    # What is written without filling anything reads back as the same table.
    write_result(folder / "again.csv", None, table, values)
    assert table.source is not None
    layout = table.source.layout
    time_column = None if layout == "wide" else table.source.time_column
    again = read_readings(folder / "again.csv", layout=layout, time_column=time_column)
    np.testing.assert_array_equal(again.values.to_numpy(), values)
    write_result(folder / "third.csv", None, again, values)
    assert (folder / "third.csv").read_bytes() == (folder / "again.csv").read_bytes()


def try_to_read(content: bytes, **options: object) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "fuzz.csv"
        path.write_bytes(content)
        refused: InputError | None = None
        try:
            table = read_readings(path, **options)
        except InputError as error:
            refused = error
        if refused is None:
            check(table, Path(name))
        else:
            assert "\n" not in str(refused)
            assert refused.remedy


@fuzz
@given(files(), st.sampled_from(["refuse", "mean", "first"]), st.booleans())
def test_odd_files(text: str, duplicates: str, complete: bool) -> None:
    try_to_read(text.encode(), duplicates=duplicates, complete_grid=complete)


@fuzz
@given(st.binary(max_size=60))
def test_any_bytes(content: bytes) -> None:
    try_to_read(content)


@fuzz
@given(st.text(alphabet='time,ab\n\r";0123456789.-: ', max_size=60))
def test_any_text(text: str) -> None:
    try_to_read(b"time,a\n" + text.encode())


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.data())
def test_good_tables_come_back_exactly(data) -> None:
    sensors, slots = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 8))
    number = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-900, 900))
    rows = [[data.draw(number) for _ in range(sensors)] for _ in range(slots)]
    rows[0][0] = 1.0
    order = data.draw(st.permutations(range(slots)))
    lines = ["time," + ",".join(f"s{i}" for i in range(sensors))]
    for slot in order:
        texts = ["" if cell is None else repr(cell) for cell in rows[slot]]
        lines.append(f"2024-01-{slot + 1:02d}," + ",".join(texts))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "good.csv"
        path.write_text("\n".join(lines) + "\n")
        table = read_readings(path, missing=())
        expected = [[np.nan if cell is None else float(cell) for cell in row] for row in rows]
        np.testing.assert_array_equal(table.values.to_numpy(), expected)
        write_result(Path(name) / "again.csv", None, table, table.values)
        assert (Path(name) / "again.csv").read_text() == path.read_text()
