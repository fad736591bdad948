"""One cell of an experiment: a method, with its options, on one mask of one data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from flfl.datasets.catalogue import load_dataset
from flfl.datasets.synthetic import synthesize
from flfl.io.read import from_frame, read_readings
from flfl.io.sensors import Sensors, read_sensors
from flfl.io.table import Table


@dataclass(frozen=True)
class Source:
    """Where readings come from: two files, made-up readings, the first slots of a data set, or else
    a data set of that name."""

    name: str
    readings: str | None = None
    sensors: str | None = None
    made: str | None = None
    """Arguments of :func:`~flfl.datasets.synthetic.synthesize`, and its ``seed``, as JSON."""
    cut: tuple[str, int] | None = None
    """A data set, and how many of its slots are used."""


@dataclass(frozen=True)
class Cell:
    """What is run. Equal definitions have equal results, whatever their labels."""

    source: Source
    fingerprint: str
    pattern: str
    rate: float
    seed: int
    label: str
    method: str
    options: str = "{}"
    """Constructor arguments of the method, as JSON."""
    block_length: int | None = None
    audit: bool = False
    """Whether the configuration is also attacked."""
    expected: float = 10.0
    """Seconds it may take, a guess that only orders the work."""
    owners: str | None = None
    """Who owns which sensor, see :func:`flfl_bench.owners.deal`; None: as the sensors say."""

    @property
    def definition(self) -> dict[str, Any]:
        """All that a result depends on, but for the code between two versions."""
        owned = {} if self.owners is None else {"owners": self.owners}
        return owned | {
            "data": self.source.name,
            "fingerprint": self.fingerprint,
            "pattern": self.pattern,
            "rate": self.rate,
            "seed": self.seed,
            "method": self.method,
            "options": json.loads(self.options),
            "block_length": self.block_length,
            "audit": self.audit,
            "flfl": version("flfl"),
        }

    @property
    def key(self) -> str:
        """A digest of the definition: the name under which the result is kept."""
        return digest(json_text(self.definition).encode())

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the way to a worker."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Cell:
        """The way back."""
        source = given["source"]
        cut = source["cut"] and tuple(source["cut"])
        return cls(**{**given, "source": Source(**{**source, "cut": cut})})


def json_text(value: Any) -> str:
    """JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def digest(content: bytes) -> str:
    """Twenty characters that stand for the content."""
    return hashlib.sha256(content).hexdigest()[:20]


@lru_cache(maxsize=4)
def load(source: Source) -> tuple[Table, Sensors]:
    """The readings and sensors of a source."""
    if source.made is not None:
        given = json.loads(source.made)
        return synthesize(rng=np.random.default_rng(given.pop("seed", 0)), **given)
    if source.cut is not None:
        name, slots = source.cut
        table, sensors = load_dataset(name)
        return from_frame(table.values.iloc[:slots]), sensors
    if source.readings is None:
        return load_dataset(source.name)
    table = read_readings(Path(source.readings))
    if source.sensors is None:
        return table, Sensors(table.sensor_ids)
    return table, read_sensors(source.sensors, table.sensor_ids)


def fingerprint(table: Table, sensors: Sensors) -> str:
    """A digest of the readings, their times and the sensors' places and owners."""
    parts = [
        np.ascontiguousarray(table.values.to_numpy()).tobytes(),
        np.ascontiguousarray(table.positions).tobytes(),
        json_text([sensors.ids, sensors.regions, sensors.sites, sensors.kind]).encode(),
    ]
    if sensors.coordinates is not None:
        parts.append(np.ascontiguousarray(sensors.coordinates).tobytes())
    return digest(b"|".join(parts))
