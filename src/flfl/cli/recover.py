"""``flfl recover``: fill a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from flfl.cli import as_options, options, output
from flfl.cli.options import PATH, option
from flfl.estimators.owners import partition
from flfl.estimators.saved_model import load_model
from flfl.io.sensors import Sensors
from flfl.io.suspicions import find_faults
from flfl.io.table import Table
from flfl.io.write import check_rows
from flfl.methods import find
from flfl.recovery import recover as recover_table
from flfl.recovery.progress import rounds
from flfl.recovery.rules import Rules, count_reasons, fault_notes, treated
from flfl.report.content import count


@click.command()
@options.table_options
@option(
    "--out",
    "Filled table (.csv, .csv.gz, .xlsx, .ods, .parquet, .nc); needed but for a dry run.",
    PATH,
)
@option(
    "--flags", "Also write a long table (.csv, .xlsx, .parquet, …) with flags and reasons.", PATH
)
@option("--rows", "Also write the rows as they came, filled, where --step put them together.", PATH)
@option("--report", "Also write a page (.html): map, series, scores, what left the owners.", PATH)
@option("--publish", "Also write a table to publish, filled from noisy copies alone.", PATH)
@option("--max-gap", "Leave longer gaps empty: slots, or a time such as 6h or 2d.", options.GAP)
@option("--min-readings", "Leave sensors with fewer readings empty.", click.IntRange(min=0), 0)
@option(
    "--extrapolate",
    "Fill slots that nobody observed, up to so many beyond an observed one.",
    click.IntRange(min=0),
    0,
)
@option("--bounds", "Limits of what is filled: 0,500 or, with an open end, 0,", options.LIMITS)
@option(
    "--suspicious",
    "Codes such as -99.9, stuck sensors, changes of level: use them, or treat them as missing;"
    " auto: use them, but refuse codes.",
    ["auto", "keep", "missing"],
)
@option("--method", "See `flfl methods`.", None, "flfl", shell_complete=options.complete_method)
@options.method_options
@option("--save-model", "Keep the run (.flfl, readable by you only; holds the noisy copies).", PATH)
@option(
    "--warm-start", "Go on from a kept run; READINGS is its table with new rows at the end.", PATH
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@options.seed_option
@options.json_option
def recover(warm_start: Path | None, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Fill the gaps of READINGS.

    READINGS is text (wide or long, optionally .gz), a spreadsheet, Parquet, NetCDF, a folder or a
    .zip of such files. Observed values are never
    altered; the filled table has the layout of READINGS. Some readings are held out and recovered
    too, and the scores are printed, beside what each owner and each sensor could do alone.

    \b
    Example:
      flfl recover readings.csv --sensors sensors.csv --out filled.csv --flags flags.csv
      flfl recover readings.csv --sensors sensors.csv --out filled.csv --report page.html
      flfl recover readings.csv --sites each --added-error '2 ug/m3' --out filled.csv
      flfl recover readings.csv --out filled.nc --max-gap 2d --min-readings 100 --bounds 0,
      flfl recover readings.csv --max-gap 2d --dry-run
      flfl recover more.csv --sensors sensors.csv --warm-start run.flfl --out filled.csv
    """
    outputs = {name: given.pop(name) for name in ("out", "flags", "rows", "report", "publish")}
    kept = {"save_model": given.pop("save_model")}
    if not dry_run and outputs["out"] is None:
        raise click.UsageError("Missing option '--out'.")
    rules = ("method", "seed", "suspicious", *Rules.model_fields)
    settings = options.take_settings(given)
    settings |= {name: value for name in rules if (value := given.pop(name)) is not None}
    output.check_before(outputs | kept, **given)
    earlier = None if warm_start is None else load_model(warm_start)
    with output.progress() as tell:
        tell(f"reading {given['readings']}")
        table, sensors = options.read_tables(**given)
        if outputs["rows"]:
            check_rows(table, outputs["rows"])
        if dry_run:
            _print_plan(table, sensors, settings, outputs, as_json)
            return
        result = recover_table(
            table, sensors, progress=rounds(tell), warm_start=earlier, **settings
        )
        tell("writing")
        output.write_recovery(outputs | kept, result, result.table, sensors, settings)
    output.print_recovery(result, outputs, as_json)


def _print_plan(
    table: Table,
    sensors: Sensors,
    settings: Mapping[str, Any],
    outputs: output.Outputs,
    as_json: bool,
) -> None:
    """What was understood of a file, and what would be done with it."""
    from flfl.io.inspection import inspect_table

    rules = Rules.check({name: settings.get(name) for name in Rules.model_fields})
    faults, treatment = find_faults(table), settings["suspicious"]
    table = treated(table, faults, treatment)
    refusals, notes = count_reasons(rules.reasons(table)), rules.notes(table)
    # Of those that are kept the inspection tells.
    notes += fault_notes(faults, treatment) if treatment == "missing" else []
    found, method = inspect_table(table, sensors), find(settings["method"]).name
    sites = 1 if method == "pooled" else len(partition(sensors).members)
    refused = sum(refusals.values())
    filled = found.missing - refused
    if as_json:
        plan = {"method": method, "sites": sites, "would_recover": filled, "would_refuse": refused}
        plan |= {"refusals": refusals, "settings": dict(settings), "plan_notes": notes}
        output.print_json(found.as_dict() | plan | {"dry_run": True} | output.named(outputs))
        return
    for sentence in (*found.sentences(), *sensors.notes, *notes):
        click.echo(as_options(sentence))
    why = "; ".join(f"{reason}: {cells}" for reason, cells in refusals.items())
    click.echo(
        f"With these settings {method} would recover {filled} cells of"
        f" {count(found.sensors, 'sensor')} of {count(sites, 'owner')} and refuse {refused}"
        + (f" ({why})." if why else ".")
    )
    if paths := [path for path in output.named(outputs).values() if path is not None]:
        click.echo(f"It would write {', '.join(paths)}.")
    click.echo("Dry run: nothing was written.")
