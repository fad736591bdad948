"""Night after night: slots are added in a window, and what is public stays one state for all."""

from dataclasses import replace

import numpy as np
import pytest

from flfl.model import loadings
from flfl.model.transforms import fit_offsets, season_rows
from flfl.protocol import network as net
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.owner import digests
from flfl.protocol.plan import Addition, Fit
from flfl.protocol.schema import network_from_arrays, network_to_arrays
from worlds import NAMES, PLAN, TARGET, Federation, copy_of, federation, table

PLAIN = replace(PLAN, pilot=0.0)


def same(one, other):
    mine, theirs = network_to_arrays(one), network_to_arrays(other)
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


def night(network, stores, n, names=NAMES, secure=False, **how):
    tables = {name: table(name, n=n) for name in names}
    run = Federation(
        tables, PLAIN, secure=secure, stores={k: v for k, v in stores.items() if k in names},
        earlier=network, addition=Addition(**how),
    )  # fmt: skip
    return run


@pytest.fixture(scope="module")
def first():
    return federation(n=300, plan=PLAIN, secure=False).carry()


def stores_of(run):
    return {name: copy_of(store, None) for name, store in run.stores.items()}


@pytest.mark.parametrize("cut", [0, 1, 150, 299])
def test_a_state_that_was_cut_is_put_together_again(first, cut):
    network = first.network
    part = net.since(network, cut)
    assert (part.first, part.stop) == (cut, network.stop)
    np.testing.assert_array_equal(part.sigma2, network.sigma2[:, cut:])
    assert same(net.joined(network, part), network)


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("fit", list(Fit))
def test_everybody_keeps_the_same_state_after_a_night(first, fit, secure):
    run = night(first.network, stores_of(first), 324, secure=secure, first=100, fit=fit).carry()
    assert run.network.stop == 324
    assert run.network.first == 0
    digests = {run.client(name).network.digest for name in NAMES}
    assert digests == {run.network.digest}
    back = network_from_arrays(network_to_arrays(run.network), run.network.plan)
    assert replace(back, plan=run.network.plan).digest == run.network.digest
    # A fit anew moves centres and seasons, and the sums with them; else they stay.
    assert (fit == Fit.ANEW) != np.array_equal(run.network.z[:300], first.network.z)


def test_on_most_nights_loadings_and_dynamics_stay(first):
    run = night(first.network, stores_of(first), 324, first=100, fit=Fit.KEPT).carry()
    np.testing.assert_array_equal(run.network.P, first.network.P)
    np.testing.assert_array_equal(run.network.dynamics.A, first.network.dynamics.A)


def test_a_window_infers_what_the_whole_infers(first):
    """What is far back is forgotten: the last slots have the same factors."""
    whole = replace(first.network, learns=False).inferred.post
    part = net.window(first.network, 100).inferred.post
    off = np.abs(part.mean[-100:] - whole.mean[-100:]).max() / whole.mean.std()
    assert off < 1e-3


def test_the_bytes_of_a_night_do_not_grow_with_history():
    def bytes_of(n):
        run = federation(n=n, plan=PLAIN, secure=False).carry()
        later = night(run.network, run.stores, n + 24, first=n - 100, fit=Fit.KEPT).carry()
        return later.traffic.bytes_up, later.traffic.bytes_down

    short, long = bytes_of(150), bytes_of(600)
    assert np.abs(np.subtract(short, long)).max() < 300


def test_a_site_is_away_comes_back_and_all_agree(first):
    stores, network = stores_of(first), first.network
    away = [name for name in NAMES if name != TARGET]
    network = night(network, stores, 320, away, fit=Fit.ANEW).carry().network
    gone = network.site < 0
    assert gone.sum() == 2
    assert network.due[gone].all()
    assert not network.due[~gone].any()
    back = night(network, stores, 340, first=150, fit=Fit.KEPT).carry()
    rows = back.network.rows(TARGET)
    # It has fitted its loadings to factors that are new to it; the others keep theirs.
    assert not np.array_equal(back.network.P[rows], network.P[rows])
    others = np.setdiff1d(np.arange(8), rows)
    np.testing.assert_array_equal(back.network.P[others], network.P[others])
    assert not back.network.due.any()
    assert {back.client(name).network.digest for name in NAMES} == {back.network.digest}


