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
    frame = hourly(sensors="abcd")
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


class TestSlotsThatNobodyObserved:
    @pytest.fixture
    def frame(self):
        frame = hourly()
        frame.iloc[10, 0] = np.nan
        frame.iloc[20:23] = frame.iloc[43:] = np.nan
        return frame

    @pytest.mark.parametrize("method", ["linear", "flfl"])
    def test_they_stay_empty(self, frame, method):
        result = recover(frame, method=method, effort=None if method == "linear" else "quick")
        empty = [20, 21, 22, *range(43, 48)]
        assert (result.flags.iloc[empty] == "refused").all().all()
        assert set(result.reasons.iloc[empty].to_numpy().ravel()) == {"nobody observed this slot"}
        assert result.flags.iloc[10, 0] == "recovered"
        assert result.summary()["refusals"] == {"nobody observed this slot": 24}

    def test_some_may_be_asked_for(self, frame):
        result = recover(frame, method="linear", extrapolate=1)
        assert (result.flags.iloc[[20, 22, 43]] == "extrapolated").all().all()
        assert (result.flags.iloc[[21, 44]] == "refused").all().all()
        assert result.values.iloc[[20, 22, 43]].notna().all().all()
        assert (result.lower <= result.values).to_numpy()[result.values.notna()].all()
        assert recover(frame, method="linear", extrapolate=5).count("refused") == 0
        assert recover(frame, method="linear", extrapolate=5).count("extrapolated") == 24
        assert recover(frame, method="linear", extrapolate=5).count("recovered") == 1

    def test_rows_that_the_table_lacks_count(self, frame):
        lacking = frame.drop(frame.index[43:46])
        assert recover(lacking, method="linear", extrapolate=3).count("extrapolated") == 9
        assert recover(lacking, method="linear", extrapolate=4).count("extrapolated") == 12

    def test_other_limits_still_hold(self, frame):
        frame["d"] = np.nan
        result = recover(frame, method="linear", extrapolate=9, max_gap=3)
        assert set(result.reasons["a"].iloc[43:]) == {"gap longer than 3 slots"}
        assert set(result.reasons["d"]) == {"no reading"}

    def test_a_single_sensor_is_filled_between_its_readings(self, frame):
        result = recover(frame[["a"]], method="linear")
        assert (result.flags["a"].iloc[[10, 20, 21, 22]] == "recovered").all()
        assert (result.flags["a"].iloc[43:] == "refused").all()

    def test_files_say_so(self, frame, tmp_path):
        result = recover(frame, method="linear", extrapolate=1)
        result.save(tmp_path / "filled.csv", tmp_path / "flags.csv")
        flags = pd.read_csv(tmp_path / "flags.csv")
        there = flags[flags["flag"] == "extrapolated"]
        assert len(there) == 9
        assert there["value"].notna().all()
        assert set(there["method"]) == {"linear"}
        assert set(flags["reason"].dropna()) == {"nobody observed this slot"}
        xarray = pytest.importorskip("xarray")
        pytest.importorskip("h5netcdf")
        result.save(tmp_path / "filled.nc")
        with xarray.open_dataset(tmp_path / "filled.nc", engine="h5netcdf") as stored:
            codes = stored["reading_flag"]
            word = codes.attrs["flag_meanings"].split().index("extrapolated")
            assert int((codes == word).sum()) == 9


class TestSuspiciousReadings:
    @pytest.fixture
    def frame(self):
        frame = hourly(400) + 5
        frame.iloc[::9, 1] = -99.9
        return frame

    def test_codes_that_everybody_uses_are_refused_until_somebody_says(self, frame):
        with pytest.raises(InputError, match=r"45 of .* are -99.9.*suspicious=missing") as caught:
            recover(frame, method="linear")
        assert "suspicious=keep" in str(caught.value)
        stuck = hourly(400)
        stuck.iloc[100:180, 0] = 1.25
        assert recover(stuck, method="linear").suspicious[0].kind == "stuck"

    def test_they_are_said_and_used(self, frame):
        result = recover(frame, method="linear", suspicious="keep")
        assert result.count("observed") == frame.size
        (found,) = result.suspicious
        assert (found.kind, found.sensors, found.readings) == ("code", ("b",), 45)
        assert f"Suspicious: {found.sentence}" in result.notes
        assert "4 % of the readings are probably faults" in result.verdict
        (told,) = result.summary()["suspicious"]
        assert told["fault"]
        assert told["readings"] == 45

    def test_they_may_be_missing(self, frame):
        result = recover(frame, method="linear", suspicious="missing")
        assert (result.flags["b"].iloc[::9] == "recovered").all()
        assert result.values["b"].min() > 3
        assert "45 suspicious readings treated as missing." in result.notes
        assert "probably faults" not in result.verdict
        assert result.run_id != recover(frame, method="linear", suspicious="keep").run_id

    def test_another_word_is_refused(self, frame):
        with pytest.raises(InputError, match="keep or missing"):
            recover(frame, method="linear", suspicious="drop")

    def test_sound_readings_are_not_named(self):
        result = recover(hourly(400), method="linear")
        assert result.suspicious == ()
        assert not any("uspicious" in note for note in result.notes)


def test_a_duration_needs_times():
    table = from_frame(hourly().reset_index(drop=True))
    with pytest.raises(InputError, match="numbered"):
        Rules.check({"max_gap": "6h"}).reasons(table)
