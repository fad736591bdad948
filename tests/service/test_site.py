"""What a site does with what a coordinator or a broker sends it, right or not."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.protocol.messages import Question, encode
from flfl.protocol.plan import Plan
from flfl.protocol.schema import PROTOCOL
from flfl.service.agreement import Agreement, pack_network
from flfl.service.grid import TimeGrid
from flfl.service.site import JOURNAL, PLAN, READINGS, WRITTEN, SiteService, TableError
from flfl.service.sources import Snapshot, folder_name
from flfl.transport import local
from flfl.transport.link import AT_HOME, Heard, Message
from parties import parties

GRID = TimeGrid("2024-01-01", "1h", 150)
SITE = """
network = "n"
name = "north"
[broker]
host = "localhost"
plaintext = true
[readings]
file = "north.csv"
[out]
file = "filled.csv"
effort = "quick"
[terms]
secure = false
"""


class Recorder:
    """A link that keeps what is sent, and sends nothing."""

    name = "north"

    def __init__(self):
        self.sent, self.said = [], {}

    def reply(self, message):
        self.sent.append(message)
        return True

    def say(self, **status):
        self.said = status

    def heard(self, kind):
        return [message for message in self.sent if message.kind == kind]


def read(verb, path, folder, grid):
    values = np.random.default_rng(0).normal(size=(2, grid.slots))
    Snapshot(("a", "b"), values, None, "").save(folder / READINGS)


def broken(verb, path, folder, grid):
    raise TableError("north.csv: line 7: '12,5 secret' is no number")


@pytest.fixture
def service(tmp_path, own_log):
    made = []

    def make(tables=read):
        path = tmp_path / "north.toml"
        path.write_text(SITE)
        made.append(SiteService(path, tables))
        made[-1].link = Recorder()
        return made[-1]

    yield make
    for one in made:
        one.close()


def call(service, name):
    data = json.dumps(asdict(GRID)).encode()
    service._take(Heard("all", "plan", Message("call", "", {"call": name}, data)))


def announce(service, number, called):
    agreement = Agreement("n", number, called, GRID, Plan(), False, "", ("north", "south"))
    message = Message("plan", agreement.run, {}, agreement.to_bytes())
    service._take(Heard("all", "plan", message))
    return message


def test_what_is_wrong_with_an_owners_table_stays_with_the_owner(service):
    site = service(broken)
    call(site, "c1")
    assert "12,5" in site.problem
    told = json.dumps([dict(message.about) for message in site.link.sent]) + str(site.link.said)
    assert "its own log says why" in told
    assert "12,5" not in told
    assert "north.csv" not in told


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"start": 1, "step": 2, "slots": 3}',
        b'{"start": "2024-01-01", "step": "%sh", "slots": 3}' % (b"9" * 400),
        b'{"start": "2024-01-01", "step": "999999999 months", "slots": 3}',
    ],
)
def test_a_call_that_is_none_is_answered_with_no(service, data):
    site = service()
    site._take(Heard("all", "plan", Message("call", "", {"call": "c"}, data)))
    assert [message.kind for message in site.link.sent] == ["unable"]


def test_news_of_an_older_run_does_not_end_the_present_one(service):
    site = service()
    call(site, "c1")
    old = announce(site, 1, "c1")
    site._take(Heard("all", "plan", Message("ended", old.run, {"why": "it failed"})))
    call(site, "c2")
    new = announce(site, 2, "c2")
    for late in (old, Message("aside", old.run, {"why": "x"}), Message("ended", old.run)):
        site._take(Heard("all", "plan", late))
        assert site.agreement is not None
        assert site.agreement.run == new.run
    site._take(Heard("to", "north", Message("aside", new.run, {"why": "late"})))
    assert site.agreement is None
    assert "late" in site.problem


def test_a_site_that_was_started_again_forgets_the_secrets_of_a_run_that_ended(service):
    site = service()
    call(site, "c1")
    plan = announce(site, 1, "c1")
    folder = site.config.state / "runs" / folder_name(plan.run)
    assert (folder / JOURNAL).exists()
    site.close()
    again = service()
    again._take(Heard("all", "plan", Message("ended", plan.run)))
    assert {path.name for path in folder.iterdir()} == {PLAN}


def question(run, number, kind, **body):
    data = encode(Question(run, number, kind, "*", body), PROTOCOL)
    return Message("question", run, {}, data)


def test_what_goes_wrong_with_a_question_is_told_by_code_only(service, monkeypatch):
    site = service()
    call(site, "c1")
    run = announce(site, 1, "c1").run
    site._take(Heard("to", "north", question(run, 1, "publish", trial=0, start=5, stop=9)))

    def breaks(trials):
        raise ValueError("reading 12.5 at station 7")

    monkeypatch.setattr(site.client.owner, "vote", breaks)
    site._take(Heard("to", "north", question(run, 2, "vote")))
    told = [message.about["why"] for message in site.link.heard("refused")]
    assert told == ["asked for slots that are not next", AT_HOME]
    assert "12.5" in site.problem
    assert "12.5" not in str(site.link.said)


@pytest.fixture(scope="module")
def finished():
    """A run on the site's times that it had no part in, as it is published."""
    table, sensors = synthesize(8, GRID.slots, noise=0.3, rng=np.random.default_rng(0))
    coordinator, sites, traffic, run = parties(table, sensors)
    local.run(coordinator, sites, traffic)
    agreement = Agreement("n", 3, "c", GRID, run.plan, False, "", ("east", "south"))
    return Message("ended", agreement.run, {}, pack_network(agreement, run.network))


def test_a_site_joins_a_finished_run_once_and_says_nothing(service, finished):
    wrote = []

    def tables(verb, path, folder, grid):
        read(verb, path, folder, grid) if verb == "read" else wrote.append(folder)

    site = service(tables)
    for _ in range(2):
        site._take(Heard("all", "plan", finished))
    (folder,) = wrote
    assert {path.name for path in folder.iterdir()} == {WRITTEN}
    assert not site.link.sent
    assert site.problem == ""


@pytest.mark.parametrize("at", [0, 2, 40, -9, -40])
def test_a_finished_run_that_is_none_is_not_joined(service, finished, at):
    site, data = service(), bytearray(finished.data)
    data[at] ^= 1
    site._take(Heard("all", "plan", Message("ended", finished.run, {}, bytes(data))))
    assert site.problem
    assert not list((site.config.state / "runs").glob("*"))


def test_a_coordinator_that_begins_anew_is_followed(service):
    site = service()
    call(site, "c7")
    announce(site, 7, "c7")
    call(site, "c1")
    first = announce(site, 1, "c1")
    assert site.agreement.run == first.run


def test_one_process_for_each_state_folder(service):
    site = service()
    with pytest.raises(InputError, match="another process"):
        service()
    site.close()
    service()
