"""Two worlds: whatever a site's clean readings are, what it emits follows from its noisy copies.

One world has some clean readings. The other has unrelated ones, with the noise chosen so that the
copies agree. A site that is told the same in both must say the same, byte for byte, and refuse the
same in the same words.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.errors import FLFLError
from flfl.protocol.added_error import AddedError
from flfl.protocol.client import Client, Fitted, Joined, Offered, Published, Refusal, Released
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.owner import Owner
from flfl.protocol.plan import Plan
from worlds import (
    BOX,
    NAMES,
    PLAN,
    TARGET,
    ChosenCopier,
    Federation,
    Hostile,
    Worlds,
    copy_of,
    federation,
    outcome,
    owner,
    secret,
    site_of,
    table,
    unrelated,
)

KINDS = ("vote", "resume", "publish", "release", "late", "add", "begin", "refit", "finish")
N = 240
WILD = (0.0, 0.0, 0.3, 1.0)


def odd(t, seed=0):
    """Readings that no instrument has: the store has their copies, so nobody may notice."""
    rng = np.random.default_rng(seed)
    raw = np.stack(
        [np.full(t.raw.shape[1], 7.0), np.convolve(rng.random(N + 7), np.ones(8), "valid")]
    )
    raw[0, ::9], raw[1, ::11] = [1e300, -1e6][seed % 2], np.nan
    return replace(t, raw=raw)


@pytest.fixture(scope="module")
def earlier():
    """The public state of a finished run of these sites on the first slots."""
    return federation(n=150).carry().network


def natural(state):
    """What an honest coordinator could ask now."""
    if isinstance(state, Fitted):
        return ("refit", "publish", "publish", "finish")
    known = {
        Joined: ("publish", "vote", "resume"), Published: ("release",), Offered: ("add",),
        Released: ("late", "begin") if state.run.plan.late else ("begin",),
    }  # fmt: skip
    return known.get(type(state), KINDS)


def play(worlds, moves, seed, earlier):
    """A coordinator that mostly keeps to the order, and makes up what it can."""
    rng = np.random.default_rng(seed)
    enemy = Hostile(rng, worlds.one, N, earlier)
    for pick, wild in moves:
        usual = natural(worlds.one.program.state)
        kind = KINDS[pick % len(KINDS)] if pick >= 40 else usual[pick % len(usual)]
        enemy.hear(worlds.tell(enemy.ask(kind, wild)))
    return enemy.answered


schedules = st.lists(st.tuples(st.integers(0, 50), st.sampled_from(WILD)), min_size=3, max_size=14)


@pytest.mark.parametrize("units", [("none", 0), ("sqrt", 0), ("log1p", 24)])
@settings(max_examples=40)
@given(moves=schedules, seed=st.integers(0, 2**32))
def test_a_hostile_coordinator_gets_the_same_bytes(earlier, units, moves, seed):
    plan = replace(PLAN, transform=units[0], season=units[1], late=True)
    mine = table(n=N, missing=0.05)  # some readings came after the earlier run
    worlds = Worlds.of(mine, unrelated(mine, units), "noise", plan, earlier=earlier)
    play(worlds, moves, seed, earlier)


@pytest.mark.parametrize("added", [AddedError(), AddedError(units=3.0), AddedError(0.25)])
@settings(max_examples=30)
@given(moves=schedules, seed=st.integers(0, 2**32))
def test_so_does_one_where_the_copies_were_made_earlier(earlier, added, moves, seed):
    """Whatever the readings are by now: the store has the copies, the vote and the scales."""
    plan = replace(PLAN, transform=None, season=None, period=24)
    mine = table(n=N)
    worlds = Worlds.of(mine, odd(mine, seed), "store", plan, added, earlier=earlier)
    play(worlds, moves, seed, earlier)


def test_the_schedules_get_somewhere(earlier):
    """The hostile coordinator is not refused all the time: it sees every kind of answer."""
    mine, answered, refused, second = table(n=N, missing=0.05), Counter(), set(), 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        moves = [(int(rng.integers(50)), float(rng.choice(WILD))) for _ in range(14)]
        plan = replace(PLAN, late=True)
        worlds = Worlds.of(mine, unrelated(mine, ("none", 0)), "noise", plan, earlier=earlier)
        heard = play(worlds, moves, seed, earlier)
        answered.update(heard)
        second += heard.count("publish") > 1
        refused |= {x for x in worlds.heard if isinstance(x, str)}
    assert set(answered) == set(KINDS)
    assert answered["begin"] > 20
    assert second >= 8  # a second stretch of slots, after a fit
    assert len(refused) >= 6


# --- honest runs, reruns, warm starts, dropouts


def replayed(run, theirs, like, store=None, plan=PLAN):
    """What the target says in the other world when it is told what it was told in a run."""
    copier = ChosenCopier(secret(TARGET), store or CopyStore(), like)
    site = site_of(owner(theirs, copier=copier), plan, secure=run.secure, earlier=run.earlier)
    return [outcome(site, data) for data in run.questions()]


def said(run):
    return [answer for name, answer in run.said if name == TARGET]


@pytest.mark.parametrize("secure", [True, False])
def test_honest_runs_reruns_and_warm_starts(secure):
    units, mine = ("none", 0), table(n=440)
    theirs = unrelated(mine, units)
    tables = {name: table(name, n=440) for name in NAMES}
    run = Federation(tables, secure=secure).carry()
    assert run.traffic.exchanges["publish"] == 2  # a pilot came first
    store = run.stores[TARGET]
    assert replayed(run, theirs, store) == said(run)

    again = Federation(tables, secure=secure, stores=run.stores).carry()
    if not secure:
        assert said(again) == said(run)  # masks and signatures aside, a rerun says what the run did
    site = site_of(owner(replace(theirs, raw=theirs.raw**2), store), secure=secure)
    assert [outcome(site, data) for data in again.questions()] == said(again)

    longer = {name: table(name, n=500) for name in NAMES}
    before = copy_of(store, mine)
    night = Federation(longer, secure=secure, stores=run.stores, earlier=run.network).carry()
    other = unrelated(longer[TARGET], units)
    other.raw[:, :440] = theirs.raw[:, ::-1]
    other = unrelated(replace(other, raw=other.raw), units, seed=5)
    assert replayed(night, other, store, before) == said(night)
    kinds = ("resume", "publish", "release", "begin", "finish")
    assert night.traffic.exchanges == dict.fromkeys(kinds, 1)


@settings(max_examples=10)
@given(who=st.sampled_from([name for name in NAMES if name != TARGET]), when=st.integers(0, 60))
def test_dropouts(who, when):
    run = federation()
    with suppress(FLFLError):  # too few are left; what was said until then counts
        run.carry(lambda name, number: name == who and number >= when)
    theirs = unrelated(table(n=N), ("none", 0))
    assert replayed(run, theirs, run.stores[TARGET]) == said(run)


def damaged(questions, seed):
    """Messages out of order, twice, left out, and with some bytes changed."""
    rng = np.random.default_rng(seed)
    out = []
    for data in questions:
        fate = rng.integers(8)
        if fate == 0:
            continue
        if fate == 1:
            wrong = bytearray(data)
            wrong[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            out.append(bytes(wrong))
        out.append(data)
        if fate == 2:
            out.insert(int(rng.integers(len(out))), data)
    return out


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_messages_that_were_damaged_doubled_or_left_out(seed):
    run = RECORDED or RECORDED.append(federation().carry()) or RECORDED
    questions, store = damaged(run[0].questions(), seed), run[0].stores[TARGET]
    mine = table(n=N)
    sites = [site_of(owner(mine, store), secure=True)]
    sites.append(site_of(owner(unrelated(mine, ("none", 0)), store), secure=True))
    one, other = ([outcome(site, data) for data in questions] for site in sites)
    assert one == other


RECORDED = []


# --- controls: the harness sees a leak


class CleanCentre(Owner):
    """Centres its copies on its clean readings: one number that does not come from copies."""

    def copy(self, *arguments, **options):
        out = super().copy(*arguments, **options)
        return replace(out, copies=out.copies - self.table.raw[:, :1])


class CleanScale(Owner):
    """Publishes its error in time with all digits."""

    def copy(self, *arguments, **options):
        out = super().copy(*arguments, **options)
        return replace(out, error=out.error * (1 + 1e-12 * self.table.raw[:, 3]))


class CleanPresence(Owner):
    """Stays away on days when its readings are high."""

    def copy(self, *arguments, **options):
        out = super().copy(*arguments, **options)
        high = self.table.raw[:, 50] > 30
        return replace(out, error=np.where(high, 0.0, out.error))


class CleanReason(Client):
    """Says in a refusal what it has read."""

    def answer(self, kind, body):
        try:
            return super().answer(kind, body)
        except Refusal as error:
            last = self.owner.table.raw[0, -1]
            raise FLFLError(f"{error}; the last reading was {last}") from None


def in_order(worlds):
    """One stretch from the first question to one too many."""
    enemy = Hostile(np.random.default_rng(0), worlds.one, N)
    for kind in ("publish", "release", "begin", "refit", "finish", "refit"):
        enemy.hear(worlds.tell(enemy.ask(kind)))


def far(t):
    return replace(t, raw=unrelated(t, ("none", 0)).raw / 1e3)


@pytest.mark.parametrize("seam", ["noise", "store"])
@pytest.mark.parametrize(
    "leak",
    [{"owner_type": CleanCentre}, {"owner_type": CleanScale}, {"owner_type": CleanPresence},
     {"client_type": CleanReason}],
)  # fmt: skip
def test_control_one_clean_number_in_a_message_is_seen(leak, seam):
    mine = table(n=N)
    theirs = far(mine) if seam == "store" else unrelated(mine, ("none", 0))
    theirs = replace(theirs, raw=theirs.raw + (seam == "noise") * -25.0)
    worlds = Worlds.of(mine, theirs, seam, **leak)
    with pytest.raises(AssertionError, match="the worlds differ"):
        in_order(worlds)


def test_control_without_the_leak_the_same_questions_pass():
    mine = table(n=N)
    worlds = Worlds.of(mine, far(mine), "store")
    in_order(worlds)
    assert [isinstance(x, bytes) for x in worlds.heard] == [True] * 5 + [False]


# --- what an owner lets out at all


values = st.sampled_from([0.0, 1.0, -3.0, 1e-300, 1e-20, 1e12, 1e30, 1e308, np.inf, np.nan, 5e-324])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    spikes=st.lists(values, max_size=8),
    level=values,
    size=st.sampled_from([0.0, 1e-40, 1e-12, 1.0, 1e15, 1e200]),
    missing=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    transform=st.sampled_from(["none", "sqrt", "log1p"]),
    added=st.sampled_from(["0", "1", "0.3", "2 ug", "1e200 ug", "1e-200 ug"]),
)
def test_no_reading_makes_a_site_fail(seed, spikes, level, size, missing, transform, added):
    """An error that depends on readings would tell of them: there is none, whatever they are."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        raw = level + size * walk(rng)
    raw[rng.integers(3, size=len(spikes)), rng.integers(150, size=len(spikes))] = spikes
    made = replace(table(m=3, n=150, missing=missing), raw=raw)
    site = site_of(
        owner(made, added=AddedError.parse(added)),
        Plan(transform=transform, period=24, rank=3, rounds=2, box=BOX),
    )
    enemy = Hostile(rng, site, 150)
    for kind in ("vote", "publish", "release", "begin", "refit", "finish"):
        over = {"start": 0, "stop": 150, "units": 0} if kind == "publish" else {}
        answer = outcome(site, enemy.ask(kind, **over))
        assert isinstance(answer, bytes), (kind, answer)
        enemy.hear(answer)


def walk(rng):
    return rng.standard_normal((3, 150)).cumsum(axis=1) + rng.standard_normal((3, 150))


def test_the_vote_is_cast_once():
    """Votes on many plans would be as many tests of the readings: a site has one vote, for ever."""
    mine, store = table(n=N), CopyStore()
    plans = [replace(PLAN, transform=None, season=None, period=p) for p in (24, 12, 7, 0)]
    first = owner(mine, store).vote(plans[0].units())
    for plan in plans:
        made = [
            Owner(t, Copier(secret(TARGET), store), AddedError()).vote(plan.units())
            for t in (mine, odd(mine), replace(mine, raw=-mine.raw))
        ]
        assert len({(out.vote, out.negative) for out in made}) == 1
        assert plan.units()[made[0].vote][0] == plans[0].units()[first.vote][0]
