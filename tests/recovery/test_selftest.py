"""The self-test: the same hidden readings for everyone, by gap and by sensor, and in words."""

import numpy as np
import pandas as pd
import pytest

from flfl import recover
from flfl.data import synthesize
from flfl.recovery import GapScore, SensorScore
from flfl.recovery.verdict import verdict


@pytest.fixture(scope="module")
def network():
    table, sensors = synthesize(10, 400, rank=2, rng=np.random.default_rng(0))
    values = table.values.copy()
    values.iloc[50:70, 0] = values.iloc[200:215, 3] = np.nan
    return values, sensors


@pytest.fixture(scope="module")
def result(network):
    return recover(*network, effort="quick")


@pytest.mark.parametrize("method", ["flfl", "lfa", "pchip"])
def test_parts_add_up_to_the_whole(network, result, method):
    if method != "flfl":
        result = recover(*network, method=method)
    whole = {name: score["mae"] for name, score in result.scores.items() if name != "site"}
    for parts in (result.by_gap_length, result.by_sensor):
        counts = np.array([part.count for part in parts])
        assert counts.sum() > 100
        for name, mae in whole.items():
            maes = np.nan_to_num([part.mae[name] for part in parts])
            assert (counts * maes).sum() / counts.sum() == pytest.approx(mae)


@pytest.mark.parametrize("method", ["flfl", "linear"])
def test_single_readings_and_runs_are_hidden(network, result, method):
    if method != "flfl":
        result = recover(*network, method=method)
    shortest = [score.shortest for score in result.by_gap_length]
    assert shortest[0] == 1
    assert shortest[-1] >= 7
    ends = [score.longest for score in result.by_gap_length]
    assert all(a < b for a, b in zip(ends[:-1], shortest[1:], strict=True))


def test_longer_gaps_are_harder_for_a_sensor_alone(result):
    linear = [score.mae["linear"] for score in result.by_gap_length if score.count >= 30]
    assert linear[-1] > 1.5 * linear[0]


def test_scores_know_the_bounds():
    t = np.arange(400.0)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: np.maximum(np.sin(t / 3), 0) for name in "abcd"})
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    free, bound = (recover(frame, method="lfa", bounds=b) for b in (None, (0, None)))
    assert bound.scores["lfa"]["mae"] <= free.scores["lfa"]["mae"]


def test_the_run_has_a_name(network, result):
    again = recover(*network, effort="quick")
    assert again.run_id == result.run_id
    pd.testing.assert_frame_equal(again.values, result.values)
    values, sensors = network
    changed = values.copy()
    changed.iloc[0, 0] += 1e-9
    names = {
        result.run_id,
        *(
            recover(values, sensors, self_test=False, method="linear", **rules).run_id
            for rules in ({}, {"seed": 1}, {"max_gap": 3}, {"bounds": (0, None)})
        ),
        recover(changed, sensors, self_test=False, method="linear").run_id,
        recover(values, self_test=False, method="linear").run_id,
    }
    assert len(names) == 7


def scores(flfl, alone):
    return {"flfl": flfl, "alone": alone, "linear": 2 * alone}


def test_the_verdict_names_who_does_not_gain_and_where():
    whole = {name: {"mae": mae} for name, mae in scores(1.0, 2.0).items()}
    gaps = [GapScore(1, 1, 50, scores(1.0, 1.0)), GapScore(7, 12, 50, scores(1.0, 4.0))]
    sensors = [
        SensorScore("a", 9, scores(1.0, 2.0), True),
        SensorScore("b", 9, scores(1.0, 0.5), False),
        SensorScore("c", 0, scores(np.nan, np.nan), False),
    ]
    said = verdict(whole, gaps, sensors, "flfl")
    assert "50 % below each sensor alone" in said
    assert "In gaps of 1 slot a sensor alone does as well." in said
    assert "1 sensor of 2 gains from the network, 1 does not: b (1 not tested)." in said
    assert verdict(whole, gaps, sensors, "lfa") == ""


def test_the_verdict_is_in_the_summary(result):
    assert result.summary()["verdict"] == result.verdict != ""
    assert len(result.summary()["by_sensor"]) == 10
