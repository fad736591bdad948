"""Deliberate mistakes in a party's settings: each is refused before anything is joined.

Every one ends the command with 2, on one line that names the file, the setting and what to do.
"""

import json
import subprocess
import sys

import pandas as pd
import pytest
from click.testing import CliRunner

from broker import Mosquitto
from deployed import Deployment, pooled
from flfl.cli import main as flfl
from flfl.config import SiteSettings, read_settings
from flfl.errors import InputError
from flfl.service import keys
from flfl.service.broker import network_status
from flfl.service.check import at_start, site_steps
from flfl.service.diary import Diary
from flfl.service.site import main as site_main

pytest.importorskip("paho.mqtt")
from waiting import PATIENCE, eventually


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A network's files, in order, and what mistakes need beside them."""
    folder = tmp_path_factory.mktemp("world")
    made = Deployment(folder, pooled(6, 120, 3), broker=False)
    (folder / "here").mkdir()
    (folder / "notes.md").write_text("no table")
    (folder / "plain").write_text("a file")
    (folder / "plain.key").write_text("no key")
    (folder / "plain.key").chmod(0o600)
    (folder / "broken.json").write_text("{")
    (folder / "latin.toml").write_bytes('network = "nörd"'.encode("latin-1"))
    other = folder / "other"
    keys.make_authority(other, "other")
    keys.make_site(other, "site0")
    keys.make_site(made.keys, "late", days=-3)
    (made.keys / "open.key").write_bytes((made.keys / "site0.key").read_bytes())
    (made.keys / "open.key").chmod(0o644)
    for name in ("late.pem", "late.key"):
        (made.keys / name).rename(made.keys / f"ended{name[4:]}")
    roster = json.loads((made.keys / "roster.json").read_text())
    del roster["sites"]["site0"]
    roster["sites"]["else"] = "ab" * 32
    (folder / "without.json").write_text(json.dumps(roster))
    return made


