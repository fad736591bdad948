"""A party's connection to a real broker: who gets in, who hears what, what it survives."""

import time

import pytest

from broker import Mosquitto
from deployed import Deployment, pooled
from flfl.errors import InputError
from flfl.service import keys
from flfl.transport.link import Message
from proxy import Proxy
from waiting import PATIENCE, eventually

pytest.importorskip("paho.mqtt")
from flfl.config import BrokerSettings
from flfl.transport.mqtt import Link
from noise import client_of


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    made = Deployment(tmp_path_factory.mktemp("tls"), pooled(6, 48, n_sites=3))
    yield made
    made.close()


def broker_for(deployment, name, **settings):
    return tls(deployment, deployment.keys / f"{name}.pem", **settings)


def tls(deployment, certificate, **settings):
    return BrokerSettings(
        host="localhost",
        port=deployment.broker.port,
        authority=deployment.keys / "authority.pem",
        certificate=certificate,
        key=certificate.with_suffix(".key"),
        **settings,
    )


def plain(port, **settings):
    return BrokerSettings(host="127.0.0.1", port=port, plaintext=True, **settings)


def hears(link, kind, seconds=PATIENCE):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        heard = link.next(0.2)
        if heard is not None and heard.message is not None and heard.message.kind == kind:
            return heard
    return None


def test_a_site_is_heard_by_the_coordinator_only_under_its_own_name(deployment):
    centre = Link(broker_for(deployment, "coordinator"), "test", "coordinator")
    honest = Link(broker_for(deployment, "site0"), "test", "site0")
    liar = Link(broker_for(deployment, "site1"), "test", "site0")
    try:
        assert all(link.wait(PATIENCE) for link in (centre, honest, liar))
        liar.send(liar.topics.of("from", "site0"), Message("lie"))
        honest.send(honest.topics.of("from", "site0"), Message("truth"))
        heard = hears(centre, "truth")
        assert heard is not None
        assert heard.name == "site0"
        assert hears(centre, "lie", 1.0) is None
        # Nor does it read what is for another site.
        centre.send(centre.topics.of("to", "site0"), Message("question"))
        assert hears(honest, "question") is not None
        assert hears(liar, "question", 1.0) is None
    finally:
        for link in (centre, honest, liar):
            link.close()


def test_expired_foreign_and_revoked_certificates_do_not_get_in(deployment, tmp_path):
    keys.make_certificate(deployment.keys, "late", days=-1)
    other = tmp_path / "other"
    keys.make_authority(other, "other")
    keys.make_site(other, "site0")
    foreign = tls(deployment, other / "site0.pem")
    links = [
        Link(broker_for(deployment, "late"), "test", "late"),
        Link(foreign, "test", "site0"),
    ]
    try:
        assert not any(link.wait(2.0) for link in links)
    finally:
        for link in links:
            link.close()
    with pytest.raises(InputError, match="ended on"):
        keys.check_certificate(deployment.keys / "late.pem", "late")
    with pytest.raises(InputError, match="is for 'site0', not for 'site1'"):
        keys.check_certificate(deployment.keys / "site0.pem", "site1")


def test_a_revoked_site_is_out_and_is_told_so_and_a_renewed_one_is_in(tmp_path, caplog):
    deployment = Deployment(tmp_path, pooled(6, 48, n_sites=3))
    try:
        assert keys.revoke(deployment.keys, "site2") == 1
        assert keys.revoke(deployment.keys, "site2") == 1
        deployment.broker.kill()
        deployment.broker.start()
        link = Link(broker_for(deployment, "site2"), "test", "site2")
        assert eventually(lambda: "certificate" in link.problem)
        assert not link.connected
        link.close()
        assert caplog.text.count("certificate") == 1
        before = (deployment.keys / "site2.identity").read_bytes()
        keys.make_site(deployment.keys, "site2")
        assert (deployment.keys / "site2.identity").read_bytes() == before
        link = Link(broker_for(deployment, "site2"), "test", "site2")
        assert link.wait(PATIENCE)
        link.close()
    finally:
        deployment.close()


def test_without_a_certificate_nobody_gets_in(deployment):
    link = Link(plain(deployment.broker.port), "test", "site0")
    assert not link.wait(1.5)
    link.close()


def test_rubbish_is_dropped_and_counted_and_the_link_lives(deployment):
    centre = Link(broker_for(deployment, "coordinator", largest=100_000), "test", "coordinator")
    client = client_of(deployment, "site0")
    try:
        assert centre.wait(PATIENCE)
        for payload in (b"rubbish", b"\xc4" + bytes(100), bytes(1_000_000), b"\xff" * 10):
            client.publish("flfl/test/from/site0", payload, qos=1)
            client.publish("flfl/test/status/site0", payload[:99], qos=1)
        link = Link(broker_for(deployment, "site1"), "test", "site1")
        assert link.wait(PATIENCE)
        link.send(link.topics.of("from", "site1"), Message("truth", data=bytes(50_000)))
        assert hears(centre, "truth") is not None
        # Another client's packets may come after those of this link.
        assert eventually(lambda: centre.dropped["unreadable"] >= 6)
        link.close()
    finally:
        client.disconnect()
        client.loop_stop()
        centre.close()


def test_a_party_that_floods_is_cut_off_and_the_others_are_received(tmp_path):
    mosquitto = Mosquitto(tmp_path)
    centre = Link(plain(mosquitto.port, largest=100_000), "n", "coordinator")
    loud, quiet = (Link(plain(mosquitto.port), "n", name) for name in ("loud", "quiet"))
    try:
        assert all(link.wait(PATIENCE) for link in (centre, loud, quiet))
        for number in range(20):
            loud.send(
                loud.topics.of("from", "loud"), Message("x", "", {"n": number}, bytes(50_000))
            )
        quiet.send(quiet.topics.of("from", "quiet"), Message("truth"))
        assert eventually(lambda: centre.dropped["unreadable"] >= 13)
        assert centre.dropped["unreadable"] == 13
        assert hears(centre, "truth") is not None
        loud.send(loud.topics.of("from", "loud"), Message("again"))
        assert hears(centre, "again") is not None
    finally:
        for link in (centre, loud, quiet):
            link.close()
        mosquitto.stop()


def test_the_last_will_tells_and_what_is_retained_is_found_later(tmp_path):
    mosquitto = Mosquitto(tmp_path)
    proxy = Proxy(mosquitto.port)
    centre = Link(plain(mosquitto.port, piece=1024), "n", "coordinator")
    site = Link(plain(proxy.port, keepalive=2), "n", "site0")
    try:
        assert centre.wait(PATIENCE)
        assert site.wait(PATIENCE)
        proxy.cut(60)

        def gone():
            heard = centre.next(0.2)
            told = heard is not None and heard.branch == "status"
            return told and heard.status["state"] == "gone"

        assert eventually(gone)
        plan = Message("plan", "run", {}, bytes(5000))
        centre.announce(plan)
        late = Link(plain(mosquitto.port), "n", "site1")
        found = hears(late, "plan")
        assert found is not None
        assert found.message == plan
        late.close()
    finally:
        site.close()
        centre.close()
        proxy.close()
        mosquitto.stop()
