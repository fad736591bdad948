"""``flfl methods``: the registry."""

from __future__ import annotations

import click

from flfl.cli.options import json_option
from flfl.cli.output import print_json, print_table
from flfl.methods import methods as known_methods


@click.command()
@json_option
def methods(as_json: bool) -> None:
    """List the methods.

    \b
    Example:
      flfl methods --json
    """
    known = known_methods().values()
    if as_json:
        keys = ("name", "federated", "needs", "available", "summary")
        print_json({"methods": [{key: getattr(one, key) for key in keys} for one in known]})
        return
    rows = []
    for one in known:
        needs = f"{one.needs or '-'}{'' if one.available else ' (not installed)'}"
        rows.append([one.name, "yes" if one.federated else "no", needs])
    print_table(["name", "federated", "needs"], rows)
    click.echo()
    for one in known:
        click.echo(f"{one.name}: {one.summary}")