SITE = {
    # wrong in itself
    "unknown key": ('state = "', 'stat = "', "there is no such setting"),
    "unknown table": ("[terms]", "[termz]", "termz"),
    "number for a text": ('network = "test"', "network = 5", "network: 5"),
    "text for a number": ("again = 1.0", 'again = "1"', "again"),
    "text for a truth": ("secure = true", 'secure = "yes"', "terms.secure"),
    "not TOML": ("[readings]", "[readings", "this is not TOML"),
    "no network": ('network = "test"', "", "network: this setting is missing"),
    "empty network": ('network = "test"', 'network = ""', "cannot be the name of a network"),
    "network with a wildcard": ('network = "test"', 'network = "te#st"', "/ + #"),
    "network with a slash": ('network = "test"', 'network = "te/st"', "/ + #"),
    "name with a plus": ('name = "site0"', 'name = "+"', "cannot be the name of a party"),
    "name with a slash": ('name = "site0"', 'name = "a/b"', "cannot be the name of a party"),
    "the coordinator's name": ('name = "site0"', 'name = "coordinator"', "no site may be called"),
    "negative wait": ("again = 1.0", "again = -1.0", "again: -1"),
    "absurd wait": ("again = 1.0", "again = 1e30", "again"),
    "coverage 1": ('effort = "quick"', "coverage = 1.0", "out.coverage: 1"),
    "added error without a number": (
        "secure = true", 'secure = true\nadded_error = "a little"', "is no added error"),
    "negative added error": ("secure = true", "secure = true\nadded_error = -1.0", "added_error"),
    # broker
    "empty host": ('host = "localhost"', 'host = " "', "broker.host: it is empty"),
    "port 0": ("port = 1\n", "port = 0\n", "broker.port: 0"),
    "unknown host": ('host = "localhost"', 'host = "no.such.host.invalid"', "no machine called"),
    "plaintext beside keys": ("keepalive = 5", "plaintext = true", "plaintext = true, and yet"),
    "no authority": ('authority = "keys/authority.pem"', "", "TLS needs authority"),
    "pieces of nothing": ("piece = 16384", "piece = 0", "broker.piece"),
    # keys
    "missing certificate": ("keys/site0.pem", "keys/none.pem", "cannot be read"),
    "folder for a certificate": ("keys/site0.pem", "keys", "cannot be read"),
    "no certificate in it": ("keys/site0.pem", "plain", "this is not a certificate"),
    "another party's certificate": ("keys/site0.pem", "keys/site1.pem", "is for 'site1'"),
    "ended certificate": (
        "keys/site0", "keys/ended", 'name = "site0"', 'name = "late"', "ended on"),
    "another network's certificate": ("keys/site0.pem", "other/site0.pem", "the key is not that"),
    "another network's authority": ("keys/authority.pem", "other/authority.pem", "not signed by"),
    "another party's key": ("keys/site0.key", "keys/site1.key", "the key is not that"),
    "a key that all can read": ("keys/site0.key", "keys/open.key", "everybody on this machine"),
    "no key in it": ("keys/site0.key", "plain.key", "this is not a key"),
    "another site's identity": ("keys/site0.identity", "keys/site1.identity", "does not list"),
    "missing identity": ("keys/site0.identity", "keys/none.identity", "cannot be read"),
    "a roster without the site": ("keys/roster.json", "without.json", "does not list 'site0'"),
    "a roster that is none": ("keys/roster.json", "broken.json", "this is not a roster"),
    "a missing roster": ("keys/roster.json", "none.json", "cannot be read"),
    "secure sums without identity": ('identity = "keys/site0.identity"', "", "need identity"),
    # readings
    "missing readings": ('file = "site0.csv"', 'file = "none.csv"', "cannot be read"),
    "a folder for the file": ('file = "site0.csv"', 'file = "here"', "cannot be read"),
    "a file for the folder": ('file = "site0.csv"', 'folder = "plain"', "this is no folder"),
    "two sources": ('file = "site0.csv"', 'file = "site0.csv"\nfolder = "here"', "give one of"),
    "query without database": ('file = "site0.csv"', 'query = "select 1"', "has no database"),
    "database without query": ('file = "site0.csv"', 'file = "site0.csv"\ndatabase = "x"', "query"),
    "missing places": ('sensors = "sensors.csv"', 'sensors = "none.csv"', "cannot be read"),
    # output
    "unknown ending": ('file = "site0-filled.csv"', 'file = "filled.doc"', "'.doc'"),
    "the readings as output": ('file = "site0-filled.csv"', 'file = "site0.csv"', "was read"),
    "a folder as output": ('file = "site0-filled.csv"', 'file = "here"', "this is a directory"),
    "output where there is no folder": ("site0-filled.csv", "none/a.csv", "does not exist"),
    "output under a file": ("site0-filled.csv", "plain/a.csv", "plain"),
    "flags over the table": ('effort = "quick"', 'flags = "site0-filled.csv"', "the same name"),
    "a page of another kind": ('effort = "quick"', 'page = "a.pdf"', "'.pdf'"),
    "scores over the places": ('effort = "quick"', 'scores = "sensors.csv"', "out"),
    # folders and ports
    "state in a file": ('state = "site0-state"', 'state = "plain/state"', "cannot be used"),
    "copies in a file": ("again = 1.0", 'again = 1.0\ncopies = "plain/copies"', "cannot be used"),
    "a log that is a folder": ('log = "site0.log"', 'log = "here"', "log cannot be written"),
    "a port that does not exist": ('log = "site0.log"', "status_port = 70000", "status_port"),
    "a setting of before": ('log = "site0.log"', "metrics_port = 9464", "status_port"),
}  # fmt: skip
PLACES = 'sensors = "sensors.csv"'
COORDINATOR = {
    "quorum too large": ("roster.json\"", "roster.json\"\nquorum = 9", "quorum is 9"),
    "negative quorum": ("roster.json\"", "roster.json\"\nquorum = -1", "sites.quorum"),
    "start that is none": ('start = "2024-01-01"', 'start = "soon"', "grid.start"),
    "step that is none": ('step = "1h"', 'step = "often"', "grid.step"),
    "latitudes reversed": (
        PLACES, "latitude = [55.0, 50.0]\nlongitude = [5.0, 15.0]", "not below"),
    "beyond the pole": (
        PLACES, "latitude = [50.0, 95.0]\nlongitude = [5.0, 15.0]", "on the globe"),
    "beyond the date line": (
        PLACES, "latitude = [50.0, 55.0]\nlongitude = [5.0, 200.0]", "on the globe"),
    "half a map": (PLACES, "latitude = [50.0, 55.0]", "two ranges"),
    "two maps": (
        PLACES, PLACES + "\nx = [0.0, 1.0]\ny = [0.0, 1.0]", "two ranges"),
    "missing places": (PLACES, 'sensors = "none.csv"', "none.csv"),
    "missing roster": ("keys/roster.json", "none.json", "cannot be read"),
    "a site's certificate": ("keys/coordinator.pem", "keys/site0.pem", "is for 'site0'"),
    "negative deadline": ("answer_within = 60", "answer_within = -5", "deadlines.answer_within"),
    "deadline of ages": ("answer_within = 60", "answer_within = 1e12", "deadlines.answer_within"),
    "state in a file": ('state = "coordinator-state"', 'state = "plain/state"', "cannot be used"),
    "rank 0": ("[run]", "[run]\nrank = 0", "run.rank"),
}  # fmt: skip


