"""Nights of a network whose clock and broker are made up: who comes, who goes, what is asked."""

import shutil
import sys

import numpy as np
import pytest

import deployed
from flfl.clock import Schedule
from flfl.errors import InputError
from flfl.protocol.plan import Fit
from flfl.service import keys
from flfl.service.agreement import Published
from flfl.service.coordinator_folder import CoordinatorFolder
from flfl.service.coordinator_status import coordinator_status
from flfl.service.files import unseal
from flfl.service.home import open_copier
from service_log import log_given_back
from simulated import World

sys.path.insert(0, str(deployed.ROOT / "bench" / "benchmarks"))


@pytest.fixture(scope="module")
def first_night(tmp_path_factory):
    """A network after its first night, closed."""
    with log_given_back():
        made = World(tmp_path_factory.mktemp("first")).start().night()
        made.close()
    return made


@pytest.fixture
def world(tmp_path, own_log, first_night):
    """The network goes on after its first night."""
    made = World(tmp_path, after=first_night).start()
    yield made
    made.close()


def published(world):
    return Published.from_bytes(unseal(world.folder / "coordinator-state" / "network"))


def runs(world):
    return sorted((world.folder / "coordinator-state" / "runs").glob("*/ended"))


def has(world, name):
    """Whether a site's table is of the last run."""
    folder = world.folder / f"{name}-state" / "runs" / published(world).agreement.run
    return (folder / "written").exists() and world.filled(name)


def goes_on_after(before, after):
    """Nothing that was released is released again."""
    assert after.stops.tolist()[: len(before.stops)] == before.stops.tolist()
    assert after.stop > before.stop
    np.testing.assert_array_equal(after.known[:, : before.stop], before.known)


def test_each_night_adds_the_slots_that_are_closed_and_fits_anew_once_a_month(world):
    assert published(world).network.stop == 171
    stretches = []
    for _ in range(2):
        world.night()
        now = published(world)
        stretches.append((now.network.stop, now.agreement.fit))
        assert all(has(world, name) for name in world.names)
    assert stretches == [(195, Fit.KEPT), (219, Fit.KEPT)]
    world.time += 21 * 86400
    world.night()
    # The runs that were missed are made up once, in one.
    assert (published(world).network.stop, published(world).agreement.fit) == (747, Fit.ANEW)


def test_what_is_public_is_sent_to_nobody_who_has_it(world):
    world.night()
    size = len(published(world).data)
    world.bytes.clear()
    world.night()
    down = sum(n for (sender, _), n in world.bytes.items() if sender == "coordinator")
    assert down < len(world.names) * size


def test_a_site_that_was_away_catches_up_and_takes_part_again(world):
    world.stop_site("site2")
    world.night().night()
    assert "site2" not in published(world).agreement.sites
    world.start_site("site2")
    world.run_until(world.time + 3600)
    # It has not been in the last run, and finishes at home with what that published.
    assert has(world, "site2")
    world.night()
    assert "site2" in published(world).agreement.sites
    assert all(has(world, name) for name in world.names)


@pytest.mark.slow  # tests/protocol/test_late.py has the laws, without services
def test_late_copies_leave_where_the_network_and_the_owner_want_it(tmp_path, own_log):
    world = World(tmp_path, run='late = "release"')
    terms = world.folder / "site1.toml"
    terms.write_text(terms.read_text() + '[terms]\nlate = "release"\n')
    world.start()
    try:
        world.night()
        world.stop_site("site1")
        world.night()
        world.start_site("site1")
        world.night()
        network = published(world).network
        assert set(network.late.rows) == set(network.rows("site1"))
        # The night that it missed, and readings that were not there when a slot was closed.
        assert set(network.late.slots) <= set(range(170, 195))
        assert len(network.late) > 10
        assert not network.known[network.late.rows, network.late.slots].any()
        assert all(has(world, name) for name in world.names)
        world.night()
        after = published(world).network
        assert set(after.late.slots) - set(network.late.slots) <= {218}
        goes_on_after(network, after)
    finally:
        world.close()


def test_a_site_joins_and_another_leaves(tmp_path, own_log):
    world = World(tmp_path, names=[f"site{n}" for n in range(5)])
    folder, four = tmp_path / "keys", [f"site{n}" for n in range(4)]
    keys.write_roster(folder, four)
    for name in four:
        world.start_site(name)
    try:
        world.night()
        keys.write_roster(folder, ())
        world.start_site("site4")
        world.night()
        network = published(world).network
        assert network.names == tuple(world.names)
        assert not network.known[network.rows("site4"), :171].any()
        keys.write_roster(folder, [name for name in world.names if name != "site0"])
        world.stop_site("site0")
        world.night()
        after = published(world).network
        assert "site0" not in after.names
        assert after.known[network.rows("site0"), :195].any()  # its past stays
        assert all(has(world, name) for name in after.names)
        assert not world.crashes
    finally:
        world.close()


