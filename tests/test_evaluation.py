"""Scores on hidden readings: honest masks, no leak, refusals before any work, fair tuning."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl import constants
from flfl.datasets.synthetic import synthesize
from flfl.errors import DivergedError, InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.interpolation import Interpolation, interpolate
from flfl.evaluation import evaluate, peak_memory, training_mask, tune
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.methods import BUDGET, Method, methods
from quick import EVERY_METHOD, QUICK, quick

ABSENT = Method("absent", Interpolation, "", needs="flfl_has_no_such_module", extra="flfl[absent]")


@pytest.fixture(scope="module")
def network():
    return synthesize(8, 150, rank=2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_hidden_readings_never_reach_the_method(name, network):
    """Whatever the hidden readings are, the estimates stay: the error moves exactly with them."""
    table, sensors = network
    kept = training_mask(table, sensors, 0.7, "random", 0)
    maes = []
    for poison in (1e4, 3e4):
        values = table.values.where(kept.T | ~table.known, poison)
        (row,) = evaluate(
            replace(table, values=values), sensors, rates=[0.7], methods=[name], options=QUICK
        )
        maes.append(row.mae)
    assert maes[1] - maes[0] == pytest.approx(2e4, rel=1e-12)


def test_coverage_and_width_are_those_of_the_hidden_readings(network):
    table, sensors = network[0], network[1].with_sites("each")
    rows = evaluate(table, sensors, rates=[0.7], methods=["flfl", "linear"], options=QUICK)
    kept = training_mask(table, sensors, 0.7, "random", 0).T
    model = quick("flfl").fit(table.values.where(kept), sensors=sensors)
    lower, upper = (bound[table.known & ~kept] for bound in model.interval())
    truth = table.values.to_numpy()[table.known & ~kept]
    assert rows[0].coverage == np.mean((lower <= truth) & (truth <= upper))
    assert rows[0].interval_width == np.mean(upper - lower) > 0
    assert rows[0].exchanges == dict(model.traffic_.exchanges) != {}
    assert (rows[1].coverage, rows[1].interval_width, rows[1].exchanges) == (None, None, {})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"rates": [0.5, 0.9999]}, "rate: keeping the share 0.9999 .* hides none"),
        ({"rates": [0.5, 0.0001]}, "rate: keeping the share 0.0001 .* keeps none"),
        ({"patterns": ["random", "block"], "block_length": 1000}, "1000 slots is longer than"),
        ({"patterns": ["random", "block"], "rates": [0.5, 0.02]}, "pattern block: .*can hide only"),
        ({"methods": ["linear", "magic"]}, "unknown method 'magic'"),
        ({"methods": ["linear", ABSENT]}, "absent needs flfl_has_no_such_module, which is not"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(network, asked, words):
    done = []
    with pytest.raises(InputError, match=words):
        evaluate(*network, **({"rates": [0.5], "methods": ["linear"]} | asked), report=done.append)
    assert done == []


@pytest.mark.parametrize(("freq", "length"), [("MS", 12), ("D", 24)])
def test_a_block_is_a_year_of_months_or_24_slots(freq, length):
    index = pd.date_range("2000-01-01", periods=240, freq=freq)
    table = from_frame(pd.DataFrame({"a": np.arange(240.0), "b": 1.0}, index=index))
    sensors = Sensors(("a", "b"))
    usual, told = (
        training_mask(table, sensors, 0.5, "block", 1, given) for given in (None, length)
    )
    np.testing.assert_array_equal(usual, told)


def test_a_row_that_failed_says_why():
    table = from_frame(pd.DataFrame({"a": np.arange(9.0), "b": np.arange(9.0)}))
    (row,) = evaluate(table, Sensors(("a", "b")), rates=[0.06], methods=["linear"])
    assert row.failed == "diverged: the estimates are not finite"
    assert row.mae is None


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_what_was_held_above_the_start():
    with peak_memory() as memory:
        held = np.ones(2**23)  # 64 MB, every page touched
    assert 60 < memory.peak_mb < 200
    assert held.all()


class Shifted(BaseRecoverer):
    """Linear interpolation plus a constant; runs away when told to."""

    def __init__(self, *, shift=0.0, breaks=False, random_state=0):
        self.shift = shift
        self.breaks = breaks
        self.random_state = random_state

    seen = []  # noqa: RUF012

    def _estimate(self, Y, positions, sensors):
        Shifted.seen.append(np.nansum(Y))
        if self.breaks:
            raise DivergedError("told to")
        return interpolate(Y, positions) + self.shift


@pytest.fixture
def register():
    def add(*grid):
        method = Method("shifted", Shifted, "", grid=grid)
        Shifted.seen = []
        return method

    return add


@pytest.mark.parametrize("name", methods())
def test_every_method_has_the_same_budget_and_settings_it_knows(name):
    method = methods()[name]
    assert len(method.grid) <= BUDGET
    for setting in method.grid:
        method.build(**setting)


def test_the_setting_of_least_error_is_chosen(network, register):
    table, sensors = network
    shifted = register({"shift": 5.0}, {"shift": 0.0}, {"shift": -5.0})
    (row,) = evaluate(table, sensors, rates=[0.7], methods=[shifted])
    assert row.settings == {"shift": 0.0}
    assert len(Shifted.seen) == 3 + 1
    Shifted.seen = []
    (plain,) = evaluate(table, sensors, rates=[0.7], methods=[shifted], tuned=False)
    assert plain.settings == {}
    assert len(Shifted.seen) == 1


@pytest.mark.parametrize("pattern", ["random", "block", "outage"])
def test_test_entries_never_reach_tuning(network, register, pattern):
    """Whatever the hidden readings are, every fit of tuning sees the same, and chooses alike."""
    table, sensors = network
    shifted = register({"shift": 30.0}, {"shift": 0.0})
    kept = training_mask(table, sensors, 0.6, pattern, 0).T
    given, chosen = [], []
    for poison in (1e4, -3e4):
        Shifted.seen = []
        values = table.values.where(kept | ~table.known, poison)
        (row,) = evaluate(
            replace(table, values=values),
            sensors,
            rates=[0.6],
            patterns=[pattern],
            methods=[shifted],
        )
        given.append(Shifted.seen)
        chosen.append(row.settings)
    assert given[0] == given[1]
    assert chosen == [{"shift": 0.0}] * 2
    # Both settings were tried on the same part of the training entries, the last fit on all.
    first, second, last = given[0]
    assert first == second != pytest.approx(last)


def test_a_long_table_is_tuned_on_its_middle(register, monkeypatch):
    table, sensors = synthesize(4, 300, rank=1, rng=np.random.default_rng(0))
    monkeypatch.setattr(constants, "TUNING_SLOTS", 100)
    method = register({"shift": 1.0}, {"shift": 0.0})
    outside = table.values.copy()
    outside.iloc[:100] += 1e9
    outside.iloc[200:] -= 1e9
    same = [tune(method, t, sensors, "random", 0, block_length=12) for t in (table.values, outside)]
    assert same[0] == same[1]


def test_settings_that_run_away_are_no_choice(network, register):
    table, sensors = network
    method = register({"breaks": True}, {"shift": 3.0})
    chosen = tune(method, table.values, sensors, "random", 0, block_length=12)
    assert chosen == {"shift": 3.0}


def test_a_method_that_always_runs_away_is_a_failed_row(network, register):
    table, sensors = network
    shifted = register({"breaks": True, "shift": 0.0}, {"breaks": True, "shift": 1.0})
    (row,) = evaluate(table, sensors, rates=[0.7], methods=[shifted])
    assert row.mae is None
    assert "none of its 2 settings" in row.failed


def test_estimates_beyond_all_reason_are_a_failed_row(network, register):
    table, sensors = network
    shifted = register()
    (row,) = evaluate(
        table, sensors, rates=[0.7], methods=[shifted], options={"shifted": {"shift": 1e6}}
    )
    assert row.mae is None
    assert row.failed.startswith("diverged: estimates up to")


def test_a_given_setting_is_not_tuned(network, register):
    table, sensors = network
    shifted = register({"shift": 5.0}, {"shift": 0.0})
    (row,) = evaluate(
        table, sensors, rates=[0.7], methods=[shifted], options={"shifted": {"shift": 2.0}}
    )
    assert row.settings == {}
