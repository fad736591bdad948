"""Late copies: rows of their own beside the sums of their slots, from the one copy of a reading."""

from dataclasses import replace

import numpy as np
import pytest

from flfl.model import loadings
from flfl.model.transforms import fit_offsets, season_rows
from flfl.protocol.client import OWN, SITES, Refusal
from flfl.protocol.copy_store import Block, CopyError, CopyStore
from flfl.protocol.finish import own_part
from flfl.protocol.late import Late
from flfl.protocol.messages import Question, decode, encode
from flfl.protocol.network import Own
from flfl.protocol.owner import digests
from flfl.protocol.plan import Addition, Fit
from flfl.protocol.schema import PROTOCOL, network_from_arrays, network_to_arrays
from worlds import NAMES, PLAN, Federation, table

PLAIN = replace(PLAN, pilot=0.0)
LATE = replace(PLAIN, late=True)
FOUNDERS = ("a", "b", "c")


def night(run, n, names=NAMES, plan=LATE, late=NAMES, fit=Fit.KEPT, tables=None, secure=False):
    """One more night after a run; the stores go on."""
    tables = tables or {name: table(name, n=n) for name in names}
    for name in tables:
        run.stores.setdefault(name, CopyStore())
    stores = {name: run.stores[name] for name in tables}
    how = Addition(0, 100 if fit == Fit.KEPT else 0, fit)
    made = Federation(tables, plan, secure, stores, run.network, addition=how, late=late)
    made.stores = run.stores
    return made


def founded(names=FOUNDERS, n=300, tables=None):
    tables = tables or {name: table(name, n=n) for name in names}
    return Federation(tables, LATE, secure=False).carry()


def same(one, other):
    mine, theirs = network_to_arrays(one), network_to_arrays(other)
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


def stored(run):
    """Everybody's stored copies in the public units, their variances and arrivals (M, N)."""
    network = run.network
    rows, M = season_rows(network.positions, network.season), len(network.sensors)
    copies, sigmas = np.full((2, M, network.stop), np.nan)
    arrival = np.zeros((M, network.stop), int)
    row_of = {digest.tobytes(): n for n, digest in enumerate(network.sensors)}
    for name, store in run.stores.items():
        t = table(name, n=network.stop)
        for sensor, digest in zip(t.ids, digests(t.ids), strict=True):
            if digest.tobytes() in row_of:
                row = row_of[digest.tobytes()]
                copies[row], sigmas[row] = store.read(sensor, t.instants)
                arrival[row] = np.searchsorted(t.instants, store.arrivals(sensor, t.instants))
    J = np.isfinite(copies) & (arrival < network.units_stop[:, None])
    offset = fit_offsets(np.where(J, copies, 0.0), J.astype(float), rows) @ rows
    return (copies - offset) / network.scale, (sigmas / network.scale) ** 2


def check_law(run):
    """Sums and late copies are those of the stored copies, each at one place only."""
    network, late = run.network, run.network.late
    copies, sigma2 = stored(run)
    X = np.where(network.known, np.nan_to_num(copies), 0.0)
    z = loadings.released(X, network.weights, network.phi, network.numbers)
    np.testing.assert_allclose(network.z, z, atol=1e-6)
    np.testing.assert_allclose(late.copies, copies[late.rows, late.slots], atol=1e-9)
    np.testing.assert_allclose(late.sigma2, sigma2[late.rows, late.slots], rtol=1e-12)
    assert not network.known[late.rows, late.slots].any()
    assert len(set(zip(late.rows.tolist(), late.slots.tolist(), strict=True))) == len(late)


def test_without_late_copies_every_bit_is_as_before():
    run = founded(NAMES)
    copies = {name: CopyStore() for name in NAMES}
    for name, store in run.stores.items():
        store._db.backup(copies[name]._db)
    one = night(run, 324, plan=PLAIN).carry()
    run.stores = copies
    other = night(run, 324, late=()).carry()
    assert len(one.network.late) == len(other.network.late) == 0
    assert same(one.network, other.network)


@pytest.mark.parametrize("secure", [True, False])
def test_the_past_of_one_that_joins_is_used_by_all(secure):
    run = founded()
    home = night(run, 324, plan=PLAIN).carry()
    run.stores.pop("d")
    joined = night(run, 324, secure=secure).carry()
    network, rows = joined.network, joined.network.rows("d")
    past = table("d", n=324).known[:, 100:300]
    assert len(network.late) == past.sum()
    assert set(network.late.rows) == set(rows)
    check_law(joined)
    # Its loadings rest on more than a hundred copies, so they are no longer due.
    assert home.network.due[rows].all()
    assert not network.due[rows].any()
    # Everybody keeps the same, and it is what a file brings back.
    assert {joined.client(name).network.digest for name in NAMES} == {network.digest}
    back = network_from_arrays(network_to_arrays(network), network.plan)
    assert replace(back, plan=network.plan).digest == network.digest
    # What is known of the factors in the past is more, for everybody.
    without = replace(network, late=Late(), learns=False).inferred.post.cov
    within = replace(network, learns=False).inferred.post.cov
    gained = np.trace(within - without, axis1=1, axis2=2)[100:300]
    assert (gained < 0).mean() > 0.95


