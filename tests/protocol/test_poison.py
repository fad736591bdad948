"""One site that sends anything at all costs the others nothing against working alone."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from flfl import recover
from flfl.errors import OutOfRangeError
from flfl.protocol.messages import to_fixed

BENCHMARK = Path(__file__).parents[2] / "bench" / "benchmarks" / "poison.py"
spec = importlib.util.spec_from_file_location("poison", BENCHMARK)
poison = importlib.util.module_from_spec(spec)
spec.loader.exec_module(poison)


FEW = ("anything",)
"""Ways of the fast suite; all are in the slow one, and on more networks in the benchmark."""


@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=[pytest.mark.slow] * (w not in FEW)) for w in poison.WAYS]
)
def test_a_liar_costs_the_others_nothing(way):
    ratio, _ = poison.harm(way, 5, seed=3)
    assert ratio <= 1.01


def test_honest_sites_gain():
    # The control: the same network without a lie is worth having.
    ratio, used = poison.harm("nothing", 5, seed=3)
    assert ratio < 0.97
    assert used > 0.9


def test_the_others_are_told_that_the_curve_is_not_used(monkeypatch):
    values, sensors, hidden, owners = poison.network(5, seed=3)
    lying = poison.lying("anything", 3)
    monkeypatch.setattr(poison.estimator, "Client", lying)
    result = recover(values.mask(hidden), sensors, sites=owners, effort="quick")
    assert any("not used" in note and "s1" in note for note in result.notes)
    assert "network" not in set(np.unique(result.methods.to_numpy()))


def test_what_is_no_number_cannot_be_sent():
    with pytest.raises(OutOfRangeError):
        to_fixed(np.array([np.nan]))
