"""``flfl-bench``: run experiments, and make the page of their results."""

from __future__ import annotations

import click

from flfl.cli import FriendlyGroup
from flfl_bench.cli.results import results
from flfl_bench.cli.run import run


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


main.add_command(run)
main.add_command(results)
