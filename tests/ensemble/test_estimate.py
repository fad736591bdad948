"""What an owner makes at home of its readings and the network's factors."""

from dataclasses import replace

import numpy as np
import pytest

from flfl.ensemble import personal, recovery
from flfl.ensemble.estimate import Frame, Home, Units, stack
from flfl.ensemble.holdout import draw_holdouts
from flfl.ensemble.plausible import plausible
from flfl.ensemble.recovery import METHODS
from flfl.model.state_space import Dynamics


def home(seed=0, m=3, N=400, noise=0.3, known=0.6):
    """Sensors that follow one factor, which the network knows well."""
    rng = np.random.default_rng(seed)
    q = np.zeros(N)
    for t in range(1, N):
        q[t] = 0.97 * q[t - 1] + 0.25 * rng.standard_normal()
    truth = 5 + rng.uniform(0.5, 2, (m, 1)) * q + noise * rng.standard_normal((m, N))
    J = rng.random((m, N)) < known
    seen = q + 0.2 * rng.standard_normal(N)
    dynamics = Dynamics(np.array([[0.97]]), np.array([[0.06]]))
    shared = personal.Shared(
        np.full((N, 1, 1), 25.0), 25.0 * seen[:, None], dynamics, np.full(m, 0.5)
    )
    held = draw_holdouts(J, rng)
    raw = np.where(J, truth, np.nan)
    made = Home(raw, J, held, plausible(raw, J), np.arange(N) % 24, False, 0.9)
    return made, shared, truth


def recovered(made, shared, seed=0):
    network = None if shared is None else frame(made, shared)
    return recovery.recover(made, frame(made), network, seed)


def frame(made, shared=None):
    before = (units(made),) * len(made.held)
    return Frame(units(made), before, np.zeros(made.raw.shape), shared)


def units(made):
    return Units("none", np.full(made.raw.shape, 5.0), 1.0)


def test_estimates_and_intervals_are_those_of_the_readings_units():
    made, shared, truth = home(N=1200)
    out = recovered(made, shared)
    gaps = ~made.known
    assert np.isfinite(out.estimate).all()
    assert (out.lower <= out.upper).all()
    assert np.abs(out.estimate - truth)[gaps].mean() < 0.4
    inside = (out.lower <= truth) & (truth <= out.upper)
    assert 0.8 < inside[gaps].mean() <= 1


# Only what is no number is surely left out: a curve of another size or sign may tell of the owner's
# sensors, once they are fitted to it.
@pytest.mark.parametrize(
    "times", [*(pytest.param(x, marks=pytest.mark.slow) for x in (-2.0, 0.0)), 1e6, np.nan]
)
def test_a_network_that_lies_costs_nothing(times):
    made, shared, truth = home(N=1200)
    lie = replace(shared, vector=times * shared.vector)
    gaps = ~made.known
    honest, lied, alone = (recovered(made, s) for s in (shared, lie, None))
    errors = [np.abs(out.estimate - truth)[gaps].mean() for out in (honest, lied, alone)]
    assert errors[0] < 0.95 * errors[2]
    assert errors[1] <= 1.01 * errors[2]
    network = METHODS.index("network")
    assert (honest.method[gaps] == network).mean() > 0.9
    assert np.isfinite(times) or not (lied.method == network).any()


def test_what_an_owner_gets_by_itself_does_not_depend_on_the_network():
    made, shared, _ = home()
    alone, honest = recovered(made, None), recovered(made, shared)
    np.testing.assert_array_equal(alone.estimate, honest.site)
    np.testing.assert_array_equal(alone.holdout, honest.site_holdout)


def test_no_value_leaves_the_range_that_history_justifies():
    made, shared, _ = home()
    far = replace(shared, vector=1e3 * shared.vector, information=1e-3 * shared.information)
    low, high = made.limits
    for out in (recovered(made, shared), recovered(made, far)):
        for values in (out.estimate, out.lower, out.upper):
            assert ((low <= values) & (values <= high)).all()


def test_what_is_held_out_is_judged_without_itself():
    made, shared, _ = home()
    out = recovered(made, shared)
    held = np.isfinite(out.holdout)
    np.testing.assert_array_equal(held, made.held.any(axis=0))
    assert (held <= made.known).all()
    assert held.sum() > 20
    np.testing.assert_array_equal(np.isfinite(out.inside), held)
    i, t = np.argwhere(held)[7]
    raw = made.raw.copy()
    raw[i, t] += 0.5
    again = recovered(replace(made, raw=raw), shared)
    assert abs(again.holdout[i, t] - out.holdout[i, t]) < 0.1


