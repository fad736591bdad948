"""``flfl data``: data sets at hand, and made-up ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from flfl.cli.options import PATH, json_option, option, seed_option
from flfl.cli.output import make_folder, print_json, print_table
from flfl.datasets.catalogue import list_datasets
from flfl.datasets.synthetic import synthesize
from flfl.io.files import check_writable
from flfl.io.write import write_result, write_sensors


@click.group()
def data() -> None:
    """Data sets: list them, or make one up.

    \b
    Example:
      flfl data list
      flfl data synth --out made-up
    """


@data.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the bundled data set and those in the folder FLFL_DATA.

    \b
    Example:
      flfl data list
    """
    found = list_datasets()
    if as_json:
        print_json({"datasets": [asdict(dataset) for dataset in found]})
        return
    print_table(["name", "about"], [[dataset.name, dataset.about] for dataset in found])


@data.command()
@option("--sensors", "Number of sensors.", click.IntRange(min=1), 20)
@option("--slots", "Number of slots, one an hour.", click.IntRange(min=2), 720)
@option("--rank", "Number of factors.", click.IntRange(min=1), 4)
@option("--missing", "Share of readings left out.", click.FloatRange(0, 1, max_open=True), 0.2)
@option("--noise", "Size of what the factors do not explain.", click.FloatRange(min=0), 1.0)
@option("--out", "Folder for the two files.", PATH, required=True)
@seed_option
@json_option
def synth(out: Path, seed: int, as_json: bool, **shape: Any) -> None:
    """Make up a network: smooth factors in space and time, a daily cycle, gaps.

    \b
    Example:
      flfl data synth --sensors 20 --slots 1440 --out made-up
    """
    make_folder(out)
    readings, described = out / "readings.csv", out / "sensors.csv"
    check_writable(readings, described)
    table, sensors = synthesize(**shape, rng=np.random.default_rng(seed))
    write_result(readings, None, table, table.values)
    write_sensors(described, sensors)
    if as_json:
        print_json({"readings": str(readings), "sensors": str(described)})
        return
    click.echo(f"Readings: {readings}")
    click.echo(f"Sensors: {described}")
