"""The command line: one file a verb. Each parses, calls and prints, nothing more."""

from __future__ import annotations

from pathlib import Path

import click

from flfl.cli.config import NAME, load_config
from flfl.cli.later import LaterGroup

SUMMARIES = {
    "demo": "Recover real air-quality readings: rural PM10 in Germany, 2005-2009.",
    "inspect": "Say what is understood of READINGS, and what `recover` would do.",
    "recover": "Fill the gaps of READINGS.",
    "evaluate": "Hide known entries of READINGS and score methods on them.",
    "audit": "Run every attack on a configuration, on READINGS (default: the bundled data).",
    "methods": "List the methods.",
    "data": "Data sets: list them, or make one up.",
    "coordinator": "Call the sites together and carry the run that CONFIG describes.",
    "site": "Take part in the network's runs with the readings that CONFIG names.",
    "status": "Ask the broker what the coordinator last said.",
    "keys": "Make the certificates, identities and the roster of a network.",
    "completion": "Print the script that makes SHELL complete verbs, options and methods.",
}
"""The first sentence of each verb's help."""


@click.group(
    cls=LaterGroup,
    summaries=SUMMARIES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
        main.load_all()
        ctx.default_map = load_config(path, main)
