"""What a site refuses, and that it refuses with a code: no message makes it fail otherwise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.errors import InputError
from flfl.protocol.client import HANDLERS, REFUSALS, Fitted, Refusal, bound
from flfl.protocol.messages import Question, decode, encode
from flfl.protocol.owner import Outgoing
from flfl.protocol.schema import (
    FACT_FIELDS,
    PROTOCOL,
    network_from_arrays,
    network_to_arrays,
    pack_text,
    to_words,
)
from worlds import (
    NAMES,
    PLAN,
    Federation,
    Hostile,
    federation,
    outcome,
    owner,
    site_of,
    table,
)

N = 240
BAD_PARTS = ("ProtocolError: ", "ProtocolError: ")


def questions_of(run):
    return [decode(Question, data, PROTOCOL, {}) for data in run.questions()]


@pytest.fixture(scope="module")
def honest():
    """Every question of an honest run with a pilot, and of the night after it."""
    run = federation(n=440, secure=False).carry()
    tables = {name: table(name, n=480) for name in NAMES}
    night = Federation(tables, secure=False, earlier=run.network).carry()
    return {"run": questions_of(run), "night": questions_of(night), "history": run.network}


def fresh(which, signed=False, history=None):
    made = owner(table(n=440 if which == "run" else 480))
    return site_of(made, signed=signed, earlier=history)


def told(site, questions):
    for question in questions:
        outcome(site, encode(question, PROTOCOL))
    return site


def is_refusal(answer):
    return isinstance(answer, str) and (
        answer.removeprefix("Refusal: ") in REFUSALS or answer.startswith(BAD_PARTS)
    )


def changed(question, **arrays):
    body = {k: np.array(v) for k, v in question.body.items()} | arrays
    return encode(replace(question, body=body), PROTOCOL)


# --- messages without sense


NUMBERS = (0.0, 1.0, -1.0, 1e-300, 1e30, -1e31, 1e100, 1e308, -1e308, 2.5, 5e-324)
WHOLE = (0, 1, 2, -1, 3, 64, 255, 256, -(2**63), 2**63 - 1, 2**62)


@st.composite
def made_up(draw):
    """Any well-formed question, from empty arrays to the largest numbers there are."""
    kind = draw(st.sampled_from(sorted(PROTOCOL)))
    body, length = {}, draw(st.integers(0, 4))
    for name, part in PROTOCOL[kind].question.items():
        pick = st.one_of(st.just(length), st.integers(0, 5))
        shape = tuple(draw(pick) if isinstance(d, str) else d for d in part.shape)
        values = st.sampled_from(NUMBERS if part.type == "float" else WHOLE)
        some = draw(st.lists(values, min_size=1, max_size=6))
        body[name] = np.resize(np.array(some, "f8" if part.type == "float" else "i8"), shape)
    return kind, body


@settings(max_examples=70)
@given(questions=st.lists(made_up(), max_size=3), at=st.integers(0, 14), night=st.booleans())
def test_whatever_it_is_asked_it_answers_or_refuses(honest, questions, at, night):
    which = "night" if night else "run"
    site = told(fresh(which, history=honest["history"]), honest[which][:at])
    for number, (kind, body) in enumerate(questions, 100):
        answer = outcome(site, encode(Question("run", number, kind, "*", body), PROTOCOL))
        assert isinstance(answer, bytes) or is_refusal(answer), answer


def spoilt(array, rng):
    """One array of an honest message, changed."""
    array, real = np.array(array), array.dtype.kind == "f"
    value = rng.choice(NUMBERS if real else np.array(WHOLE))
    how = rng.integers(5)
    if how == 0 and array.size:
        array.flat[rng.integers(array.size)] = value
    elif how == 1:
        array[...] = value
    elif how == 2 and array.ndim:
        array = array[: rng.integers(len(array) + 1)]
    elif how == 3 and array.ndim:
        array = np.concatenate([array, array[:1]])
    elif real:
        array = array * rng.choice([-1.0, 0.0, 1e-30, 1e6, 1e20])
    return array


@settings(max_examples=70)
@given(seed=st.integers(0, 2**32), night=st.booleans())
def test_so_it_does_when_one_part_of_an_honest_question_is_changed(honest, seed, night):
    which, rng = "night" if night else "run", np.random.default_rng(seed)
    at = int(rng.integers(len(honest[which])))
    question = honest[which][at]
    name = str(rng.choice(sorted(question.body)))
    site = told(fresh(which, history=honest["history"]), honest[which][:at])
    before = site.program.state
    answer = outcome(site, changed(question, **{name: spoilt(question.body[name], rng)}))
    assert isinstance(answer, bytes) or is_refusal(answer), (question.kind, name, answer)
    if not isinstance(answer, bytes):
        assert site.program.state is before  # it stands where it stood
        later = replace(question, number=question.number + 1)
        assert isinstance(outcome(site, encode(later, PROTOCOL)), bytes)


# --- each refusal


def refuses(site, data, code):
    assert outcome(site, data) == f"Refusal: {code}"
    assert code in REFUSALS


@pytest.mark.parametrize("at", range(9))
def test_a_wrong_order(honest, at):
    asked = honest["run"]
    site = told(fresh("run"), asked[:at])
    kinds = {question.kind: question for question in asked}
    expected = {asked[at].kind, "vote", "publish"} if at == 0 else {asked[at].kind}
    if isinstance(site.program.state, Fitted):
        expected |= {"refit", "finish", "publish"}
    for kind in set(kinds) - expected:
        question = replace(kinds[kind], number=50 + at)
        refuses(site, encode(question, PROTOCOL), "the question comes in a wrong order")
        at += 1


@pytest.mark.parametrize(("start", "stop"), [(1, 100), (0, 0), (0, 441), (-1, 50), (50, 20)])
def test_slots_that_are_not_next(honest, start, stop):
    question = honest["run"][0]
    data = changed(question, start=np.array(start), stop=np.array(stop))
    refuses(fresh("run"), data, "these slots are not the next ones")


@pytest.mark.parametrize("units", [-1, 1, 2**62])
def test_a_transform_that_is_not_in_the_plan(honest, units):
    data = changed(honest["run"][0], units=np.array(units))
    refuses(fresh("run"), data, "this transform and season were not agreed")


@pytest.mark.parametrize("name", FACT_FIELDS)
def test_its_own_facts_in_another_shape_than_it_gave_them(honest, name):
    site = told(fresh("run"), honest["run"][:1])
    question = honest["run"][1]
    array = np.array(question.body[name])
    row = 2  # the first of its own: sites come in order of their names
    array[row] = array[row] * 2 + (0 if name == "known" else 1)
    answer = outcome(site, changed(question, **{name: array}))
    assert answer == f"Refusal: {REFUSALS[4]}"


def test_sites_that_do_not_fit(honest):
    question, code = honest["run"][1], "the sites' facts do not fit"
    body = question.body
    wrong = {
        "sites of no name": {"names": pack_text("a\nb\nc")},
        "twice the same": {"names": pack_text("a\nb\nb\nd")},
        "not in order": {"names": pack_text("b\na\nc\nd")},
        "without it": {"names": pack_text("a\nc\nd\ne")},
        "no text": {"names": np.array([200, 10, 255, 255, 10, 1, 10, 2])},
        "sizes below zero": {"sizes": np.array([4, -2, 4, 2])},
        "sizes that overflow": {"sizes": np.array([2**62, 2**62, 2**62, 2**62 + 8])},
        "fewer signatures": {"signatures": body["signatures"][:3]},
        "a sensor twice": {"sensors": np.repeat(body["sensors"][:1], 8, axis=0)},
        "an error below zero": {"error": -body["error"]},
        "an error without end": {"error": np.full(8, 1e300)},
        "gaps of another length": {"known": body["known"][:, :-1]},
    }
    for name, arrays in wrong.items():
        site = told(fresh("run"), honest["run"][:1])
        assert outcome(site, changed(question, **arrays)) == f"Refusal: {code}", name


@pytest.mark.parametrize("what", ["shape", "present", "absent", "huge"])
def test_sums_that_do_not_fit(honest, what):
    site = told(fresh("run"), honest["run"][:2])
    question = honest["run"][2]
    z, present = np.array(question.body["z"]), np.array(question.body["present"])
    arrays = {
        "shape": {"z": z[:-1]},
        "present": {"present": 2 * present},
        "absent": {"present": present * (np.arange(4) != 1)},
        "huge": {"z": np.full_like(z, 1e12)},
    }[what]
    refuses(site, changed(question, **arrays), "the sums do not fit")


@pytest.mark.parametrize("what", ["own", "own r", "shape", "negative", "huge"])
def test_loadings_that_do_not_fit(honest, what):
    site = told(fresh("run"), honest["run"][:3])
    question = honest["run"][3]
    P, r = np.array(question.body["P"]), np.array(question.body["r"])
    own = np.isin(np.arange(8), (2, 3))
    arrays = {
        "own": {"P": P * np.where(own, 1.01, 1)[:, None]},
        "own r": {"r": r * np.where(own, 1.01, 1)},
        "shape": {"P": P[:, :-1]},
        "negative": {"r": -r},
        "huge": {"P": P * np.where(own, 1, 1e200)[:, None]},
    }[what]
    refuses(site, changed(question, **arrays), "the loadings do not fit")


# --- signatures, and another history


def signed_run(change):
    """A signed run in which one site is told something else; returns what ended it."""
    run = federation(secure=False)
    run.run.verify = None  # a coordinator that lies does not look either
    with pytest.raises(Refusal) as caught:
        run.carry(change=change)
    return str(caught.value)


def alter(kind, name, how, who="c"):
    """Change one array of a question on its way to one site."""

    def change(to, data):
        question = decode(Question, data, PROTOCOL, {})
        if to != who or question.kind != kind:
            return data
        return changed(question, **{name: how(np.array(question.body[name]))})

    return change


def bumped(row):
    def how(array):
        array[row] += 1
        return array

    return how


@pytest.mark.parametrize(
    ("kind", "name", "how"),
    [
        ("release", "variance", bumped(0)),  # a's facts, changed on the way
        ("release", "signatures", lambda array: array[[1, 0, 2, 3]]),
        ("begin", "z", bumped(0)),  # c sees other sums than the others
        ("begin", "present", lambda array: array * [0, 1, 1, 1]),
        ("refit", "P", bumped(0)),
        ("refit", "signatures", bumped(0)),
        ("finish", "r", bumped(1)),
    ],
)
def test_what_others_did_not_publish_or_did_not_see_ends_the_run(kind, name, how):
    assert signed_run(alter(kind, name, how)) == "a signature is wrong"


def resume(network, **changed):
    body = {"digest": to_words(network.digest), "keep": 0, "first": 0, "fit": 1} | changed
    return encode(Question("run", 1, "resume", "*", body), PROTOCOL)


def test_sites_that_keep_different_histories_find_out():
    run = federation(n=200).carry()
    tables = {name: table(name, n=240) for name in NAMES}
    night = Federation(tables, secure=False, stores=run.stores, earlier=run.network)
    other = replace(run.network, scale=1.5 * run.network.scale)
    night.sites["b"] = site_of(owner(tables["b"], run.stores["b"]), earlier=other)
    with pytest.raises(Refusal, match="the history is not the one it saw"):
        night.carry()


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0.0},
        {"r": -1},
        {"site": 9},
        {"units_stop": -1},
        {"sensors": 0},
        {"names": ("b", "a")},
        {"transform": "cube"},
        {"stops": np.array([150, 150])},
        {"first": -1},
    ],
)
def test_a_history_that_cannot_be_is_refused(wrong):
    network = federation(n=150, secure=False).carry().network
    name, value = wrong.popitem()
    if name in ("r", "site", "units_stop", "sensors"):
        value = np.full_like(getattr(network, name), value)
    with pytest.raises(InputError, match="damaged"):
        network_from_arrays(network_to_arrays(replace(network, **{name: value})), network.plan)


@pytest.mark.parametrize(
    "changed", [{"keep": -1}, {"keep": 9, "first": 8}, {"first": 301}, {"fit": 3}, {"fit": -1}]
)
def test_an_addition_that_cannot_be_is_refused(changed):
    network = federation(n=150, secure=False).carry().network
    site = site_of(owner(table(n=N)), earlier=network)
    refuses(site, resume(network, **changed), "the history is not the one it saw")


def test_a_longer_history_than_its_own_is_refused():
    network = federation(n=300, secure=False).carry().network
    site = site_of(owner(table(n=N)), earlier=network)
    refuses(site, resume(network), "the history is not the one it saw")


# --- what handlers are given


def test_handlers_are_given_copies_and_no_owner():
    """The signature shows it: an outgoing, a state and a question; no clean reading among them."""
    site = site_of(owner(table()))
    enemy = Hostile(np.random.default_rng(0), site, N)
    clean = set(table().raw[table().known].tolist())
    for kind in ("publish", "release", "begin", "refit"):
        enemy.hear(outcome(site, enemy.ask(kind)))
        client = site.program
        given = [vars(client.outgoing), vars(client.state)]
        arrays = [x for part in given for x in part.values() if isinstance(x, np.ndarray)]
        assert all(isinstance(x, (np.ndarray, int, bool)) for x in vars(client.outgoing).values())
        assert not clean & {value for array in arrays for value in np.ravel(array).tolist()}
    assert set(HANDLERS) == set(PROTOCOL)
    assert isinstance(site.program.outgoing, Outgoing)


def open_left(site):
    return bound(site.program.outgoing, site.program.state)


def test_the_bound_after_a_pilot_follows_from_copies():
    site = site_of(owner(table()))
    enemy = Hostile(np.random.default_rng(0), site, N)
    assert open_left(site) is None
    for kind in ("publish", "release", "begin"):
        over = {"start": 0, "stop": 120, "units": 0} if kind == "publish" else {}
        enemy.hear(outcome(site, enemy.ask(kind, **over)))
    first = open_left(site)
    site.program.owner.table.raw[:] = -1e3
    np.testing.assert_array_equal(open_left(site), first)
    assert (first > 0).all()
    few = replace(PLAN, rank=1)
    site = site_of(owner(table()), few)
    enemy = Hostile(np.random.default_rng(0), site, N)
    for kind in ("publish", "release", "begin"):
        over = {"start": 0, "stop": 20, "units": 0} if kind == "publish" else {}
        enemy.hear(outcome(site, enemy.ask(kind, **over)))
    assert np.isinf(open_left(site)).all()  # too few copies say nothing
