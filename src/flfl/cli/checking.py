"""``--check`` of a service: look at everything, join nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from flfl.cli import BAD_INPUT
from flfl.config import CoordinatorSettings, SiteSettings

_CHECK = click.option(
    "--check",
    is_flag=True,
    help="Look at keys, folders, readings and broker, say what is wrong, and join nothing.",
)
_JSON = click.option(
    "--json", "as_json", is_flag=True, help="With --check: print one JSON document to stdout."
)


def check_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--check`` and ``--json``."""
    return _CHECK(_JSON(command))


def tell_check(
    kind: type[SiteSettings] | type[CoordinatorSettings], path: Path, as_json: bool
) -> NoReturn:
    """Say of everything that it is ok, or what to do; exit 2 where something is wrong."""
    # A service that only starts does without what this loads.
    from flfl.cli.output import print_json
    from flfl.service.check import as_document, check_party

    found = check_party(kind, path)
    well = all(one.ok for one in found)
    if as_json:
        print_json(as_document(found))
    else:
        for one in found:
            remedy = f". {one.remedy}" if one.remedy else ""
            click.echo(f"{'ok  ' if one.ok else 'NO  '}{one.name}: {one.says}{remedy}")
        click.echo("All is ready." if well else "Not ready: see the lines with NO.")
    raise click.exceptions.Exit(0 if well else BAD_INPUT)
