"""Readings packed for the page: observed ones come back to the last bit, all of them small."""

import base64
import zlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.report.packing import NOTHING, coverage, pack, runs, stamps


def inflate(text):
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)


def numbers(text):
    planes = inflate(text).reshape(4, -1)
    return np.cumsum(planes.T.copy().view("<u4").ravel(), dtype=np.uint32).view(np.int32)


def unpack(packed, slots):
    """The reading of the format in Python, as ``readings.js`` does it in the browser."""
    flags = inflate(packed["streams"]["flags"]).reshape(-1, slots)
    values, below, above = (
        numbers(packed["streams"][name]) for name in ("values", "below", "above")
    )
    out = np.full((3, *flags.shape), np.nan)
    shown = filled = 0
    for row, decimals in enumerate(packed["decimals"]):
        here, gaps = flags[row] <= 1, flags[row] == 1
        whole = values[shown : shown + here.sum()]
        low, high = (part[filled : filled + gaps.sum()] for part in (below, above))
        shown, filled = shown + here.sum(), filled + gaps.sum()
        if decimals is None:
            read = [part.view(np.float32).astype(float) for part in (whole, low, high)]
        else:
            centre = whole[gaps[here]].astype(float)
            read = [part / 10.0**decimals for part in (whole, centre - low, centre + high)]
        out[:, row, here] = read[0]
        out[1, row, gaps], out[2, row, gaps] = read[1:]
    return flags, out


DECIMALS = st.integers(0, 4)


@given(
    rows=st.lists(
        st.tuples(DECIMALS, st.lists(st.integers(-99_999, 99_999), min_size=6, max_size=6)),
        min_size=1,
        max_size=4,
    ),
    codes=st.lists(st.integers(0, 2), min_size=24, max_size=24),
)
def test_observed_decimals_come_back_to_the_last_bit(rows, codes):
    values = np.array([[float(f"{n}e-{d}") for n in whole] for d, whole in rows]).T
    code = np.array(codes, dtype=np.uint8).reshape(6, 4)[:, : values.shape[1]]
    values = np.where(code == 2, np.nan, values)
    flags, (back, lower, upper) = unpack(pack(values, code, values - 1, values + 2), 6)
    np.testing.assert_array_equal(flags, code.T)
    np.testing.assert_array_equal(back[code.T == 0], values.T[code.T == 0])
    fine = {"rtol": 0, "atol": max(1e-9, np.nanstd(values, axis=0).max(initial=0) / 1000)}
    np.testing.assert_allclose(back, values.T, **fine)
    recovered = code.T == 1
    np.testing.assert_allclose(lower[recovered], values.T[recovered] - 1, **fine)
    np.testing.assert_allclose(upper[recovered], values.T[recovered] + 2, **fine)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("no short decimals", np.random.default_rng(0).normal(size=500)),
        ("eleven orders of size", np.logspace(-6, 5, 500)),
        ("beyond 32 bits", np.arange(500) * 1e9 + 0.5),
    ],
)
def test_other_numbers_keep_seven_figures(name, values):
    code = np.zeros((500, 1), dtype=np.uint8)
    packed = pack(values[:, None], code, values[:, None], values[:, None])
    assert packed["decimals"] == (None,), name
    np.testing.assert_allclose(unpack(packed, 500)[1][0, 0], values, rtol=6e-8)


def test_recovered_values_are_fine_against_the_spread_of_their_sensor():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.integers(280, 300, 400), rng.integers(0, 2, 400)]).astype(float)
    code = np.zeros(values.shape, dtype=np.uint8)
    code[::3] = 1
    values[::3] += rng.random((134, 2))
    _, (back, *_) = unpack(pack(values, code, values, values), 400)
    assert (np.abs(back.T - values).max(axis=0) <= values.std(axis=0) / 1000).all()


def test_no_interval_is_one_of_no_width():
    values = np.array([[1.0], [2.0]])
    unknown = np.full((2, 1), np.nan)
    _, (back, lower, upper) = unpack(
        pack(values, np.array([[0], [1]], dtype=np.uint8), unknown, unknown), 2
    )
    assert back.tolist() == lower.tolist() == upper.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-01-01", periods=400, freq="h"),
        pd.date_range("1999-01-01", periods=60, freq="MS"),
        pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Berlin"),
        pd.date_range("2024-01-01", periods=30, freq="D").delete([4, 5, 19]),
        pd.Index([0.5, 1.0, 1.5, 9.0]),
        pd.Index([3]),
    ],
)
def test_runs_give_every_place_back(index):
    places = stamps(index)
    again = [first + i * step for first, step, count in runs(places) for i in range(count)]
    assert again == places.tolist()


def test_the_heat_map_counts_every_cell():
    rng = np.random.default_rng(3)
    code = rng.integers(0, 3, (5000, 7)).astype(np.uint8)
    cells = coverage(code, np.arange(5000.0), 1.0)
    assert cells.shape == (7, 1000)
    share = (code.reshape(1000, 5, 7) == 2).mean(axis=1).T
    np.testing.assert_array_equal(cells // 5, np.ceil(4 * share))
    share = (code.reshape(1000, 5, 7) == 1).mean(axis=1).T
    np.testing.assert_array_equal(cells % 5, np.ceil(4 * share))


def test_months_leave_no_cracks_but_absent_rows_do():
    months = stamps(pd.date_range("1990-01-01", periods=120, freq="MS"))
    step = float(np.median(np.diff(months)))
    code = np.zeros((120, 2), dtype=np.uint8)
    assert (coverage(code, months, step) == 0).all()
    kept = np.r_[:40, 80:120]
    assert 35 <= (coverage(code[kept], months[kept], step)[0] == NOTHING).sum() <= 41
