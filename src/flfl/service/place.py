"""The published map: what a network tells of where its sensors stand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.errors import InputError
from flfl.io.sensors import read_sensors
from flfl.model.geometry import map_box, map_centre, to_plane
from flfl.protocol.plan import Box
from flfl.service.config import MapSettings


@dataclass(frozen=True)
class Place:
    """The published map: ``latlon``, ``metric`` or nothing, its centre and its corners."""

    geography: str = ""
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
        centre = map_centre(corners, kind)
        return Place(kind, centre, map_box(to_plane(corners, kind, centre)))
    for kind, first, second in (
        ("latlon", settings.latitude, settings.longitude),
        ("metric", settings.x, settings.y),
    ):
        if first is not None and second is not None and len(first) == len(second) == 2:
            corners = np.array([[a, b] for a in first for b in second])
            centre = map_centre(corners, kind)
            return Place(kind, centre, map_box(to_plane(corners, kind, centre)))
    raise InputError(
        "the map needs a sensors file, or two ranges",
        where="[map]",
        remedy="Give latitude = [south, north] and longitude = [west, east], or x and y",
    )
