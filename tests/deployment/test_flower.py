"""The services of a network under Flower: the same bits as one process, whatever happens.

Here Flower's apps are real and its servers are not; they are in ``test_flower_deployed``.
"""

import os
import shutil
import stat
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

import stranger
from deployed import in_process, pooled
from flfl.data.read import from_frame
from flfl.data.sensors import Sensors
from flfl.deployment import resident
from flfl.deployment.flower import _trial, client, serve, server
from flfl.deployment.seat import serve_door
from flfl.deployment.site import SiteService
from flfl.deployment.trial import COORDINATOR_FILE, share_out, site_files
from flfl.engines.flower import GridLink, Start, unseal
from flfl.engines.letters import question, unable
from flfl.errors import FLFLError, InputError
from grid import FakeGrid, Node

DATA, ROUNDS = pooled(6, 72, n_sites=3), 2
pytestmark = pytest.mark.usefixtures("own_log")


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    return in_process(DATA, tmp_path_factory.mktemp("wanted"), rounds=ROUNDS)


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(GridLink.__init__, "__defaults__", (0.001, 0.0))


@pytest.fixture(autouse=True)
def nobody_stays():
    """Sites' processes of runs that do not end would wait for the next letter."""
    yield
    end_residents()


def end_residents():
    for process in resident._started:
        process.terminate()
        process.wait(10)
    resident._started.clear()


def lay_out(folder, **run):
    frame, places, owners = DATA
    sensors = replace(places, sites=tuple(owners))
    share_out(folder, from_frame(frame), sensors, 3, {"effort": "quick", "rounds": ROUNDS, **run})
    return folder


def nodes(folder, start=1, **other):
    """A node for each site; ``other`` gives some of them settings of their own."""
    paths = {path.stem: path for path in site_files(folder)}
    settings = {name: {"site": str(path)} for name, path in paths.items()} | other
    return {number: Node(client, own) for number, own in enumerate(settings.values(), start)}


def run(folder, grid):
    config = {"coordinator": str(folder / COORDINATOR_FILE)}
    server(grid, Context(1, 1, {}, RecordDict(), config))


def check(folder, wanted):
    model, files = wanted
    (path,) = (folder / "coordinator-state" / "runs").glob("*/model.npz")
    with np.load(path) as shared:
        for name, array in model.items():
            np.testing.assert_array_equal(shared[name], array)
    for name, data in files.items():
        assert (folder / f"{name}-filled.csv").read_bytes() == data


@contextmanager
def behind_a_door(folder, name, street=None):
    """A site whose owner answers in a process of its own (here, a thread)."""
    path, door = folder / f"{name}.toml", (street or folder) / f"{name}.sock"
    path.write_text(f'{path.read_text()}[flower]\nsocket = "{door}"\n')
    service = SiteService(path)
    thread = threading.Thread(target=serve_door, args=(service, door, True))
    thread.start()
    try:
        yield {"socket": str(door)}
    finally:
        service.stop()
        thread.join()


