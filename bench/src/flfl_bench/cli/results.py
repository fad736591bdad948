"""``flfl-bench results``: the page of results from rows that were measured before."""

from __future__ import annotations

from pathlib import Path

import click

from flfl.cli.options import json_option
from flfl.cli.output import print_json
from flfl.io.atomic import check_writable
from flfl_bench.canvas import NO_FIGURES, available
from flfl_bench.page import Page, find_rows


@click.command()
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
    draw = available()
    written = Page(out, draw).write(files)
    if not draw:
        click.echo(NO_FIGURES, err=True)
    if as_json:
        print_json({"page": str(out), "written": [str(path) for path in written]})
    else:
        click.echo(f"Page: {out}")
