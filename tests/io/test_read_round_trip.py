"""A table in any dialect reads back as the same readings or is refused, never as others."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from flfl.errors import InputError
from flfl.io.inspection import inspect_table
from flfl.io.read import read_readings
from flfl.io.table import Table

fuzz = settings(derandomize=True, deadline=None, max_examples=80)
Cells = dict[tuple[pd.Timestamp, str], float]

STAMPS = (
    "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00",
    "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d-%m-%Y %H:%M:%S",
    "%Y/%m/%d %H:%M", "%Y%m%d%H%M", "%d/%m/%Y %I:%M:%S %p", "berlin", "%d/%m/%y %H:%M",
    "%d %b %Y %H:%M", "%H:%M %d.%m.%Y",
)  # fmt: skip
NAMES = ("a", "b", "PM10 (µg/m³)", "x,y", "p;q;r", 'so "called"', "17", "t|u", "Wert", "unit")
PLAIN_NAMES = ("a", "b", "17", "Wert", "unit")


@dataclass(frozen=True)
class Dialect:
    """One way to write a table."""

    layout: str
    delimiter: str
    decimal: str
    stamp: str
    missing: str
    line_end: str
    quoting: int
    form: str
    packed: bool
    bom: bool

    def number(self, value: float) -> str:
        return self.missing if np.isnan(value) else format(value, self.form).replace(
            ".", self.decimal
        )  # fmt: skip

    def time(self, when: pd.Timestamp) -> str:
        if self.stamp == "berlin":
            return str(when.tz_localize("UTC").tz_convert("Europe/Berlin").isoformat())
        return when.strftime(self.stamp)

    def zoned(self) -> bool:
        return self.stamp == "berlin" or self.stamp.endswith(("Z", "+00:00"))

    def write(self, values: pd.DataFrame) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.writer(
            text, delimiter=self.delimiter, lineterminator=self.line_end, quoting=self.quoting
        )
        if self.layout == "wide":
            writer.writerow(["time", *values.columns])
            for when, row in values.iterrows():
                writer.writerow([self.time(when), *(self.number(value) for value in row)])
        else:
            writer.writerow(["time", "station", "value"])
            for when, row in values.iterrows():
                for name, value in row.items():
                    writer.writerow([self.time(when), name, self.number(value)])
        data = text.getvalue().encode("utf-8-sig" if self.bom else "utf-8")
        return gzip.compress(data) if self.packed else data


def dialects(decimals: str, stamps: tuple[str, ...]) -> st.SearchStrategy[Dialect]:
    return st.builds(
        Dialect,
        layout=st.sampled_from(["wide", "long"]),
        delimiter=st.sampled_from([",", ";", "\t", "|"]),
        decimal=st.sampled_from(decimals),
        stamp=st.sampled_from(stamps),
        missing=st.sampled_from(["", "NaN", "NA", "null", " "]),
        line_end=st.sampled_from(["\n", "\r\n"]),
        quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        form=st.sampled_from([".17g", ".2f", ".3f", ".0f", "+.1f", ".3e"]),
        packed=st.booleans(),
        bom=st.booleans(),
    )


@st.composite
def tables(draw, names: tuple[str, ...] = NAMES) -> pd.DataFrame:
    names = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    step = draw(st.sampled_from(["10min", "h", "D", "MS"]))
    start = draw(st.datetimes(pd.Timestamp("2019-01-01"), pd.Timestamp("2030-01-01")))
    index = pd.date_range(
        pd.Timestamp(start).floor("D"), periods=draw(st.integers(2, 6)), freq=step
    )
    number = st.one_of(st.just(np.nan), st.floats(-1e5, 1e5), st.integers(-2000, 2000).map(float))
    cells = [[draw(number) for _ in names] for _ in index]
    order = draw(st.permutations(range(len(index))))
    return pd.DataFrame(cells, index=index, columns=names).iloc[list(order)]


def expected(values: pd.DataFrame, dialect: Dialect) -> Cells:
    rounded = values.map(lambda value: float(format(value, dialect.form)))
    times = rounded.index.tz_localize("UTC") if dialect.zoned() else rounded.index
    return _cells(rounded.set_axis(times))


def _cells(values: pd.DataFrame) -> Cells:
    return {
        (when, name): value
        for when, row in values.iterrows()
        for name, value in row.items()
        if not np.isnan(value)
    }


def read_back(values: pd.DataFrame, dialect: Dialect) -> Table | None:
    name = "a.csv.gz" if dialect.packed else "a.csv"
    return try_to_read(name, dialect.write(values), missing=())


def try_to_read(name: str, content: bytes, **options: object) -> Table | None:
    refused: InputError | None = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            return read_readings(path, **options)
        except InputError as error:
            refused = error
    assert refused.remedy
    assert "\n" not in str(refused)
    return None


@fuzz
@given(tables(), dialects(".,", STAMPS))
def test_equal_or_refused(values: pd.DataFrame, dialect: Dialect) -> None:
    table = read_back(values, dialect)
    event("refused" if table is None else "read")
    if table is None:
        return
    assert _cells(table.values) == expected(values, dialect)
    assert inspect_table(table).observed == len(expected(values, dialect))


@settings(fuzz, max_examples=30)
@given(tables(PLAIN_NAMES), dialects(".", STAMPS[:4]))
def test_plain_dialects_are_never_refused(values: pd.DataFrame, dialect: Dialect) -> None:
    assume(expected(values, dialect))
    table = read_back(values, dialect)
    assert table is not None
    assert _cells(table.values) == expected(values, dialect)


@settings(fuzz, max_examples=60)
@given(st.data())
def test_damaged_netcdf_and_parquet(data) -> None:
    pytest.importorskip("h5netcdf")
    gallery = Path(__file__).parent / "gallery"
    name = data.draw(st.sampled_from(["stations.nc", "packed_grid.nc", "small_types.parquet"]))
    content = bytearray((gallery / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    table = try_to_read(name, bytes(content))
    if table is not None:
        assert not np.isinf(table.values.to_numpy()).any()
        assert table.values.index.is_monotonic_increasing
