"""Two runs about the same readings say more than one."""

import numpy as np
import pandas as pd
import pytest

from audit.network import readings
from flfl.audit import view
from flfl.audit.attack import Case, Effort
from flfl.audit.attacks import differencing, masks_known


@pytest.fixture(scope="module")
def case():
    X, sensors = readings(30, 0.8, sites=6, N=600)
    X = pd.DataFrame(X, columns=list(sensors.ids))
    model, seen = view.listen(X, sensors)
    return Case(seen, model, X, sensors, {}, effort=Effort(slots=500))


@pytest.fixture(scope="module")
def findings(case):
    return {one.name: one for one in differencing.ATTACK(case)}


def test_a_site_that_is_left_out_once_is_exposed(findings):
    found = findings["differencing (cohorts)"]
    assert found.news_read_max > found.figures["one_run_alone"] + 0.2
    assert not found.judged


def test_a_second_projection_adds_to_the_first(findings):
    found = findings["differencing (rerun)"]
    assert found.news_read_max > found.figures["one_run_alone"] + 0.1


def test_the_same_run_twice_says_no_more(case):
    seen = case.view
    first, second, variance = differencing.halves(seen, seen, 500)
    system = first.system
    once = masks_known.by_sensor(
        system, masks_known.gaussian(system, masks_known.fitted_prior(system))[:, 0]
    )
    twice = masks_known.by_sensor(system, differencing.solve((first, second), variance))
    assert np.nanmax(np.abs(once - twice)) < 0.05


def test_the_second_run_is_put_into_the_first_ones_units(case):
    other = differencing._again(case, set(case.view.names), {"rank": case.view.m.shape[1] - 1})
    first, second, _ = differencing.halves(case.view, other, 500)
    # With nothing drawn anew, both runs are about the same series.
    assert second.noise < 1e-3 * (second.z**2).mean()
    assert first.noise == 0.0


def test_one_site_has_no_cohort_to_differ_from():
    X, sensors = readings(12, 0.8, sites=1)
    X = pd.DataFrame(X, columns=list(sensors.ids))
    model, seen = view.listen(X, sensors)
    alone = Case(seen, model, X, sensors, {}, effort=Effort(slots=300, reruns=False))
    assert differencing.ATTACK(alone) == []
