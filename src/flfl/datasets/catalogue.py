"""Data sets by name: the bundled one, and those in a directory of your own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from flfl.errors import InputError, nearest
from flfl.io.read import read_readings
from flfl.io.sensors import Sensors, read_sensors
from flfl.io.table import Table

DATASETS_VARIABLE = "FLFL_DATA"
# Used when the variable is not set and the directory exists; relative to the current directory.
DEFAULT_DIRECTORY = Path("../shared/data")
READINGS, SENSORS, README = "readings.csv.gz", "sensors.csv", "README.txt"


@dataclass(frozen=True)
class Dataset:
    """A data set at hand: its name, where it lies, and the first line of its README."""

    name: str
    where: str
    about: str


def list_datasets() -> tuple[Dataset, ...]:
    """The data sets at hand: the bundled ones first, then those in ``FLFL_DATA``."""
    found = []
    for name, place in _places().items():
        readme = place / README
        text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
        found.append(Dataset(name, str(place), text.strip().partition("\n")[0].strip()))
    return tuple(found)


def load_dataset(name: str) -> tuple[Table, Sensors]:
    """Load one of `list_datasets` by name; a bundled one comes before its namesake elsewhere."""
    places = _places()
    if name not in places:
        problem = f"there is no data set {name!r} here or in FLFL_DATA"
        raise InputError(problem, where="data set", remedy=nearest(name, places))
    with as_file(places[name]) as directory:
        table = read_readings(directory / READINGS)
        if not (directory / SENSORS).is_file():
            return table, Sensors(table.sensor_ids)
        return table, read_sensors(directory / SENSORS, table.sensor_ids)


def _places() -> dict[str, Traversable]:
    bundled = files("flfl.datasets") / "bundled"
    given = os.environ.get(DATASETS_VARIABLE)
    if given and not Path(given).is_dir():
        problem = f"the directory {given!r} does not exist"
        remedy = "Set FLFL_DATA to a directory of data sets, or unset it"
        raise InputError(problem, where=DATASETS_VARIABLE, remedy=remedy)
    own = Path(given) if given else DEFAULT_DIRECTORY
    places: dict[str, Traversable] = {}
    for place in (*bundled.iterdir(), *(sorted(own.iterdir()) if own.is_dir() else ())):
        if (place / READINGS).is_file():
            places.setdefault(place.name, place)
    return places
