"""Owners' keys: made at home, signed by operators, renewed, revoked and stolen at a live broker."""

import json
import os
import random
import signal
import stat
import threading

import pytest
from click.testing import CliRunner

from deployed import Deployment, pooled
from flfl.cli import main as flfl
from flfl.codec import pack
from flfl.config import BrokerSettings
from flfl.errors import InputError
from flfl.service import keys
from flfl.service.broker import connect
from flfl.transport.link import Message, is_signed, sign
from flfl.transport.mqtt import Inbox, packets, probe

pytest.importorskip("paho.mqtt")
from noise import client_of
from waiting import PATIENCE, eventually


def run(*arguments):
    result = CliRunner().invoke(flfl, ["keys", *map(str, arguments)])
    return result


@pytest.fixture
def operators(tmp_path):
    folder = tmp_path / "operators"
    assert run("init", "--network", "n", "--folder", folder).exit_code == 0
    return folder


class TestRequests:
    def test_operators_sign_what_they_never_hold(self, operators, tmp_path):
        site = tmp_path / "site"
        asked = json.loads(run("request", "harbour", "--folder", site, "--json").stdout)
        signed = json.loads(
            run("sign", site / "harbour.request", "--folder", operators, "--json").stdout
        )
        assert signed["fingerprint"] == asked["fingerprint"]
        assert signed["site"] == "harbour"
        assert run("accept", operators / "harbour.pem", "--folder", site).exit_code == 0
        assert not (site / "harbour.key.new").exists()
        for name in ("harbour.key", "harbour.identity"):
            assert stat.S_IMODE((site / name).stat().st_mode) == 0o600
            assert not (operators / name).exists()
        public = (operators / "harbour.public").read_text().strip()
        assert keys.load_identity(site / "harbour.identity").public.hex() == public
        broker = BrokerSettings(
            host="localhost",
            authority=operators / "authority.pem",
            certificate=site / "harbour.pem",
            key=site / "harbour.key",
        )
        assert keys.check_keys(broker, "harbour") == ""
        assert "1 certificate" in run("revoke", "harbour", "--folder", operators).stdout

    def test_a_renewed_one_keeps_the_identity_and_changes_the_key(self, operators, tmp_path):
        site, found = tmp_path / "site", []
        for _ in range(2):
            run("request", "a", "--folder", site)
            if found:
                # A running site has its old pair until the new one is whole.
                assert (site / "a.key").read_bytes() == found[0][0]
            run("sign", site / "a.request", "--folder", operators)
            assert run("accept", operators / "a.pem", "--folder", site).exit_code == 0
            found.append([(site / f"a.{kind}").read_bytes() for kind in ("key", "identity")])
        assert found[0][0] != found[1][0]
        assert found[0][1] == found[1][1]
        assert "2 certificates" in run("revoke", "a", "--folder", operators).stdout

    @pytest.mark.parametrize("seed", range(8))
    def test_a_request_that_was_changed_is_refused(self, operators, tmp_path, seed):
        rng, site = random.Random(seed), tmp_path / "site"
        path, _ = keys.make_request(site, "a")
        document = json.loads(path.read_text())
        other, _ = keys.make_request(tmp_path / "other", "a")
        theirs = json.loads(other.read_text())
        kind = ("request", "signature")[seed % 2]
        if seed < 2:  # one half of somebody else
            document[kind] = theirs[kind]
        else:
            text = document[kind]
            at = rng.randrange(40, len(text) - 40)
            document[kind] = text[:at] + rng.choice("abcdef0") + text[at + 1 :]
            if document[kind] == text:
                document[kind] = text[1:]
        path.write_text(json.dumps(document))
        with pytest.raises(InputError, match=r"not a request, or was changed"):
            keys.sign_request(operators, path)
        assert not (operators / "a.pem").exists()

    def test_another_identity_under_a_known_name_is_refused(self, operators, tmp_path):
        for folder in ("one", "two"):
            keys.make_request(tmp_path / folder, "a")
        keys.sign_request(operators, tmp_path / "one" / "a.request")
        with pytest.raises(InputError, match="another identity than before"):
            keys.sign_request(operators, tmp_path / "two" / "a.request")

    def test_mistakes(self, operators, tmp_path):
        site = tmp_path / "site"
        for name in ("coordinator", "broker", "a/b", ""):
            assert run("request", name, "--folder", site).exit_code == 2
        assert run("sign", tmp_path / "none.request", "--folder", operators).exit_code == 2
        run("request", "a", "--folder", site)
        run("sign", site / "a.request", "--folder", operators)
        run("request", "a", "--folder", site)
        result = run("accept", operators / "a.pem", "--folder", site)
        assert result.exit_code == 2
        assert "not for the key that waits" in result.stderr
        assert run("accept", operators / "a.pem", "--folder", tmp_path / "else").exit_code == 2


class TestSignedMessages:
    def test_a_signature_covers_all_of_a_message(self):
        identity = keys.Identity.generate()
        other = keys.Identity.generate()
        roster = keys.Roster({"a": identity.public, "b": other.public, "c": b"c" * 32}, 3)
        verify = lambda *given: roster.verify("a", *given)  # noqa: E731
        message = sign(Message("answer", "run", {"re": "x"}, b"data"), identity.sign)
        assert is_signed(message, verify)
        assert Message.from_bytes(message.to_bytes()) == message
        for change in (
            {"kind": "refused"}, {"run": "other"}, {"data": b"date"},
            {"about": {**message.about, "re": "y"}}, {"about": {"re": "x"}},
            {"about": {**message.about, "signature": "zz"}},
        ):  # fmt: skip
            changed = Message(**{**vars(message), **change})
            assert not is_signed(changed, verify)
        assert not is_signed(sign(Message("answer", "run"), other.sign), verify)


