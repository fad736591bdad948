"""The self-test: the same hidden readings for everyone, by gap and by sensor, and in words."""

import numpy as np
import pandas as pd
import pytest

from flfl import recover
from flfl.datasets.synthetic import synthesize
from flfl.methods import create
from flfl.recovery import GapScore, SensorScore
from flfl.recovery.selftest import SelfTest, by_sensor, verdict


@pytest.fixture(scope="module")
def network():
    table, sensors = synthesize(10, 400, rank=2, rng=np.random.default_rng(0))
    values = table.values.copy()
    values.iloc[50:70, 0] = values.iloc[200:215, 3] = np.nan
    return values, sensors


@pytest.fixture(scope="module")
def result(network):
    return recover(*network, effort="quick", secure=False)


FEW = {"method": "flfl-paper", "rounds": 20, "rank": 2}


@pytest.mark.parametrize("options", [{}, FEW, {"method": "pchip"}])
def test_parts_add_up_to_the_whole(network, result, options):
    if options:
        result = recover(*network, **options)
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
    free, bound = (recover(frame, bounds=b, **FEW) for b in (None, (0, None)))
    assert bound.scores["flfl"]["mae"] <= free.scores["flfl"]["mae"]


def test_the_run_has_a_name(network, result):
    again = recover(*network, effort="quick", secure=False)
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
        SensorScore("a", 9, scores(1.0, 2.0), 1.0, 0.5, gains=True, loses=False),
        SensorScore("b", 9, scores(1.0, 0.5), -0.5, 0.4, gains=False, loses=True),
        SensorScore("c", 0, scores(np.nan, np.nan), np.nan, np.nan, gains=False, loses=False),
        SensorScore("d", 2, scores(1.0, 2.0), 1.0, 3.0, gains=False, loses=False),
        SensorScore("e", 1, scores(1.0, 2.0), 1.0, np.nan, gains=False, loses=False),
    ]
    test = SelfTest(whole, tuple(gaps), tuple(sensors))
    said = verdict(test, "flfl", shared=True)
    assert "50 % below each sensor alone" in said
    assert "In gaps of 1 slot a sensor alone does as well." in said
    assert said.endswith(
        "1 sensor of 4 clearly gains from the network, 1 clearly loses (b), 2 are too close to"
        " tell (1 not tested)."
    )
    assert verdict(test, "lfa", shared=True) == ""


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (1.25, "What federation bought: the error is 20 % below each owner alone"),
        (1.0, "bought nothing here: the error is the same as that of each owner alone"),
        (0.8, "bought nothing here: the error is 25 % above each owner alone"),
    ],
)
def test_the_measure_is_what_each_owner_does_by_itself(site, said):
    whole = {name: {"mae": mae} for name, mae in (scores(1.0, 2.0) | {"site": site}).items()}
    assert said in verdict(SelfTest(whole, (), ()), "flfl", shared=True)


def test_no_gain_is_claimed_where_nothing_was_shared(network):
    found = recover(*network, sites=["mine"] * 10, effort="quick", secure=False)
    assert found.verdict.startswith("Federation bought nothing here: nothing was shared")
    assert "gain" not in found.verdict


def test_each_owner_alone_is_tested_on_the_same_readings(network):
    values, sensors = network
    owners = [f"o{i % 3}" for i in range(10)]
    result = recover(values, sensors, sites=owners, effort="quick", secure=False)
    alone = create("alone", effort="quick").fit(values, sensors=sensors, sites=owners)
    shared = create("flfl", effort="quick", secure=False).fit(values, sensors=sensors, sites=owners)
    both = ~np.isnan(alone.holdout_) & ~np.isnan(shared.holdout_)
    assert both.sum() > 0.8 * (~np.isnan(shared.holdout_)).sum()
    for way, model in (("flfl", shared), ("site", alone)):
        mae = np.abs(model.holdout_ - values.to_numpy())[both].mean()
        assert result.scores[way]["mae"] == pytest.approx(mae)


def test_no_owner_is_asked_twice_for_one_sensor_each(network):
    result = recover(*network, sites="each", effort="quick", secure=False)
    assert "site" not in result.scores


def test_a_lead_that_chance_can_make_is_no_gain():
    rng = np.random.default_rng(0)
    noise = np.abs(rng.standard_normal((2, 400, 50)))
    noise[:, rng.random((400, 50)) < 0.8] = np.nan
    alike = by_sensor({"flfl": noise[0], "alone": noise[1], "linear": noise[1]}, range(50), "flfl")
    better = by_sensor(
        {"flfl": noise[0] / 2, "alone": noise[1], "linear": noise[1]}, range(50), "flfl"
    )
    assert sum(score.gains or score.loses for score in alike) <= 7
    assert all(score.gains for score in better)


def test_one_long_gap_is_one_draw():
    """The same readings say less of a sensor when they lie in a few gaps."""
    lead = np.repeat(np.random.default_rng(1).standard_normal(10) + 1.0, 20)
    scattered = np.full(400, np.nan)
    scattered[::2] = lead
    runs = np.full(10 * 30, np.nan).reshape(10, 30)
    runs[:, :20] = lead.reshape(10, 20)
    margins = [
        by_sensor({"flfl": 0 * d, "alone": d + 9, "linear": d + 9}, ["a"], "flfl")[0].margin
        for d in (scattered[:, None], runs.reshape(-1, 1))
    ]
    assert margins[1] > 3 * margins[0]


def test_the_verdict_is_in_the_summary(result):
    assert result.summary()["verdict"] == result.verdict != ""
    assert len(result.summary()["by_sensor"]) == 10
