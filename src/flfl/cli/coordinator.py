"""``flfl coordinator``: carry runs among sites on other machines."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import click

from flfl.cli.checking import check_options, tell_check
from flfl.config import CoordinatorSettings, read_settings
from flfl.errors import InputError
from flfl.service.broker import connect
from flfl.service.coordinator import CoordinatorService, Setup
from flfl.service.coordinator_folder import CoordinatorFolder, Request
from flfl.transport.link import COORDINATOR


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--now", is_flag=True, help="Make one run at once.")
@click.option("--pause", is_flag=True, help="Begin no scheduled run.")
@click.option("--resume", is_flag=True, help="Begin scheduled runs again.")
@click.option("--abort", is_flag=True, help="End the run that is under way.")
@check_options
def coordinator(
    config: Path, now: bool, pause: bool, resume: bool, abort: bool, check: bool, as_json: bool
) -> None:
    """Call the sites together and carry the run that CONFIG describes.

    Once, or as its schedule says. An interrupted run goes on where it was. The coordinator never
    sees a series. Logs go to stderr, one JSON object a line. The options are for the process that
    is at work with the same CONFIG; --now makes the run itself where there is none.

    \b
    Example:
      flfl coordinator coordinator.toml --check
      flfl coordinator coordinator.toml
      flfl coordinator coordinator.toml --now
    """
    if check:
        tell_check(CoordinatorSettings, config, as_json)
    asked: dict[Request, bool] = {"abort": abort, "pause": pause, "resume": resume, "now": now}
    words = [word for word, given in asked.items() if given]
    if words:
        folder = CoordinatorFolder(read_settings(CoordinatorSettings, config).state)
        if abort and not folder.is_at_work:
            raise InputError(
                "no coordinator is at work with this state folder: there is no run to end",
                where=str(folder.path),
                remedy="A run that was interrupted goes on when the coordinator is started",
            )
        if words != ["now"] or folder.is_at_work:
            for word in words:
                click.echo(folder.request(word))
            return
    with (
        closing(Setup.open(config)) as setup,
        closing(connect(setup.settings.broker, setup.settings.network, COORDINATOR)) as link,
    ):
        link.say(grid=setup.settings.grid.model_dump())
        service = CoordinatorService(setup, link)
        signal.signal(signal.SIGTERM, service.stop)
        signal.signal(signal.SIGINT, service.stop)
        raise click.exceptions.Exit(service.serve(now))
