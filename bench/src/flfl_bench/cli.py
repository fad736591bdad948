"""``flfl-bench``: run experiments, and make the page of their results."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from flfl.cli import FriendlyGroup
from flfl.cli.options import Decorator, json_option, several
from flfl.cli.output import print_json
from flfl.errors import FLFLError
from flfl.io.files import check_writable
from flfl.recovery.progress import Tell, shown
from flfl.report.content import count
from flfl_bench.experiment import read_experiment
from flfl_bench.report import find_rows, write_page, write_report
from flfl_bench.runner import Progress, Report, run_cells
from flfl_bench.store import Store

_QUIET = 30.0
"""Seconds between two lines of progress where nobody looks on."""


@click.group(cls=FriendlyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flfl-bench")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def main(debug: bool) -> None:
    """Compare methods: data x rates x patterns x methods x seeds.

    \b
    Example:
      flfl-bench run experiments/quick.toml --out quick
      flfl-bench results docs/results --out docs/results.md
    """


def _list(name: str, words: str, item: Any = str) -> Decorator:
    return click.option(name, type=several(item), default="", metavar="LIST", help=words)


@main.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for the results."
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes.  [default: one a core]")
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that a cell may take; beyond them it counts as failed.",
)
@_list("--only", "Only these labels, such as flfl,linear.")
@_list("--data", "Only these data sets.")
@_list("--rates", "Only these rates, such as 0.1,0.5.", click.FloatRange(0, 1, True, True))
@_list("--patterns", "Only these patterns, such as block.")
@_list("--seeds", "Only these seeds, such as 0.", click.IntRange(min=0))
@_list("--again", "Run these labels again, finished or not.")
@click.option("--again-failed", is_flag=True, help="Run again what has failed.")
@json_option
def run(
    experiment: Path,
    out: Path,
    workers: int | None,
    limit: float | None,
    only: list[str],
    data: list[str],
    rates: list[float],
    patterns: list[str],
    seeds: list[int],
    again: list[str],
    again_failed: bool,
    as_json: bool,
) -> None:
    """Run EXPERIMENT.toml: data x rates x patterns x methods x seeds.

    Every finished cell is kept in the folder at once: a run that was stopped or killed goes on
    where it was. Pieces (--only, --data, --rates, --patterns, --seeds) add up to the same table.

    \b
    Example:
      flfl-bench run experiments/quick.toml --out quick
      flfl-bench run experiments/paper_table.toml --out table --only flfl,linear --rates 0.5
    """
    asked = read_experiment(experiment, only)
    cells = asked.select(labels=only, data=data, rates=rates, patterns=patterns, seeds=seeds)
    store = Store(out)
    if again:
        repeated = asked.select(labels=again)
        store.discard(set(cells) & set(repeated))
    if again_failed:
        store.discard(cell for cell in cells if (store.find(cell) or {}).get("failed"))
    with shown() as tell:
        run_cells(cells, store, workers=workers, limit=limit, report=_reporter(tell))
    table = store.write(asked)
    write_report(out, store.rows)
    rows = table.to_pylist()
    if as_json:
        print_json({"table": str(store.rows), "rows": rows})
    else:
        click.echo(f"{count(len(rows), 'row')}: {store.rows}; tables and figures beside it")
        for row in rows:
            if row["failed"]:
                place = f"{row['data']}, {row['pattern']} {row['rate']}, seed {row['seed']}"
                click.echo(f"Failed: {row['label']} on {place}: {row['failed']}")
    if rows and all(row["failed"] for row in rows):
        raise FLFLError(f"every cell failed, such as {rows[0]['label']}: {rows[0]['failed']}")


@main.command()
@click.argument("rows", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The page to write, a .md file."
)
@json_option
def results(rows: Path, out: Path, as_json: bool) -> None:
    """Make a page of tables and figures from ROWS, a folder of Parquet files (or one).

    Nothing is run: the files are those that `flfl-bench run` writes.

    \b
    Example:
      flfl-bench results docs/results --out docs/results.md
    """
    files = find_rows(rows)
    check_writable(out, inputs=files, suffixes=(".md",))
    written = write_page(out, files)
    if as_json:
        print_json({"page": str(out), "written": [str(path) for path in written]})
    else:
        click.echo(f"Page: {out}")


def _reporter(tell: Tell) -> Report:
    """Tells a line of progress; where stderr is a file, a line of it now and then."""
    last = -_QUIET

    def report(progress: Progress) -> None:
        nonlocal last
        tell(_line(progress), progress.done, progress.total)
        finished = progress.done == progress.total
        if not sys.stderr.isatty() and (finished or time.monotonic() - last >= _QUIET):
            last = time.monotonic()
            click.echo(_line(progress), err=True)

    return report


def _line(progress: Progress) -> str:
    """One line of progress.

    Examples
    --------
    >>> _line(Progress(3, 12, 1, 150.0))
    '3 of 12 cells, 1 failed, about 3 min left'
    """
    failed = f", {progress.failed} failed" if progress.failed else ""
    left = "" if progress.done == progress.total else f", about {_time(progress.seconds_left)} left"
    last = "" if progress.cell is None else f" ({progress.cell.label}, {progress.cell.source.name})"
    return f"{progress.done} of {count(progress.total, 'cell')}{failed}{left}{last}"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = -(-seconds // 60)
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
