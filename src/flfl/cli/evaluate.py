"""``flfl evaluate``: hide known readings, score methods on the same masks."""

from __future__ import annotations

import itertools
from typing import Any

import click

from flfl.cli.privacy import privacy_options, privacy_settings
from flfl.cli.say import Progress, json_option, names, print_json, print_table, share
from flfl.cli.tables import read_tables, table_options
from flfl.cli.types import complete_method
from flfl.datasets.masks import PATTERNS
from flfl.errors import FLFLError, InputError
from flfl.evaluation import Row
from flfl.evaluation import evaluate as evaluate_methods
from flfl.methods import find
from flfl.report.words import figure, size

HEADER = (
    "method", "pattern", "rate", "seed", "MAE", "RMSE", "inside", "seconds", "rounds", "up", "down"
)  # fmt: skip


@click.command()
@table_options
@click.option(
    "--rate", "rates", default="0.5", show_default=True, help="Shares kept, such as 0.1,0.5,0.9."
)
@click.option(
    "--pattern", "patterns", default="random", show_default=True, help="random, block, outage."
)
@click.option(
    "--methods",
    default="flfl,linear",
    show_default=True,
    shell_complete=complete_method,
    help="Names from `flfl methods`.",
)
@click.option(
    "--seeds", default=1, show_default=True, type=click.IntRange(min=1), help="How many seeds."
)
@click.option(
    "--block-length",
    type=click.IntRange(min=1),
    help="Slots in a block.  [default: 24, or 12 for monthly readings]",
)
@click.option(
    "--tune/--no-tune",
    "tuned",
    default=True,
    show_default=True,
    help="Choose each method's settings from its grid, on entries cut from the training entries.",
)
@privacy_options
@json_option
def evaluate(
    rates: str,
    patterns: str,
    methods: str,
    seeds: int,
    block_length: int | None,
    tuned: bool,
    as_json: bool,
    **files: Any,
) -> None:
    """Hide known entries of READINGS and score methods on them.

    \b
    Example:
      flfl evaluate readings.csv --sensors sensors.csv --rate 0.1,0.5 --methods flfl,linear
      flfl evaluate readings.csv --sites each --added-error 0.5 --methods alone,flfl,pooled
    """
    settings = privacy_settings(files)
    chosen = names(methods, "--methods")
    for name in chosen:
        find(name)
    shares = [share(text, "--rate") for text in names(rates, "--rate")]
    shapes = names(patterns, "--pattern")
    for shape in shapes:
        if shape not in PATTERNS:
            raise InputError(
                f"unknown pattern {shape!r}", where="--pattern", remedy=f"Use {', '.join(PATTERNS)}"
            )
    total = len(shares) * len(shapes) * seeds * len(chosen)
    done = itertools.count(1)
    with Progress() as progress:
        progress.stage(f"reading {files['readings']}")
        table, sensors = read_tables(**files)
        progress.step(0, total, "the file read")
        rows = evaluate_methods(
            table,
            sensors,
            rates=shares,
            methods=chosen,
            patterns=shapes,
            seeds=range(seeds),
            block_length=block_length,
            options={"flfl": settings},
            tuned=tuned,
            report=lambda row: progress.step(next(done), total, _told(row)),
        )
    for note in (*table.notes, *sensors.notes):
        click.echo(f"Note: {note}", err=True)
    if as_json:
        print_json({"rows": [row.as_dict() for row in rows]})
    else:
        print_table(HEADER, [_cells(row) for row in rows])
    if all(row.failed is not None for row in rows):
        raise FLFLError(f"no method could be scored: {rows[0].method}: {rows[0].failed}")


def _told(row: Row) -> str:
    outcome = row.failed or f"MAE {figure(row.mae)}"
    return f"{row.method} {row.pattern} {row.rate} seed {row.seed}: {outcome}"


def _cells(row: Row) -> list[object]:
    scores = [figure(row.mae), figure(row.rmse)] if row.failed is None else ["failed:", row.failed]
    return [
        row.method,
        row.pattern,
        row.rate,
        row.seed,
        *scores,
        figure(row.coverage, 2),
        f"{row.seconds:.2f}",
        row.rounds,
        size(row.bytes_up),
        size(row.bytes_down),
    ]
