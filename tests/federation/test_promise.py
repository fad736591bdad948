"""What a site holds to, whatever it is asked: caps, coalitions, blur, a coordinator that lies."""

from dataclasses import replace

import numpy as np
import pytest

from flfl.data.synth import synthesize
from flfl.engines import inprocess
from flfl.federation.factors import FactorPlan, RefusedError
from flfl.federation.factors.keeping import Custody, Sensing
from flfl.federation.factors.order import Order
from flfl.federation.factors.site import FactorSite
from flfl.model.graph import map_box, to_plane
from flfl.model.shared import guard, sensor_step
from flfl.model.shared.dynamics import Covariances
from parties import asked_until, parties

pytestmark = pytest.mark.usefixtures("every_engine")


@pytest.fixture(scope="module")
def network():
    return synthesize(16, 400, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


def impulses(body, slots):
    """A model that asks for single slots: one factor for each."""
    m = np.zeros_like(body["m"])
    for factor, slot in enumerate(slots[: m.shape[1]]):
        m[slot, factor] = 1e3
    body["m"] = m


@pytest.mark.parametrize(("max_exposure", "read"), [(0.5, False), (1.0, True)])
def test_a_chosen_m_does_not_turn_latent_vectors_into_readings(network, max_exposure, read):
    """With the guard off the attack works: p is the reading itself. With it, p carries next to
    nothing of the slots that were singled out."""
    table, sensors = network
    plane = to_plane(sensors.coordinates, sensors.kind)
    projection = "adaptive" if max_exposure == 1 else "fixed"
    plan = FactorPlan(
        box=map_box(plane), boost=False, rank=3, rounds=8, max_exposure=max_exposure,
        projection=projection,
    )  # fmt: skip
    coordinator, sites, _, _ = parties(table, sensors, plan)
    known = np.vstack([s.program.used for s in sites])
    slots = np.argsort(-known.sum(axis=0), kind="stable")[:3]
    stolen = []

    def steal(body):
        stolen.append(np.vstack([s.program.P for s in sites]))
        impulses(body, slots)

    asked_until(coordinator, sites, "round", steal)
    truth = np.vstack([s.program.Y for s in sites])[:, slots]
    seen = known[:, slots]
    guess = 1e3 * stolen[-1]
    share = 1 - ((guess - truth)[seen] ** 2).sum() / (truth[seen] ** 2).sum()
    assert share > 0.9 if read else share < 0.3


@pytest.mark.parametrize("most", [0.01, 0.05, 0.3])
def test_the_influence_of_a_reading_is_bounded_for_any_m(most):
    """Exactly: the derivative of p by each reading, in the metric in which p is measured."""
    rng = np.random.default_rng(0)
    N, k = 120, 3
    none = Covariances(np.zeros((1, k, k)), np.zeros((1, k, k)), np.ones((N, 1)))
    Y, W = rng.standard_normal((2, N)), (rng.random((2, N)) < 0.7).astype(float)
    spiked = np.zeros((N, k))
    spiked[:k] = 1e4 * np.eye(k)
    for m in (rng.standard_normal((N, k)), spiked, rng.standard_cauchy((N, k)), 0 * spiked):
        P, mean = sensor_step.fit_loadings(Y, W, m, none, np.ones(2), most=most)
        for t in range(6):
            moved = Y.copy()
            moved[:, t] += 1.0
            shift = sensor_step.fit_loadings(moved, W, m, none, np.ones(2), most=most)[0] - P
            # What p then says about that very reading.
            assert (np.abs(shift @ m[t]) <= most + 1e-9).all()
        assert (mean <= most).all()


def test_refits_stop_after_a_few_and_sooner_for_a_sensor_with_few_readings(network):
    table, sensors = network
    few = table.values.copy()
    few.iloc[60:, 0] = np.nan
    seen = []

    class Counting(FactorSite):
        def _refit(self, *model):
            before = self.P.copy()
            super()._refit(*model)
            if "s00" in self.sensing.ids:
                seen.append((before != self.P).any(axis=1))

    plane = to_plane(sensors.coordinates, sensors.kind)
    plan = FactorPlan(box=map_box(plane), boost=False, rank=3, rounds=16, plateau=-1.0)
    changed = replace(table, values=few)
    coordinator, sites, ledger, _ = parties(changed, sensors, plan, site=Counting)
    inprocess.run(coordinator, sites, ledger)
    home = next(s.program for s in sites if "s00" in s.program.sensing.ids)
    times = np.sum(seen, axis=0)
    at = list(home.sensing.ids).index("s00")
    # 3 numbers of about 270 readings: a tenth of them is reached after eight or nine.
    assert len(seen) > 12
    assert 7 <= times.max() <= 12
    # 3 numbers each of fewer than 60 readings: two refits would be more than a tenth of them.
    assert 1 <= times[at] <= 2


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("basis", lambda b: b.update(rank=np.array(40)), "can shelter"),
        ("basis", lambda b: b.update(knots=b["knots"] + 0.1), "not those of the published map"),
        ("basis", lambda b: b.update(width=10 * b["width"]), "not those of the published map"),
        ("span", lambda b: b.update(length=np.array(9.0)), "none that was agreed on"),
        ("whiten", lambda b: b.update(counts=1e9 + 0 * b["counts"]), "more sensors than there are"),
        (
            "round",
            lambda b: b.update(m=1e3 + b["m"], back=np.array(1)),
            "far from all that it observed",
        ),
    ],
)
def test_what_a_coordinator_makes_up_is_not_answered(network, kind, change, words):
    table, sensors = network
    plane = to_plane(sensors.coordinates, sensors.kind)
    plan = FactorPlan(box=map_box(plane), boost=False, n_sensors=len(sensors.ids))
    coordinator, sites, _, _ = parties(table, sensors, plan)
    with pytest.raises(RefusedError, match=words):
        asked_until(coordinator, sites, kind, change)


