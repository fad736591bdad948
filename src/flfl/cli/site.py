"""``flfl site``: take part in runs with this owner's readings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from flfl.cli.checking import check_options, tell_check
from flfl.config import SiteSettings, read_settings
from flfl.service.check import at_start, site_steps
from flfl.service.versions import CHECKED


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="End after one run.")
@check_options
def site(config: Path, once: bool, check: bool, as_json: bool) -> None:
    """Take part in the network's runs with the readings that CONFIG names.

    Readings stay here; so does the result, which is written when a run ends. What leaves is made
    from noisy copies, one of each reading for ever. An interrupted run goes on where it was. Logs
    go to stderr, one JSON object a line.

    \b
    Example:
      flfl site north.toml --check
      flfl site north.toml
    """
    if check:
        tell_check(SiteSettings, config, as_json)
    at_start(site_steps(read_settings(SiteSettings, config), config))
    # A site waits for months: it goes on without all that the command line has loaded, and large
    # arrays go back to the system when they are freed (variables of glibc).
    command = [sys.executable, "-m", "flfl.service.site", str(config), *["--once"] * once]
    lean = {"MALLOC_MMAP_THRESHOLD_": str(2**17), "MALLOC_ARENA_MAX": "1", CHECKED: "1"}
    os.execve(sys.executable, command, {**os.environ, **lean})
