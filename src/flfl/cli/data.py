"""``flfl data``: data sets at hand, and made-up ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from flfl.cli.say import json_option, make_folder, print_json, print_table, seed_option
from flfl.datasets.catalogue import list_datasets
from flfl.datasets.synthetic import synthesize
from flfl.io.write import check_writable, write_recovered, write_sensors


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
@click.option("--sensors", "n_sensors", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--slots", "n_slots", default=24 * 60, show_default=True, type=click.IntRange(min=2))
@click.option("--rank", default=4, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--missing", default=0.3, show_default=True, type=click.FloatRange(0, 1, max_open=True)
)
@click.option("--noise", default=1.0, show_default=True, type=click.FloatRange(min=0))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for the two files."
)
@seed_option
@json_option
def synth(
    n_sensors: int,
    n_slots: int,
    rank: int,
    missing: float,
    noise: float,
    out: Path,
    seed: int,
    as_json: bool,
) -> None:
    """Make up a network: smooth factors in space and time, a daily cycle, gaps.

    \b
    Example:
      flfl data synth --sensors 20 --slots 1440 --out made-up
    """
    make_folder(out)
    readings, described = out / "readings.csv", out / "sensors.csv"
    check_writable(readings, described)
    table, sensors = synthesize(
        n_sensors,
        n_slots,
        rank=rank,
        noise=noise,
        missing=missing,
        rng=np.random.default_rng(seed),
    )
    write_recovered(readings, table, table.values)
    write_sensors(described, sensors)
    if as_json:
        print_json({"readings": str(readings), "sensors": str(described)})
        return
    click.echo(f"Readings: {readings}")
    click.echo(f"Sensors: {described}")