def test_the_posterior_is_that_of_the_sums_and_of_each_late_copy():
    """By conditioning a dense Gaussian on all numbers of a few slots."""
    network = night(founded(), 324).carry().network
    network = replace(network, learns=False)
    N, k = network.n_slots, network.P.shape[1]
    A, S = network.dynamics.A, network.dynamics.S
    stationary = np.eye(k)
    for _ in range(5000):
        stationary = A @ stationary @ A.T + S
    at = slice(180, 230)  # with a prior that knows nothing of the slots outside
    n = at.stop - at.start
    prior = np.zeros((n * k, n * k))
    for s in range(n):
        block = stationary
        for t in range(s, n):
            prior[t * k : t * k + k, s * k : s * k + k] = block
            prior[s * k : s * k + k, t * k : t * k + k] = block.T
            block = A @ block
    seen, noise, values = [], [], []
    F, R = network.design(slice(0, N))
    F, R = loadings.used(F, R, network.numbers)
    for t in range(n):
        slot, m = at.start + t, network.numbers[at.start + t]
        H = np.zeros((m, n * k))
        H[:, t * k : t * k + k] = F[slot, :m]
        seen.append(H)
        noise.append(R[slot, :m, :m])
        values.append(network.z[slot, :m])
    late = network.late.where((network.late.slots >= at.start) & (network.late.slots < at.stop))
    assert len(late) > 50
    for row, slot, copy, sigma2 in zip(*vars(late).values(), strict=True):
        H = np.zeros((1, n * k))
        t = slot - at.start
        H[0, t * k : t * k + k] = network.P[row]
        seen.append(H)
        noise.append(np.array([[network.r[row] + sigma2]]))
        values.append([copy])
    H, y = np.concatenate(seen), np.concatenate(values)
    V = np.zeros((len(y), len(y)))
    edge = 0
    for part in noise:
        V[edge : edge + len(part), edge : edge + len(part)] = part
        edge += len(part)
    mean = prior @ H.T @ np.linalg.solve(H @ prior @ H.T + V, y)
    short = replace(
        network, first=at.start, stops=np.array([n]), sigma=network.sigma[:, :1],
        known=network.known[:, at], numbers=network.numbers[at], z=network.z[at], late=late,
    )  # fmt: skip
    np.testing.assert_allclose(short.inferred.post.mean.ravel(), mean, atol=1e-6)


def test_late_copies_of_everybody_tell_at_least_what_sums_in_time_tell():
    """Everybody is late with a stretch: all its copies come one by one, and the sums of any of
    them are known from these."""
    silent = {}
    for name in NAMES:
        t = table(name, n=300)
        known = t.known.copy()
        known[:, 200:260] = False
        silent[name] = replace(t, known=known)
    run = founded(tables=silent)
    assert not run.network.known[:, 200:260].any()
    network = night(run, 324).carry().network
    t = {name: table(name, n=324) for name in NAMES}
    assert len(network.late) == sum(own.known[:, 200:260].sum() for own in t.values())
    check_law(run := night(run, 324).carry())  # the same night again has the same copies
    in_time = night(founded(NAMES), 324).carry().network
    made = run.network.late
    made = replace(made, sigma2=in_time.sigma2[made.rows, made.slots])
    whole = replace(run.network, P=in_time.P, r=in_time.r, learns=False, late=made)
    late = whole.inferred.information[200:260]
    sums = replace(in_time, learns=False).inferred.information[200:260]
    more = np.linalg.eigvalsh(late - sums)
    assert more.min() > -1e-9 * np.linalg.eigvalsh(sums).max()
    assert np.trace(late, axis1=1, axis2=2).mean() > np.trace(sums, axis1=1, axis2=2).mean()


def test_a_site_that_was_away_is_late_once_and_its_law_holds_for_ever():
    run = founded(NAMES)
    run = night(run, 324, FOUNDERS).carry()
    run = night(run, 348).carry()
    rows = run.network.rows("d")
    there = table("d", n=348).known[:, 300:324]
    assert len(run.network.late) == there.sum()
    assert set(run.network.late.slots) <= set(range(300, 324))
    check_law(run)
    for n, names, fit in (
        (360, NAMES, Fit.KEPT),
        (370, FOUNDERS, Fit.ANEW),
        (380, NAMES, Fit.ANEW),
    ):
        run = night(run, n, names, fit=fit).carry()
        check_law(run)
    # In the last run it released what it missed in the one before, and nothing twice.
    late = run.network.late
    assert set(late.rows) == set(rows)
    assert set(late.slots) <= {*range(300, 324), *range(360, 370)}
    assert len(late) == table("d", n=380).known[:, np.r_[300:324, 360:370]].sum()


