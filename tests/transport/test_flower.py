"""The services of a network under Flower: the same bits as one process, whatever happens.

Flower's apps are real here and its servers are not, but for the last test.
"""

import logging
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("flwr", reason="needs the extra flfl[flower]")

from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.app import Message as FlowerMessage
from hypothesis import given
from hypothesis import strategies as st

from deployed import ROOT, Deployment, check, in_process, pooled
from flfl.clock import Clock
from flfl.codec import pack, unpack
from flfl.errors import FLFLError, InputError
from flfl.secagg import Identity, Roster
from flfl.transport import flower
from flfl.transport.flower import GridLink, ReplyLink, check_reply, seal, unseal
from flfl.transport.link import NOT_TOLD, Message
from grid import FakeGrid, Node
from waiting import eventually

sys.path.insert(0, str(ROOT / "deploy" / "flower"))
from flfl_flower import client_app as site_app
from flfl_flower import server_app as coordinator_app

DATA = pooled(6, 120, n_sites=3)
RUN = "rounds = 1"


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    return in_process(DATA, tmp_path_factory.mktemp("wanted"), run=RUN)


@pytest.fixture
def lay_out(tmp_path, own_log):
    """A network's settings, readings and keys."""

    def make(**settings):
        settings = {"run": RUN, "deadlines": {"misses": 100}, **settings}
        return Deployment(tmp_path, DATA, broker=False, **settings)

    return make


class Waited:
    """Time that passes only while the coordinator waits: what is waited for takes none of it."""

    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(autouse=True)
def time_that_is_waited(monkeypatch):
    time = Waited()
    timed = partial(coordinator_app.CoordinatorService, clock=Clock(monotonic=time.monotonic))
    monkeypatch.setattr(coordinator_app, "CoordinatorService", timed)
    monkeypatch.setattr(flower, "time", time)


def nodes(network, start=1):
    """A node for each site."""
    settings = [{"site": str(network.folder / f"{name}.toml")} for name in network.names]
    return {number: Node(site_app.app, own) for number, own in enumerate(settings, start)}


def run(network, grid):
    config = {"coordinator": str(network.folder / "coordinator.toml")}
    coordinator_app.app(grid, Context(1, 1, {}, RecordDict(), config))


def test_three_sites_equal_one_process_and_forget_the_runs_secrets(lay_out, wanted):
    network = lay_out()
    grid = FakeGrid(nodes(network))
    run(network, grid)
    check(network.folder, wanted)
    # Some ten messages to each site, no process between them.
    assert grid.sent < 3 * 15
    for name in network.names:
        left = {path.name for path in (network.folder / f"{name}-state" / "runs").glob("*/*")}
        assert left == {"agreement", "written"}


@pytest.mark.parametrize(
    "fault", ["lost", *(pytest.param(f, marks=pytest.mark.slow) for f in ("unanswered", "error"))]
)
def test_what_is_lost_is_sent_again(lay_out, wanted, fault):
    network = lay_out()
    grid = FakeGrid(nodes(network))
    grid.faults = lambda number: fault if grid.sent % 9 == 0 else None
    run(network, grid)
    check(network.folder, wanted)


