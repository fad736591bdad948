"""``flfl recover``: fill a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flfl.cli.say import (
    exposure_option,
    end_progress,
    figure,
    json_option,
    print_json,
    print_table,
    round_progress,
    seed_option,
    size,
)
from flfl.cli.tables import read_tables, table_options
from flfl.data.table import Table
from flfl.data.write import check_writable, write_flags, write_recovered
from flfl.recovery import Recovery
from flfl.recovery import recover as recover_table


@click.command()
@table_options
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Filled table (.csv, .csv.gz, .parquet).",
)
@click.option(
    "--flags",
    "flags_path",
    type=click.Path(path_type=Path),
    help="Also write a long table: time, sensor, value, flag, lower, upper.",
)
@click.option("--method", default="flfl", show_default=True, help="See `flfl methods`.")
@exposure_option
@click.option(
    "--effort",
    type=click.Choice(["quick", "full"]),
    help="quick leaves the costly boosted head out.  [default: full]",
)
@click.option(
    "--projection",
    type=click.Choice(["fixed", "learned", "adaptive"]),
    help="How readings enter the sums.  [default: fixed]",
)
@click.option("--rank", type=click.IntRange(min=1), help="Number of latent factors.")
@seed_option
@json_option
def recover(
    out: Path,
    flags_path: Path | None,
    method: str,
    max_exposure: float | None,
    effort: str | None,
    projection: str | None,
    rank: int | None,
    seed: int,
    as_json: bool,
    **files: Any,
) -> None:
    """Fill the gaps of READINGS.

    READINGS is a CSV (wide or long) or Parquet file, optionally .gz. Observed values are never
    altered. Some of them are held out and recovered too, and the scores are printed.

    \b
    Example:
      flfl recover readings.csv --sensors sensors.csv --out filled.csv --flags flags.csv
    """
    check_writable(out, files["readings"])
    if flags_path is not None:
        check_writable(flags_path, files["readings"])
    table, sensors = read_tables(**files)
    given = {
        "max_exposure": max_exposure,
        "effort": effort,
        "projection": projection,
        "rank": rank,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    result = recover_table(
        table, sensors, method=method, seed=seed, progress=round_progress(method), **options
    )
    end_progress()
    write_result(out, flags_path, table, result)
    if as_json:
        print_json(result.summary() | {"out": str(out)})
    else:
        print_result(result, method)
        click.echo(f"Filled table: {out}")


def write_result(out: Path, flags_path: Path | None, table: Table, result: Recovery) -> None:
    """Write the filled table and, if wanted, the flags."""
    write_recovered(out, table, result.values)
    if flags_path is not None:
        write_flags(flags_path, table, result.values, result.flags, result.lower, result.upper)


def print_result(result: Recovery, method: str) -> None:
    """The run in a few lines for a person."""
    summary = result.summary()
    for note in summary["notes"]:
        click.echo(f"Note: {note}")
    click.echo(
        f"{summary['sensors']} sensors at {summary['sites']} sites, {summary['slots']} slots:"
        f" {summary['observed']} observed, {summary['recovered']} recovered,"
        f" {summary['refused']} refused"
    )
    click.echo("Error on readings that were hidden and recovered (same units as the file):")
    names = {
        "flfl": method,
        "alone": "each sensor alone (pchip)",
        "linear": "each sensor alone (linear)",
    }
    print_table(
        ["", "MAE", "RMSE"],
        [
            [names.get(name, name), figure(scores["mae"]), figure(scores["rmse"])]
            for name, scores in result.scores.items()
        ],
    )
    click.echo(_verdict(result))
    click.echo(_what_left(summary))


def _what_left(summary: dict[str, Any]) -> str:
    """One plain sentence on what left the sites."""
    sent = (
        f"{summary['rounds']} rounds; sites sent {size(summary['bytes_up'])} and received"
        f" {size(summary['bytes_down'])} (the readings themselves are {size(summary['bytes_raw'])})."
    )
    if summary["numbers_per_reading"] >= 1:
        return f"{sent} Uploads were plain: the coordinator can compute every reading."
    if summary["numbers_per_reading"] == 0:
        return sent
    return (
        f"{sent} Only sums left: {100 * summary['numbers_per_reading']:.0f} numbers for every 100"
        f" readings; exposure at most {summary['exposure']['worst']:.2f}, median"
        f" {summary['exposure']['median']:.2f}."
    )


def _verdict(result: Recovery) -> str:
    scores = result.scores
    if "flfl" not in scores:
        return ""
    ours = scores["flfl"]["mae"]
    alone = min(scores["alone"]["mae"], scores["linear"]["mae"])
    change = 100 * (1 - ours / alone) if alone else 0.0
    if change > 0:
        return f"What federation bought: the error is {change:.0f} % below each sensor alone."
    return f"Federation bought nothing here: the error is {-change:.0f} % above each sensor alone."
