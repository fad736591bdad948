"""Faults in real processes: each run ends with the same bits, or stops and says why."""

import sys

import pytest

import deployed
from deployed import Deployment, in_process, pooled
from flfl.service import keys
from proxy import Proxy
from waiting import eventually

sys.path.insert(0, str(deployed.ROOT / "bench" / "benchmarks"))

pytest.importorskip("paho.mqtt")
from noise import Noise

pytestmark = pytest.mark.slow
DATA = pooled(8, 420)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    return in_process(DATA, tmp_path_factory.mktemp("wanted"))


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path, DATA, deadlines={"misses": 100})
    yield made
    made.close()


def check(deployment, wanted, codes):
    said = {name: deployment.said(name)[-3:] for name in codes}
    assert set(codes.values()) == {0}, (codes, said)
    deployed.check(deployment.folder, wanted)


@pytest.mark.parametrize(
    ("party", "point", "count"),
    [
        ("site1", "question received", 3),
        ("site1", "answer computed", 6),
        ("site1", "journal torn", 8),
        ("site1", "answer sent", 12),
        ("site1", "result begun", 1),
        ("site1", "result written", 1),
        ("coordinator", "answer accepted", 18),
        ("coordinator", "answer taken", 41),
        ("coordinator", "journal torn", 25),
        ("coordinator", "questions made", 8),
        ("coordinator", "question sent", 33),
    ],
)
def test_killed_with_9(deployment, wanted, party, point, count):
    deployment.start(party, fault=(point, count))
    deployment.start(*[name for name in ("coordinator", *deployment.names) if name != party])
    codes = deployment.supervise()
    assert deployment.restarts == {party: 1}
    check(deployment, wanted, codes)


def test_the_broker_is_killed_with_9(deployment, wanted):
    deployment.start()
    for messages in (1, 20):
        assert eventually(lambda messages=messages: deployment.taken() >= messages)
        deployment.broker.kill()
        deployment.broker.start()
    check(deployment, wanted, deployment.wait())


@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_network_is_cut_in_the_middle_of_a_message(deployment, wanted, direction):
    proxies = {name: Proxy(deployment.broker.port) for name in ("site2", "coordinator")}
    deployment.proxy = {name: proxy.port for name, proxy in proxies.items()}
    deployment.write_configs()
    proxies["site2"].cut_after(15_000, direction, 2.0)
    proxies["coordinator"].cut_after(40_001, direction, 1.0)
    try:
        check(deployment, wanted, deployment.start().wait())
        assert all(proxy.cuts == 1 for proxy in proxies.values())
    finally:
        for proxy in proxies.values():
            proxy.close()


def test_rubbish_under_a_sites_own_name_changes_nothing(deployment, wanted):
    deployment.start()
    heard = []

    def enough():
        """Rubbish came to the coordinator, and more of it since."""
        heard.append(any("dropped" in says for says in deployment.said("coordinator")))
        return sum(heard) > 80

    Noise(deployment, "site1").make(enough)
    check(deployment, wanted, deployment.wait())
    assert heard[-1]


@pytest.mark.parametrize(
    ("party", "size", "words"),
    [("site0", 60_000, "make room on the disk"), ("coordinator", 60_000, "cannot write")],
)
def test_a_full_disk_is_waited_for_and_the_run_goes_on_when_there_is_room(
    deployment, wanted, party, size, words
):
    deployment.start(party, fault=("disk full", size))
    deployment.start(*[name for name in ("coordinator", *deployment.names) if name != party])
    deployment.wait_for(party, words)
    assert deployment.processes[party].exitcode is None
    # The limit is the process's own, so another one has room.
    deployment.kill(party)
    assert "Traceback" not in (deployment.folder / f"{party}.err").read_text()
    deployment.start(party)
    check(deployment, wanted, deployment.supervise())


def test_a_disk_that_is_full_at_the_first_start_costs_a_retry(deployment, wanted):
    """It ends with 1, after which systemd starts it again, and not with 2."""
    deployment.start("site2", fault=("disk full", 38_426))
    assert deployment.wait("site2") == {"site2": 1}
    assert "make room on the disk" in (deployment.folder / "site2.err").read_text()
    check(deployment, wanted, deployment.start().wait())


def test_a_clock_that_is_off_by_a_day(deployment, wanted):
    deployment.start("site0", fault=("clock", 86400.0))
    deployment.start("coordinator", fault=("clock", -86400.0))
    deployment.start("site1", "site2", "site3")
    check(deployment, wanted, deployment.wait())


def test_a_site_that_stays_away_is_set_aside_with_a_reason(tmp_path):
    deployment = Deployment(
        tmp_path,
        pooled(10, 200, n_sites=5),
        deadlines={"misses": 2, "answer_within": 10},
    )
    try:
        deployment.start("site4", fault=("answer sent", 8))
        deployment.start("coordinator", "site0", "site1", "site2", "site3")
        codes = deployment.wait("coordinator", "site0", "site1", "site2", "site3")
        assert set(codes.values()) == {0}, (codes, deployment.said("coordinator")[-4:])
        assert any("going on without site4: no answer" in s for s in deployment.said("coordinator"))
        assert not (tmp_path / "site4-filled.csv").exists()
    finally:
        deployment.close()


def test_below_the_quorum_the_run_pauses_and_goes_on_when_the_site_is_back(tmp_path, wanted):
    deployment = Deployment(tmp_path, DATA, deadlines={"misses": 1, "answer_within": 3})
    keys.write_roster(deployment.keys, (), 4)
    try:
        deployment.start("site3", fault=("answer sent", 8))
        deployment.start("coordinator", "site0", "site1", "site2")
        dead = deployment.processes["site3"]
        assert eventually(lambda: dead.exitcode is not None)
        deployment.wait_for("coordinator", "paused: waiting for site3")
        deployment.start("site3")
        check(deployment, wanted, deployment.wait())
    finally:
        deployment.close()


@pytest.mark.parametrize("seed", [11, 23, 42])
def test_random_schedules(seed, wanted):
    from reliability import one

    row = one(seed, wanted, DATA)
    assert row["right"], row
