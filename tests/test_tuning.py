"""Tuning: the same budget for all, only on training entries, failures are no choice."""

from dataclasses import replace

import numpy as np
import pytest

from flfl import tuning
from flfl.datasets.synthetic import synthesize
from flfl.errors import DivergedError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.interpolation import interpolate
from flfl.evaluation import evaluate, training_mask
from flfl.methods import BUDGET, Method, methods
from flfl.tuning import tune


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
def network():
    return synthesize(6, 300, rank=2, rng=np.random.default_rng(0))


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
    monkeypatch.setattr(tuning, "TUNING_SLOTS", 100)
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
    assert chosen.options == {"shift": 3.0}
    assert chosen.errors[0] is None


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
