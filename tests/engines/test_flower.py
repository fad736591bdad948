"""Letters over Flower's grid: lost, repeated, forged, and from nodes that come and go."""

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
from flfl.data.synth import synthesize
from flfl.engines import inprocess
from flfl.engines.conduct import Patience
from flfl.engines.flower import GridLink, client_app, seal, unseal
from flfl.engines.letters import (
    AT_HOME,
    Letter,
    LetterError,
    answer,
    check_reply,
    question,
    read_letter,
    unable,
)
from flfl.engines.link import Message
from flfl.errors import FLFLError
from flfl.federation.durable import DurableSite
from flfl.privacy.secure_sum import Identity, Roster
from grid import FakeGrid, Node
from parties import parties

FACTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)
MESSAGES = st.builds(Message, st.text(), st.text(), FACTS, st.binary(max_size=50))


@pytest.fixture(scope="module")
def network():
    return synthesize(9, 120, rank=2, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def wanted(network):
    """The same run in one process."""
    coordinator, sites, ledger, run = parties(*network, n_sites=3, secure=True)
    inprocess.run(coordinator, sites, ledger)
    return run.published.state, [site.program.recover() for site in sites], ledger


def check(run, sites, wanted):
    state, series, _ = wanted
    for name in ("m", "A", "S", "F", "R"):
        np.testing.assert_array_equal(getattr(run.published.state, name), getattr(state, name))
    for site, own in zip(sites, series, strict=True):
        np.testing.assert_array_equal(site.program.recover(), own)


def faulty(network, folder, grid, patience=None):
    """A run whose sites remember, over a grid with faults."""
    coordinator, sites, ledger, run = parties(*network, n_sites=3, secure=True)
    durable = [DurableSite(site, folder / site.name) for site in sites]
    try:
        flower.run(coordinator, durable, ledger, grid=grid, patience=patience)
    finally:
        for site in durable:
            site.close()
    return run, sites


def test_the_same_bits_and_bytes_as_in_process(network, wanted):
    coordinator, sites, ledger, run = parties(*network, n_sites=3, secure=True)
    grid = FakeGrid()
    flower.run(coordinator, sites, ledger, grid=grid)
    check(run, sites, wanted)
    one = wanted[2]
    assert (ledger.bytes_up, ledger.bytes_down) == (one.bytes_up, one.bytes_down)
    # One letter for each question and site, one to find out who is who.
    assert len(grid.letters) == sum(ledger.messages_down.values()) + 3


def every(count, fault):
    """This becomes of every so-many-th letter."""
    seen = []

    def becomes(number, letter):
        seen.append(number)
        return fault if len(seen) % count == 0 else None

    return becomes


@pytest.mark.parametrize("fault", ["lost", "unanswered", "error"])
def test_what_is_lost_is_asked_again(network, wanted, tmp_path, monkeypatch, fault):
    monkeypatch.setattr("flfl.engines.flower._RETRY", 0.01)
    grid = FakeGrid(faults=every(17, fault))
    run, sites = faulty(network, tmp_path, grid, Patience(0.2, misses=100, finish_within=60))
    check(run, sites, wanted)


@pytest.mark.parametrize("refusal", [[], [""], [None]])
def test_a_letter_that_the_superlink_does_not_take_is_sent_again(
    network, wanted, tmp_path, monkeypatch, refusal
):
    monkeypatch.setattr("flfl.engines.flower._RETRY", 0.01)

    class Full(FakeGrid):
        pushed = 0

        def push_messages(self, messages):
            Full.pushed += 1
            return refusal if Full.pushed % 10 == 0 else super().push_messages(messages)

    run, sites = faulty(network, tmp_path, Full())
    check(run, sites, wanted)


def test_a_node_that_comes_again_under_another_number_is_recognised(network, wanted, tmp_path):
    def moves(number, letter):
        moves.letters += 1
        if moves.letters == 40:
            # It has the letter, dies, and is started again.
            grid.nodes[number + 500] = grid.nodes.pop(number)
            return "lost"
        if moves.letters == 60:
            # The same number, as with a key of its own, but another process.
            grid.nodes[number] = replace(grid.nodes[number], came="later")
            return "lost"
        return None

    moves.letters = 0
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

        def attend(self, come, link):
            heard.append([message.message.kind for message in come])
            link.reply(Message("answer"))

    def node(came):
        return Node(client_app(lambda where, letter: answer(Site(), letter)), {}, came)

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
    # Each letter holds what a process needs that knows nothing.
    assert heard[-1] == ["plan", "question"]


@pytest.fixture
def pair():
    """A link to one node of site a, and what becomes of letters is up to the test."""
    identities = {name: Identity.generate() for name in "abc"}
    roster = Roster({name: identity.public for name, identity in identities.items()})

    class Site:
        name, network, identity = "a", "n", identities["a"]

        def attend(self, come, link):
            link.reply(Message("answer"))

    app = client_app(lambda where, letter: answer(Site(), letter))
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


def test_a_first_letter_that_is_lost_is_sent_again(pair, monkeypatch):
    monkeypatch.setattr("flfl.engines.flower._AGAIN", 0.2)
    link, grid = pair
    fates = iter(["lost", "lost"])
    grid.faults = lambda number, letter: next(fates, None)
    assert not answered(link, 0.3)
    assert answered(link, 5)


def test_one_lost_and_one_crashed(pair, monkeypatch):
    monkeypatch.setattr("flfl.engines.flower._RETRY", 0.01)
    link, grid = pair
    assert answered(link, 5)
    fates = iter(["lost", "error"])
    grid.faults = lambda number, letter: next(fates, None)
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
    assert unseal(grid.letters[-1].content).messages == (Message("ended"),)


def test_a_reply_that_flower_itself_cannot_read_costs_nobody_else(
    network, wanted, tmp_path, monkeypatch
):
    monkeypatch.setattr("flfl.engines.flower._RETRY", 0.01)

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
    monkeypatch.setattr("flfl.engines.flower._RETRY", 0.001)
    monkeypatch.setattr("flfl.engines.flower._GIVE_UP", 0.1)
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

            def attend(self, come, link):
                link.reply(Message("answer", "run", {}, b"1"))

        Site.identity, Site.name = identity, name
        return Site()

    def test_an_honest_reply_is_taken(self, names, roster):
        asked = question("n", [Message("plan")])
        assert check_reply(asked, answer(self.site(names["a"]), asked), roster) == ("a", {})

    def test_another_sites_name_a_stranger_an_old_reply_a_changed_one(self, names, roster):
        asked = question("n", [])
        honest = answer(self.site(names["a"]), asked)
        changed = Letter(honest.header, (Message("answer", "run", {}, b"2"),))
        shorter = Letter(honest.header, ())
        renamed = Letter({**honest.header, "site": "b"}, honest.messages)
        status = Letter({**honest.header, "status": '{"problem": "x"}'}, honest.messages)
        unsigned = Letter({"site": "a", "status": "{}"}, honest.messages)
        other = answer(self.site(names["b"], "a"), asked)
        stranger = answer(self.site(Identity.generate(), "d"), asked)
        old = answer(self.site(names["a"]), question("n", []))
        for forged in (changed, shorter, renamed, status, unsigned, other, stranger, old):
            with pytest.raises(LetterError):
                check_reply(asked, forged, roster)

    def test_a_letter_of_another_network_is_not_answered(self, names):
        with pytest.raises(LetterError, match="network 'm'"):
            answer(self.site(names["a"]), question("m", []))

    def test_a_node_without_a_key_is_not_heard(self, roster, caplog):
        grid = FakeGrid({1: Node(client_app(lambda where, letter: Letter({"site": "a"})), {})})
        link = GridLink(grid, "n", roster, poll=0.0, look=0.0)
        with caplog.at_level(logging.WARNING, "flfl"):
            assert link.next(0.05) is None
        assert link.dropped["node 1"] == 1


def test_a_lying_node_spoils_nothing_and_the_site_is_heard_when_it_is_back(
    network, wanted, tmp_path, monkeypatch
):
    """Positive control of the test above, in a whole run: forged replies cost time, no bits."""
    monkeypatch.setattr("flfl.engines.flower._RETRY", 0.01)
    lies = iter([True] * 3 + [False] * 10_000)

    class Liar(FakeGrid):
        def pull_messages(self, keys):
            replies = super().pull_messages(keys)
            for reply in replies:
                letter = unseal(reply.content)
                if letter.messages and next(lies):
                    data = bytearray(letter.messages[0].data)
                    data[len(data) // 2] ^= 1
                    first = replace(letter.messages[0], data=bytes(data))
                    lie = seal(Letter(letter.header, (first, *letter.messages[1:])))
                    reply.content.clear()
                    reply.content.update(lie)
            return replies

    grid = Liar()
    run, sites = faulty(network, tmp_path, grid)
    check(run, sites, wanted)
    assert not next(lies)


def test_what_goes_wrong_at_a_site_stays_there(caplog):
    def breaks(where, letter):
        raise ZeroDivisionError("reading 12.5 at station 7")

    def refuses(where, letter):
        raise FLFLError("/home/owner/readings.csv: line 7")

    for broken in (breaks, refuses):
        letter = FlowerMessage(seal(question("n", [])), 1, "query.flfl")
        with caplog.at_level(logging.ERROR, "flfl"):
            reply = client_app(broken)(letter, Context(1, 1, {}, RecordDict(), {}))
        assert not reply.has_error()
        assert unseal(reply.content) == unable()
        assert "12.5" not in str(reply.content)
        assert "readings.csv" not in str(reply.content)
    assert unable().header == {"problem": AT_HOME}
    assert "line 7" in caplog.text


@given(st.lists(MESSAGES, max_size=8), st.dictionaries(st.text(), st.text(), max_size=3))
def test_letters_come_out_as_they_went_in(messages, header):
    letter = Letter(header, tuple(messages))
    assert unseal(seal(letter)) == letter


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_what_is_no_letter_is_refused(head):
    with pytest.raises(LetterError):
        read_letter(head, [b""])


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"letter": ConfigRecord({"head": 1})},
        {"letter": ConfigRecord({"head": "[{}, []]"})},
        {"letter": ConfigRecord({"head": "[{}, []]"}), "other": ConfigRecord()},
    ],
)
def test_other_content_is_refused(content):
    with pytest.raises(LetterError):
        unseal(RecordDict(content))


def test_too_many_messages_and_false_sizes_are_refused():
    nine = Letter({}, tuple(Message("x") for _ in range(9)))
    with pytest.raises(LetterError):
        read_letter(nine.head(), nine.parts())
    one = Letter({}, (Message("x", data=b"12"),))
    with pytest.raises(LetterError):
        read_letter(one.head(), [b"1"])
    with pytest.raises(LetterError):
        read_letter(one.head(), [b"12", b""])
