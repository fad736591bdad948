"""What a coordinator makes of what sites and the broker tell it."""

import pytest

from flfl.errors import InputError
from flfl.service import keys
from flfl.service.coordinator import CoordinatorService, Setup
from flfl.service.coordinator_status import told_to_all
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
stop = "2024-01-01"
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
    assert told_to_all(service)["sites"]["a"]["state"] == "here"
    hear(service, "a", state="gone", boot="2")
    assert told_to_all(service)["sites"]["a"]["state"] == "gone"
    hear(service, "coordinator", state="gone", boot="before")
    assert service.link.again == 1


def claim(service, *heard):
    service.link.coming = [Received("status", "coordinator", None, status) for status in heard]
    service._claim()
    return service


def here(boot, holder="another", **more):
    return {"state": "here", "boot": boot, "holder": holder, **more}


def test_a_second_coordinator_refuses_while_the_first_answers(service):
    with pytest.raises(InputError, match=r"another coordinator .* is at work: north, process 7"):
        claim(
            service,
            *[
                here("1", where="north, process 7"),
                here("now"),
                here("1", where="north, process 7"),
            ],
        )


def test_a_coordinator_takes_over_from_one_that_does_not_answer(service):
    claim(service, here("1"), here("now"), {"state": "gone", "boot": "1"})


def test_a_coordinator_takes_over_from_itself_at_once(service):
    mine = service.lease.holder
    claim(service, here("before the kill", mine), here("now", mine))


def test_the_first_coordinator_answers_a_second_one(service, tmp_path):
    claim(service, here("now"))
    before = service.link.again
    hear(service, "coordinator", **here("other"))
    assert service.link.again == before + 1
    assert "another coordinator" in (tmp_path / "log").read_text()


def test_what_a_site_sends_does_not_swell_the_status(service):
    hear(service, "a", state="x" * 60_000, problem="y" * 5_000)
    row = told_to_all(service)["sites"]["a"]
    assert row["state"] == "unknown"
    assert len(row["problem"]) == 200