@pytest.fixture
def network(tmp_path):
    made = Deployment(tmp_path, pooled(6, 120, 3), deadlines={"misses": 100})
    yield made
    made.close()


def settings_of(network, name):
    found = {
        "authority": network.keys / "authority.pem",
        "certificate": network.keys / f"{name}.pem",
        "key": network.keys / f"{name}.key",
    }
    return BrokerSettings(host="localhost", port=network.broker.port, **found)


class TestAtALiveBroker:
    def test_a_renewed_certificate_is_taken_by_a_running_link(self, network, caplog):
        link = connect(settings_of(network, "site0"), "test", "site0")
        log = (network.folder / "broker" / "mosquitto.log").read_text
        try:
            assert link.wait(PATIENCE)
            assert eventually(lambda: "as flfl-site0" in log())
            before = log().count("as flfl-site0")
            # A certificate without its key is not used.
            old = (network.keys / "site0.pem").read_bytes()
            (network.keys / "site0.pem").write_bytes((network.keys / "site1.pem").read_bytes())
            link._ask_at = 0.0
            link.next(0.1)
            assert link.connected
            assert "The certificate of before is used on" in caplog.text
            (network.keys / "site0.pem").write_bytes(old)
            keys.make_request(network.keys, "site0")
            keys.sign_request(network.keys, network.keys / "site0.request")
            signed = network.folder / "signed.pem"
            (network.keys / "site0.pem").rename(signed)
            keys.accept_certificate(network.keys, signed)
            link._ask_at = 0.0
            link.next(0.1)
            # The link may be told of the old connection for a moment yet.
            assert eventually(lambda: log().count("as flfl-site0") > before)
            assert eventually(lambda: link.next(0.1) is None and link.connected)
            assert log().count("as flfl-site0") == before + 1
        finally:
            link.close()

    def test_a_certificate_that_ends_soon_is_warned_of_daily(self, network, caplog):
        keys.make_site(network.keys, "site0", days=3)
        link = connect(settings_of(network, "site0"), "test", "site0")
        try:
            for _ in range(2):
                link.renewed.__self__._warn_at = 0.0
                assert not link.renewed()
            assert caplog.text.count("the certificate ends on") == 3
        finally:
            link.close()

    def test_a_revoked_certificate_is_refused_after_a_reload(self, network):
        """SIGHUP is enough for new connections; only a restart ends one that is open."""
        settings = settings_of(network, "site2")
        link = connect(settings, "test", "site2")
        try:
            assert link.wait(PATIENCE)
            keys.revoke(network.keys, "site2")
            os.kill(network.broker._process.pid, signal.SIGHUP)
            assert eventually(lambda: refused(settings, "site2"))
            probe(settings_of(network, "site1"), "test", "site1", PATIENCE)
            assert link.connected
            network.broker.kill()
            network.broker.start()
            assert eventually(lambda: not link.connected)
            assert not link.wait(3)
        finally:
            link.close()

    @pytest.mark.slow
    def test_a_thief_of_a_certificate_ends_no_run(self, network):
        """It reads the site's questions, refuses them, answers them, and connects without end."""
        thief = Thief(network, "site1")
        try:
            codes = network.start().wait()
            assert set(codes.values()) == {0}, network.said("coordinator")[-5:]
        finally:
            thief.close()
        assert thief.sent > 10
        said = network.said("coordinator")
        assert any("without its signature" in line for line in said)
        assert not any("going on without" in line for line in said)
        assert "site1-filled.csv" in {path.name for path in network.folder.iterdir()}


def refused(settings, name):
    try:
        probe(settings, "test", name, PATIENCE)
    except InputError:
        return True
    return False


class Thief:
    """A client with a site's certificate and not its identity."""

    def __init__(self, network, name):
        self._name, self._network, self.sent = name, network, 0
        self._inboxes = [Inbox(2**26), Inbox(2**26)]
        self._client = client_of(network, name)
        self._client.on_message = self._take
        self._client.subscribe([(f"flfl/test/to/{name}", 1), ("flfl/test/all/plan/#", 1)])
        self._stop = threading.Event()
        self._loop = threading.Thread(target=self._connect_again)
        self._loop.start()

    def _connect_again(self):
        """With ids that the site could have."""
        while not self._stop.wait(0.3):
            other = client_of(self._network, self._name, f"flfl-{self._name}")
            other.publish(f"flfl/test/status/{self._name}", pack({"state": "gone"}), 1, True)
            other.disconnect()
            other.loop_stop()

    def _take(self, _client, _data, packet):
        inbox = self._inboxes["/all/" in packet.topic]
        if (message := inbox.add(packet.payload)) is None:
            return
        about, call = {"re": message.id}, {"call": message.about.get("call", "")}
        for lie in (
            Message("refused", message.run, {**about, "why": "not today"}),
            Message("answer", message.run, about, message.data),
            Message("unable", "", {**call, "why": "never"}),
            Message("done", message.run),
        ):
            self._client.publish(f"flfl/test/from/{self._name}", packets(lie, 2**18)[0], 1)
            self.sent += 1

    def close(self):
        self._stop.set()
        self._loop.join()
        self._client.disconnect()
        self._client.loop_stop()
