"""What a coordinator's settings make of a run: its times, its map and its plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flfl.config import CoordinatorSettings, MapSettings
from flfl.errors import InputError
from flfl.io.sensors import read_sensors
from flfl.model.basis import Box, map_box, map_centre, to_plane
from flfl.protocol.plan import Plan
from flfl.secagg import Roster
from flfl.service.agreement import Agreement, Geography
from flfl.service.grid import TimeGrid
from flfl.service.identity import load_roster

Map = tuple[Geography, tuple[float, float], Box | None]


def grid_at(settings: CoordinatorSettings, now: float) -> TimeGrid | None:
    """The slots that are closed at a time, in seconds since 1970; None below two."""
    given, until = settings.grid, now - 3600 * settings.run.grace
    slots = TimeGrid.closed(given.start, given.step, until, given.stop)
    return TimeGrid(given.start, given.step, slots) if slots > 1 else None


def agreement_of(settings: CoordinatorSettings, roster: str, grid: TimeGrid) -> Agreement:
    """What a run of these settings on these times agrees on; its number, call, sites and history
    are still empty."""
    run = settings.run
    geography, centre, box = ("", (0.0, 0.0), None) if settings.map is None else _map(settings.map)
    plan = Plan(
        added_error=run.added_error,
        share=run.share,
        rank=run.rank,
        rounds=run.rounds,
        pilot=0.1 if run.pilot else 0.0,
        transform=run.transformation,
        season=run.season,
        period=grid.period(),
        box=box,
        late=run.late == "release",
    )
    roster = roster if run.secure else ""
    return Agreement(settings.network, 0, "", grid, plan, run.secure, roster, (), geography, centre)


def checked_roster(settings: CoordinatorSettings, path: Path) -> Roster:
    """The list of sites as it is now."""
    roster, quorum = load_roster(settings.sites.roster), settings.sites.quorum
    if quorum > len(roster.names):
        raise InputError(
            f"quorum is {quorum}, and the roster lists {len(roster.names)} sites",
            where=f"{path}: sites.quorum",
            remedy="Give a smaller one, or none: the threshold of the roster is kept anyway",
        )
    return roster


def _map(settings: MapSettings) -> Map:
    """The published map: its kind, its centre and its corners."""
    if settings.sensors is not None:
        sensors = read_sensors(settings.sensors)
        if sensors.coordinates is None or sensors.kind is None:
            raise InputError("the sensors have no places", where=str(settings.sensors))
        places, kind = sensors.coordinates, sensors.kind
    elif settings.latitude is not None and settings.longitude is not None:
        places, kind = _corners(settings.latitude, settings.longitude), "latlon"
    elif settings.x is not None and settings.y is not None:
        places, kind = _corners(settings.x, settings.y), "metric"
    else:
        raise InputError(
            "the map needs a sensors file, or two ranges",
            where="[map]",
            remedy="Give latitude = [south, north] and longitude = [west, east], or x and y",
        )
    centre = map_centre(places, kind)
    return kind, centre, map_box(to_plane(places, kind, centre))


def _corners(first: tuple[float, float], second: tuple[float, float]) -> np.ndarray:
    return np.array([[a, b] for a in first for b in second])
