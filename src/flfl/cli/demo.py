"""``flfl demo``: the bundled real data, filled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from flfl.cli import output
from flfl.cli.options import BUNDLED, PATH, json_option, option, seed_option
from flfl.datasets.catalogue import load_dataset
from flfl.recovery import recover
from flfl.recovery.progress import rounds
from flfl.report import missing_libraries

UNIT = "ug/m3"
TITLE = "Daily PM10 of rural stations in Germany, 2005-2009 (European Environment Agency)"


@click.command()
@option("--out", "Folder for the results.", PATH, "flfl-demo")
@option("--report", "The page (.html).  [default: page.html there, with the extra report]", PATH)
@seed_option
@json_option
def demo(out: Path, report: Path | None, seed: int, as_json: bool) -> None:
    """Recover real air-quality readings: rural PM10 in Germany, 2005-2009.

    The owners are the thirteen agencies that run the stations: the federal one and those of twelve
    states. The table says what each gained from the others, and how noisy what left it is.

    \b
    Example:
      flfl demo --out flfl-demo
    """
    output.make_folder(out)
    if report is None and not missing_libraries():
        report = out / "page.html"
    outputs = {"out": out / "filled.csv", "flags": out / "flags.csv", "report": report}
    output.check_before(outputs)
    with output.progress() as tell:
        table, sensors = load_dataset(BUNDLED)
        table = replace(table, units=(UNIT,) * len(sensors.ids))
        result = recover(table, sensors, seed=seed, progress=rounds(tell))
        settings = {"method": "flfl", "seed": seed}
        output.write_recovery(outputs, result, table, sensors, settings, TITLE)
    output.print_recovery(result, outputs, as_json, title=TITLE)
    if report is None:
        missing = " and ".join(missing_libraries())
        click.echo(f"No page: it needs {missing} (pip install 'flfl[report]').", err=True)
