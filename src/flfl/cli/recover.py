"""``flfl recover``: fill a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flfl.cli.outcome import Outputs, say
from flfl.cli.plan import say_plan
from flfl.cli.privacy import method_options, privacy_options, privacy_settings, taken
from flfl.cli.say import Progress, json_option, seed_option
from flfl.cli.tables import input_files, read_tables, table_options
from flfl.cli.types import GapType, LimitsType, complete_method
from flfl.errors import InputError
from flfl.estimators.saved_model import load_model, save_model
from flfl.io.write import check_writable
from flfl.recovery import Recovery
from flfl.recovery import recover as recover_table

_SETTINGS = (
    "method", "seed", "max_gap", "min_readings", "bounds", "effort", "rank", "rounds",
    "transformation",
)  # fmt: skip


@click.command()
@table_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Filled table (.csv, .csv.gz, .parquet, .nc); needed but for a dry run.",
)
@click.option(
    "--flags",
    "flags_path",
    type=click.Path(path_type=Path),
    help="Also write a long table (.csv, .csv.gz, .parquet): time, sensor, value, flag, lower,"
    " upper, method, reason, run_id.",
)
@click.option(
    "--report",
    "page_path",
    type=click.Path(path_type=Path),
    help="Also write a page to look at (.html): map, series, scores, what left the sites.",
)
@click.option(
    "--publish",
    "publish_path",
    type=click.Path(path_type=Path),
    help="Also write a table that may be published: filled from noisy copies, without a reading.",
)
@click.option(
    "--max-gap",
    type=GapType(),
    help="Leave longer gaps empty: a number of slots, or a duration such as 6h or 2d.",
)
@click.option(
    "--min-readings",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Leave sensors with fewer readings empty.",
)
@click.option(
    "--bounds",
    type=LimitsType(),
    metavar="LOW,HIGH",
    help="Physical limits, such as 0,500 or, with an open end, 0, : what is filled stays inside.",
)
@click.option(
    "--method",
    default="flfl",
    show_default=True,
    shell_complete=complete_method,
    help="See `flfl methods`.",
)
@privacy_options
@click.option(
    "--effort",
    type=click.Choice(["quick", "full"]),
    help="quick leaves the costly trees out.  [default: full]",
)
@method_options
@click.option("--rounds", type=click.IntRange(min=1), help="Of the shared fit.  [default: 5]")
@click.option(
    "--save-model",
    "model_out",
    type=click.Path(path_type=Path),
    help="Keep the run (.npz, readable by you only; it holds the noisy copies).",
)
@click.option(
    "--warm-start",
    "model_in",
    type=click.Path(path_type=Path),
    help="Go on from a kept run: READINGS is that run's table with new rows at the end.",
)
@click.option(
    "--dry-run", is_flag=True, help="Say what was understood and what would be done; write nothing."
)
@seed_option
@json_option
def recover(
    out: Path | None,
    flags_path: Path | None,
    page_path: Path | None,
    publish_path: Path | None,
    model_out: Path | None,
    model_in: Path | None,
    dry_run: bool,
    as_json: bool,
    **files: Any,
) -> None:
    """Fill the gaps of READINGS.

    READINGS is CSV (wide or long, optionally .gz), Parquet or NetCDF. Observed values are never
    altered; the filled table has the layout of READINGS. Some readings are held out and recovered
    too, and the scores are printed, beside what each owner and each sensor could do alone.

    \b
    Example:
      flfl recover readings.csv --sensors sensors.csv --out filled.csv --flags flags.csv
      flfl recover readings.csv --sensors sensors.csv --out filled.csv --report page.html
      flfl recover readings.csv --sites each --added-error '2 ug/m3' --out filled.csv
      flfl recover readings.csv --out filled.nc --max-gap 2d --min-readings 100 --bounds 0,
      flfl recover readings.csv --max-gap 2d --dry-run
      flfl recover more.csv --sensors sensors.csv --warm-start run.npz --out filled.csv
    """
    options = privacy_settings(files) | taken(files, _SETTINGS)
    outputs = Outputs(out, flags_path, page_path, publish_path)
    if not dry_run and out is None:
        raise click.UsageError("Missing option '--out'.")
    outputs.check(input_files(**files))
    if model_out is not None:
        check_writable(model_out, inputs=input_files(**files), suffixes=(".npz",))
    warm_start = None if model_in is None else load_model(model_in)
    with Progress() as progress:
        progress.stage(f"reading {files['readings']}")
        table, sensors = read_tables(**files)
        if dry_run:
            say_plan(table, sensors, options, outputs, as_json)
            return
        result = recover_table(
            table,
            sensors,
            progress=progress.rounds,
            stage=progress.stage,
            warm_start=warm_start,
            **options,
        )
        if model_out is not None:
            _keep(model_out, result)
        progress.stage("writing")
        outputs.write(result, table, sensors, options)
    say(result, outputs, as_json)


def _keep(path: Path, result: Recovery) -> None:
    if result.remembered is None:
        raise InputError(
            "there is no shared model to keep", where=str(path), remedy="Leave --save-model out"
        )
    save_model(path, result.remembered)
