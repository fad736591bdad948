"""FLFL as a Flower app: the services of a network, started by Flower.

``server`` carries one run beside the SuperLink, from the coordinator's settings. ``client`` answers
one parcel at a site, from the site's own disk: its journal is replayed, and the process ends. In a
simulation, where nodes have no owner, a table is shared out among them first.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flfl.errors import FLFLError, InputError, explained
from flfl.transport.flower import Settings, Start, Where, client_app, server_app
from flfl.transport.parcels import Parcel, answer

if TYPE_CHECKING:
    from flfl.io.sensors import Sensors
    from flfl.io.table import Table
    from flfl.service.grid import TimeGrid

_LOG = logging.getLogger("flfl.flower")
_BUSY = 600.0
"""Seconds to wait for an earlier process of the same party: one that was thought lost."""
_DATA, _SETTINGS = "germany_pm10", "simulation.json"


def serve(start: Start) -> None:
    """Carry one run.

    Raises
    ------
    FLFLError
        When it failed: Flower then shows the reason, and ends with an error.
    """
    from flfl.service.coordinator import CoordinatorService

    given = str(start.settings.get("coordinator", ""))
    if not given and not start.simulated:
        raise InputError(
            "the run does not know its coordinator",
            where="--run-config",
            remedy="Start it with --run-config 'coordinator=\"/path/of/coordinator.toml\"'",
        )
    path = Path(given).expanduser() if given else _simulation(start)
    service = CoordinatorService(path, _BUSY)
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


def reply(where: Where, parcel: Parcel) -> Parcel:
    """A site's reply to a parcel. Which files are used, only the owner's ``--node-config`` says;
    the run's settings decide nothing here but in a simulation."""
    # Large, and of no use beside the SuperLink.
    from flfl.service.site import SiteService

    given = where.node.get("site")
    path = Path(str(given)).expanduser() if given else _simulated(where)
    service = SiteService(path, _tables, _BUSY)
    try:
        return answer(service, parcel)
    finally:
        service.close()


def _tables(verb: str, path: Path, folder: Path, grid: TimeGrid) -> None:
    """Read or write the owner's tables here: this process ends soon."""
    from flfl.service.tables import in_this_process

    in_this_process(verb, path, folder, grid)


server, client = server_app(serve), client_app(reply)


# --- simulation --------------------------------------------------------------------------------


def _simulated(where: Where) -> Path:
    """The settings of the site that a simulated node stands for."""
    if "partition-id" not in where.node:
        raise InputError(
            "the SuperNode does not know its site",
            where="--node-config",
            remedy="Start it with --node-config 'site=\"/path/of/site.toml\"'",
        )
    from flfl.service.simulation import site_files

    files = site_files(_simulation_folder(where.run, where.number))
    mine = int(where.node["partition-id"])
    if mine >= len(files):
        raise InputError(
            f"node {mine} has no site: there are {len(files)}",
            where="partition-id",
            remedy="Simulate as many nodes as there are sites",
        )
    return files[mine]


def _simulation(start: Start) -> Path:
    """The coordinator's settings of a network that is made for this run."""
    from flfl.service.simulation import COORDINATOR_FILE, share_out
    from flfl.service.sources import save_text

    folder, run = _simulation_folder(start.settings, start.run), _simulation_run(start.settings)
    effort = str(start.settings.get("effort", "full"))
    with explained("the folder cannot be used", where=str(folder), remedy="Choose another folder"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise InputError(
            "the folder belongs to somebody else", where=str(folder), remedy="Choose another folder"
        )
    given = {name: str(start.settings.get(name, "")) for name in ("readings", "sensors")}
    wanted = json.dumps(
        {**given, **run, "effort": effort, "sites": start.nodes}, sort_keys=True
    ).encode()
    if not (folder / COORDINATOR_FILE).exists():
        table, sensors = _simulation_data(start.settings)
        save_text(folder / _SETTINGS, wanted)
        names = share_out(folder, table, sensors, start.nodes, run, effort)
        _LOG.info("%d sensors shared out among %s", len(sensors.ids), ", ".join(names))
    elif not (folder / _SETTINGS).exists() or (folder / _SETTINGS).read_bytes() != wanted:
        raise InputError(
            "the folder holds a network that was made with other settings",
            where=str(folder),
            remedy="Choose another folder, or give the same readings, settings and nodes",
        )
    _LOG.info("the network is in %s", folder)
    return folder / COORDINATOR_FILE


def _simulation_folder(settings: Settings, number: int) -> Path:
    if given := str(settings.get("folder", "")):
        return Path(given).expanduser()
    return Path(tempfile.gettempdir()) / f"flfl-flower-{number}"


def _simulation_run(settings: Settings) -> dict[str, str | float]:
    try:
        run: dict[str, str | float] = {"added_error": float(settings.get("added-error", 1.0))}
        if rounds := int(settings.get("rounds", 0)):
            run["rounds"] = rounds
    except ValueError as error:
        raise InputError(
            str(error), where="--run-config", remedy="Give added-error and rounds as numbers"
        ) from None
    return run


def _simulation_data(settings: Settings) -> tuple[Table, Sensors]:
    from flfl.datasets.catalogue import load_dataset
    from flfl.io.read import read_readings
    from flfl.io.sensors import Sensors, read_sensors

    if not (given := str(settings.get("readings", ""))):
        return load_dataset(_DATA)
    table = read_readings(Path(given).expanduser())
    places = str(settings.get("sensors", ""))
    if not places:
        return table, Sensors.of_table(table)
    return table, read_sensors(Path(places).expanduser(), table.sensor_ids)