def test_a_reading_that_came_late_has_one_copy_whatever_is_corrected():
    lacking = {name: table(name, n=300) for name in NAMES}
    known = lacking["b"].known.copy()
    whole = known.copy()
    known[0, 280:290] = False
    lacking["b"] = replace(lacking["b"], known=known)
    run = night(founded(tables=lacking), 310).carry()
    late = run.network.late
    assert set(late.slots) == set(np.flatnonzero(whole[0, 280:290]) + 280)
    t = table("b", n=310)
    before = run.stores["b"].read("b0", t.instants)[0]
    corrected = {name: table(name, n=320) for name in NAMES}
    corrected["b"] = replace(corrected["b"], raw=1.5 * corrected["b"].raw)
    again = night(run, 320, tables=corrected).carry()
    after = again.stores["b"].read("b0", t.instants)[0]
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(again.network.late.copies, late.copies)


@pytest.mark.parametrize("own", ["d", "a"])
def test_an_owner_takes_its_own_part_off_all_of_it(own):
    """What the network says without an owner is what it says when the owner has no copies."""
    run = night(founded(), 324).carry()
    network = replace(run.network, learns=False)
    t = table(own, n=324)
    rows, copies, offsets = own_part(t, network, run.stores[own])
    season = season_rows(t.positions, network.season)
    there = network.known[rows] & np.isfinite(copies)
    C = np.where(there, (copies - offsets @ season) / network.scale, 0.0)
    information, vector = network.without(Own(rows, C, there))
    known = network.known.copy()
    known[rows] = False
    others = network.late.where(~np.isin(network.late.rows, rows))
    z = network.z - loadings.released(C, network.weights[rows], network.phi[rows], network.numbers)
    bare = replace(network, known=known, late=others, z=z).inferred
    np.testing.assert_allclose(information, bare.information, atol=1e-6)
    np.testing.assert_allclose(vector, bare.vector, atol=1e-6)


def changed(how):
    """A coordinator that changes what it tells of late copies."""

    def change(name, data):
        if b"add" not in data[:200]:
            return data
        question = decode(Question, data, PROTOCOL, {})
        if question.kind != "add":
            return data
        body = {key: np.array(value) for key, value in question.body.items()}
        how(body)
        return encode(replace(question, body=body), PROTOCOL)

    return change


def a_copy(body):
    body["copies"][0] += 1e-3


def a_slot(body):
    body["slots"][0] = 310  # of the stretch that is being released


def not_there(body):
    body["present"][:] = 0
    body["sizes"][:] = 0
    for key in ("rows", "slots", "copies", "sigma2"):
        body[key] = body[key][:0]


def foreign(body):
    body["rows"][:] = 0


@pytest.mark.parametrize("how", [a_copy, a_slot, not_there, foreign])
def test_a_coordinator_that_changes_late_copies_is_refused(how):
    with pytest.raises(Refusal) as told:
        night(founded(), 324).carry(change=changed(how))
    assert str(told.value) in (OWN, SITES, "a signature is wrong")


def test_late_copies_are_given_where_the_plan_asks_for_them_only():
    run = night(founded(), 324, plan=PLAIN)
    run.run.plan = LATE  # the coordinator asks all the same
    with pytest.raises(Refusal, match="wrong order"):
        run.carry()


def test_a_store_holds_one_copy_an_instant_in_order_or_late():
    store = CopyStore()
    two = np.array([10, 20]), np.ones(2), np.ones(2), np.ones(2, np.uint64)
    store.append("a", Block(*two, 0.0, 1.0))
    store.append_late("a", Block(np.array([15, 30]), *two[1:], 0.0, 1.0), 25)
    for late in (np.array([5, 10]), np.array([15, 40])):
        with pytest.raises(CopyError, match="one copy"):
            store.append_late("a", Block(late, *two[1:], 0.0, 1.0), 25)
    with pytest.raises(CopyError, match="one copy"):
        store.append("a", Block(np.array([30, 40]), *two[1:], 0.0, 1.0))
    at = np.array([5, 10, 15, 20, 30])
    assert np.isfinite(store.read("a", at)[0]).tolist() == [False, True, True, True, True]
    assert store.arrivals("a", at).tolist() == [5, 10, 25, 20, 25]
    assert store.last("a")[0] == 20


def test_a_store_of_an_earlier_version_is_opened(tmp_path):
    path, marker = tmp_path / "copies.sqlite", tmp_path / "copies.id"
    store = CopyStore.create(path, marker)
    store._db.execute("drop table late")
    store.close()
    again = CopyStore.open(path, marker)
    assert again.arrivals("a", np.array([1])).tolist() == [1]
    again.close()
