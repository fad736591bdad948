"""Parts of the default that can be left out by name."""

import numpy as np
import pytest

from flfl import FLFL
from flfl.data.synth import synthesize
from flfl.errors import InputError
from flfl.federation.factors.protocol import PARTS


@pytest.fixture(scope="module")
def whole():
    table, sensors = synthesize(12, 160, missing=0.4, rng=np.random.default_rng(0))
    return table, sensors, FLFL(effort="quick").fit(table.values, sensors=sensors)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_felt(whole, part):
    table, sensors, model = whole
    less = FLFL(effort="quick", without=[part]).fit(table.values, sensors=sensors)
    assert np.isfinite(less.estimates_).all()
    assert not np.allclose(less.estimates_, model.estimates_)


def test_without_dynamics_slots_forget_each_other(whole):
    table, sensors, model = whole
    less = FLFL(effort="quick", without=("dynamics",)).fit(table.values, sensors=sensors)
    assert (less.remembered_.published.state.A == 0).all()
    assert (model.remembered_.published.state.A != 0).any()


def test_an_unknown_part_is_named(whole):
    table, sensors, _ = whole
    with pytest.raises(InputError, match="no part 'boost' to leave out"):
        FLFL(without=["boost"]).fit(table.values, sensors=sensors)
