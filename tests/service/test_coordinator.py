"""What a coordinator makes of what sites and the broker tell it."""

import pytest

from flfl.service import keys
from flfl.service.coordinator import CoordinatorService, Setup
from flfl.transport.link import Received

SETTINGS = """
network = "n"
[broker]
host = "localhost"
plaintext = true
[sites]
roster = "roster.json"
[grid]
start = "2024-01-01"
step = "1h"
slots = 24
[report]
log = "log"
"""


class Told:
    """A link on which these things are received, one after the other."""

    boot, connected, dropped = "now", True, {}

    def __init__(self):
        self.coming, self.again = [], 0

    def next(self, seconds):
        return self.coming.pop(0)

    def say(self, **status):
        self.again += not status


@pytest.fixture
def service(tmp_path, own_log):
    keys.make_authority(tmp_path, "n")
    for name in ("a", "b", "c"):
        keys.make_site(tmp_path, name)
    keys.write_roster(tmp_path, [])
    path = tmp_path / "coordinator.toml"
    path.write_text(SETTINGS)
    setup = Setup.open(path)
    yield CoordinatorService(setup, Told())
    setup.close()


def hear(service, name, **status):
    service.link.coming.append(Received("status", name, None, status))
    service._receive(0)


def test_word_of_a_lost_connection_comes_late(service):
    hear(service, "a", state="here", boot="1")
    hear(service, "a", state="here", boot="2")
    hear(service, "a", state="gone", boot="1")
    assert service.status()["sites"]["a"]["state"] == "here"
    hear(service, "a", state="gone", boot="2")
    assert service.status()["sites"]["a"]["state"] == "gone"
    hear(service, "coordinator", state="gone", boot="before")
    assert service.link.again == 1


def test_another_coordinator_is_noticed_and_not_answered(service, tmp_path):
    hear(service, "coordinator", state="here", boot="now")
    assert "another coordinator" not in (tmp_path / "log").read_text()
    hear(service, "coordinator", state="here", boot="other")
    assert "another coordinator" in (tmp_path / "log").read_text()
    assert service.link.again == 0


def test_what_a_site_sends_does_not_swell_the_status(service):
    hear(service, "a", state="x" * 60_000, problem="y" * 5_000)
    row = service.status()["sites"]["a"]
    assert row["state"] == "unknown"
    assert len(row["problem"]) == 200
