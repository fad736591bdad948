"""What a site holds to, whatever it is asked: caps, coalitions, blur, a coordinator that lies."""

import numpy as np
import pytest

from flfl import FLFL
from flfl.data.synth import synthesize
from flfl.federation.factors import FactorPlan, RefusedError
from flfl.federation.factors.keeping import Sensing
from flfl.federation.factors.promise import Promise
from flfl.federation.factors.site import FactorSite
from flfl.model.graph import map_box, to_plane
from flfl.model.shared import guard, sensor_step
from flfl.model.shared.dynamics import Covariances
from parties import asked_until, parties


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


def test_refits_stop_when_their_share_is_used_up(network):
    table, sensors = network
    few = table.values.copy()
    few.iloc[60:, 0] = np.nan  # a sensor with few readings: each refit tells more of it
    model = FLFL(effort="quick", rounds=8).fit(few, sensors=sensors)
    assert np.isfinite(model.estimates_).all()
    assert model.exposure_.max() <= 0.5 + 1e-6


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


def prepared(network, seed=0, **settings):
    site = FactorSite(sensing(network), FactorPlan(transform="none", period=0, **settings), seed)
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
    other = prepared(network, seed=1, blur=1.0)
    assert not np.isclose(other._spoken()[0] - clean._spoken()[0], noise)[known].any()


def test_questions_have_their_time_and_an_end():
    promise = Promise(FactorPlan(), "north", ["a"], ["north"], np.arange(5))
    promise.released = True
    for kind in ("span", "basis", "whiten", "guard", "window"):
        with pytest.raises(RefusedError, match="already projected"):
            promise.check_question(kind)
    for _ in range(60):
        promise.check_question("round")
    with pytest.raises(RefusedError, match="more than 60 times"):
        promise.check_question("round")
    promise.check_question("settle")
    with pytest.raises(RefusedError, match="more than 1 times"):
        promise.check_question("settle")