@pytest.mark.parametrize("collusion", [0.25, 0.5])
def test_the_cap_is_held_against_the_honest_rest(network, collusion):
    """Count and leverage for every coalition of that share that we draw: in the mean over
    coalitions, and the worst not far above."""
    table, sensors = network
    plane = to_plane(sensors.coordinates, sensors.kind)
    plan = FactorPlan(box=map_box(plane), boost=False, collusion=collusion)
    coordinator, sites, ledger, _ = parties(table, sensors, plan)
    asked_until(coordinator, sites, "finish", lambda body: None)
    B = np.vstack([s.program.B for s in sites])
    r = np.concatenate([s.program._guard_r for s in sites])
    computed = np.concatenate([s.program.exposure for s in sites])
    assert computed.max() <= 0.5 + 1e-6
    assert ledger.numbers <= 0.3 * (1 - collusion) * table.known.sum()
    rng = np.random.default_rng(0)
    leverage = np.full((200, len(B)), np.nan)
    for draw in leverage:
        honest = rng.permutation(len(B))[: round(len(B) * (1 - collusion))]
        R = guard.noise_sum(B[honest], r[honest])
        if len(honest) > B.shape[1]:
            draw[honest] = guard.leverage(B[honest], r[honest], R)
    assert np.nanmean(leverage, axis=0).max() <= 0.55


def sensing(network, n=4):
    table, sensors = network
    plane = to_plane(sensors.coordinates, sensors.kind)
    Y, known = table.values.to_numpy().T, table.known.T
    return Sensing("s", sensors.ids[:n], Y[:n], known[:n], plane[:n], table.positions)


def prepared(network, secret=b"secret", **settings):
    plan = FactorPlan(transform="none", period=0, **settings)
    site = FactorSite(sensing(network), plan, 0, custody=Custody(secret=secret))
    site.answer("units", {"trial": np.array(0)})
    body = {"slots": 400, "scale": 1.0, "length": 1.0, "noise": 0.1}
    site.answer("span", {name: np.array(value) for name, value in body.items()})
    return site


