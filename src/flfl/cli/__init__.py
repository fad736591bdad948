"""The command line: one file a verb. Each parses, calls and prints, nothing more."""

from __future__ import annotations

from pathlib import Path

import click

from flfl.cli.audit import audit
from flfl.cli.benchmark import benchmark
from flfl.cli.completion import completion
from flfl.cli.config import NAME, load_config
from flfl.cli.data import data
from flfl.cli.demo import demo
from flfl.cli.evaluate import evaluate
from flfl.cli.inspect import inspect
from flfl.cli.methods import methods
from flfl.cli.recover import recover
from flfl.cli.results import results
from flfl.cli.say import FriendlyGroup


@click.group(cls=FriendlyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flfl")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help=f"File with settings for the verbs.  [default: {NAME}, where there is one]",
)
@click.pass_context
def main(ctx: click.Context, debug: bool, config_path: Path | None) -> None:
    """Fill the gaps in the readings of a sensor network whose owners will not pool their data.

    \b
    Example:
      flfl demo
      flfl inspect readings.csv
      flfl recover readings.csv --sensors sensors.csv --out filled.csv
      flfl --config network.toml recover readings.csv --out filled.csv
    """
    path = config_path or (Path(NAME) if Path(NAME).is_file() else None)
    if path is not None:
        click.echo(f"Settings: {path}", err=True)
        ctx.default_map = load_config(path, main)


for verb in (
    demo, inspect, recover, evaluate, benchmark, results, audit, methods, data, completion
):  # fmt: skip
    main.add_command(verb)
