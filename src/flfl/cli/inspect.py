"""``flfl inspect``: say what was understood of a file, and do nothing."""

from __future__ import annotations

from typing import Any

import click

from flfl.cli import as_options
from flfl.cli.options import json_option, optional_table_options, read_tables
from flfl.cli.output import print_json, print_table
from flfl.io.inspection import inspect_table


@click.command()
@optional_table_options
@json_option
def inspect(as_json: bool, **files: Any) -> None:
    """Say what is understood of READINGS, and what `recover` would do. Nothing is written.

    READINGS may also be the name of a data set (`flfl data list`).

    \b
    Example:
      flfl inspect readings.csv --sensors sensors.csv
      flfl inspect openaq.csv --parameter pm25 --json
    """
    table, sensors = read_tables(**files)
    found = inspect_table(table, sensors)
    if as_json:
        print_json(found.as_dict())
        return
    for sentence in (*found.sentences(), *sensors.notes):
        click.echo(as_options(sentence))
    if gaps := [[gap.name, gap.gaps, gap.cells] for gap in found.gaps if gap.gaps]:
        click.echo()
        print_table(["gap length in slots", "gaps", "cells"], gaps)
