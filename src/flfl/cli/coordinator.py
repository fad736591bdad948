"""``flfl coordinator``: carry runs among sites on other machines."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import click

from flfl.cli.checking import check_options, tell_check
from flfl.config import CoordinatorSettings
from flfl.service.broker import connect
from flfl.service.coordinator import CoordinatorService, Setup
from flfl.transport.link import COORDINATOR


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@check_options
def coordinator(config: Path, check: bool, as_json: bool) -> None:
    """Call the sites together and carry the run that CONFIG describes.

    An interrupted run goes on where it was. The coordinator never sees a series. Logs go to
    stderr, one JSON object a line.

    \b
    Example:
      flfl coordinator coordinator.toml --check
      flfl coordinator coordinator.toml
    """
    if check:
        tell_check(CoordinatorSettings, config, as_json)
    with (
        closing(Setup.open(config)) as setup,
        closing(connect(setup.settings.broker, setup.settings.network, COORDINATOR)) as link,
    ):
        link.say(grid=setup.settings.grid.model_dump())
        service = CoordinatorService(setup, link)
        signal.signal(signal.SIGTERM, service.stop)
        signal.signal(signal.SIGINT, service.stop)
        raise click.exceptions.Exit(service.serve())
