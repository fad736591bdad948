"""FLFL as a Flower app: the services of a network, started by Flower.

``server`` carries one run beside the SuperLink, from the coordinator's settings. ``client`` answers
one letter at a site. What must outlive it is on the site's own disk, under the run's name. In a
simulation, where nodes have no owner, a table is shared out among them first.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flfl.deployment.resident import call_on
from flfl.engines.door import knock
from flfl.engines.flower import Settings, Start, Where, client_app, server_app
from flfl.engines.letters import Letter, answer
from flfl.errors import FLFLError, InputError, explained

if TYPE_CHECKING:
    from flfl.data.sensors import Sensors
    from flfl.data.table import Table

_LOG = logging.getLogger("flfl.flower")
_BUSY = 600.0
"""Seconds to wait for an earlier letter's process of the same site: one that was thought lost."""
_ANSWER_SECONDS = 86400.0
"""Seconds to wait behind a door; the coordinator's own deadlines are shorter."""
_TRIAL_DATA, _SETTINGS = "germany_pm10", "trial.json"


def serve(start: Start) -> None:
    """Carry one run.

    Raises
    ------
    FLFLError
        When it failed: Flower then shows the reason, and ends with an error.
    """
    from flfl.deployment.coordinator import CoordinatorService

    given = str(start.settings.get("coordinator", ""))
    if not given and not start.simulated:
        raise InputError(
            "the run does not know its coordinator",
            where="--run-config",
            remedy="Start it with --run-config 'coordinator=\"/path/of/coordinator.toml\"'",
        )
    path = Path(given).expanduser() if given else _trial(start)
    service = CoordinatorService(path)
    if service.config.run.every:
        service.close()
        raise InputError(
            "a Flower run is one run",
            where=f"{path}: run.every",
            remedy="Leave it out, and start `flwr run` as often as you like",
        )
    failed = service.serve(start.connect(service.config.network, service.roster))
    if failed:
        raise FLFLError(service.problem or "the run did not finish; start it again to go on")
    _LOG.info("done: every site has its filled table")


def reply(where: Where, letter: Letter) -> Letter:
    """A site's reply to a letter. Which files are used, only the owner's ``--node-config`` says;
    the run's settings decide nothing here but in a simulation."""
    if door := where.node.get("socket"):
        # The owner's own process has the readings and the key; this one need not see them.
        return knock(Path(str(door)).expanduser(), letter, _ANSWER_SECONDS)
    if site := where.node.get("site"):
        return call_on(Path(str(site)).expanduser(), letter)
    return _simulated(where, letter)


server, client = server_app(serve), client_app(reply)


# --- simulation --------------------------------------------------------------------------------


def _simulated(where: Where, letter: Letter) -> Letter:
    """Many sites on one machine: none of them has a process that stays."""
    # Large, and of no use where the site answers elsewhere.
    from flfl.deployment.seat import open_seat
    from flfl.deployment.tables import in_this_process

    with open_seat(_settings_of(where), in_this_process, _BUSY) as seat:
        return answer(seat, letter)


def _settings_of(where: Where) -> Path:
    if "partition-id" not in where.node:
        raise InputError(
            "the SuperNode does not know its site",
            where="--node-config",
            remedy="Start it with --node-config 'site=\"/path/of/site.toml\"', or with socket",
        )
    from flfl.deployment.trial import site_files

    files = site_files(_trial_folder(where.run, where.number))
    mine = int(where.node["partition-id"])
    if mine >= len(files):
        raise InputError(
            f"node {mine} has no site: there are {len(files)}",
            where="partition-id",
            remedy="Simulate as many nodes as there are sites",
        )
    return files[mine]


def _trial(start: Start) -> Path:
    """The coordinator's settings of a network that is made for this run."""
    from flfl.deployment.sources import save_text
    from flfl.deployment.trial import COORDINATOR_FILE, share_out

    folder, run = _trial_folder(start.settings, start.run), _trial_run(start.settings)
    with explained("the folder cannot be used", where=str(folder), remedy="Choose another folder"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise InputError(
            "the folder belongs to somebody else", where=str(folder), remedy="Choose another folder"
        )
    given = {name: str(start.settings.get(name, "")) for name in ("readings", "sensors")}
    wanted = json.dumps({**given, **run, "sites": start.nodes}, sort_keys=True).encode()
    if not (folder / COORDINATOR_FILE).exists():
        table, sensors = _trial_data(start.settings)
        save_text(folder / _SETTINGS, wanted)
        names = share_out(folder, table, sensors, start.nodes, run)
        _LOG.info("%d sensors shared out among %s", len(sensors.ids), ", ".join(names))
    elif not (folder / _SETTINGS).exists() or (folder / _SETTINGS).read_bytes() != wanted:
        raise InputError(
            "the folder holds a network that was made with other settings",
            where=str(folder),
            remedy="Choose another folder, or give the same readings, settings and nodes",
        )
    _LOG.info("the network is in %s", folder)
    return folder / COORDINATOR_FILE


def _trial_folder(settings: Settings, number: int) -> Path:
    if given := str(settings.get("folder", "")):
        return Path(given).expanduser()
    return Path(tempfile.gettempdir()) / f"flfl-flower-{number}"


def _trial_run(settings: Settings) -> dict[str, str | float]:
    run: dict[str, str | float] = {"effort": str(settings.get("effort", "full"))}
    try:
        run["max_exposure"] = float(settings.get("max-exposure", 0.5))
        if rounds := int(settings.get("rounds", 0)):
            run["rounds"] = rounds
    except ValueError as error:
        raise InputError(
            str(error), where="--run-config", remedy="Give max-exposure and rounds as numbers"
        ) from None
    return run


def _trial_data(settings: Settings) -> tuple[Table, Sensors]:
    from flfl.data.datasets import load_dataset
    from flfl.data.read import read_readings
    from flfl.data.sensors import Sensors, read_sensors

    if not (given := str(settings.get("readings", ""))):
        return load_dataset(_TRIAL_DATA)
    table = read_readings(Path(given).expanduser())
    places = str(settings.get("sensors", ""))
    if not places:
        return table, Sensors.of_table(table)
    return table, read_sensors(Path(places).expanduser(), table.sensor_ids)
