"""``flfl evaluate``: hide known readings, score methods on the same masks."""

from __future__ import annotations

import itertools
from typing import Any

import click

from flfl.cli import options
from flfl.cli.options import option, several
from flfl.cli.output import print_json, print_notes, print_table, progress
from flfl.datasets.masks import PATTERNS
from flfl.errors import FLFLError
from flfl.evaluation import Row
from flfl.evaluation import evaluate as evaluate_methods
from flfl.report.content import figure, size

HEADER = (
    "method", "pattern", "rate", "seed", "MAE", "RMSE", "inside", "seconds", "rounds", "up", "down"
)  # fmt: skip


@click.command()
@options.table_options
@option("--rate", "Shares kept, such as 0.1,0.5,0.9.", several(options.SHARE), "0.5")
@option("--pattern", "random, block, outage.", several(click.Choice(list(PATTERNS))), "random")
@option(
    "--methods",
    "Names from `flfl methods`.",
    several(options.METHOD),
    "flfl,linear",
    shell_complete=options.complete_method,
)
@option("--seeds", "How many seeds.", click.IntRange(min=1), 1)
@option("--block-length", "Slots in a block.  [default: 24; monthly: 12]", click.IntRange(min=1))
@option(
    "--tune/--no-tune", "Choose settings on entries cut from the training entries.", default=True
)
@options.method_options
@options.json_option
def evaluate(
    rate: list[float],
    pattern: list[str],
    methods: list[str],
    seeds: int,
    block_length: int | None,
    tune: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Hide known entries of READINGS and score methods on them.

    \b
    Example:
      flfl evaluate readings.csv --sensors sensors.csv --rate 0.1,0.5 --methods flfl,linear
      flfl evaluate readings.csv --sites each --added-error 0.5 --methods alone,flfl,pooled
    """
    settings = options.take_settings(given)
    total, done = len(rate) * len(pattern) * seeds * len(methods), itertools.count(1)
    with progress() as tell:
        tell(f"reading {given['readings']}")
        table, sensors = options.read_tables(**given)

        def report(row: Row) -> None:
            outcome = row.failed or f"MAE {figure(row.mae)}"
            last = f"{row.method} {row.pattern} {row.rate} seed {row.seed}: {outcome}"
            number = next(done)
            tell(f"{number} of {total}, last {last}", number, total)

        rows = evaluate_methods(
            table,
            sensors,
            rates=rate,
            methods=methods,
            patterns=pattern,
            seeds=range(seeds),
            block_length=block_length,
            options=dict.fromkeys(("flfl", "alone", "pooled"), settings),
            tuned=tune,
            report=report,
        )
    print_notes(table, sensors)
    if as_json:
        print_json({"rows": [row.as_dict() for row in rows]})
    else:
        print_table(HEADER, [_cells(row) for row in rows])
    if all(row.failed is not None for row in rows):
        raise FLFLError(f"no method could be scored: {rows[0].method}: {rows[0].failed}")


def _cells(row: Row) -> list[object]:
    scores = [figure(row.mae), figure(row.rmse)] if row.failed is None else ["failed:", row.failed]
    return [
        row.method, row.pattern, row.rate, row.seed, *scores, figure(row.coverage, 2),
        f"{row.seconds:.2f}", row.rounds, size(row.bytes_up), size(row.bytes_down),
    ]  # fmt: skip
