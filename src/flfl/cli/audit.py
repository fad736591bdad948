"""``flfl audit``: attack a configuration on one's own readings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pandas as pd

from flfl.audit import Finding, Report, save_view
from flfl.audit import audit as run_audit
from flfl.audit.saving import truth_path
from flfl.cli.privacy import method_options, privacy_options, privacy_settings
from flfl.cli.say import (
    FAILED,
    Progress,
    json_option,
    print_json,
    seed_option,
    table_lines,
)
from flfl.cli.tables import find_tables, input_files, optional_table_options
from flfl.datasets.masks import PATTERNS
from flfl.errors import InputError
from flfl.evaluation import training_mask
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.io.write import check_writable

HEADER = ("attack", "read: worst", "median", "volatile", "slow", "from copies", "readings", "guess")
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@optional_table_options
@click.option(
    "--disclosure",
    type=click.Choice(["sums", "plain"]),
    default="sums",
    show_default=True,
    help="sums: the default method. plain: the paper's uploads (flfl-paper).",
)
@privacy_options
@method_options
@click.option("--rate", type=_SHARE, help="Keep only this share of the readings first.")
@click.option(
    "--pattern",
    type=click.Choice(list(PATTERNS)),
    default="random",
    show_default=True,
    help="How --rate hides readings.",
)
@click.option(
    "--nights",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="Run a second time with the last slots in so many stretches, one a night; 0: do not.",
)
@click.option(
    "--save-view",
    "view_path",
    type=click.Path(path_type=Path),
    help="Write what the coordinator saw (.npz) and, apart from it, the truth (.truth.npz).",
)
@seed_option
@json_option
def audit(
    disclosure: str,
    rate: float | None,
    pattern: str,
    nights: int,
    view_path: Path | None,
    seed: int,
    as_json: bool,
    rank: int | None,
    transformation: str | None,
    **files: Any,
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
    given = {"rank": rank, "transformation": transformation} | privacy_settings(files)
    _check_view(view_path, disclosure, files)
    with Progress() as progress:
        progress.stage("reading")
        table, sensors = find_tables(**files)
        values = table.values if rate is None else _hidden(table, sensors, rate, pattern, seed)
        report = run_audit(
            values,
            sensors,
            disclosure=disclosure,
            nights=nights,
            seed=seed,
            progress=progress.stage,
            **given,
        )
    for note in (*table.notes, *sensors.notes):
        click.echo(f"Note: {note}", err=True)
    written = _save(view_path, report)
    if as_json:
        print_json(report.as_dict() | {"view": written})
    else:
        for line in lines(report):
            click.echo(line)
        for path in written:
            click.echo(f"Written: {path}")
    if report.failed:
        raise click.exceptions.Exit(FAILED)


def _check_view(path: Path | None, disclosure: str, files: dict[str, Any]) -> None:
    """What cannot be written is said before minutes of work."""
    if path is None:
        return
    if disclosure == "plain":
        raise InputError(
            "plain uploads are not saved", where="--save-view", remedy="Use --disclosure sums"
        )
    check_writable(path, truth_path(path), inputs=input_files(**files), suffixes=(".npz",))


def _hidden(table: Table, sensors: Sensors, rate: float, pattern: str, seed: int) -> pd.DataFrame:
    kept = training_mask(table, sensors, rate, pattern, seed)
    return table.values.where(pd.DataFrame(kept.T, table.values.index, table.values.columns))


def _save(path: Path | None, report: Report) -> list[str]:
    if path is None or report.case is None:
        return []
    return [str(written) for written in save_view(path, report.case)]


def lines(report: Report) -> Iterator[str]:
    """The report for a person: what was run, the table, each attack in words, the verdict."""
    run = f"{report.n_sensors} sensors at {report.n_sites} sites, {report.disclosure}"
    if report.disclosure == "sums":
        run += f", added error {report.added_error}, share {report.share:g}"
        run += f"; bound {report.bound:.2f}"
    yield f"{run}."
    yield from (f"Note: {note}" for note in report.notes)
    yield ""
    yield from table_lines(HEADER, [_cells(one) for one in report.findings])
    yield ""
    yield "read: R^2 of what the other sensors do not foretell; volatile: in the tenth of the slots"
    yield "where most happens; slow: of its means over 24 slots (all for the worst sensor)."
    yield "from copies: what can be read from the noisy copies themselves. readings: guessed within"
    yield "1 % of the sensor's spread; guess: by the public model without any attack."
    yield ""
    for name in dict.fromkeys(one.adversary for one in report.findings):
        yield f"{name}:"
        mine = {one.knows: one for one in reversed(report.findings) if one.adversary == name}
        yield from (f"    {one.name}: knows {one.knows}." for one in reversed(mine.values()))
    yield ""
    yield f"Verdict: {report.verdict}"


def _cells(one: Finding) -> list[str]:
    read = (one.residual_read_max, one.residual_read_median, one.volatile_max, one.slow_max)
    return [
        one.name,
        *("-" if value is None else f"{value:.2f}" for value in (*read, one.copies_max)),
        _percent(one.readings_exposed),
        _percent(one.guessing_exposes),
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
