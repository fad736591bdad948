"""What is not to be filled stays empty and says why; what is filled stays within its limits."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl import recover
from flfl.errors import InputError
from flfl.io.read import from_frame
from flfl.recovery.rules import Rules, gap_lengths


def hourly(n=48, sensors="abc", step="h"):
    t = np.arange(float(n))
    index = pd.date_range("2024-01-01", periods=n, freq=step)
    return pd.DataFrame({name: np.sin(t / 5 + i) for i, name in enumerate(sensors)}, index)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_gap_lengths_count_runs(known):
    column = np.array(known)[:, None]
    found = gap_lengths(column, np.arange(float(len(known)))).ravel()
    wanted, i = np.zeros(len(known)), 0
    while i < len(known):
        end = i
        while end < len(known) and not known[end]:
            end += 1
        wanted[i:end] = end - i
        i = end + 1
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("limit", [2, "2", "2h", "120 min", pd.Timedelta(hours=2), "2.9h"])
def test_longer_gaps_are_refused_whole(limit):
    frame = hourly()
    frame.iloc[3:5, 0] = frame.iloc[10:13, 0] = np.nan
    result = recover(frame, method="linear", max_gap=limit)
    assert (result.flags.iloc[3:5, 0] == "recovered").all()
    assert (result.flags.iloc[10:13, 0] == "refused").all()
    assert result.values.iloc[10:13, 0].isna().all()
    assert result.lower.iloc[10:13, 0].isna().all()
    reason = f"gap longer than {limit}" + (" slots" if str(limit) == "2" else "")
    assert set(result.reasons.iloc[10:13, 0]) == {reason}
    assert (result.reasons != "").sum().sum() == 3
    assert result.summary()["refusals"] == {reason: 3}


def test_rows_that_the_table_lacks_lengthen_a_gap():
    frame = hourly()
    frame.iloc[10, 0] = np.nan
    assert recover(frame, method="linear", max_gap=1).count("refused") == 0
    lacking = frame.drop(frame.index[[11, 12]])
    assert recover(lacking, method="linear", max_gap=1).count("refused") == 1


def test_no_gap_may_be_filled():
    frame = hourly()
    frame.iloc[3, 0] = np.nan
    assert recover(frame, method="linear", max_gap=0).count("refused") == 1


def test_few_readings_and_none():
    frame = hourly()
    frame.iloc[5:, 0] = np.nan
    frame.iloc[:, 1] = np.nan
    frame.iloc[7, 2] = np.nan
    result = recover(frame, method="linear", min_readings=6, max_gap=1)
    assert set(result.reasons.iloc[5:, 0]) == {"too few readings"}
    assert set(result.reasons.iloc[:, 1]) == {"no reading"}
    assert result.flags.iloc[7, 2] == "recovered"
    assert recover(frame, method="linear", min_readings=5).flags.iloc[9, 0] == "recovered"
    assert result.summary()["refusals"] == {"too few readings": 43, "no reading": 48}


@settings(max_examples=25)
@given(
    low=st.floats(-1, 0.4), width=st.floats(0.1, 1), open_end=st.sampled_from(["low", "high", ""])
)
def test_what_is_recovered_lies_within_the_bounds(low, width, open_end):
    frame = hourly()
    frame.iloc[4:20, 0] = frame.iloc[30:, 1] = np.nan
    ends = [None if open_end == "low" else low, None if open_end == "high" else low + width]
    result = recover(frame, method="linear", bounds=ends)
    filled = (result.flags == "recovered").to_numpy()
    limits = [-np.inf if ends[0] is None else low, np.inf if ends[1] is None else low + width]
    for part in (result.values, result.lower, result.upper):
        inside = part.to_numpy()[filled]
        assert ((inside >= limits[0]) & (inside <= limits[1])).all()
    assert (result.lower.to_numpy()[filled] <= result.values.to_numpy()[filled]).all()
    assert (result.values.to_numpy()[filled] <= result.upper.to_numpy()[filled]).all()
    pd.testing.assert_frame_equal(result.values[frame.notna()], frame)


def test_readings_outside_the_bounds_are_kept_and_named():
    frame = hourly()
    frame.iloc[4, 0] = np.nan
    result = recover(frame, method="linear", bounds=(0, None))
    below = (frame < 0).sum().sum()
    assert f"{below} readings lie outside the bounds and are kept: a, b, c" in result.notes


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"max_gap": "soon"}, "neither slots nor a duration"),
        ({"max_gap": -1}, "neither slots nor a duration"),
        ({"max_gap": "1m"}, "neither slots nor a duration"),
        ({"max_gap": 1.5}, "neither slots nor a duration"),
        ({"max_gap": True}, "neither slots nor a duration"),
        ({"min_readings": -1}, "min_readings: -1 cannot be used"),
        ({"bounds": (1, 0)}, "not below"),
        ({"bounds": (np.nan, 0)}, "not below"),
        ({"bounds": (1,)}, "not a pair"),
        ({"bounds": "0,1"}, "not a pair"),
    ],
)
def test_rules_that_make_no_sense(rules, words):
    with pytest.raises(InputError, match=words):
        recover(hourly(), method="linear", **rules)


def test_a_duration_needs_times():
    table = from_frame(hourly().reset_index(drop=True))
    with pytest.raises(InputError, match="numbered"):
        Rules.check({"max_gap": "6h"}).reasons(table)