def changed(text, mistake):
    *pairs, words = mistake
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    return text, words


@pytest.mark.parametrize("name", SITE)
def test_a_sites_mistake_is_refused_before_it_joins(world, name, capsys, own_log):
    path = world.folder / "mistake.toml"
    text, words = changed((world.folder / "site0.toml").read_text(), SITE[name])
    path.write_text(text)
    assert site_main([str(path)]) == 2
    refused(capsys.readouterr().err, path, words)


@pytest.mark.parametrize("name", COORDINATOR)
def test_a_coordinators_mistake_is_refused_before_it_calls(world, name, own_log):
    path = world.folder / "mistake.toml"
    text, words = changed((world.folder / "coordinator.toml").read_text(), COORDINATOR[name])
    path.write_text(text)
    result = CliRunner().invoke(flfl, ["coordinator", str(path)])
    assert result.exit_code == 2, result.output
    refused(result.stderr, path, words)


def refused(said, path, words):
    """One line for a person, with the file, what is wrong, and what to do."""
    assert words in said
    assert said.count("\n") == 1
    assert said.startswith(f"flfl: {path}")
    assert "Traceback" not in said
    problem, _, remedy = said.rstrip().rstrip(".").partition(". ")
    assert remedy or "not TOML" in problem, said


def test_nothing_is_ended_where_no_coordinator_is_at_work(world, own_log):
    path = world.folder / "coordinator.toml"
    result = CliRunner().invoke(flfl, ["coordinator", str(path), "--abort"])
    assert result.exit_code == 2
    assert "no coordinator is at work" in result.stderr
    assert not (world.folder / "coordinator-state" / "abort").exists()


def test_there_are_enough_of_them():
    assert len(SITE) + len(COORDINATOR) >= 46


def test_settings_in_another_encoding(world, capsys, own_log):
    assert site_main([str(world.folder / "latin.toml")]) == 2
    assert "this is not TOML" in capsys.readouterr().err