def test_a_draw_does_not_see_what_it_holds_out():
    """Poison: candidates and own curves of a draw stay as they were, those of others do not."""
    made, shared, _ = home()
    assert len(made.held) > 1

    def views(home):
        found = stack(home, frame(home, shared), np.random.default_rng(0))
        curves, told = found.site[0], np.vstack([found.features[0], found.near[0]])
        return [(told[:, made.places[0] == n], curves[n].mean) for n in range(len(made.held))]

    clean = views(made)
    for n, held in enumerate(made.held):
        poisoned = views(replace(made, raw=made.raw + 0.2 * held))
        for other, (one, two) in enumerate(zip(clean, poisoned, strict=True)):
            for first, second in zip(one, two, strict=True):
                assert np.array_equal(first, second) == (other == n)


def test_of_several_draws_the_first_reports_a_reading():
    made, _, _ = home()
    draw, _, _ = made.places
    several = made.held.sum(axis=0) > 1
    assert several.any()
    found = recovery._first(made, draw.astype(float))
    for n, held in enumerate(made.held):
        assert (found[held] <= n).all()
        assert (found[held & ~made.held[:n].any(axis=0)] == n).all()
    np.testing.assert_array_equal(np.isnan(found), ~made.held.any(axis=0))


def test_what_is_held_out_twice_is_evidence_once():
    held = np.zeros((2, 2, 9), bool)
    held[0, 0, 1:4] = held[1, 0, 3:6] = held[0, 0, 8] = held[1, 1, 3:5] = held[0, 1, 0] = True
    made = replace(home(m=2, N=9)[0], held=held)
    _, sensor, slot = made.places
    together = {}
    for entry, stretch in zip(zip(sensor, slot, strict=True), made.stretches, strict=True):
        together.setdefault(int(stretch), set()).add((int(entry[0]), int(entry[1])))
    first = {(0, t) for t in range(1, 6)}
    assert list(together.values()) == [first, {(0, 8)}, {(1, 0)}, {(1, 3), (1, 4)}]


OUTAGE = slice(150, 250)


def both(silenced):
    """The owner by itself, and with a network that an outage of the others silences or not."""
    made, shared, _ = home()
    if silenced:
        shared.information[OUTAGE], shared.vector[OUTAGE] = 0.0, 0.0
    alone = stack(made, frame(made), np.random.default_rng(0))
    network = stack(made, frame(made, shared), np.random.default_rng(0), alone)
    base = recovery.Mixed(alone.estimate, alone.honest, np.ones((1, *made.raw.shape)))
    return made, base, network


def test_the_share_of_a_network_falls_where_it_is_silent():
    told, share = [], []
    for silenced in (False, True):
        made, base, network = both(silenced)
        mixed = recovery.add(made, base, network)
        told.append(network.told)
        share.append(mixed.share[-1])
        np.testing.assert_allclose(mixed.share.sum(axis=0), 1.0)
    assert (told[0] > 0.9).all()
    middle = slice(195, 205)
    assert (share[0][:, middle] > 0.5).all()
    assert (share[1][:, middle] < 0.1 * share[0][:, middle]).all()
    np.testing.assert_array_less(np.diff(told[1][:, 150:200]), 0.0)
    np.testing.assert_allclose(told[1][:, 140:260], told[1][:, 140:260][:, ::-1], atol=1e-6)
    assert (told[1][:, :140] > 0.9).all()


def test_where_a_network_tells_nothing_an_owner_is_by_itself():
    made, base, network = both(False)
    network.told[:, OUTAGE] = 0.0
    mixed = recovery.add(made, base, network)
    np.testing.assert_array_equal(mixed.estimate[:, OUTAGE], base.estimate[:, OUTAGE])
    _, _, slot = made.places
    within = (slot >= OUTAGE.start) & (slot < OUTAGE.stop)
    np.testing.assert_array_equal(mixed.honest[within], base.honest[within])
    assert (mixed.honest != base.honest)[~within].mean() > 0.9
    assert (mixed.share[-1][:, : OUTAGE.start] > 0).all()


def test_in_an_outage_of_all_others_an_owner_falls_back_on_itself():
    made, shared, _ = home(N=1200)
    within = np.zeros(made.raw.shape, bool)
    within[:, 500:700] = True
    at, off = within & ~made.known, []
    for times in (1.0, 0.0):
        one = replace(
            shared,
            information=np.where(within[0, :, None, None], times, 1.0) * shared.information,
            vector=np.where(within[0, :, None], times, 1.0) * shared.vector,
        )
        out = recovered(made, one)
        off.append(np.abs(out.estimate - out.site)[at].mean())
    assert off[1] < 0.2 * off[0]


@pytest.mark.parametrize("spoil", ["silent", "nothing", "constant", "few slots", "one sensor"])
def test_odd_owners_are_no_exception(spoil):
    size = {"few slots": {"N": 14}, "one sensor": {"m": 1}}.get(spoil, {})
    made, shared, _ = home(**size)
    J, raw = made.known.copy(), made.raw.copy()
    if spoil == "silent":
        J[0] = False
    if spoil == "nothing":
        J[:] = False
    if spoil == "constant":
        raw[:] = 5.0
    out = recovered(replace(made, raw=raw, known=J, held=made.held & J), shared)
    for values in (out.estimate, out.lower, out.upper):
        assert np.isfinite(values).all()
