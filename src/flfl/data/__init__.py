"""Tables in and out, the time grid, masks, data sets and validation."""

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
