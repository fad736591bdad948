"""Options that name a user's files, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from flfl.cli.types import NumberOrWord
from flfl.datasets.catalogue import load_dataset
from flfl.io.read import read_readings
from flfl.io.sensors import EACH, Sensors, read_sensors, read_sites
from flfl.io.table import Table

BUNDLED = "germany_pm10"
"""The data set that is read where none is named."""


def table_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """READINGS and everything that says how to read it."""
    return click.argument("readings", type=click.Path(path_type=Path))(_how_to_read(verb))


def optional_table_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The same where READINGS may be left out, for the bundled data, or be a data set's name."""
    argument = click.argument("readings", required=False, type=click.Path(path_type=Path))
    return argument(_how_to_read(verb))


def _how_to_read(verb: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        [
            click.option(
                "--sensors",
                "sensors_path",
                type=click.Path(path_type=Path),
                help="CSV or Parquet with one row a sensor: id, latitude and longitude (or x, y).",
            ),
            click.option(
                "--sites",
                help="Who owns which sensor: a column of the sensors file, a file sensor,site, or"
                " each (every sensor its own owner). Default: the column site, owner or agency;"
                " without it the regions found from the coordinates.",
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
                type=NumberOrWord(),
                help="A number or a word that means 'missing'; may be repeated. Default: -999,"
                " -9999; numbers replace these, words come on top.",
            ),
            click.option(
                "--duplicates",
                type=click.Choice(["refuse", "mean", "first"]),
                default="refuse",
                show_default=True,
                help="What to do with a time that occurs twice.",
            ),
            click.option(
                "--parameter",
                help="Which quantity, when the file holds several: a word of its column parameter,"
                " or a NetCDF variable.",
            ),
            click.option(
                "--date-order",
                type=click.Choice(["auto", "day-first", "month-first"]),
                default="auto",
                show_default=True,
                help="How to read 01/02/2024. auto: as another date of the file tells.",
            ),
            click.option(
                "--time-zone", help="Zone of times without offset, for example Europe/Berlin."
            ),
            click.option(
                "--decimal",
                type=click.Choice(["auto", "point", "comma"]),
                default="auto",
                show_default=True,
                help="The decimal mark. auto: as the cells tell.",
            ),
            click.option(
                "--complete-grid", is_flag=True, help="Insert the rows that the time grid lacks."
            ),
        ]
    ):
        verb = option(verb)
    return verb


def input_files(
    readings: Path | None, sensors_path: Path | None, sites: str | None, **how: Any
) -> list[Path]:
    """The user's files that :func:`table_options` names: none of them may be written to."""
    named = (readings, sensors_path, None if sites in (None, EACH) else Path(str(sites)))
    return [path for path in named if path is not None]


def find_tables(readings: Path | None, **files: Any) -> tuple[Table, Sensors]:
    """Read what :func:`optional_table_options` names."""
    name = BUNDLED if readings is None else str(readings)
    if readings is not None and (readings.exists() or readings.suffix or len(readings.parts) > 1):
        return read_tables(readings, **files)
    table, network = load_dataset(name)
    sensors_path, sites = files["sensors_path"], files["sites"]
    if sensors_path is not None:
        network = read_sensors(sensors_path, table.sensor_ids)
    return table, _owned(network, sites, sensors_path)


def read_tables(
    readings: Path,
    sensors_path: Path | None,
    sites: str | None,
    sentinels: tuple[float | str, ...],
    **how: Any,
) -> tuple[Table, Sensors]:
    """Read what :func:`table_options` names."""
    how["missing_words"] = [word for word in sentinels if isinstance(word, str)]
    numbers = [number for number in sentinels if not isinstance(number, str)]
    if numbers:
        how["sentinels"] = numbers
    table = read_readings(readings, **how)
    ids = table.sensor_ids
    network = Sensors.of_table(table) if sensors_path is None else read_sensors(sensors_path, ids)
    return table, _owned(network, sites, sensors_path)


def _owned(network: Sensors, sites: str | None, sensors_path: Path | None) -> Sensors:
    """The sensors with the owners that ``--sites`` names."""
    if sites is None or sites == EACH:
        return network if sites is None else network.with_sites(EACH)
    return network.with_sites(read_sites(sites, network.ids, sensors_path=sensors_path))
