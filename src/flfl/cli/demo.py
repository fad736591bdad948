"""``flfl demo``: the bundled real data, filled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from flfl.cli.outcome import Outputs, say
from flfl.cli.say import Progress, json_option, make_folder, seed_option
from flfl.cli.tables import BUNDLED
from flfl.datasets.catalogue import load_dataset
from flfl.errors import InputError
from flfl.recovery import recover
from flfl.report import check_report_extra

UNIT = "ug/m3"
TITLE = "Daily PM10 of rural stations in Germany, 2005-2009 (European Environment Agency)"


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("flfl-demo"),
    show_default=True,
    help="Folder for the results.",
)
@click.option(
    "--report",
    "page_path",
    type=click.Path(path_type=Path),
    help="The page to look at (.html).  [default: page.html in the folder, with the extra report]",
)
@seed_option
@json_option
def demo(out: Path, page_path: Path | None, seed: int, as_json: bool) -> None:
    """Recover real air-quality readings: rural PM10 in Germany, 2005-2009.

    The owners are the thirteen agencies that run the stations: the federal one and those of twelve
    states. The table says what each gained from the others, and how noisy what left it is.

    \b
    Example:
      flfl demo --out flfl-demo
    """
    make_folder(out)
    outputs = Outputs(out / "filled.csv", out / "flags.csv", page_path or _page(out))
    outputs.check()
    with Progress() as progress:
        table, sensors = load_dataset(BUNDLED)
        table = replace(table, units=(UNIT,) * len(sensors.ids))
        result = recover(table, sensors, seed=seed, progress=progress.rounds, stage=progress.stage)
        outputs.write(result, table, sensors, {"method": "flfl", "seed": seed}, TITLE)
    say(result, outputs, as_json, title=TITLE, owners=True)


def _page(folder: Path) -> Path | None:
    """The page where the libraries for it are installed; the demo does without."""
    try:
        check_report_extra()
    except InputError:
        return None
    return folder / "page.html"
