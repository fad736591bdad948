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
from flfl.benchmark.evaluate import training_mask
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
from flfl.data.masks import PATTERNS
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.data.write import check_writable
from flfl.errors import InputError

HEADER = ("attack", "news: worst", "median", "readings", "guessing", "must withstand")
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
@click.option("--rounds", type=click.IntRange(min=1), help="Exactly so many rounds.")
@click.option("--rate", type=_SHARE, help="Keep only this share of the readings first.")
@click.option(
    "--pattern",
    type=click.Choice(list(PATTERNS)),
    default="random",
    show_default=True,
    help="How --rate hides readings.",
)
@click.option("--quick", is_flag=True, help="Shorter stretches, fewer coalitions, no reruns.")
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
    quick: bool,
    view_path: Path | None,
    seed: int,
    as_json: bool,
    projection: str | None,
    rank: int | None,
    rounds: int | None,
    transformation: str | None,
    **files: Any,
) -> None:
    """Run every attack on a configuration, on READINGS (default: the bundled data).

    READINGS may also be the name of a data set (`flfl data list`). Exits with 1 when a
    configuration that calls itself private is exposed beyond its cap.

    \b
    Example:
      flfl audit readings.csv --sensors sensors.csv
      flfl audit readings.csv --sensors sensors.csv --max-exposure 0.3 --save-view view.npz
      flfl audit readings.csv --sensors sensors.csv --disclosure plain
    """
    given: dict[str, Any] = privacy_settings(files) | {
        "projection": projection,
        "rank": rank,
        "rounds": rounds,
        "transformation": transformation,
    }
    _check_view(view_path, disclosure, files)
    with Progress() as progress:
        progress.stage("reading")
        table, sensors = find_tables(**files)
        values = table.values if rate is None else _hidden(table, sensors, rate, pattern, seed)
        report = run_audit(
            values,
            sensors,
            disclosure=disclosure,
            quick=quick,
            seed=seed,
            progress=progress.stage,
            **{name: value for name, value in given.items() if value is not None},
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
    if path is None or report.view is None:
        return []
    return [str(written) for written in save_view(path, report.view)]


def lines(report: Report) -> Iterator[str]:
    """The report for a person: what was run, the table, each attack in words, the verdict."""
    yield (
        f"{report.n_sensors} sensors at {report.n_sites} sites, {report.disclosure}, rank"
        f" {report.rank}, {report.rounds} rounds, cap {report.max_exposure:g};"
        f" at most {report.numbers_per_reading:.2f} numbers for a reading."
    )
    yield from (f"Note: {note}" for note in report.notes)
    yield ""
    yield from table_lines(HEADER, [_cells(one) for one in report.findings])
    yield ""
    yield "news: share of what the shared model does not explain of a sensor's readings (R^2)."
    yield "readings: guessed within 1 % of the sensor's deviation; guessing: without any attack."
    yield ""
    for one in report.findings:
        yield f"{one.name}: {one.adversary}; assumed to know {one.knows}."
        yield f"    {one.sentence}"
    yield ""
    yield f"Verdict: {report.verdict}"


def _cells(one: Finding) -> list[str]:
    guessed = one.guessing_exposes
    return [
        one.name,
        _share(one.news_read_max, 2),
        _share(one.news_read_median, 2),
        _percent(one.readings_exposed),
        "-" if guessed is None else _percent(max(guessed.mean, guessed.factors)),
        "yes" if one.judged else "no",
    ]


def _share(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{max(value, 0.0):.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
