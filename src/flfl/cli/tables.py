"""Options that name a user's files, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from flfl.data.read import read_readings
from flfl.data.sensors import Sensors, read_sensors, read_sites
from flfl.data.table import Table


def table_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """READINGS and everything that says how to read it."""
    for option in reversed(
        [
            click.argument("readings", type=click.Path(path_type=Path)),
            click.option(
                "--sensors",
                "sensors_path",
                type=click.Path(path_type=Path),
                help="CSV or Parquet with one row a sensor: id, latitude and longitude (or x, y).",
            ),
            click.option(
                "--sites",
                help="Who owns which sensor: a column of the sensors file, or a file"
                " sensor,site. Default: the regions found from the coordinates.",
            ),
            click.option(
                "--layout",
                type=click.Choice(["auto", "wide", "long"]),
                default="auto",
                show_default=True,
                help="Wide: a column a sensor. Long: time, sensor, value.",
            ),
            click.option("--time-column", help="Name of the time column."),
            click.option("--sensor-column", help="Name of the sensor column (long layout)."),
            click.option("--value-column", help="Name of the value column (long layout)."),
            click.option(
                "--missing",
                "sentinels",
                multiple=True,
                type=float,
                help="A number that means 'missing'; may be repeated. Default: -999, -9999.",
            ),
            click.option(
                "--duplicates",
                type=click.Choice(["refuse", "mean", "first"]),
                default="refuse",
                show_default=True,
                help="What to do with a time that occurs twice.",
            ),
            click.option(
                "--complete-grid", is_flag=True, help="Insert the rows that the time grid lacks."
            ),
        ]
    ):
        verb = option(verb)
    return verb


def input_files(
    readings: Path, sensors_path: Path | None, sites: str | None, **how: Any
) -> list[Path]:
    """The user's files that :func:`table_options` names: none of them may be written to."""
    named = (readings, sensors_path, None if sites is None else Path(sites))
    return [path for path in named if path is not None]


def read_tables(
    readings: Path,
    sensors_path: Path | None,
    sites: str | None,
    sentinels: tuple[float, ...],
    **how: Any,
) -> tuple[Table, Sensors]:
    """Read what :func:`table_options` names."""
    if sentinels:
        how["sentinels"] = sentinels
    table = read_readings(readings, **how)
    ids = table.sensor_ids
    network = Sensors.bare(ids) if sensors_path is None else read_sensors(sensors_path, ids)
    if sites is not None:
        network = network.with_sites(read_sites(sites, ids, sensors_path=sensors_path))
    return table, network
