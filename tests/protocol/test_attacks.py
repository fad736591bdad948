"""Attacks that read whole series from an earlier protocol, run against this one.

The reader has the coordinator and all other owners on its side, and knows every clean reading but
the one that it wants. Each attack gets the noisy copy at the most: what it makes of the messages is
no better than what it would make of the copies themselves. Without added error it reads all, so the
attacks have teeth.
"""

from dataclasses import replace

import numpy as np
import pytest

from flfl.constants import PILOT_LOWEST
from flfl.errors import InputError
from flfl.protocol import network as net
from flfl.protocol.added_error import AddedError, error_in_time, ladder_up
from flfl.protocol.client import REFUSALS, Finished
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.owner import Owner
from flfl.protocol.plan import Plan
from flfl.protocol.schema import PROTOCOL
from worlds import (
    NAMES,
    PLAN,
    SIGNERS,
    TARGET,
    Federation,
    Hostile,
    federation,
    outcome,
    owner,
    secret,
    site_of,
    table,
)

N = 480
PLAIN = replace(PLAN, pilot=0.0)
BOUND = 0.5
"""1 / (1 + added_error^2)."""


def read_out(t, guess):
    """R^2 of the best linear read-out of each sensor's readings, its neighbours in time known."""
    scores = []
    for y, k, g in zip(t.raw, t.known & np.isfinite(guess), guess, strict=True):
        at = np.flatnonzero(k[1:-1] & t.known[0, :-2] & t.known[0, 2:]) + 1
        foretold = (y[at - 1] + y[at + 1]) / 2
        scores.append(np.corrcoef(y[at] - foretold, g[at] - foretold)[0, 1] ** 2)
    return np.array(scores)


def whole_table(seed=0, **how):
    """Without gaps; every sensor alike."""
    return table(n=N, missing=0.0, seed=seed, **how)


def stretch(enemy, site, kinds, **over):
    """Ask for one stretch of slots."""
    for kind in kinds:
        answer = outcome(site, enemy.ask(kind, **(over if kind == "publish" else {})))
        assert isinstance(answer, bytes), answer
        enemy.hear(answer)


def from_sums(enemy, site):
    """The copies, solved from one site's part of the sums: everything else in them is known."""
    network, state = site.program.state.network, site.program.state
    rows = network.rows(TARGET)
    used = network.numbers >= len(rows)
    B = network.weights[rows, None] * network.phi[rows] / network.scale
    C, z = np.full((len(rows), len(used)), np.nan), np.zeros_like(network.z)
    z[np.arange(z.shape[1]) < network.numbers[:, None]] = enemy.z
    for t in np.flatnonzero(used):
        k = network.numbers[t]
        C[:, t] = np.linalg.lstsq(B[:, :k].T, z[t, :k], rcond=None)[0]
    return C + state.offsets[:, :1]


@pytest.mark.parametrize("added", [1.0, 0.0])
def test_a_coordinator_that_makes_up_all_others_reads_the_copies(added):
    """It was able to lie about totals: now it may, and solves for the copies, no further."""
    mine = whole_table()
    site = site_of(owner(mine, added=AddedError(added)), replace(PLAIN, added_error=0.0))
    enemy = Hostile(np.random.default_rng(0), site, N)
    enemy.sizes = dict.fromkeys(NAMES, 3)
    enemy._made_up = liar(enemy)
    stretch(enemy, site, ("publish", "release"), units=0, start=0, stop=N)
    solved, copies = from_sums(enemy, site), site.program.outgoing.copies
    seen = np.isfinite(solved)
    assert seen.mean() > 0.9  # it does get them
    np.testing.assert_allclose(solved[seen], copies[seen], atol=1e-4)
    got, bound = read_out(mine, solved), read_out(mine, copies)
    np.testing.assert_allclose(got, bound, atol=0.02)
    assert (got < BOUND + 0.1).all() if added else (got > 0.95).all()


def liar(enemy):
    """Others with readings at every slot and no copies of their own: the sums are the target's."""
    made_up = type(enemy)._made_up

    def facts(m, length, name="x"):
        made = made_up(enemy, m, length, name)
        there = np.full_like(made["known"], -1)
        return made | {"known": there, "error": np.ones(m), "variance": np.ones(m)}

    return facts


