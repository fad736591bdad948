"""A whole network on one machine, for trying out: one table shared out among owners, and the run of
such a network in one process.

In earnest every owner has its own readings on its own machine, and nobody has this table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from flfl.errors import InputError
from flfl.io.grid import MEAN_MONTH
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.io.write import write_sensors
from flfl.model.geometry import find_regions
from flfl.protocol.client import Client
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.owner import Owner
from flfl.protocol.public import Network
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.server import Coordination
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.secagg import LEAST_SITES
from flfl.service import home
from flfl.service.config import CoordinatorConfig, SiteConfig, read_config
from flfl.service.coordinator import plan_of
from flfl.service.grid import TimeGrid
from flfl.service.keys import ROSTER, make_authority, make_site, write_roster
from flfl.service.place import place_of
from flfl.service.sources import save_text
from flfl.service.tables import snapshot, write_tables
from flfl.transport import local

COORDINATOR_FILE = "coordinator.toml"
_SENSORS = "_sensors.csv"
"""No site can be called so."""


def share_out(
    folder: Path,
    table: Table,
    sensors: Sensors,
    n_sites: int,
    run: Mapping[str, str | float] | None = None,
    effort: str = "full",
) -> tuple[str, ...]:
    """Write keys, settings and readings of a network of ``n_sites`` owners; returns their names.

    Owners are those that the sensors name; else neighbours on the map; else each sensor's in turn.

    Parameters
    ----------
    run : settings of the coordinator's ``[run]``; effort : of each site

    Raises
    ------
    InputError
        For a table that cannot be shared out so.
    """
    owners = _owners(table, sensors, n_sites)
    names = tuple(sorted(set(owners)))
    keys = folder / "keys"
    make_authority(keys, "simulation")
    for name in names:
        make_site(keys, name)
    write_roster(keys, names)
    write_sensors(folder / _SENSORS, sensors)
    placed = sensors.coordinates is not None
    for name in names:
        mine = [owner == name for owner in owners]
        table.values.loc[:, mine].to_csv(folder / f"{name}.csv", index_label="time")
        _save(folder / f"{name}.toml", _site(name, placed, effort))
    # Last: whoever finds it finds the rest.
    _save(folder / COORDINATOR_FILE, _coordinator(table, placed, run or {}))
    return names


def site_files(folder: Path) -> list[Path]:
    """The settings of the sites in such a folder, sorted."""
    return sorted(path for path in folder.glob("*.toml") if path.name != COORDINATOR_FILE)


def in_one_process(
    coordinator: Path, sites: Sequence[Path], folder: Path
) -> tuple[Network, Traffic]:
    """Carry a network's run in this process, and write each owner's files into ``folder``.

    The sites' own secrets give the same copies, so that the results equal those of separate
    processes to the last bit. Their stores of copies are not touched.

    Parameters
    ----------
    coordinator, sites : the parties' settings
    """
    settings = read_config(coordinator, CoordinatorConfig)
    given = settings.grid
    grid, place = TimeGrid(given.start, given.step, given.slots), place_of(settings.map)
    plan = plan_of(settings.run, grid, place, str(coordinator))
    configs = sorted((read_config(path, SiteConfig) for path in sites), key=lambda c: c.name)
    names = [config.name for config in configs]
    sums, hiding = local.secure(names) if settings.run.secure else (None, {})
    taken = {config.name: snapshot(config.readings, grid) for config in configs}
    clients, traffic = {}, Traffic()
    for config in configs:
        name, secret = config.name, home.own_secret(home.copies_folder(config) / home.SECRET)
        own = home.table_of(taken[name], name, grid, place.geography, place.centre)
        owner = Owner(own, Copier(secret, CopyStore()), home.floor_of(config))
        clients[name] = Client(owner, plan, hiding.get(name))
    run = Coordination(plan, grid.positions(), traffic)
    parties = [Site(name, own, PROTOCOL, hiding.get(name)) for name, own in clients.items()]
    local.run(Coordinator(run.program(), PROTOCOL, names, {}, security=sums), parties, traffic)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for config in configs:
        effort = home.effort_of(config.out, grid, home.own_secret(config.state / home.SECRET))
        out = replace(config.out, file=folder / config.out.file.name, flags=None)
        result = home.finish(clients[config.name], effort)
        write_tables(out, taken[config.name], grid, result)
    assert run.network is not None
    return run.network, traffic


def _owners(table: Table, sensors: Sensors, n_sites: int) -> list[str]:
    if n_sites < LEAST_SITES:
        raise InputError(
            f"{n_sites} sites, but a sum must cover {LEAST_SITES}",
            where="sites",
            remedy="Try more of them",
        )
    if sensors.sites is not None:
        owners = [re.sub(r"[^A-Za-z0-9._-]", "-", name) for name in sensors.sites]
        if len(set(owners)) != n_sites:
            raise InputError(
                f"the sensors have {len(set(owners))} owners, and {n_sites} sites were asked for",
                where="sites",
                remedy="Ask for as many as there are owners",
            )
        return owners
    count = len(table.sensor_ids)
    labels = np.arange(count) % n_sites
    if sensors.coordinates is not None and sensors.kind is not None:
        rng = np.random.default_rng(0)
        labels = find_regions(sensors.coordinates, sensors.kind, n_sites, rng)
    if len(set(labels.tolist())) != n_sites:
        raise InputError(
            f"{count} sensors cannot be shared out among {n_sites} sites",
            where="sites",
            remedy="Ask for fewer",
        )
    width = len(str(n_sites))
    return [f"site-{label + 1:0{width}d}" for label in labels]


def _coordinator(table: Table, placed: bool, run: Mapping[str, str | float]) -> str:
    start, step, slots = _times(table)
    lines = [f"{name} = {_toml(value)}" for name, value in run.items()]
    return "\n".join(
        [
            'network = "simulation"', 'state = "coordinator-state"',
            "[sites]", f'roster = "keys/{ROSTER}"',
            "[grid]", f'start = "{start}"', f'step = "{step}"', f"slots = {slots}",
            *(["[map]", f'sensors = "{_SENSORS}"'] if placed else []),
            "[run]", *lines, "",
        ]
    )  # fmt: skip


def _site(name: str, placed: bool, effort: str) -> str:
    return "\n".join(
        [
            'network = "simulation"', f'name = "{name}"', f'state = "{name}-state"',
            f'identity = "keys/{name}.identity"', f'roster = "keys/{ROSTER}"',
            "[readings]", f'file = "{name}.csv"', 'layout = "wide"',
            *([f'sensors = "{_SENSORS}"'] if placed else []),
            "[out]", f'file = "{name}-filled.csv"', f'flags = "{name}-flags.csv"',
            f'effort = "{effort}"', "",
        ]
    )  # fmt: skip


def _toml(value: str | float) -> str:
    return json.dumps(value)


def _times(table: Table) -> tuple[str, str, int]:
    index, step = table.values.index, table.step
    if not isinstance(index, pd.DatetimeIndex) or not isinstance(step, pd.Timedelta):
        raise InputError(
            "the rows have numbers, not times", where="readings", remedy="Give the readings' times"
        )
    slots = round(float(table.positions[-1])) + 1
    if step % MEAN_MONTH == pd.Timedelta(0):
        return f"{index[0]:%Y-%m-%dT%H:%M:%S}", f"{step // MEAN_MONTH} month", slots
    return f"{index[0]:%Y-%m-%dT%H:%M:%S}", f"{step // pd.Timedelta(seconds=1)}s", slots


def _save(path: Path, text: str) -> None:
    save_text(path, text.encode())