def test_blur_is_on_what_speaks_once_and_on_nothing_else(network):
    clean, blurred = prepared(network), prepared(network, blur=1.0)
    noise = blurred._spoken()[0] - clean._spoken()[0]
    np.testing.assert_array_equal(clean.Y, blurred.Y)  # latent vectors and heads: clean
    np.testing.assert_array_equal(blurred._spoken()[0], blurred._spoken()[0])
    spread = np.sqrt(sensor_step.interpolation_variance(clean.Y, clean.J))
    known = clean.J > 0
    assert (noise[~known] == 0).all()
    np.testing.assert_allclose((noise / spread[:, None])[known].std(), 1.0, atol=0.06)
    again = prepared(network, blur=1.0)
    np.testing.assert_array_equal(again._spoken()[0], blurred._spoken()[0])
    for other in (prepared(network, None, blur=1.0), prepared(network, b"another", blur=1.0)):
        assert not np.isclose(other._spoken()[0] - clean._spoken()[0], noise)[known].any()
    # Two levels of it do not cancel: they are other noise, not the same one scaled.
    twice = prepared(network, blur=2.0)._spoken()[0] - clean._spoken()[0]
    assert abs(np.corrcoef(twice[known], noise[known])[0, 1]) < 0.1


def test_questions_have_their_time_and_an_end():
    order = Order.of(FactorPlan(), later=False)
    assert "after 'nothing'" in order.problem("round")
    for kind in ("trial", "units", "span", "span", "basis", "whiten", "guard", "local", "weigh"):
        assert not order.problem(kind)
    assert not order.problem("open")
    for kind in ("span", "basis", "whiten", "guard", "window", "open", "heads"):
        assert "after 'open'" in order.problem(kind)
    for _ in range(FactorPlan().most_rounds):
        assert not order.problem("round")
    assert "more than 36 times" in order.problem("round")
    assert not order.problem("finish")
    for kind in ("round", "open", "finish", "adopt"):
        assert "after 'finish'" in order.problem(kind)


def test_under_a_budget_nothing_else_is_answered():
    order = Order.of(FactorPlan(epsilon=1.0, delta=1e-6, bounds=(0, 1)), later=False)
    for kind in ("trial", "units", "resume", "open"):
        assert order.problem(kind)
    for kind in ("enrol", "span", "basis", "whiten", "local", "weigh", "open"):
        assert not order.problem(kind)
    assert order.problem("round")
    assert not order.problem("finish")
    for kind in ("heads", "mix", "round", "span"):
        assert order.problem(kind)
    assert not order.problem("choose")


def test_the_noise_of_the_sites_in_the_sum_must_be_enough():
    plan = FactorPlan(epsilon=1.0, delta=1e-6, bounds=(0, 1), noise_sites=3, collusion=0.25)
    values = np.ones((1, 4))
    sensing = Sensing("a", ["s"], values, values > 0, None, np.arange(4.0))
    site = FactorSite(sensing, plan, 0)
    site.joined(("a", "b", "c", "d"))
    with pytest.raises(RefusedError, match="counts on 3 sites, and 2 honest"):
        site.joined(("a", "b"))


def test_a_run_that_goes_on_asks_for_new_slots_only():
    order = Order.of(FactorPlan(), later=True)
    for kind in ("span", "units", "trial"):
        assert order.problem(kind)
    assert not order.problem("resume")


def test_the_preparation_cannot_be_asked_for_ever():
    """Each noise sum through another smoother tells something of each sensor's readings."""
    order = Order.of(FactorPlan(), later=False)
    assert not order.problem("units")
    asked = 0
    while all(not order.problem(kind) for kind in ("span", "basis", "whiten", "weigh")):
        asked += 1
    assert asked <= 4