def test_one_that_has_finished_a_run_waits_for_its_file(world):
    """What may come back by itself ends no service that has worked before."""
    path = world.folder / "waits.toml"
    text = (world.folder / "site0.toml").read_text().replace("site0-state", "waits-state")
    path.write_text(text.replace("site0.csv", "gone.csv").replace("localhost", "gone.invalid"))
    settings = read_settings(SiteSettings, path)
    with pytest.raises(InputError, match=r"gone\.csv"):
        at_start(site_steps(settings, path))
    Diary(settings.state).record("test-1")
    at_start(site_steps(settings, path))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A live broker with rights, whose coordinator has been here."""
    made = Deployment(tmp_path_factory.mktemp("network"), pooled(6, 120, 3))
    command = ["coordinator", str(made.folder / "coordinator.toml")]
    process = subprocess.Popen([sys.executable, "-m", "flfl", *command], stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: network_status(made.folder / "site0.toml", 20).get("grid"))
        yield made
    finally:
        process.terminate()
        process.wait(PATIENCE)
        made.close()


def checked(path, verb="site"):
    result = CliRunner().invoke(flfl, [verb, str(path), "--check", "--json"])
    rows = {row["name"]: row for row in json.loads(result.stdout)["checks"]}
    assert result.exit_code == (0 if all(row["ok"] for row in rows.values()) else 2)
    return rows


class TestCheck:
    def test_all_is_well(self, network):
        rows = checked(network.folder / "site0.toml")
        assert [row for row in rows.values() if not row["ok"]] == []
        assert rows["times"]["says"] == "they are the network's: 1h from 2024-01-01"
        assert rows["rights"]["says"] == "its own topic, and no other's"
        assert "flfl" in rows["versions"]["says"]
        assert {"keys", "broker", "readings", "places", "units", "output"} <= set(rows)
        said = CliRunner().invoke(flfl, ["site", str(network.folder / "site0.toml"), "--check"])
        assert said.exit_code == 0
        assert said.stdout.endswith("All is ready.\n")
        rows = checked(network.folder / "coordinator.toml", "coordinator")
        assert [row for row in rows.values() if not row["ok"]] == []

    @pytest.mark.parametrize(
        ("old", "new", "line", "words"),
        [
            ("keys/site0.pem", "keys/site1.pem", "keys", "is for 'site1'"),
            ("port = ", "port = 1 #", "broker", "cannot be reached"),
            ('host = "localhost"', 'host = "127.1"', "broker", "not trusted"),
            ('file = "site0.csv"', 'file = "shifted.csv"', "times", "between the network's slots"),
            ('file = "site0.csv"', 'file = "words.csv"', "readings", "words.csv"),
            ('sensors = "sensors.csv"', 'sensors = "few.csv"', "places", "no place for"),
            (
                "secure = true",
                'secure = true\nadded_error = "2 ppb"',
                "units",
                "and the added error",
            ),
        ],
    )
    def test_what_is_wrong_has_its_line(self, network, old, new, line, words):
        folder = network.folder
        frame = pd.read_csv(folder / "site0.csv", index_col="time", parse_dates=True)
        frame.set_axis(frame.index + pd.Timedelta("30min")).to_csv(folder / "shifted.csv")
        (folder / "words.csv").write_text("time,a\nnever,much\n")
        pd.read_csv(folder / "sensors.csv").iloc[:1].to_csv(folder / "few.csv", index=False)
        text = (folder / "site0.toml").read_text()
        if line == "units":
            rows = [
                ("time", "sensor", "value", "unit"),
                *((t, "a", 1.0, "ug/m3") for t in frame.index),
            ]
            (folder / "units.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
            text = text.replace('file = "site0.csv"', 'file = "units.csv"')
        assert old in text
        path = folder / "checked.toml"
        path.write_text(text.replace(old, new))
        rows = checked(path)
        assert not rows[line]["ok"]
        assert words in rows[line]["says"]
        assert rows[line]["remedy"]

    def test_a_party_that_has_run_before_is_looked_at_as_a_new_one(self, network):
        path = network.folder / "ran.toml"
        text = (network.folder / "site0.toml").read_text().replace("site0-state", "ran-state")
        path.write_text(text.replace("site0-filled.csv", "gone/filled.csv"))
        Diary(network.folder / "ran-state").record("test-1")
        rows = checked(path)
        assert not rows["output"]["ok"]
        assert "does not exist" in rows["output"]["says"]
        assert rows["source"]["ok"]
        assert rows["source"]["says"].endswith("site0.csv")

    def test_nothing_is_joined(self, network):
        before = network.said("coordinator")
        checked(network.folder / "site1.toml")
        assert not (network.folder / "site1-state" / "runs").exists()
        new = network.said("coordinator")[len(before) :]
        assert not [line for line in new if "dropped" in line]

    def test_a_broker_without_rights_is_told(self, network, tmp_path):
        lines = [line for line in network._broker_lines() if not line.startswith("acl_file")]
        broker = Mosquitto(tmp_path, lines)
        try:
            path = network.folder / "checked.toml"
            text = (network.folder / "site0.toml").read_text()
            path.write_text(text.replace(f"port = {network.broker.port}", f"port = {broker.port}"))
            rows = checked(path)
            assert rows["rights"]["says"].endswith("this party may write in others' names")
        finally:
            broker.stop()
