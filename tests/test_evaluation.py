"""Scores on hidden readings: honest masks, no leak, refusals before any work."""

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.estimators.interpolation import Interpolation
from flfl.evaluation import evaluate, training_mask
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.methods import Method
from flfl.peak_memory import PeakMemory
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
def test_memory_is_counted_in_the_pages_of_this_machine():
    said = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert PeakMemory._now() == pytest.approx(int(said[1]) / 1024, rel=0.1)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    assert PeakMemory._now() == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, rel=0.1)