def test_what_the_superlink_does_not_take_or_cannot_read_is_sent_again(lay_out, wanted):
    class Troubled(FakeGrid):
        pushed = pulled = 0

        def push_messages(self, messages):
            self.pushed += 1
            refusals = {0: [], 1: [""], 2: [None]}
            if self.pushed % 10 == 0:
                return refusals[self.pushed // 10 % 3]
            return super().push_messages(messages)

        def pull_messages(self, keys):
            replies = super().pull_messages(keys)
            self.pulled += bool(replies)
            if replies and self.pulled % 11 == 0:
                raise ValueError("Unknown object type")
            return replies

    network = lay_out()
    run(network, Troubled(nodes(network)))
    check(network.folder, wanted)


def test_a_node_that_comes_again_is_recognised(lay_out, wanted):
    network = lay_out()
    grid = FakeGrid(nodes(network))

    def moves(number):
        if grid.sent == 12:
            # It has the message, dies, and is started again.
            grid.nodes[number + 500] = grid.nodes.pop(number)
            return "lost"
        if grid.sent == 22:
            # The same number, as with a key of its own, but another process.
            grid.nodes[number] = replace(grid.nodes[number], came="later")
            return "lost"
        return None

    grid.faults = moves
    run(network, grid)
    check(network.folder, wanted)
    assert max(grid.nodes) > 500


def test_a_lying_node_spoils_nothing(lay_out, wanted):
    """Forged replies cost time, no bits."""

    class Liar(FakeGrid):
        lies = 0

        def pull_messages(self, keys):
            replies = super().pull_messages(keys)
            for reply in replies:
                if self.lies < 3 and self.sent > 12:
                    self.lies += 1
                    data = bytearray(unseal(reply.content))
                    data[len(data) // 2] ^= 1
                    reply.content.update(seal(bytes(data)))
            return replies

    network = lay_out()
    grid = Liar(nodes(network))
    run(network, grid)
    assert grid.lies == 3
    check(network.folder, wanted)


class Unplugged(BaseException):
    """The SuperLink dies, and the coordinator's process with it."""


def test_after_a_superlinks_death_the_run_goes_on(lay_out, wanted):
    """A new run of Flower's, new nodes, new processes; the same run of ours."""
    network = lay_out()
    for number, messages in enumerate((8, 14, 7)):
        grid = FakeGrid(nodes(network, 1 + 10 * number))

        def dies(_, grid=grid, messages=messages):
            if grid.sent == messages:
                raise Unplugged

        grid.faults = dies
        with pytest.raises(Unplugged):
            run(network, grid)
    run(network, FakeGrid(nodes(network, 101)))
    check(network.folder, wanted)
    assert len(list((network.folder / "coordinator-state" / "runs").iterdir())) == 1


@pytest.mark.slow
def test_a_coordinator_that_dies_at_the_very_end_is_told_again_that_all_is_written(
    lay_out, wanted, monkeypatch
):
    network = lay_out()

    def unplug(*_):
        raise Unplugged

    with monkeypatch.context() as patch:
        patch.setattr("flfl.transport.flower._LAST", 0.0)
        patch.setattr("flfl.service.coordinator.CoordinatorService._end", unplug)
        with pytest.raises(Unplugged):
            run(network, FakeGrid(nodes(network)))
    run(network, FakeGrid(nodes(network, 11)))
    check(network.folder, wanted)


@pytest.mark.slow
def test_secrets_of_a_run_whose_end_was_not_told_go_with_the_next(lay_out, monkeypatch):
    network = lay_out(deadlines={"finish_within": 1.5})
    config = network.folder / "coordinator.toml"
    grid = FakeGrid(nodes(network))
    grid.faults = lambda number: "lost" if number == 1 and grid.sent > 15 else None
    with monkeypatch.context() as patch:
        patch.setattr("flfl.transport.flower._LAST", 0.0)
        with pytest.raises(FLFLError, match="did not finish"):
            run(network, grid)
    runs = network.folder / "site0-state" / "runs"
    assert list(runs.glob("*/secret"))
    config.write_text(config.read_text().replace("finish_within = 1.5", ""))
    run(network, FakeGrid(nodes(network, 11)))
    assert len(list(runs.iterdir())) == 2
    assert not [*runs.glob("*/secret"), *runs.glob("*/journal*")]


def test_what_a_site_cannot_read_is_told_to_its_owner_only(lay_out):
    network = lay_out()
    bad = network.folder / "site1.csv"
    frame = pd.read_csv(bad, dtype=str)
    frame.iloc[5, 1] = "secret"
    frame.to_csv(bad, index=False)
    grid = FakeGrid(nodes(network))
    with pytest.raises(FLFLError, match="2 sites are ready and 3 are needed; lacking: site1"):
        run(network, grid)
    assert any("secret" in says for says in network.said("site1"))
    told = b"".join(unseal(reply.content) for reply in grid.said)
    assert NOT_TOLD.encode() in told
    assert b"secret" not in told


def test_a_site_is_named_by_its_owner_and_known_by_its_identity(lay_out):
    network = lay_out(secure=False)
    path = network.folder / "site0.toml"
    lines = [line for line in path.read_text().splitlines() if "identity" not in line]
    path.write_text("\n".join(lines))
    grid = FakeGrid({1: Node(site_app.app, {}), **nodes(network, 2)})
    coordinator = network.folder / "coordinator.toml"
    coordinator.write_text(coordinator.read_text().replace("[sites]", "[sites]\nquorum = 3"))
    with pytest.raises(FLFLError, match=r"2 sites are ready and 3 are needed; lacking: site0$"):
        run(network, grid)


def test_a_run_needs_a_coordinator_and_does_not_repeat_itself(lay_out):
    with pytest.raises(InputError, match="does not know its coordinator"):
        coordinator_app.app(None, Context(1, 1, {}, RecordDict(), {}))
    with pytest.raises(InputError, match="a Flower run is one run"):
        run(lay_out(run='schedule = "daily 03:30"'), None)


# --- the link ----------------------------------------------------------------------------------

NAMES = {name: Identity.generate() for name in "abc"}
ROSTER = Roster({name: identity.public for name, identity in NAMES.items()})


def request(network, nonce, message):
    return pack([network, nonce, message.to_bytes()])


def client_app(answer):
    """A site's app that answers so."""

    def app(message, context):
        return FlowerMessage(seal(answer(unseal(message.content))), reply_to=message)

    return app


def reply(data, name="a", identity=None, network="n", message=None):
    """What a site replies to a request."""
    link = ReplyLink(data, network, name, identity or NAMES[name])
    link.reply(message or Message("answer", "run", {}, b"1"))
    link.say(problem="none")
    return link.signed()


def test_replies_that_nobody_signed_for_this_message_are_not_taken():
    nonce, message = bytes(16), Message("plan")
    asked = request("n", nonce, message)
    honest = reply(asked)
    answer = Message("answer", "run", {}, b"1")
    assert check_reply(honest, "n", nonce, ROSTER) == ("a", {"problem": "none"}, [answer])
    signed, signature = unpack(honest)
    name, network, number, status, messages = unpack(signed)

    def changed(*parts):
        return pack([pack(list(parts)), signature])

    forged = [
        b"", b"rubbish", pack(None), pack([1, 2]), pack([signed, 7]), pack([signed, bytes(64)]),
        pack([pack([]), signature]), pack([pack(["a", "n", nonce, [], []]), signature]),
        changed("b", network, number, status, messages),
        changed(name, network, number, status, []),
        changed(name, network, number, {}, messages),
        reply(asked, identity=NAMES["b"]),
        reply(asked, "d", Identity.generate()),
        reply(request("n", bytes(15) + b"1", message)),
        reply(request("m", nonce, message), network="m"),
    ]  # fmt: skip
    for data in forged:
        with pytest.raises(FLFLError):
            check_reply(data, "n", nonce, ROSTER)


@pytest.mark.parametrize("data", [b"", b"x", pack([]), pack(["n", bytes(16), b"x"]), pack(7)])
def test_what_is_no_request_is_not_answered(data):
    with pytest.raises(FLFLError):
        reply(data)
    with pytest.raises(FLFLError, match="network 'm'"):
        reply(request("m", bytes(16), Message("plan")))


def test_the_last_node_of_a_site_is_its_home_and_the_first_when_that_goes():
    app = client_app(reply)
    grid = FakeGrid({1: Node(app, {}, "first")})
    link = GridLink(grid, "n", ROSTER)

    def where():
        found = link.next(1).status["boot"]
        assert link.next(1).message is not None
        return found

    link.announce(Message("plan"))
    assert where() == "1 first"
    grid.nodes[2] = Node(app, {}, "second")
    assert where() == "2 second"
    link.tell("a", Message("question"))
    assert where() == "2 second"
    del grid.nodes[2]
    assert link.next(1).status["state"] == "gone"
    link.tell("a", Message("question", "2"))
    assert where() == "1 first"
    grid.nodes[3] = grid.nodes[1]
    assert where() == "3 first"
    # The last announcement is for a site's home only: nobody waits for node 1.
    link.announce(Message("ended"))
    before = grid.sent
    link.close()
    assert grid.sent == before + 1


def test_a_node_without_a_key_is_not_heard_and_is_tried_again():
    grid = FakeGrid({1: Node(client_app(lambda data: pack([pack(["a"]), b""])), {})})
    link = GridLink(grid, "n", ROSTER)
    link.announce(Message("call"))
    heard = []

    def twice():
        heard.append(link.next(0.1))
        return link.dropped["node 1"] >= 2

    assert eventually(twice)
    assert set(heard) == {None}


def test_a_grid_that_always_fails_is_given_up(monkeypatch):
    monkeypatch.setattr(flower, "_GIVE_UP", 0.1)
    grid = FakeGrid({1: Node(client_app(reply), {})})

    def broken(keys):
        raise ConnectionError("the SuperLink is gone")

    grid.pull_messages = broken
    link = GridLink(grid, "n", ROSTER)
    link.announce(Message("call"))
    with pytest.raises(ConnectionError):
        link.next(20)


@pytest.mark.parametrize("error", [ZeroDivisionError, FLFLError])
def test_what_goes_wrong_at_a_site_stays_there(caplog, error, monkeypatch):
    def breaks(settings, data):
        raise error("reading 12.5 in /home/owner/readings.csv")

    monkeypatch.setattr(site_app, "answer", breaks)
    message = FlowerMessage(seal(b"x"), 1, "query.flfl")
    with caplog.at_level(logging.ERROR, "flfl"):
        answered = site_app.app(message, Context(1, 1, {}, RecordDict(), {}))
    assert not answered.has_error()
    assert unseal(answered.content) == b""
    assert "12.5" in caplog.text


@given(st.binary())
def test_bytes_come_out_as_they_went_in(data):
    assert unseal(seal(data)) == data


@pytest.mark.parametrize(
    "content",
    [{}, {"flfl": ConfigRecord({"": 1})}, {"flfl": ArrayRecord()}, {"x": ConfigRecord()}],
)
def test_other_content_is_refused(content):
    with pytest.raises(FLFLError):
        unseal(RecordDict(content))


@pytest.mark.slow
def test_killed_supernode_and_superlink_end_equal(tmp_path):
    """Flower's own servers with TLS, SuperNode keys and secure sums; see the script."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        [str(ROOT / "deploy" / "flower-demo.sh"), str(tmp_path)],
        env={**os.environ, "PATH": path, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    logs = [(tmp_path / name).read_text()[-2000:] for name in ("coordinator.log", "superlink.log")]
    assert result.returncode == 0, result.stdout + result.stderr + "\n".join(logs)
    assert result.stdout.count("equal to the result of one process") == 4
    assert "killed the SuperNode of east with -9" in result.stdout
    assert "killed the SuperLink with -9" in result.stdout
    # One run of ours, though Flower had two.
    assert len(list((tmp_path / "coordinator-state" / "runs").iterdir())) == 1