def test_a_coordinator_that_lost_its_folder_gets_the_history_from_the_sites(world):
    world.night()
    before = published(world)
    shutil.rmtree(world.folder / "coordinator-state")
    world.night()
    goes_on_after(before.network, published(world).network)
    assert all(has(world, name) for name in world.names)


def test_a_coordinator_with_an_old_backup_releases_nothing_twice(world):
    state, backup = world.folder / "coordinator-state", world.folder / "backup"
    shutil.copytree(state, backup)
    world.night()
    before = published(world)
    shutil.rmtree(state)
    backup.rename(state)
    world.night()
    goes_on_after(before.network, published(world).network)


def test_no_run_twice_however_often_the_coordinator_starts(world):
    count = len(runs(world))
    for _ in range(3):
        world.run_until(world.time + 3600)
    assert len(runs(world)) == count
    assert sum(world.restarts.values()) == 0


def test_an_operator_pauses_resumes_and_asks_for_a_run_now(world):
    folder = CoordinatorFolder(world.folder / "coordinator-state")
    folder.request("pause")
    world.night()
    assert published(world).network.stop == 171
    folder.request("now")
    world.write_readings()
    world.run_until(world.time + 3600)
    assert published(world).network.stop == 201  # until now, not until half past three
    folder.request("resume")
    world.night()
    assert published(world).network.stop == 219


def test_an_operator_ends_a_run_and_the_next_one_is_made(world):
    begin = world.next_morning() - 6 * 3600
    folder = CoordinatorFolder(world.folder / "coordinator-state")
    world.at(begin + 0.3, lambda: folder.request("abort"))
    world.night()
    assert "an operator ended" in world.said()
    assert all(has(world, name) for name in world.names)
    assert not world.crashes


def test_the_status_says_that_runs_are_paused_beside_what_is_wrong(world):
    seen = []

    def look():
        world.coordinator.problem = "the disk is full"
        seen.append(coordinator_status(world.coordinator).problem)

    CoordinatorFolder(world.folder / "coordinator-state").request("pause")
    world.at(world.time + 600, look)
    world.run_until(world.time + 3600)
    assert seen == ["an operator has paused the runs; the disk is full"]


def test_a_late_table_is_a_problem_until_it_stands(world):
    out, away, seen = world.folder / "site1-out", world.folder / "away", []
    run = world.next_morning() - 6 * 3600
    world.at(run - 60, lambda: out.rename(away))
    for when in (run + 1000, run + 3600):
        world.at(when, lambda: seen.append(world.coordinator.problem))
    world.at(run + 1001, lambda: away.rename(out))
    world.night()
    assert seen == ["no report of a written result from site1", ""]
    assert has(world, "site1")


def test_sites_refuse_slots_that_have_not_ended_by_their_clock(world):
    world.jumps["coordinator"] = 86400 * 30
    world.run_until(world.time + 3600)
    assert published(world).network.stop == 171
    assert "have not ended by this site's clock" in world.said()
    world.jumps.clear()
    world.night()
    assert published(world).network.stop == 195


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 9, 27])
def test_random_schedules_of_faults(seed, own_log, simulation_wanted):
    import simulation

    row = simulation.one(seed, simulation_wanted)
    bad = {k: row[k] for k in ("wrong", "lost", "hung", "tracebacks", "loops") if row[k]}
    assert not bad, row


@pytest.fixture(scope="module")
def simulation_wanted(tmp_path_factory):
    import simulation

    return simulation.play(tmp_path_factory.mktemp("wanted"), [])[1]


# --- small parts


@pytest.mark.parametrize(
    ("text", "period", "offset"),
    [
        ("daily 03:30", 86400, 12600),
        ("hourly :10", 3600, 600),
        ("Weekly Mon 00:00", 604800, 345600),
    ],
)
def test_schedules(text, period, offset):
    assert Schedule.parse(text) == Schedule(period, offset)


@pytest.mark.parametrize("text", ["daily", "03:30", "daily 24:00", "hourly 03:10", "weekly 03:30"])
def test_what_is_no_schedule(text):
    with pytest.raises(InputError, match="no schedule"):
        Schedule.parse(text)


def test_a_damaged_marker_is_made_again_from_the_store(tmp_path):
    open_copier(tmp_path).store.close()
    marker = tmp_path / "copies.id"
    before = marker.read_text()
    marker.write_bytes(b"\xff\x00 garbage")
    open_copier(tmp_path).store.close()
    assert marker.read_text() == before
    assert (tmp_path / "copies.id.damaged").exists()
