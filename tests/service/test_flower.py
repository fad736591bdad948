"""The services of a network under Flower: the same bits as one process, whatever happens.

Here Flower's apps are real and its servers are not; they are in ``test_flower_deployed``.
"""

import time
from dataclasses import replace

import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from deployed import check, fix_secret, pooled
from flfl.errors import FLFLError, InputError
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.protocol.state import network_to_arrays
from flfl.service.flower import _simulation, client, serve, server
from flfl.service.simulation import COORDINATOR_FILE, in_one_process, share_out, site_files
from flfl.transport.flower import GridLink, Start, unseal
from grid import FakeGrid, Node

DATA, ROUNDS = pooled(6, 150, n_sites=3), 2
pytestmark = pytest.mark.usefixtures("own_log")


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    return in_process(lay_out(tmp_path_factory.mktemp("wanted")))


def in_process(folder):
    """The run of a folder's network in one process: what is public, and every owner's file."""
    paths, out = site_files(folder), folder / "out"
    network, _ = in_one_process(folder / COORDINATOR_FILE, paths, out)
    files = {path.stem: (out / f"{path.stem}-filled.csv").read_bytes() for path in paths}
    return network_to_arrays(network), files


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(GridLink.__init__, "__defaults__", (0.001, 0.0))


def lay_out(folder, **run):
    frame, places, owners = DATA
    sensors = replace(places, sites=tuple(owners))
    names = share_out(folder, from_frame(frame), sensors, 3, {"rounds": ROUNDS, **run}, "quick")
    for name in names:
        fix_secret(folder / f"{name}-state")
    return folder


def nodes(folder, start=1, **other):
    """A node for each site; ``other`` gives some of them settings of their own."""
    paths = {path.stem: path for path in site_files(folder)}
    settings = {name: {"site": str(path)} for name, path in paths.items()} | other
    return {number: Node(client, own) for number, own in enumerate(settings.values(), start)}


def run(folder, grid):
    config = {"coordinator": str(folder / COORDINATOR_FILE)}
    server(grid, Context(1, 1, {}, RecordDict(), config))


def test_three_sites_equal_one_process_and_forget_the_runs_secrets(tmp_path, wanted):
    folder = lay_out(tmp_path)
    run(folder, FakeGrid(nodes(folder)))
    check(folder, wanted)
    for name in wanted[1]:
        left = {path.name for path in (folder / f"{name}-state" / "runs").glob("*/*")}
        assert left == {"plan.json", "written"}


@pytest.mark.slow
def test_the_last_reply_is_lost_and_asked_again(tmp_path, wanted):
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
        patch.setattr("flfl.transport.flower._GOODBYE", 0.0)
        patch.setattr("flfl.service.coordinator.CoordinatorService._end", unplug)
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
    grid.faults = lambda number, parcel: "lost" if number == 1 and len(grid.parcels) > 20 else None
    with monkeypatch.context() as patch:
        patch.setattr("flfl.transport.flower._GOODBYE", 0.0)
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
    for parcels in (5, 10, 13, 15):
        grid = FakeGrid()

        def dies(number, parcel, grid=grid, parcels=parcels):
            if len(grid.parcels) == parcels:
                raise Unplugged

        grid.faults = dies
        grid.nodes.update(nodes(folder, start))
        with pytest.raises(Unplugged):
            run(folder, grid)
        start += 10
    run(folder, FakeGrid(nodes(folder, start)))
    check(folder, wanted)
    assert len(list((folder / "coordinator-state" / "runs").iterdir())) == 1


def test_what_a_site_cannot_read_is_told_to_its_owner_only(tmp_path, capsys):
    folder = lay_out(tmp_path)
    bad = folder / "site1.csv"
    frame = pd.read_csv(bad, dtype=str)
    frame.iloc[5, 1] = "secret"
    frame.to_csv(bad, index=False)
    config = folder / COORDINATOR_FILE
    config.write_text(f"{config.read_text()}[deadlines]\ngather_within = 2\n")
    grid = FakeGrid(nodes(folder))
    with pytest.raises(FLFLError, match=r"2 sites are ready and 3 are needed; lacking: site1"):
        run(folder, grid)
    assert "secret" in capsys.readouterr().err
    told = [unseal(reply.content) for reply in grid.said]
    assert any(message.kind == "unable" for parcel in told for message in parcel.messages)
    assert "secret" not in "".join(parcel.head() for parcel in told)
    assert b"secret" not in b"".join(part for parcel in told for part in parcel.parts())


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
def test_a_simulation_shares_a_table_out(tmp_path):
    frame, places, owners = DATA
    frame.to_csv(tmp_path / "readings.csv")
    rows = zip(places.ids, *places.coordinates.T, owners, strict=True)
    lines = [f"{name},{x},{y},{owner}" for name, x, y, owner in rows]
    (tmp_path / "sensors.csv").write_text("\n".join(["sensor_id,latitude,longitude,site", *lines]))
    folder = tmp_path / "simulation"
    config = {
        "coordinator": "",
        "readings": str(tmp_path / "readings.csv"),
        "sensors": str(tmp_path / "sensors.csv"),
        "folder": str(folder),
        "effort": "quick",
        "added-error": 1.0,
        "rounds": ROUNDS,
    }
    simulated = {n: Node(client, {"partition-id": n, "num-partitions": 3}) for n in range(3)}
    server(FakeGrid(simulated, config), Context(1, 1, {}, RecordDict(), config))
    check(folder, in_process(folder))


def test_a_folder_with_another_network_is_not_taken_for_this_one(tmp_path):
    def start(**settings):
        return Start({"folder": str(tmp_path / "simulation"), **settings}, 1, 13, None)

    path = _simulation(start())
    assert _simulation(start()) == path
    with pytest.raises(InputError, match="other settings"):
        _simulation(start(effort="quick"))
    with pytest.raises(InputError, match="other settings"):
        _simulation(replace(start(), nodes=4))
    with pytest.raises(InputError, match="added-error and rounds as numbers"):
        _simulation(start(**{"added-error": "half"}))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="the folder cannot be used"):
        _simulation(start(folder=str(tmp_path / "file")))


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


def test_a_site_without_an_identity_cannot_be_known(tmp_path, capsys):
    folder = lay_out(tmp_path)
    path = folder / "site0.toml"
    lines = [line for line in path.read_text().splitlines() if "identity" not in line]
    path.write_text("\n".join([*lines, "[terms]", "secure = false", ""]))
    config = folder / COORDINATOR_FILE
    config.write_text(f"{config.read_text()}[deadlines]\ngather_within = 2\n")
    with pytest.raises(FLFLError, match="lacking: site0"):
        run(folder, FakeGrid(nodes(folder)))
    assert "known by its identity" in capsys.readouterr().err