def test_loadings_of_a_site_that_left_follow_the_others_into_new_factors(first):
    """By the map that takes the others' loadings there: its curve stays nearly the same."""
    stores, network = stores_of(first), first.network
    rows = network.rows("d")
    before = network.P[rows] @ network.inferred.post.mean.T
    left = night(network, stores, 320, ("a", "b", "c"), fit=Fit.ANEW).carry().network
    after = (left.P[rows] @ left.inferred.post.mean.T)[:, :300]
    assert all(
        np.corrcoef(one, other)[0, 1] > 0.7 for one, other in zip(before, after, strict=True)
    )
    np.testing.assert_array_equal(left.r[rows], network.r[rows])


def test_a_newcomer_fits_itself_and_moves_nobody():
    run = Federation({n: table(n, n=300) for n in ("a", "b", "c")}, PLAIN, secure=False).carry()
    late = night(run.network, run.stores, 324, first=100, fit=Fit.KEPT).carry()
    rows = late.network.rows("d")
    assert late.network.P[rows].any(axis=1).all()
    assert late.network.due[rows].all()  # on few copies: once more tomorrow
    np.testing.assert_array_equal(late.network.P[:6], run.network.P)
    assert not late.network.known[rows, :300].any()


def test_what_is_older_than_is_kept_is_forgotten_by_all(first):
    run = night(first.network, stores_of(first), 324, keep=120, first=120, fit=Fit.ANEW).carry()
    assert (run.network.first, run.network.n_slots) == (120, 204)
    assert {run.client(name).network.digest for name in NAMES} == {run.network.digest}
    again = night(run.network, run.stores, 348, keep=120, first=300, fit=Fit.KEPT).carry()
    assert (again.network.first, again.network.stop) == (120, 348)


def parts(run, stores):
    """The sums as they follow from everybody's copies and the public units."""
    network = run.network
    rows, slots = season_rows(network.positions, network.season), np.arange(network.stop)
    copies = np.full((len(network.sensors), network.stop), np.nan)
    row_of = {digest.tobytes(): n for n, digest in enumerate(network.sensors)}
    for name, store in stores.items():
        t = table(name, n=network.stop)
        for sensor, digest in zip(t.ids, digests(t.ids), strict=True):
            if digest.tobytes() in row_of:
                copies[row_of[digest.tobytes()]] = store.read(sensor, t.instants)[0]
    J = np.isfinite(copies) & (slots < network.units_stop[:, None])
    offset = fit_offsets(np.where(J, copies, 0.0), J.astype(float), rows) @ rows[:, slots]
    X = np.where(network.known, (np.nan_to_num(copies) - offset) / network.scale, 0.0)
    return loadings.released(X, network.weights, network.phi, network.numbers)


def test_the_sums_follow_from_the_copies_and_the_public_units_whoever_joins_or_is_away():
    names = ("a", "b", "c")
    run = Federation({n: table(n, n=300) for n in names}, PLAIN, secure=False).carry()
    stores = run.stores
    plans = [  # who is there, until which slot, and how
        (NAMES, 310, Fit.KEPT), (("a", "c", "d"), 320, Fit.KEPT), (NAMES, 330, Fit.ANEW),
        (("b", "c", "d"), 340, Fit.ANEW), (NAMES, 350, Fit.KEPT),
    ]  # fmt: skip
    for here, n, fit in plans:
        tables = {name: table(name, n=n) for name in here}
        if "d" in tables:  # a newcomer whose second sensor is silent at first
            silent = tables["d"].known.copy()
            silent[1, :312] = False
            tables["d"] = replace(tables["d"], known=silent)
        for name in here:
            stores.setdefault(name, CopyStore())
        used = {name: stores[name] for name in here}
        how = Addition(0, 200 if fit == Fit.KEPT else 0, fit)
        run = Federation(tables, PLAIN, False, used, run.network, addition=how).carry()
        np.testing.assert_allclose(run.network.z, parts(run, stores), atol=1e-6)
