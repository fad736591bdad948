"""``flfl site``: take part in runs with this owner's readings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="End after one run.")
def site(config: Path, once: bool) -> None:
    """Take part in the network's runs with the readings that CONFIG names.

    Readings stay here; so does the result, which is written when a run ends. What leaves is made
    from noisy copies, one of each reading for ever. An interrupted run goes on where it was. Logs
    go to stderr, one JSON object a line.

    \b
    Example:
      flfl site north.toml
    """
    # A site waits for months: it goes on without all that the command line has loaded.
    arguments = [sys.executable, "-m", "flfl.service.run_site", str(config)]
    os.execv(sys.executable, arguments + ["--once"] * once)
