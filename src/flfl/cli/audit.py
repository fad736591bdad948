"""``flfl audit``: attack a configuration on one's own readings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flfl import audit as auditing
from flfl.cli import FAILED, options
from flfl.cli.options import PATH, option
from flfl.cli.output import check_before, print_json, print_notes, print_table, progress
from flfl.datasets.masks import PATTERNS
from flfl.errors import InputError
from flfl.evaluation import training_mask

HEADER = ("attack", "read: worst", "median", "volatile", "slow", "from copies", "readings", "guess")
LEGEND = """
read: R^2 of what the other sensors cannot predict; volatile: in the tenth of the slots with the
largest residuals; slow: of means over 24 slots (all for the worst sensor). from copies: what can be
read from the noisy copies themselves. readings: guessed within 1 % of the sensor's spread; guess:
by the public model without any attack.
"""


@click.command()
@options.optional_table_options
@option("--disclosure", "sums: the default method. plain: flfl-paper.", ["sums", "plain"])
@options.method_options
@option("--rate", "Keep only this share of the readings first.", options.SHARE)
@option("--pattern", "How --rate hides readings.", list(PATTERNS))
@option(
    "--nights", "Run again, the last slots night by night; 0: do not.", click.IntRange(min=0), 30
)
@option("--save-view", "Write what the coordinator saw (.npz) and the truth (.truth.npz).", PATH)
@options.seed_option
@options.json_option
def audit(
    disclosure: str,
    rate: float | None,
    pattern: str,
    nights: int,
    save_view: Path | None,
    seed: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Run every attack on a configuration, on READINGS (default: the bundled data).

    READINGS may also be the name of a data set (`flfl data list`). Exits with 1 when an attack on
    the messages reads more than the same attack on the noisy copies, or when something left that
    the copies do not explain.

    \b
    Example:
      flfl audit readings.csv --sensors sensors.csv
      flfl audit readings.csv --sites each --added-error 0.5 --save-view view.npz
      flfl audit readings.csv --sensors sensors.csv --disclosure plain
    """
    settings = options.take_settings(given)
    if save_view is not None:
        if disclosure == "plain":
            remedy = "Use --disclosure sums"
            raise InputError("plain uploads are not saved", where="--save-view", remedy=remedy)
        check_before({"save_view": save_view, "truth": auditing.truth_path(save_view)}, **given)
    with progress() as tell:
        tell("reading")
        table, sensors = options.read_tables(**given)
        values = table.values
        if rate is not None:
            values = values.where(training_mask(table, sensors, rate, pattern, seed).T)
        settings |= {"disclosure": disclosure, "nights": nights, "seed": seed}
        report = auditing.audit(values, sensors, progress=tell, **settings)
    print_notes(table, sensors)
    written = []
    if save_view is not None and report.case is not None:
        written = [str(path) for path in auditing.save_view(save_view, report.case)]
    if as_json:
        print_json(report.as_dict() | {"view": written})
    else:
        print_report(report)
        for path in written:
            click.echo(f"Written: {path}")
    if report.failed:
        raise click.exceptions.Exit(FAILED)


def print_report(report: auditing.Report) -> None:
    """The report for a person: what was run, the table, each attack in words, the verdict."""
    run = f"{report.sensors} sensors at {report.sites} sites, {report.disclosure}"
    if report.disclosure == "sums":
        run += f", added error {report.added_error}, share {report.share:g}"
        run += f"; bound {report.bound:.2f}"
    click.echo(f"{run}.")
    for note in report.notes:
        click.echo(f"Note: {note}")
    click.echo()
    rows = []
    for one in report.findings:
        read = (one.residual_read_max, one.residual_read_median, one.volatile_max, one.slow_max)
        shares = (one.readings_exposed, one.guessing_exposes)
        cells = ["-" if value is None else f"{value:.2f}" for value in (*read, one.copies_max)]
        rows.append([one.name, *cells, *("-" if v is None else f"{v:.1%}" for v in shares)])
    print_table(HEADER, rows)
    click.echo(LEGEND)
    for name in dict.fromkeys(one.adversary for one in report.findings):
        attacks = ", ".join(one.name for one in report.findings if one.adversary == name)
        click.echo(f"{name}: {attacks}")
    click.echo(f"\nVerdict: {report.verdict}")
