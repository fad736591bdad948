"""What a site does with what a coordinator or a broker sends it, right or not."""

import numpy as np
import pytest

from flfl.codec import pack
from flfl.config import SiteSettings, read_settings
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.protocol.messages import Question, encode
from flfl.protocol.plan import Plan
from flfl.protocol.schema import PROTOCOL
from flfl.service import keys, tables
from flfl.service.agreement import Agreement, Published, to_bytes
from flfl.service.files import folder_name
from flfl.service.grid import TimeGrid
from flfl.service.home import Home, Snapshot
from flfl.service.site import Running, SiteService, Waiting
from flfl.service.site_folder import AGREEMENT, JOURNAL, WRITTEN
from flfl.service.versions import own_version
from flfl.transport import local
from flfl.transport.link import NOT_TOLD, Message, Received
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

    def received(self, kind):
        return [message for message in self.sent if message.kind == kind]


def read(settings, grid):
    values = np.random.default_rng(0).normal(size=(2, grid.slots))
    return Snapshot(["a", "b"], values, None, "")


def broken(settings, grid):
    raise InputError("north.csv: line 7: '12,5 secret' is no number")


@pytest.fixture
def service(tmp_path, own_log, monkeypatch):
    made = []

    def make(read=read, write=None, settings=SITE):
        monkeypatch.setattr(tables, "read_source", read)
        monkeypatch.setattr(tables, "write_tables", write)
        path = tmp_path / "north.toml"
        path.write_text(settings)
        home = Home.open(read_settings(SiteSettings, path), str(path))
        made.append(SiteService(home, Recorder()))
        return made[-1]

    yield make
    for one in made:
        stop(one)


def stop(service):
    service.close()
    service.home.close()


def call(service, name):
    message = Message("call", "", {"call": name, **own_version()}, to_bytes(GRID))
    service.take(Received("all", "plan", message))


def announce(service, number, called):
    agreement = Agreement("n", number, called, GRID, Plan(), False, "", ("north", "south"))
    message = Message("plan", agreement.run, own_version(), to_bytes(agreement))
    service.take(Received("all", "plan", message))
    return message


def test_what_is_wrong_with_an_owners_table_stays_with_the_owner(service):
    site = service(broken)
    call(site, "c1")
    assert "12,5" in site.problem
    told = str([dict(message.about) for message in site.link.sent]) + str(site.link.said)
    assert "its own log says why" in told
    assert "12,5" not in told
    assert "north.csv" not in told


@pytest.mark.parametrize("given", [{}, {"version": "9.1", "wire": 9}, {"wire": "2"}])
def test_a_coordinator_of_another_protocol_is_refused_in_plain_words(service, given):
    site = service()
    message = Message("call", "", {"call": "c", **given}, to_bytes(GRID))
    site.take(Received("all", "plan", message))
    (unable,) = site.link.received("unable")
    assert "install the same version at both" in unable.about["why"]
    assert not site.link.received("ready")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        pack([]),
        pack({"start": 1, "step": "1h", "slots": 3}),
        pack({"start": "2024-01-01", "step": "9" * 400 + "h", "slots": 3}),
        pack({"start": "2024-01-01", "step": "999999999 months", "slots": 3}),
        pack({"start": "2024-01-01", "step": "1h", "slots": 3, "more": 1}),
    ],
)
def test_a_call_that_is_none_is_answered_with_no(service, data):
    site = service()
    site.take(Received("all", "plan", Message("call", "", {"call": "c"}, data)))
    assert [message.kind for message in site.link.sent] == ["unable"]


def test_news_of_an_older_run_does_not_end_the_present_one(service):
    site = service()
    call(site, "c1")
    old = announce(site, 1, "c1")
    site.take(Received("all", "plan", Message("ended", old.run, {"why": "it failed"})))
    call(site, "c2")
    new = announce(site, 2, "c2")
    for late in (old, Message("aside", old.run, {"why": "x"}), Message("ended", old.run)):
        site.take(Received("all", "plan", late))
        assert site.state.agreement.run == new.run
    site.take(Received("to", "north", Message("aside", new.run, {"why": "late"})))
    assert site.state == Waiting()
    assert "late" in site.problem