@pytest.mark.parametrize("added", [1.0, 0.0])
def test_runs_with_sums_of_the_attacker_s_choice_give_functions_of_the_copies(added):
    """Each fit to sums that the attacker makes up gives a few linear functions of a sensor's
    copies. It runs until it has more of them than there are slots, and solves."""
    mine, slots, store = whole_table(), 60, CopyStore()
    part = replace(mine, raw=mine.raw[:, :slots], known=mine.known[:, :slots])
    functions, values = [], []
    for n in range(60):
        made = owner(mine, store, AddedError(added))
        site = site_of(made, replace(PLAIN, added_error=0.0))
        enemy = Hostile(np.random.default_rng(n), site, N)
        enemy.sizes = dict.fromkeys(NAMES, 3)
        enemy._made_up = liar(enemy)
        stretch(enemy, site, ("publish", "release"), units=0, start=0, stop=slots)
        enemy.z = 30 * enemy.rng.standard_normal(enemy.z.shape)
        before = net.restart(site.program.state.network).dynamics
        stretch(enemy, site, ("begin",))
        functions.append(how_fitted(replace(site.program.state.network, dynamics=before)))
        values.append(enemy.P)
    state = site.program.state
    A, b = np.concatenate(functions, axis=1), np.concatenate(values, axis=1)
    scale = np.linalg.norm(A, axis=2, keepdims=True)  # rounding errs alike, relative to that
    A, b = A / scale, b / scale[:, :, 0]
    centred = [
        np.linalg.solve(x.T @ x + 0.1 * np.eye(slots), x.T @ y) for x, y in zip(A, b, strict=True)
    ]
    got = read_out(part, state.network.scale * np.array(centred) + state.offsets[:, :1])
    bound = read_out(part, made.copy(("none", 0), slice(0, slots), 0.0).copies[:, :slots])
    assert (got <= bound + 0.05).all()
    assert (got > 0.2).all() if added else (got > 0.8).all()  # it does get at them
    assert (bound < BOUND + 0.1).all() if added else (bound > 0.99).all()


def how_fitted(network):
    """Loadings as linear functions of a sensor's copies (m, k, N)."""
    rows, post = network.rows(TARGET), network.inferred.post
    W = network.known[rows] / (network.r[rows, None] + network.sigma2[rows])
    squares = post.mean[:, :, None] * post.mean[:, None, :] + post.cov
    H = np.einsum("it,tab->iab", W, squares) + np.eye(post.mean.shape[1])
    return np.linalg.solve(H, np.einsum("it,ta->iat", W, post.mean))


def test_no_message_carries_a_sum_of_errors_and_nothing_leaves_after_the_last():
    answers = {kind: set(exchange.answer) for kind, exchange in PROTOCOL.items()}
    facts = {"sensors", "places", "error", "sigma", "variance", "shift", "known"}
    signed = {"seen", "signature"}
    assert answers == {
        "vote": {"vote", "negative"},
        "resume": set(),
        "publish": facts | signed,
        "release": {"z"},
        "late": {"rows", "slots", "copies", "sigma2"} | signed,
        "add": set(),
        "begin": {"P", "r"} | signed,
        "refit": {"P", "r"} | signed,
        "finish": set(),
    }
    run = federation(secure=False).carry()
    site = run.sites[TARGET]
    assert isinstance(site.program.state, Finished)
    enemy = Hostile(np.random.default_rng(0), site, 240)
    enemy.number, enemy.P, enemy.r = 99, np.zeros((2, 4)), np.ones(2)
    enemy.signature = np.zeros(8, int)
    enemy.earlier = run.network
    for kind in PROTOCOL:
        assert outcome(site, enemy.ask(kind)) == f"Refusal: {REFUSALS[0]}"


@pytest.mark.parametrize("forgotten", [False, True])
def test_fifty_runs_that_stop_early_do_not_average_the_noise_out(forgotten):
    """With the store, and without it: a site whose store was lost still has its secret."""
    mine, store, read = whole_table(), CopyStore(), []
    for n in range(50):
        site = site_of(
            owner(mine, CopyStore() if forgotten else store),
            replace(PLAIN, share=[0.2, 0.5, 1.0][n % 3], rank=1 + n % 4),
        )
        enemy = Hostile(np.random.default_rng(n), site, N)
        stop = N if forgotten else int(enemy.rng.integers(100, N + 1))
        stretch(enemy, site, ("publish", "release", "begin"), units=0, start=0, stop=stop)
        read.append(site.program.outgoing.copies)
    times = np.isfinite(read).sum(axis=0)
    mean = np.nansum(read, axis=0) / np.where(times > 0, times, np.nan)
    first = owner(mine).copy(("none", 0), slice(0, N), 1.0).copies
    np.testing.assert_allclose(mean[times > 0], first[times > 0], atol=1e-9)
    assert (times > 40).mean() > 0.2
    assert (read_out(mine, mean) < BOUND + 0.1).all()


def test_control_fresh_noise_in_every_run_would_average_out():
    mine = whole_table()
    fresh = [
        Owner(mine, Copier(secret(f"run {n}"), CopyStore()), AddedError()).copy(
            ("none", 0), slice(0, N), 1.0
        )
        for n in range(50)
    ]
    assert (read_out(mine, np.mean([out.copies for out in fresh], axis=0)) > 0.9).all()


