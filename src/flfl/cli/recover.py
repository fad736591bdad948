"""``flfl recover``: fill a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from flfl.baselines import Method, find
from flfl.cli.privacy import account_option, method_options, privacy_options, privacy_settings
from flfl.cli.say import (
    count,
    end_progress,
    figure,
    json_option,
    print_json,
    round_progress,
    seed_option,
    size,
    table_lines,
)
from flfl.cli.tables import input_files, read_tables, table_options
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.data.write import check_outputs, check_writable, write_result
from flfl.errors import InputError
from flfl.estimators.memory import load_model, save_model
from flfl.recovery import Recovery
from flfl.recovery import recover as recover_table


@click.command()
@table_options
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Filled table (.csv, .csv.gz, .parquet, .nc).",
)
@click.option(
    "--flags",
    "flags_path",
    type=click.Path(path_type=Path),
    help="Also write a long table: time, sensor, value, flag, lower, upper.",
)
@click.option("--method", default="flfl", show_default=True, help="See `flfl methods`.")
@privacy_options
@account_option
@click.option(
    "--effort",
    type=click.Choice(["quick", "full"]),
    help="quick leaves the costly boosted head out.  [default: full]",
)
@method_options
@click.option(
    "--save-model",
    "model_out",
    type=click.Path(path_type=Path),
    help="Keep the run (.npz, readable by you only; it holds latent vectors).",
)
@click.option(
    "--warm-start",
    "model_in",
    type=click.Path(path_type=Path),
    help="Go on from a kept run: READINGS is that run's table with new rows at the end.",
)
@seed_option
@json_option
def recover(
    out: Path,
    flags_path: Path | None,
    method: str,
    effort: str | None,
    projection: str | None,
    rank: int | None,
    transformation: str | None,
    model_out: Path | None,
    model_in: Path | None,
    seed: int,
    as_json: bool,
    **files: Any,
) -> None:
    """Fill the gaps of READINGS.

    READINGS is a CSV file (wide or long, optionally .gz) or a Parquet file. Observed values are
    never altered. Some of them are held out and recovered too, and the scores are printed.

    \b
    Example:
      flfl recover readings.csv --sensors sensors.csv --out filled.csv --flags flags.csv
      flfl recover more.csv --sensors sensors.csv --warm-start run.npz --out filled.csv
    """
    options = privacy_settings(files)
    check_outputs(out, flags_path, inputs=input_files(**files))
    if model_out is not None:
        check_writable(model_out, inputs=input_files(**files), suffixes=(".npz",))
    warm_start = None if model_in is None else load_model(model_in)
    table, sensors = read_tables(**files)
    given = {
        "effort": effort,
        "projection": projection,
        "rank": rank,
        "transformation": transformation,
    }
    options |= {name: value for name, value in given.items() if value is not None}
    result = recover_table(
        table,
        sensors,
        method=method,
        seed=seed,
        progress=round_progress(method),
        warm_start=warm_start,
        **options,
    )
    end_progress()
    if model_out is not None:
        _keep(model_out, result)
    finish(result, table, sensors, method, out, flags_path, as_json)


def _keep(path: Path, result: Recovery) -> None:
    if result.remembered is None:
        raise InputError(
            "there is no shared model to keep", where=str(path), remedy="Leave --save-model out"
        )
    save_model(path, result.remembered)


def finish(
    result: Recovery,
    table: Table,
    sensors: Sensors,
    method: str,
    out: Path,
    flags_path: Path | None,
    as_json: bool,
    title: str = "",
) -> None:
    """Write the filled table and, if wanted, the flags; say what was done."""
    write_result(
        out,
        flags_path,
        table,
        result.values,
        result.flags,
        result.lower,
        result.upper,
        result.provenance,
        sensors,
    )
    flags = None if flags_path is None else str(flags_path)
    if as_json:
        print_json(result.summary() | {"out": str(out), "flags": flags})
        return
    if title:
        click.echo(title)
    for line in _sentences(result, method):
        click.echo(line)
    click.echo(f"Filled table: {out}")
    if flags:
        click.echo(f"Every value with its flag and interval: {flags}")


def _sentences(result: Recovery, method: str) -> Iterator[str]:
    """The run in a few lines for a person."""
    summary = result.summary()
    yield from (f"Note: {note}" for note in summary["notes"])
    yield (
        f"{count(summary['sensors'], 'sensor')} at {count(summary['sites'], 'site')},"
        f" {count(summary['slots'], 'slot')}: {summary['observed']} observed,"
        f" {summary['recovered']} recovered, {summary['refused']} refused"
    )
    if result.scores:
        names = {
            "flfl": method,
            "alone": "each sensor alone (pchip)",
            "linear": "each sensor alone (linear)",
            "site": "each site alone (nothing shared)",
        }
        yield "Error on readings that were hidden and recovered (same units as the file):"
        yield from table_lines(
            ["", "MAE", "RMSE"],
            [
                [names.get(name, name), figure(scores["mae"]), figure(scores["rmse"])]
                for name, scores in result.scores.items()
            ],
        )
    if result.verdict:
        yield result.verdict
    yield _what_left(summary, find(method))


def _what_left(summary: dict[str, Any], method: Method) -> str:
    """Plain sentences on what left the sites."""
    if method.pooled:
        return "Every reading was brought to one place: this method keeps nothing at home."
    if not method.federated:
        return "Nothing left any site: each sensor was filled from its own readings."
    sites = max(summary["sites"], 1)
    sent = (
        f"In {count(summary['rounds'], 'round')} a site sent {size(summary['bytes_up'] / sites)}"
        f" and received {size(summary['bytes_down'] / sites)} on average; its readings are"
        f" {size(summary['bytes_raw'] / sites)}."
    )
    numbers, worst = summary["numbers_per_reading"], summary["exposure"]["worst"]
    if numbers >= 1 or worst >= 1:
        return f"{sent} The coordinator can compute every reading from what it received."
    hidden = " The coordinator saw them only added up over all sites." if summary["secure"] else ""
    return (
        f"{sent} Only sums over sensors left: {100 * numbers:.0f} numbers for every 100 readings."
        f"{hidden} Exposure that the sites computed before sending: at most {worst:.2f} of any"
        f" sensor's news, median {summary['exposure']['median']:.2f}."
    )
