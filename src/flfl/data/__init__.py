"""Tables in and out, the time grid, masks, data sets and validation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flfl.data.atomic import check_writable, write_files
    from flfl.data.datasets import DATASETS_VARIABLE, Dataset, list_datasets, load_dataset
    from flfl.data.inspection import Inspection, inspect_table
    from flfl.data.masks import PATTERNS, hide
    from flfl.data.read import SENTINELS, from_frame, read_readings
    from flfl.data.scaling import Scaling
    from flfl.data.sensors import Sensors, read_sensors, read_sites, sensors_from_frame
    from flfl.data.synth import synthesize
    from flfl.data.table import Source, Table
    from flfl.data.write import (
        FLAGS,
        flags_of,
        write_flags,
        write_recovered,
        write_result,
        write_sensors,
    )

_HOMES = {
    "flfl.data.atomic": (
        "check_writable",
        "write_files",
    ),
    "flfl.data.datasets": (
        "DATASETS_VARIABLE",
        "Dataset",
        "list_datasets",
        "load_dataset",
    ),
    "flfl.data.inspection": (
        "Inspection",
        "inspect_table",
    ),
    "flfl.data.masks": (
        "PATTERNS",
        "hide",
    ),
    "flfl.data.read": (
        "SENTINELS",
        "from_frame",
        "read_readings",
    ),
    "flfl.data.scaling": ("Scaling",),
    "flfl.data.sensors": (
        "Sensors",
        "read_sensors",
        "read_sites",
        "sensors_from_frame",
    ),
    "flfl.data.synth": ("synthesize",),
    "flfl.data.table": (
        "Source",
        "Table",
    ),
    "flfl.data.write": (
        "FLAGS",
        "flags_of",
        "write_flags",
        "write_recovered",
        "write_result",
        "write_sensors",
    ),
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: a site that only writes whole files needs none of the readers."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "DATASETS_VARIABLE",
    "FLAGS",
    "PATTERNS",
    "SENTINELS",
    "Dataset",
    "Inspection",
    "Scaling",
    "Sensors",
    "Source",
    "Table",
    "check_writable",
    "flags_of",
    "from_frame",
    "hide",
    "inspect_table",
    "list_datasets",
    "load_dataset",
    "read_readings",
    "read_sensors",
    "read_sites",
    "sensors_from_frame",
    "synthesize",
    "write_files",
    "write_flags",
    "write_recovered",
    "write_result",
    "write_sensors",
]
