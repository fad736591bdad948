"""What a coordinator's settings make of a run: its map and its plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import MapSettings, RunSettings
from flfl.errors import InputError
from flfl.io.sensors import read_sensors
from flfl.model.basis import Box, map_box, map_centre, to_plane
from flfl.protocol.plan import Plan
from flfl.service.agreement import Geography
from flfl.service.grid import TimeGrid


@dataclass(frozen=True)
class Place:
    """The published map: ``latlon``, ``metric`` or nothing, its centre and its corners."""

    geography: Geography = ""
    centre: tuple[float, float] = (0.0, 0.0)
    box: Box | None = None


def place_of(settings: MapSettings | None) -> Place:
    """The published map from the settings."""
    if settings is None:
        return Place()
    if settings.sensors is not None:
        sensors = read_sensors(settings.sensors)
        if sensors.coordinates is None or sensors.kind is None:
            raise InputError("the sensors have no places", where=str(settings.sensors))
        corners, kind = sensors.coordinates, sensors.kind
    elif settings.latitude is not None and settings.longitude is not None:
        corners, kind = _corners(settings.latitude, settings.longitude), "latlon"
    elif settings.x is not None and settings.y is not None:
        corners, kind = _corners(settings.x, settings.y), "metric"
    else:
        raise InputError(
            "the map needs a sensors file, or two ranges",
            where="[map]",
            remedy="Give latitude = [south, north] and longitude = [west, east], or x and y",
        )
    centre = map_centre(corners, kind)
    return Place(kind, centre, map_box(to_plane(corners, kind, centre)))


def _corners(first: tuple[float, float], second: tuple[float, float]) -> np.ndarray:
    return np.array([[a, b] for a in first for b in second])


def plan_of(run: RunSettings, grid: TimeGrid, place: Place) -> Plan:
    """What all parties of a run are to agree on."""
    return Plan(
        added_error=run.added_error,
        share=run.share,
        rank=run.rank,
        rounds=run.rounds,
        pilot=0.1 if run.pilot else 0.0,
        transform=run.transformation,
        season=run.season,
        period=grid.period(),
        box=place.box,
    )
