"""Parcels over Flower's grid: lost, repeated, forged, and from nodes that come and go."""

import json
import logging
import time
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.app import Message as FlowerMessage
from hypothesis import given
from hypothesis import strategies as st

import grid as flower
from flfl.datasets.synthetic import synthesize
from flfl.errors import FLFLError
from flfl.protocol.journal import DurableSite
from flfl.secagg import Identity, Roster
from flfl.transport import local
from flfl.transport.dispatcher import Patience
from flfl.transport.flower import GridLink, client_app, seal, unseal
from flfl.transport.link import AT_HOME, Message
from flfl.transport.parcels import (
    Parcel,
    ParcelError,
    answer,
    check_reply,
    question,
    read_parcel,
    unable,
)
from grid import FakeGrid, Node
from parties import assert_same_network, parties

FACTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)
MESSAGES = st.builds(Message, st.text(), st.text(), FACTS, st.binary(max_size=50))


@pytest.fixture(scope="module")
def network():
    return synthesize(9, 160, rank=2, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def wanted(network):
    """The same run in one process."""
    coordinator, sites, traffic, run = parties(*network, n_sites=3, secure=True)
    local.run(coordinator, sites, traffic)
    return run.network, traffic


def check(run, sites, wanted):
    assert_same_network(run.network, wanted[0])
    for site in sites:
        assert site.program.finished
        assert_same_network(site.program.state.network, wanted[0])


def faulty(network, folder, grid, patience=None):
    """A run whose sites remember, over a grid with faults."""
    coordinator, sites, traffic, run = parties(*network, n_sites=3, secure=True)
    durable = [DurableSite(site, folder / site.name) for site in sites]
    try:
        flower.run(coordinator, durable, traffic, grid=grid, patience=patience)
    finally:
        for site in durable:
            site.close()
    return run, sites


def test_the_same_bits_and_bytes_as_in_process(network, wanted):
    coordinator, sites, traffic, run = parties(*network, n_sites=3, secure=True)
    grid = FakeGrid()
    flower.run(coordinator, sites, traffic, grid=grid)
    check(run, sites, wanted)
    one = wanted[1]
    assert (traffic.bytes_up, traffic.bytes_down) == (one.bytes_up, one.bytes_down)
    # One parcel for each question and site, one to find out who is who.
    assert len(grid.parcels) == sum(traffic.messages_down.values()) + 3


def every(count, fault):
    """This becomes of every so-many-th parcel."""
    seen = []

    def becomes(number, parcel):
        seen.append(number)
        return fault if len(seen) % count == 0 else None

    return becomes


@pytest.mark.parametrize("fault", ["lost", "unanswered", "error"])
def test_what_is_lost_is_asked_again(network, wanted, tmp_path, monkeypatch, fault):
    monkeypatch.setattr("flfl.transport.flower._RETRY", 0.01)
    grid = FakeGrid(faults=every(9, fault))
    run, sites = faulty(network, tmp_path, grid, Patience(0.2, misses=100, finish_within=60))
    check(run, sites, wanted)


@pytest.mark.parametrize("refusal", [[], [""], [None]])
def test_a_parcel_that_the_superlink_does_not_take_is_sent_again(
    network, wanted, tmp_path, monkeypatch, refusal
):
    monkeypatch.setattr("flfl.transport.flower._RETRY", 0.01)

    class Full(FakeGrid):
        pushed = 0

        def push_messages(self, messages):
            Full.pushed += 1
            return refusal if Full.pushed % 10 == 0 else super().push_messages(messages)

    run, sites = faulty(network, tmp_path, Full())
    check(run, sites, wanted)


def test_a_node_that_comes_again_under_another_number_is_recognised(network, wanted, tmp_path):
    def moves(number, parcel):
        moves.parcels += 1
        if moves.parcels == 20:
            # It has the parcel, dies, and is started again.
            grid.nodes[number + 500] = grid.nodes.pop(number)
            return "lost"
        if moves.parcels == 35:
            # The same number, as with a key of its own, but another process.
            grid.nodes[number] = replace(grid.nodes[number], came="later")
            return "lost"
        return None

    moves.parcels = 0
    grid = FakeGrid(faults=moves)
    run, sites = faulty(network, tmp_path, grid)
    check(run, sites, wanted)
    assert max(grid.nodes) > 500


def test_the_last_node_of_a_site_is_its_home_and_the_first_when_that_goes(tmp_path):
    identities = {name: Identity.generate() for name in "abc"}
    roster = Roster({name: identity.public for name, identity in identities.items()})
    heard = []

    class Site:
        name, network, identity = "a", "n", identities["a"]

        def handle(self, come, link):
            heard.append([message.message.kind for message in come])
            link.reply(Message("answer"))

    def node(came):
        return Node(client_app(lambda where, parcel: answer(Site(), parcel)), {}, came)

    grid = FakeGrid({1: node("first")})
    link = GridLink(grid, "n", roster, poll=0.0, look=0.0)
    link.announce(Message("plan"))
    assert link.next(1).status["state"] == "here"
    assert link.next(1).message == Message("answer")
    grid.nodes[2] = node("second")
    assert link.next(1).status["boot"] == "2 second"
    link.next(1)
    link.tell("a", Message("question", "", {"n": 1}))
    assert link.next(1).status["boot"] == "2 second"
    link.next(1)
    del grid.nodes[2]
    assert link.next(1).status["state"] == "gone"
    link.tell("a", Message("question", "", {"n": 2}))
    assert link.next(1).status["boot"] == "1 first"
    # Each parcel holds what a process needs that knows nothing.
    assert heard[-1] == ["plan", "question"]


@pytest.fixture
def pair():
    """A link to one node of site a, and what becomes of parcels is up to the test."""
    identities = {name: Identity.generate() for name in "abc"}
    roster = Roster({name: identity.public for name, identity in identities.items()})

    class Site:
        name, network, identity = "a", "n", identities["a"]

        def handle(self, come, link):
            link.reply(Message("answer"))

    app = client_app(lambda where, parcel: answer(Site(), parcel))
    grid = FakeGrid({1: Node(app, {}, "first")})
    return GridLink(grid, "n", roster, poll=0.001, look=0.0), grid


def answered(link, seconds):
    """Whether an answer comes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        heard = link.next(0.05)
        if heard is not None and heard.message is not None:
            return True
    return False


def test_a_first_parcel_that_is_lost_is_sent_again(pair, monkeypatch):
    monkeypatch.setattr("flfl.transport.flower._AGAIN", 0.2)
    link, grid = pair
    fates = iter(["lost", "lost"])
    grid.faults = lambda number, parcel: next(fates, None)
    assert not answered(link, 0.3)
    assert answered(link, 5)


def test_one_lost_and_one_crashed(pair, monkeypatch):
    monkeypatch.setattr("flfl.transport.flower._RETRY", 0.01)
    link, grid = pair
    assert answered(link, 5)
    fates = iter(["lost", "error"])
    grid.faults = lambda number, parcel: next(fates, None)
    link.tell("a", Message("question"))
    assert not answered(link, 0.1)
    link.tell("a", Message("question"))
    assert answered(link, 10)


def test_goodbye_waits_for_a_sites_home_only(pair):
    link, grid = pair
    grid.nodes[2] = grid.nodes[1]
    link.announce(Message("plan"))
    while answered(link, 0.1):
        pass
    link.announce(Message("ended"))
    start = time.monotonic()
    link.close()
    assert time.monotonic() - start < 5
    assert unseal(grid.parcels[-1].content).messages == (Message("ended"),)


def test_a_reply_that_flower_itself_cannot_read_costs_nobody_else(
    network, wanted, tmp_path, monkeypatch
):
    monkeypatch.setattr("flfl.transport.flower._RETRY", 0.01)

    class Spoilt(FakeGrid):
        pulls = 0

        def pull_messages(self, keys):
            replies = super().pull_messages(keys)
            Spoilt.pulls += bool(replies)
            if replies and Spoilt.pulls % 9 == 0:
                raise ValueError("Unknown object type")
            return replies

    run, sites = faulty(network, tmp_path, Spoilt())
    check(run, sites, wanted)


def test_a_grid_that_always_fails_is_given_up(pair, monkeypatch):
    monkeypatch.setattr("flfl.transport.flower._RETRY", 0.001)
    monkeypatch.setattr("flfl.transport.flower._GIVE_UP", 0.1)
    link, grid = pair

    def broken(keys):
        raise ConnectionError("the SuperLink is gone")

    grid.pull_messages = broken
    with pytest.raises(ConnectionError):
        link.next(20)


class TestForgery:
    """What nodes, or the SuperLink, could make of replies."""

    @pytest.fixture
    def names(self):
        return {name: Identity.generate() for name in ("a", "b", "c")}

    @pytest.fixture
    def roster(self, names):
        return Roster({name: identity.public for name, identity in names.items()})

    def site(self, identity, name="a"):
        class Site:
            network = "n"

            def handle(self, come, link):
                link.reply(Message("answer", "run", {}, b"1"))

        Site.identity, Site.name = identity, name
        return Site()

    def test_an_honest_reply_is_taken(self, names, roster):
        asked = question("n", [Message("plan")])
        assert check_reply(asked, answer(self.site(names["a"]), asked), roster) == ("a", {})

    def test_another_sites_name_a_stranger_an_old_reply_a_changed_one(self, names, roster):
        asked = question("n", [])
        honest = answer(self.site(names["a"]), asked)
        changed = Parcel(honest.header, (Message("answer", "run", {}, b"2"),))
        shorter = Parcel(honest.header, ())
        renamed = Parcel({**honest.header, "site": "b"}, honest.messages)
        status = Parcel({**honest.header, "status": '{"problem": "x"}'}, honest.messages)
        unsigned = Parcel({"site": "a", "status": "{}"}, honest.messages)
        other = answer(self.site(names["b"], "a"), asked)
        stranger = answer(self.site(Identity.generate(), "d"), asked)
        old = answer(self.site(names["a"]), question("n", []))
        for forged in (changed, shorter, renamed, status, unsigned, other, stranger, old):
            with pytest.raises(ParcelError):
                check_reply(asked, forged, roster)

    def test_a_parcel_of_another_network_is_not_answered(self, names):
        with pytest.raises(ParcelError, match="network 'm'"):
            answer(self.site(names["a"]), question("m", []))

    def test_a_node_without_a_key_is_not_heard(self, roster, caplog):
        grid = FakeGrid({1: Node(client_app(lambda where, parcel: Parcel({"site": "a"})), {})})
        link = GridLink(grid, "n", roster, poll=0.0, look=0.0)
        with caplog.at_level(logging.WARNING, "flfl"):
            assert link.next(0.05) is None
        assert link.dropped["node 1"] == 1


def test_a_lying_node_spoils_nothing_and_the_site_is_heard_when_it_is_back(
    network, wanted, tmp_path, monkeypatch
):
    """Positive control of the test above, in a whole run: forged replies cost time, no bits."""
    monkeypatch.setattr("flfl.transport.flower._RETRY", 0.01)
    lies = iter([True] * 3 + [False] * 10_000)

    class Liar(FakeGrid):
        def pull_messages(self, keys):
            replies = super().pull_messages(keys)
            for reply in replies:
                parcel = unseal(reply.content)
                if parcel.messages and next(lies):
                    data = bytearray(parcel.messages[0].data)
                    data[len(data) // 2] ^= 1
                    first = replace(parcel.messages[0], data=bytes(data))
                    lie = seal(Parcel(parcel.header, (first, *parcel.messages[1:])))
                    reply.content.clear()
                    reply.content.update(lie)
            return replies

    grid = Liar()
    run, sites = faulty(network, tmp_path, grid)
    check(run, sites, wanted)
    assert not next(lies)


def test_what_goes_wrong_at_a_site_stays_there(caplog):
    def breaks(where, parcel):
        raise ZeroDivisionError("reading 12.5 at station 7")

    def refuses(where, parcel):
        raise FLFLError("/home/owner/readings.csv: line 7")

    for broken in (breaks, refuses):
        parcel = FlowerMessage(seal(question("n", [])), 1, "query.flfl")
        with caplog.at_level(logging.ERROR, "flfl"):
            reply = client_app(broken)(parcel, Context(1, 1, {}, RecordDict(), {}))
        assert not reply.has_error()
        assert unseal(reply.content) == unable()
        assert "12.5" not in str(reply.content)
        assert "readings.csv" not in str(reply.content)
    assert unable().header == {"problem": AT_HOME}
    assert "line 7" in caplog.text


@given(st.lists(MESSAGES, max_size=8), st.dictionaries(st.text(), st.text(), max_size=3))
def test_parcels_come_out_as_they_went_in(messages, header):
    parcel = Parcel(header, tuple(messages))
    assert unseal(seal(parcel)) == parcel


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_what_is_no_parcel_is_refused(head):
    with pytest.raises(ParcelError):
        read_parcel(head, [b""])


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"parcel": ConfigRecord({"head": 1})},
        {"parcel": ConfigRecord({"head": "[{}, []]"})},
        {"parcel": ConfigRecord({"head": "[{}, []]"}), "other": ConfigRecord()},
    ],
)
def test_other_content_is_refused(content):
    with pytest.raises(ParcelError):
        unseal(RecordDict(content))


def test_too_many_messages_and_false_sizes_are_refused():
    nine = Parcel({}, tuple(Message("x") for _ in range(9)))
    with pytest.raises(ParcelError):
        read_parcel(nine.head(), nine.parts())
    one = Parcel({}, (Message("x", data=b"12"),))
    with pytest.raises(ParcelError):
        read_parcel(one.head(), [b"1"])
    with pytest.raises(ParcelError):
        read_parcel(one.head(), [b"12", b""])