def test_three_sites_equal_one_process_and_forget_the_runs_secrets(tmp_path, wanted):
    """Two have a process that the first letter started, one answers behind its owner's door."""
    folder = lay_out(tmp_path)
    with behind_a_door(folder, "site1") as settings:
        run(folder, FakeGrid(nodes(folder, site1=settings)))
    check(folder, wanted)
    for name in wanted[1]:
        left = {path.name for path in (folder / f"{name}-state" / "runs").glob("*/*")}
        assert left == {"plan.json", "written", "model.npz"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_who_brings_letters_to_a_door_cannot_read_what_is_behind_it():
    """Code that a SuperLink hands out runs as the SuperNode's user; this is all it gets."""
    base, group = Path(tempfile.mkdtemp()), 12345
    try:
        base.chmod(0o755)
        home, street = base / "home", base / "street"
        home.mkdir(mode=0o700)
        street.mkdir()
        os.chown(street, -1, group)
        street.chmod(0o2750)
        lay_out(home)

        with behind_a_door(home, "site0", street):
            until = time.monotonic() + 10
            while not (street / "site0.sock").exists() and time.monotonic() < until:
                time.sleep(0.02)
            got = stranger.gets(home, street / "site0.sock", group)
            assert got.pop("site") == "site0"
            assert not any(got.values())
            # The attempt finds what it may find.
            home.chmod(0o755)
            assert stranger.gets(home, street / "site0.sock", group)["site0.csv"]
    finally:
        shutil.rmtree(base)


@pytest.mark.slow
def test_a_door_that_is_cleared_away_is_opened_again(tmp_path, wanted):
    def clears(number, letter):
        if len(grid.letters) in (20, 90):
            for door in [folder / "site1.sock", folder / "site2-state" / "door.sock"]:
                door.unlink()
                until = time.monotonic() + 10
                while not door.exists():
                    assert time.monotonic() < until
                    time.sleep(0.02)

    folder = lay_out(tmp_path)
    with behind_a_door(folder, "site1") as settings:
        grid = FakeGrid(nodes(folder, site1=settings), faults=clears)
        run(folder, grid)
    check(folder, wanted)


@pytest.mark.slow
def test_the_last_reply_is_lost_and_the_site_is_another_process_then(tmp_path, wanted):
    folder = lay_out(tmp_path)
    config = folder / COORDINATOR_FILE
    config.write_text(f"{config.read_text()}[deadlines]\nanswer_within = 2\nmisses = 9\n")

    class Lossy(FakeGrid):
        lost = False

        def pull_messages(self, keys):
            replies = super().pull_messages(keys)
            last = [] if self.lost else [r for r in replies if '"done"' in str(r.content)][:1]
            if last:
                self.lost = True
                end_residents()
            return [reply for reply in replies if reply not in last]

    grid = Lossy(nodes(folder))
    run(folder, grid)
    assert grid.lost
    check(folder, wanted)


@pytest.mark.slow
def test_a_coordinator_that_dies_at_the_very_end_hears_again_that_all_is_written(
    tmp_path, wanted, monkeypatch
):
    folder = lay_out(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("flfl.engines.flower._GOODBYE", 0.0)
        patch.setattr("flfl.deployment.coordinator.CoordinatorService._end", unplug)
        with pytest.raises(Unplugged):
            run(folder, FakeGrid(nodes(folder)))
    start = time.monotonic()
    run(folder, FakeGrid(nodes(folder, 11)))
    assert time.monotonic() - start < 60  # answer_within is 300
    check(folder, wanted)


@pytest.mark.slow
def test_secrets_of_a_run_whose_end_was_not_heard_go_with_the_next(tmp_path, monkeypatch):
    folder = lay_out(tmp_path)
    config = folder / COORDINATOR_FILE
    config.write_text(f"{config.read_text()}[deadlines]\nfinish_within = 3\n")
    grid = FakeGrid(nodes(folder))
    grid.faults = lambda number, letter: "lost" if number == 1 and len(grid.letters) > 40 else None
    with monkeypatch.context() as patch:
        patch.setattr("flfl.engines.flower._GOODBYE", 0.0)
        with pytest.raises(FLFLError, match="did not finish"):
            run(folder, grid)
    runs = folder / "site0-state" / "runs"
    assert list(runs.glob("*/secret"))
    config.write_text(config.read_text().replace("finish_within = 3", ""))
    run(folder, FakeGrid(nodes(folder, 11)))
    assert len(list(runs.iterdir())) == 2
    assert not [*runs.glob("*/secret"), *runs.glob("*/site.journal")]


def unplug(*_):
    raise Unplugged


class Unplugged(BaseException):
    """The SuperLink dies, and the coordinator's process with it."""


@pytest.mark.slow
def test_after_a_superlinks_death_the_run_goes_on(tmp_path, wanted):
    """A new run of Flower's, new nodes, new processes; the same run of ours."""
    folder, start = lay_out(tmp_path), 1
    for letters in (8, 30, 40, 60):
        grid = FakeGrid()

        def dies(number, letter, grid=grid, letters=letters):
            if len(grid.letters) == letters:
                raise Unplugged

        grid.faults = dies
        grid.nodes.update(nodes(folder, start))
        with pytest.raises(Unplugged):
            run(folder, grid)
        start += 10
    run(folder, FakeGrid(nodes(folder, start)))
    check(folder, wanted)
    assert len(list((folder / "coordinator-state" / "runs").iterdir())) == 1


def test_what_a_site_cannot_read_is_told_to_its_owner_only(tmp_path):
    folder = lay_out(tmp_path)
    bad = folder / "site1.csv"
    frame = pd.read_csv(bad, dtype=str)
    frame.iloc[5, 1] = "secret"
    frame.to_csv(bad, index=False)
    config = folder / COORDINATOR_FILE
    config.write_text(f"{config.read_text()}[deadlines]\ngather_within = 8\n")
    grid = FakeGrid(nodes(folder))
    with pytest.raises(FLFLError, match=r"2 sites are ready and 3 are needed; lacking: site1"):
        run(folder, grid)
    assert "secret" in (folder / "site1-state" / "resident.log").read_text()
    told = [unseal(reply.content) for reply in grid.said]
    assert any(message.kind == "unable" for letter in told for message in letter.messages)
    assert "secret" not in "".join(letter.head() for letter in told)
    assert b"secret" not in b"".join(part for letter in told for part in letter.parts())


def test_the_runs_settings_name_no_files_of_a_site(tmp_path, capsys):
    """Whoever starts a run must not choose what a site reads; a node that has a number and no site
    is a simulated one."""
    folder = lay_out(tmp_path)
    grid = FakeGrid({1: Node(client, {})}, {"folder": str(folder), "site": str(folder / "x")})
    config = folder / COORDINATOR_FILE
    config.write_text(f"{config.read_text()}[deadlines]\ngather_within = 0.2\n")
    with pytest.raises(FLFLError, match="0 sites are ready"):
        run(folder, grid)
    assert "the SuperNode does not know its site" in capsys.readouterr().err


@pytest.mark.slow
def test_a_simulation_shares_a_table_out(tmp_path, wanted):
    frame, places, owners = DATA
    frame.to_csv(tmp_path / "readings.csv")
    rows = zip(places.ids, *places.coordinates.T, owners, strict=True)
    lines = [f"{name},{x},{y},{owner}" for name, x, y, owner in rows]
    (tmp_path / "sensors.csv").write_text("\n".join(["sensor_id,latitude,longitude,site", *lines]))
    folder = tmp_path / "trial"
    config = {
        "coordinator": "",
        "readings": str(tmp_path / "readings.csv"),
        "sensors": str(tmp_path / "sensors.csv"),
        "folder": str(folder),
        "effort": "quick",
        "max-exposure": 0.5,
        "rounds": ROUNDS,
    }
    simulated = {n: Node(client, {"partition-id": n, "num-partitions": 3}) for n in range(3)}
    server(FakeGrid(simulated, config), Context(1, 1, {}, RecordDict(), config))
    check(folder, wanted)


class TestResident:
    """The process that stays."""

    @pytest.fixture
    def site(self, tmp_path):
        return lay_out(tmp_path) / "site0.toml"

    def test_it_stays_and_is_started_again_when_it_was_killed(self, site):
        assert resident.call_on(site, question("trial", [])).header["site"] == "site0"
        assert resident.call_on(site, question("trial", [])).header["site"] == "site0"
        (process,) = resident._started
        process.kill()
        process.wait()
        assert (site.parent / "site0-state" / "door.sock").exists()
        assert resident.call_on(site, question("trial", [])).header["site"] == "site0"
        assert len(resident._started) == 2

    def test_two_letters_at_once_start_one(self, site):
        heard = []
        threads = [
            threading.Thread(
                target=lambda: heard.append(resident.call_on(site, question("trial", [])))
            )
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [letter.header["site"] for letter in heard] == ["site0"] * 3
        until = time.monotonic() + 20
        while [process.poll() for process in resident._started].count(None) > 1:
            assert time.monotonic() < until
            time.sleep(0.05)
        ended = [process.poll() for process in resident._started]
        assert sorted(ended, key=str) == [resident.HELD] * (len(ended) - 1) + [None]

    def test_settings_that_were_corrected_are_read(self, site):
        resident.call_on(site, question("trial", []))
        text = site.read_text()
        site.write_text(text.replace('network = "trial"', 'network = "other"'))
        assert resident.call_on(site, question("other", [])) == unable()
        resident._started[0].wait(10)
        assert resident.call_on(site, question("other", [])).header["site"] == "site0"

    def test_why_it_does_not_start_is_known_at_once_and_to_the_owner(self, site):
        resident.call_on(site, question("trial", []))
        end_residents()
        site.write_text(site.read_text().replace("site0.identity", "gone.identity"))
        start = time.monotonic()
        with pytest.raises(FLFLError, match=r"did not start: flfl: .*gone\.identity"):
            resident.call_on(site, question("trial", []))
        assert time.monotonic() - start < 20
        log = site.parent / "site0-state" / "resident.log"
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_folder_with_another_network_is_not_taken_for_this_one(tmp_path):
    def start(**settings):
        return Start({"folder": str(tmp_path / "trial"), **settings}, 1, 3, None)

    path = _trial(start())
    assert _trial(start()) == path
    with pytest.raises(InputError, match="other settings"):
        _trial(start(effort="quick"))
    with pytest.raises(InputError, match="other settings"):
        _trial(replace(start(), nodes=4))
    with pytest.raises(InputError, match="max-exposure and rounds as numbers"):
        _trial(start(**{"max-exposure": "half"}))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="the folder cannot be used"):
        _trial(start(folder=str(tmp_path / "file")))


@pytest.mark.parametrize(
    ("n_nodes", "words"),
    [(2, "2 sites, but a sum must cover 3"), (4, "3 owners, and 4 sites were asked for")],
)
def test_a_simulation_with_too_few_or_too_many_nodes(tmp_path, n_nodes, words):
    frame, places, owners = DATA
    sensors = replace(places, sites=tuple(owners))
    with pytest.raises(InputError, match=words):
        share_out(tmp_path, from_frame(frame), sensors, n_nodes)
    assert not list(tmp_path.iterdir())


def test_tables_without_owners_or_places_are_shared_out_too(tmp_path):
    frame, places, _ = DATA
    placed = share_out(tmp_path / "a", from_frame(frame), places, 4)
    bare = share_out(tmp_path / "b", from_frame(frame), Sensors.bare(places.ids), 4)
    assert placed == bare == ("site-1", "site-2", "site-3", "site-4")
    with pytest.raises(InputError, match="6 sensors cannot be shared out among 10"):
        share_out(tmp_path / "c", from_frame(frame), places, 10)


def test_a_deployment_without_a_coordinator_makes_up_no_network():
    with pytest.raises(InputError, match="the run does not know its coordinator"):
        serve(Start({"coordinator": ""}, 1, 3, None, simulated=False))


def test_runs_that_repeat_themselves_are_refused(tmp_path):
    folder = lay_out(tmp_path, every=60.0)
    config = {"coordinator": str(folder / COORDINATOR_FILE)}
    with pytest.raises(InputError, match="a Flower run is one run"):
        serve(Start(config, 1, 3, lambda network, roster: None))


def test_a_site_without_an_identity_cannot_be_known(tmp_path):
    folder = lay_out(tmp_path)
    path = folder / "site0.toml"
    lines = [line for line in path.read_text().splitlines() if "identity" not in line]
    path.write_text("\n".join([*lines, "[terms]", "secure = false", ""]))
    service = SiteService(path)
    with pytest.raises(InputError, match="known by its identity"):
        serve_door(service, tmp_path / "x.sock")
