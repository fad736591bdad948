"""``flfl demo``: the bundled real data, filled."""

from __future__ import annotations

from pathlib import Path

import click

from flfl.cli.recover import print_result, write_result
from flfl.cli.say import (
    end_progress,
    json_option,
    make_folder,
    print_json,
    round_progress,
    seed_option,
)
from flfl.data.datasets import load_dataset
from flfl.data.write import check_writable
from flfl.recovery import recover

DATASET = "germany_pm10"


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("flfl-demo"),
    show_default=True,
    help="Folder for the results.",
)
@seed_option
@json_option
def demo(out: Path, seed: int, as_json: bool) -> None:
    """Recover real air-quality readings: rural PM10 in Germany, 2005-2009.

    \b
    Example:
      flfl demo --out flfl-demo
    """
    make_folder(out)
    filled, flags = out / "filled.csv", out / "flags.csv"
    for path in (filled, flags):
        check_writable(path)
    table, sensors = load_dataset(DATASET)
    method = "flfl"
    result = recover(table, sensors, method=method, seed=seed, progress=round_progress(method))
    end_progress()
    write_result(filled, flags, table, result)
    if as_json:
        print_json(result.summary() | {"out": str(filled), "flags": str(flags)})
        return
    click.echo("Daily PM10 of rural stations in Germany, 2005-2009 (European Environment Agency)")
    print_result(result, method)
    click.echo(f"Filled table: {filled}")
    click.echo(f"Every value with its flag and interval: {flags}")
