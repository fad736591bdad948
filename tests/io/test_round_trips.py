"""A file, recovered, written in its own form: what was observed is what it was."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl import recover
from flfl.io.read import read_readings
from flfl.io.write import write_result

GALLERY = Path(__file__).parent / "gallery"


def through(path, out, flags=None, **rules):
    """Read, recover, write; the result beside the table."""
    table = read_readings(path)
    result = recover(table, method="linear", **rules)
    write_result(
        out, flags, table, result.values, result.lower, result.upper,
        result.provenance,
    )  # fmt: skip
    return table, result


NUMBER = st.one_of(
    st.integers(-10_000, 10_000).map(str),
    st.decimals(-1000, 1000, places=3, allow_nan=False).map(str),
    st.sampled_from(["+1.50", "007", " 2.0 ", "1e3", "-0.0", ".5", "3."]),
)
CELL = st.one_of(NUMBER, st.sampled_from(["", "NA", "-999", "nan"]))


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(CELL, CELL), min_size=4, max_size=12), head=NUMBER)
def test_observed_cells_keep_their_text(rows, head, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trip")
    rows = [(head, head), *rows]
    given_ = [["time", "a", "b"]]
    given_ += [[f"2024-01-01 {i:02d}:00", *row] for i, row in enumerate(rows)]
    with (folder / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows(given_)
    table = read_readings(folder / "in.csv")
    write_result(folder / "out.csv", None, table, table.values.fillna(1.5))
    with (folder / "out.csv").open(newline="") as file:
        found = list(csv.reader(file))
    assert [row[0] for row in found] == [row[0] for row in given_]
    assert found[0] == given_[0]
    for slot, sensor in np.argwhere(table.known):
        assert found[slot + 1][sensor + 1] == given_[slot + 1][sensor + 1]
    assert all(cell != "" for row in found[1:] for cell in row)


GERMAN = (
    "Datum;Ort 1;Ort 2\r\n"
    + "".join(f"{day:02d}.01.2024;{day},50;{'' if day == 15 else f'{2 * day},25'}\r\n"
              for day in range(13, 25))
)  # fmt: skip


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("line_end", ["\r\n", "\n", "\r"])
@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
def test_separator_decimals_dates_and_line_ends_stay(name, line_end, mark, tmp_path):
    pack = gzip.compress if name.endswith(".gz") else bytes
    before = mark + GERMAN.replace("\r\n", line_end)
    (tmp_path / name).write_bytes(pack(before.encode()))
    out = tmp_path / name.replace("in", "out")
    through(tmp_path / name, out)
    content = out.read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    assert content.decode() == before.replace("15.01.2024;15,50;", "15.01.2024;15,50;30,25")


LONG = "station,datetime,value,unit,latitude\n" + "".join(
    f"N{i},2024-01-01T{hour:02d}:00Z,{'' if (i, hour) == (1, 2) else 10 + hour},µg/m³,5{i}\n"
    for i in (1, 2)
    for hour in range(8)
)


def test_a_long_file_keeps_its_columns(tmp_path):
    (tmp_path / "in.csv").write_text(LONG, encoding="utf-8")
    out, flags = tmp_path / "out.csv", tmp_path / "flags.csv"
    _, result = through(tmp_path / "in.csv", out, flags)
    text = out.read_text(encoding="utf-8")
    assert text == LONG.replace("N1,2024-01-01T02:00Z,,", "N1,2024-01-01T02:00Z,12.0,")
    table = pd.read_csv(flags, keep_default_na=False)
    (row,) = table[table.flag == "recovered"].to_dict("records")
    assert (row["method"], row["run_id"], row["reason"]) == ("linear", result.run_id, "")
    observed = table[table.flag == "observed"]
    assert (observed[["lower", "upper", "method", "reason", "run_id"]] == "").all().all()


def test_a_recovered_reading_is_nobodys_verified_one(tmp_path):
    through(GALLERY / "verified_throughout.csv", tmp_path / "o.csv")
    text = (tmp_path / "o.csv").read_text(encoding="utf-8")
    assert "2024-01-02,b,5.0,K\n" in text
    assert "verified" not in text


def test_the_reason_is_in_the_table_of_flags(tmp_path):
    (tmp_path / "in.csv").write_text(LONG, encoding="utf-8")
    for name in ("flags.csv", "flags.parquet"):
        _, result = through(tmp_path / "in.csv", tmp_path / "o.csv", tmp_path / name, max_gap=0)
        read = pd.read_csv if name.endswith("csv") else pd.read_parquet
        table = read(tmp_path / name)
        (row,) = table[table.flag == "refused"].to_dict("records")
        assert row["reason"] == "gap longer than 0 slots"
        assert row["run_id"] == result.run_id
        assert pd.isna(row["value"])
    assert "N1,2024-01-01T02:00Z,," in (tmp_path / "o.csv").read_text(encoding="utf-8")


def test_rounding_does_not_leave_the_bounds(tmp_path):
    (tmp_path / "in.csv").write_text(
        "time,a\n" + "".join(f"2024-01-{d:02d},{d if d != 3 else ''}\n" for d in range(1, 9))
    )
    through(tmp_path / "in.csv", tmp_path / "o.csv", tmp_path / "f.csv", bounds=(3.00123, None))
    assert "2024-01-03,3.00123\n" in (tmp_path / "o.csv").read_text()
    row = pd.read_csv(tmp_path / "f.csv").iloc[2]
    assert row[["lower", "value", "upper"]].min() >= 3.00123


def frame(zone):
    index = pd.date_range("2024-03-30 18:00", periods=24, freq="h", tz=zone, name="when")
    t = np.arange(24.0)
    values = pd.DataFrame({"a": np.sin(t), "b": np.cos(t), "n": np.arange(24)}, index)
    values.iloc[3, 0] = values.iloc[7:9, 1] = np.nan
    return values.astype({"b": "float32", "n": "Int16"})


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "UTC"])
@pytest.mark.parametrize("index", [True, False])
def test_parquet_keeps_types_zone_and_metadata(zone, index, tmp_path):
    values = frame(zone)
    values.iloc[5, 2] = pd.NA
    stored = values if index else values.reset_index()
    stored.to_parquet(tmp_path / "in.parquet")
    through(tmp_path / "in.parquet", tmp_path / "out.parquet")
    before, after = (pa_parquet.read_table(tmp_path / f"{n}.parquet") for n in ("in", "out"))
    assert after.schema.equals(before.schema, check_metadata=True)
    found = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_index_equal(found.index, stored.index, check_freq=False)
    assert found["n"].iloc[5] == 5
    there = stored.notna()
    pd.testing.assert_frame_equal(found.where(there), stored.where(there), check_freq=False)
    assert found.notna().all().all()


def test_long_parquet_keeps_its_columns_and_their_types(tmp_path):
    values = frame("Europe/Berlin")[["a", "b"]].astype(float)
    long = values.reset_index().melt("when", var_name="station", value_name="value")
    long = long.rename(columns={"when": "time"})
    long["unit"] = pd.Categorical(["ppb"] * len(long))
    content = pa.Table.from_pandas(long).replace_schema_metadata({"licence": "CC BY"})
    pa_parquet.write_table(content, tmp_path / "in.parquet")
    through(tmp_path / "in.parquet", tmp_path / "out.parquet")
    before, after = (pa_parquet.read_table(tmp_path / f"{n}.parquet") for n in ("in", "out"))
    assert after.schema.equals(before.schema, check_metadata=True)
    assert after.drop_columns("value").equals(before.drop_columns("value"))


def test_what_a_columns_type_cannot_hold_is_written_plainly(tmp_path):
    """A recovered 300 is not 44 because the sensor's column has eight bits."""
    times = pd.date_range("2024-01-01", periods=4, freq="h")
    table = pa.table(
        {
            "time": pa.array(times),
            "small": pa.array([100, None, None, 120], pa.int8()),
            "roomy": pa.array([1, None, None, 4], pa.int8()),
        }
    )
    pa_parquet.write_table(table, tmp_path / "in.parquet")
    read = read_readings(tmp_path / "in.parquet")
    filled = read.values.fillna(300.0)
    filled["roomy"] = read.values["roomy"].fillna(2.4)
    write_result(tmp_path / "out.parquet", None, read, filled)
    found = pa_parquet.read_table(tmp_path / "out.parquet")
    assert found.column("small").to_pylist() == [100.0, 300.0, 300.0, 120.0]
    assert found.schema.field("roomy").type == pa.int8()
    assert found.column("roomy").to_pylist() == [1, 2, 2, 4]


def test_a_column_of_categories_stays_one(tmp_path):
    frame = pd.DataFrame(
        {
            "time": np.repeat(pd.date_range("2024-01-01", periods=6, freq="h"), 2),
            "sensor": pd.Categorical(["north", "south"] * 6),
            "value": [1.0, 2.0, np.nan, 3.0, 4.0, np.nan] * 2,
        }
    )
    frame.to_parquet(tmp_path / "in.parquet", index=False)
    through(tmp_path / "in.parquet", tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found["sensor"].tolist() == frame["sensor"].tolist()
    assert isinstance(found["sensor"].dtype, pd.CategoricalDtype)
