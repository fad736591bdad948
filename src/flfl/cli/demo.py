"""``flfl demo``: the bundled real data, filled."""

from __future__ import annotations

from pathlib import Path

import click

from flfl.cli.recover import finish
from flfl.cli.say import (
    end_progress,
    json_option,
    make_folder,
    round_progress,
    seed_option,
)
from flfl.cli.tables import BUNDLED
from flfl.data.datasets import load_dataset
from flfl.data.write import check_writable
from flfl.recovery import recover

TITLE = "Daily PM10 of rural stations in Germany, 2005-2009 (European Environment Agency)"


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
    check_writable(filled, flags)
    table, sensors = load_dataset(BUNDLED)
    method = "flfl"
    result = recover(table, sensors, method=method, seed=seed, progress=round_progress(method))
    end_progress()
    finish(result, table, sensors, method, filled, flags, as_json, title=TITLE)
