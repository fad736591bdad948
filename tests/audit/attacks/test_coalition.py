"""Colluders take their own part out; the fewer are left, the more is read, as computed."""

import numpy as np
import pytest

from audit.network import readings
from flfl.audit import equations, view
from flfl.audit.attack import Case, Effort
from flfl.audit.attacks import coalition


@pytest.fixture(scope="module")
def case():
    X, sensors = readings(30, 0.8, sites=6, N=600)
    model, seen = view.listen(X, sensors)
    return Case(seen, model, X, sensors, {}, secure=True, effort=Effort(slots=500, coalitions=2))


@pytest.fixture(scope="module")
def findings(case):
    return {one.name: one for one in coalition.ATTACK(case)}


def test_the_more_collude_the_more_is_read(findings):
    read = [one.figures["measured"] for one in findings.values()]
    assert [one.figures["colluding_sites"] for one in findings.values()] == [0, 2, 3, 4, 5]
    assert read == sorted(read)


def test_all_but_one_expose_the_last(findings):
    last = findings["coalition (all but one)"]
    assert last.news_read_median > 0.9
    assert last.readings_exposed > last.guessing_exposes.factors + 0.2
    assert "By definition" in last.sentence


def test_measured_and_computed_agree(findings):
    for one in findings.values():
        assert one.figures["measured"] == pytest.approx(one.figures["computed"], abs=0.1)


def test_what_is_known_beforehand_does_not_understate(findings):
    for one in findings.values():
        assert one.figures["computed"] > one.figures["measured"] - 0.1


def test_the_coalition_that_a_run_allows_for_is_judged(case, findings):
    assert [one.judged for one in findings.values()] == [True, False, False, False, False]
    allowed = Case(**{**vars(case), "settings": {"collusion": 0.5}})
    assert [one.judged for one in coalition.ATTACK(allowed)] == [True, True, True, False, False]


def test_without_secure_sums_one_site_alone_is_what_the_coordinator_sees(case):
    seen = Case(**{**vars(case), "secure": False})
    last = coalition.ATTACK(seen)[-1]
    assert last.judged
    assert last.adversary == "the coordinator, which sees each site's own sums"


def test_what_colluders_subtract_is_exactly_their_part(case):
    system = equations.stretch(case.view, [case.view.rounds[-1]], 50, 500)
    honest = np.array([site != "site0" for site in case.view.sites])
    rest = coalition.honest_rest(system, honest)
    v = system.v * honest[system.sensor][:, None]
    assert np.allclose(rest.z, system.forward(v), atol=1e-3 * np.abs(system.z).max())


def test_a_share_of_the_sensors_is_not_passed_where_it_can_be_helped():
    owners = ["a"] * 9 + ["b"] * 2 + ["c"] * 2 + ["d"] * 2
    size = coalition.Size("half", 2, 0.5)
    rng = np.random.default_rng(0)
    for honest in coalition.coalitions(owners, size, 2, rng):
        assert (~honest).mean() <= 0.5
