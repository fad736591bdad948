"""``flfl status``: who is here, which round, what is wrong."""

from __future__ import annotations

from pathlib import Path

import click

from flfl.cli.options import json_option
from flfl.cli.output import print_json, print_table
from flfl.service.broker import network_status


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--within", default=10.0, show_default=True, help="Seconds to wait for an answer.")
@json_option
def status(config: Path, within: float, as_json: bool) -> None:
    """Ask the broker what the coordinator last said.

    CONFIG is a site's or the coordinator's.

    \b
    Example:
      flfl status coordinator.toml --json
    """
    document = network_status(config, within)
    if as_json:
        print_json(document)
        return
    state = document.get("state", "gone")
    click.echo(f"The coordinator is {'here' if state == 'here' else f'not here ({state})'}.")
    if run := document.get("run"):
        click.echo(f"Run {run}: question {document['question']}, round {document['round']}.")
    if sites := document.get("sites"):
        rows = [
            [_plain(text) for text in (name, row["state"], row.get("problem", ""))]
            for name, row in sites.items()
        ]
        print_table(["site", "state", "problem"], rows)
    for word in ("paused", "problem"):
        if document.get(word):
            click.echo(f"{word.capitalize()}: {_plain(document[word])}")


def _plain(text: str) -> str:
    """What another party wrote, without what would steer this terminal.

    Examples
    --------
    >>> _plain("gone\\x1b[2J")
    'gone [2J'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)