def test_a_site_that_was_started_again_forgets_the_secrets_of_a_run_that_ended(service):
    site = service()
    call(site, "c1")
    plan = announce(site, 1, "c1")
    folder = site.settings.state / "runs" / folder_name(plan.run)
    assert (folder / JOURNAL).exists()
    stop(site)
    again = service()
    assert isinstance(again.state, Running)
    again.take(Received("all", "plan", Message("ended", plan.run)))
    assert {path.name for path in folder.iterdir()} == {AGREEMENT}


def test_a_site_does_not_go_on_with_a_run_that_its_owner_no_longer_agrees_to(service, tmp_path):
    site = service()
    call(site, "c1")
    announce(site, 1, "c1")
    stop(site)
    keys.make_authority(tmp_path, "n")
    for name in ("north", "south", "east"):
        keys.make_site(tmp_path, name)
    keys.write_roster(tmp_path, [])
    files = 'identity = "north.identity"\nroster = "roster.json"\n'
    again = service(settings=files + SITE.replace("secure = false", "secure = true"))
    assert again.state == Waiting()
    assert "secure sums" in again.problem


def question(run, number, kind, **body):
    data = encode(Question(run, number, kind, "*", body), PROTOCOL)
    return Message("question", run, {}, data)


def test_what_goes_wrong_with_a_question_is_told_by_code_only(service, monkeypatch):
    site = service()
    call(site, "c1")
    run = announce(site, 1, "c1").run
    site.take(Received("to", "north", question(run, 1, "publish", units=0, start=5, stop=9)))

    def breaks(units):
        raise ValueError("reading 12.5 at station 7")

    monkeypatch.setattr(site.state.client.owner, "vote", breaks)
    site.take(Received("to", "north", question(run, 2, "vote")))
    told = [message.about["why"] for message in site.link.received("refused")]
    assert told == ["these slots are not the next ones", NOT_TOLD]
    assert "12.5" in site.problem
    assert "12.5" not in str(site.link.said)


@pytest.fixture(scope="module")
def finished():
    """A run on the site's times that it had no part in, as it is published."""
    table, sensors = synthesize(8, GRID.slots, noise=0.3, rng=np.random.default_rng(0))
    coordinator, sites, traffic, run = parties(table, sensors)
    local.run(coordinator, sites, traffic)
    agreement = Agreement("n", 3, "c", GRID, run.plan, False, "", ("east", "south"))
    made = Published(agreement, run.network)
    return Message("ended", agreement.run, {"digest": made.digest}, made.data)


def test_a_site_joins_a_finished_run_once_and_says_nothing(service, finished):
    wrote = []

    site = service(write=lambda *arguments: wrote.append(arguments))
    for _ in range(2):
        site.take(Received("all", "plan", finished))
    assert len(wrote) == 1
    (folder,) = (site.settings.state / "runs").iterdir()
    assert {path.name for path in folder.iterdir()} == {WRITTEN}
    assert not site.link.sent
    assert site.problem == ""


@pytest.mark.parametrize("at", [0, 2, 40, -9, -40])
def test_a_finished_run_that_is_none_is_not_joined(service, finished, at):
    site, data = service(), bytearray(finished.data)
    data[at] ^= 1
    site.take(Received("all", "plan", Message("ended", finished.run, finished.about, bytes(data))))
    assert site.problem
    assert not list((site.settings.state / "runs").glob("*"))


def test_a_coordinator_that_begins_anew_is_followed(service):
    site = service()
    call(site, "c7")
    announce(site, 7, "c7")
    call(site, "c1")
    first = announce(site, 1, "c1")
    assert site.state.agreement.run == first.run


def test_one_process_for_each_state_folder(service):
    site = service()
    with pytest.raises(InputError, match="another process"):
        service()
    stop(site)
    service()
