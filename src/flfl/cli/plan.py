"""``--dry-run``: what was understood of a file, and what `recover` would do with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from flfl.cli.outcome import Outputs
from flfl.cli.say import print_json
from flfl.estimators.owners import partition
from flfl.io.inspection import inspect_table
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.methods import find
from flfl.recovery.rules import Rules
from flfl.report.words import count


def say_plan(
    table: Table, sensors: Sensors, options: Mapping[str, Any], outputs: Outputs, as_json: bool
) -> None:
    """Say it all and do nothing."""
    method = find(options["method"])
    rules = Rules(options.get("max_gap"), options.get("min_readings", 0), options.get("bounds"))
    refusals = rules.refusals(table)
    refused = sum(refusals.values())
    found = inspect_table(table, sensors)
    sites = len(partition(sensors).site_names)
    notes = rules.notes(table)
    if as_json:
        plan = {
            "method": method.name,
            "sites": sites,
            "would_recover": found.missing - refused,
            "would_refuse": refused,
            "refusals": refusals,
            "settings": dict(options),
            "plan_notes": notes,
            "dry_run": True,
        }
        print_json(found.as_dict() | plan | outputs.as_dict())
        return
    for sentence in (*found.sentences(), *sensors.notes, *notes):
        click.echo(sentence)
    why = "; ".join(f"{reason}: {cells}" for reason, cells in refusals.items())
    click.echo(
        f"With these settings {method.name} would recover {found.missing - refused} cells of"
        f" {count(found.sensors, 'sensor')} at {count(sites, 'site')} and refuse {refused}"
        + (f" ({why})." if why else ".")
    )
    named = [path for path in outputs.as_dict().values() if path is not None]
    if named:
        click.echo(f"It would write {', '.join(named)}.")
    click.echo("Dry run: nothing was written.")
