"""``flfl methods``: the registry."""

from __future__ import annotations

import click

from flfl.cli.say import json_option, print_json, print_table
from flfl.methods import Method
from flfl.methods import methods as known_methods


@click.command()
@json_option
def methods(as_json: bool) -> None:
    """List the methods.

    \b
    Example:
      flfl methods --json
    """
    if as_json:
        keys = ("name", "federated", "needs", "available", "summary")
        print_json(
            {"methods": [{key: getattr(m, key) for key in keys} for m in known_methods().values()]}
        )
        return
    print_table(
        ["name", "federated", "needs"],
        [[m.name, "yes" if m.federated else "no", _needs(m)] for m in known_methods().values()],
    )
    click.echo()
    for method in known_methods().values():
        click.echo(f"{method.name}: {method.summary}")


def _needs(method: Method) -> str:
    if method.needs is None:
        return "-"
    return method.needs if method.available else f"{method.needs} (not installed)"