@pytest.mark.parametrize("wish", [0.0, 1e-9, 0.5, 2.0, 1e6])
@pytest.mark.parametrize("own", [AddedError(2.0), AddedError(units=4.0)])
def test_no_plan_lowers_an_owner_s_added_error(own, wish):
    mine = whole_table()
    least = owner(mine, added=own).copy(("none", 0), slice(0, N), 0.0).sigma.max(axis=1)
    s = error_in_time(mine.raw, mine.known)
    assert (least >= (2.0 * s if own.units is None else 4.0)).all()
    tables = {name: whole_table() if name == TARGET else table(name, n=N) for name in NAMES}
    plan = replace(PLAN, added_error=wish)
    run = Federation(tables, plan, secure=False, added={TARGET: own}).carry()
    sigma = run.client().outgoing.sigma
    asked = least if own.units is None else np.full(2, 4.0)
    share = PILOT_LOWEST if own.units is None else 1.0  # units hold whatever a pilot says
    assert (sigma[sigma > 0].reshape(2, -1) >= share * asked[:, None]).all()
    assert (sigma[:, 0] >= asked).all()
    if wish > 2 and own.units is None:
        assert (sigma[:, 0] > 1e5).all()  # a network may ask for more


@pytest.mark.parametrize("wish", [-1.0, np.nan, np.inf])
def test_a_plan_without_sense_is_no_plan(wish):
    with pytest.raises(InputError, match="a plan cannot have added_error"):
        Plan(added_error=wish)


def test_a_crafted_pilot_lowers_the_noise_to_a_half_at_the_most():
    mine, ratios = whole_table(), []
    s = ladder_up(error_in_time(mine.raw, mine.known))
    for seed in range(12):
        site = site_of(owner(mine), PLAN)
        enemy = Hostile(np.random.default_rng(seed), site, N)
        enemy.sizes = dict.fromkeys(NAMES, 3)
        start = 0
        for stop in (100, 200, 300, N):  # one pilot after another
            stretch(enemy, site, ("publish", "release"), units=0, start=start, stop=stop)
            # It knows the copies, so it can make up sums that fit them as well as it likes.
            enemy.z = enemy.z * float(enemy.rng.choice([1.0, 3.0, 0.1]))
            stretch(enemy, site, ("begin", "refit", "refit"))
            start = stop
        sigma = site.program.outgoing.sigma
        ratios.append((sigma / s[:, None])[:, 100:])
    ratios = np.array(ratios)
    assert ratios.min() >= PILOT_LOWEST
    assert ratios.min() < 1  # a pilot does lower it
    assert (read_out(mine, site.program.outgoing.copies) < 0.9).all()


def test_wishes_find_a_rung_of_the_scale_and_not_the_scale():
    """A thousand plans with other multiples: all they see of s is which rung it stands on."""
    mine = whole_table()
    s = error_in_time(mine.raw, mine.known)
    close = ladder_up(s) / s
    other = replace(mine, raw=mine.raw * (1 + 0.9 * (close - 1))[:, None])
    assert (error_in_time(other.raw, other.known) > s).all()
    for wish in np.linspace(0.5, 2.0, 40):
        one, two = (owner(t).copy(("none", 0), slice(0, 10), wish) for t in (mine, other))
        np.testing.assert_array_equal(one.sigma, two.sigma)
        np.testing.assert_array_equal(one.error, two.error)


def test_two_networks_with_one_store_share_every_copy():
    """Two copies of a reading would halve the variance of the noise: there is one."""
    tables = {name: whole_table() if name == TARGET else table(name, n=N) for name in NAMES}
    one = Federation(tables, PLAIN, secure=False).carry()
    plan = replace(PLAIN, share=1.0, rounds=4, added_error=0.3)
    two = Federation(tables, plan, secure=False, stores={TARGET: one.stores[TARGET]}).carry()
    copies = [run.client().outgoing.copies for run in (one, two)]
    np.testing.assert_array_equal(*copies)
    bound = read_out(tables[TARGET], copies[0])
    np.testing.assert_array_equal(read_out(tables[TARGET], np.mean(copies, axis=0)), bound)


def test_signatures_of_others_cannot_be_made_up_without_their_keys():
    site = site_of(owner(table()))
    enemy = Hostile(np.random.default_rng(0), site, 240)
    stretch(enemy, site, ("publish",), units=0, start=0, stop=240)
    enemy._sign = lambda name, arrays: np.frombuffer(SIGNERS[TARGET].sign(b"?"), "<i8")
    assert outcome(site, enemy.ask("release")) == "Refusal: a signature is wrong"
