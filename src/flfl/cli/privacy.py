"""Options of the default method that several verbs take: above all the noise in what leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from flfl.cli.types import AddedErrorType
from flfl.errors import InputError
from flfl.methods import GONE

Verb = TypeVar("Verb", bound=Callable[..., Any])


def _say_gone(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Say what replaces an option that is gone, where somebody still gives it."""
    if value is not None and param.name is not None:
        words = GONE[param.name].replace("added_error", "--added-error").replace("share", "--share")
        raise InputError(f"--{param.name.replace('_', '-')} is gone: {words}")


_OPTIONS = (
    click.option(
        "--added-error",
        type=AddedErrorType(),
        help="Noise in the copies that leave: a multiple of each sensor's own error in time, or a"
        " number with a unit such as '2 ug/m3'. 0: the coordinator is trusted.  [default: 1]",
    ),
    click.option(
        "--share",
        type=click.FloatRange(0, 1, min_open=True),
        help="Numbers released for each reading, at most one half.  [default: 0.5]",
    ),
    click.option(
        "--secure/--no-secure",
        default=None,
        help="Hide every site's sums from the coordinator.  [default: with 3 sites or more]",
    ),
    *(
        click.option(
            f"--{name.replace('_', '-')}",
            type=click.UNPROCESSED,
            hidden=True,
            expose_value=False,
            callback=_say_gone,
        )
        for name in GONE
    ),
)
_NAMES = ("added_error", "share", "secure")

_METHOD = (
    click.option("--rank", type=click.IntRange(min=1), help="Number of factors.  [default: 20]"),
    click.option(
        "--transformation",
        type=click.Choice(["none", "sqrt", "log1p"]),
        help="Of the readings.  [default: the sites vote]",
    ),
)


def method_options(verb: Verb) -> Verb:
    """Add ``rank`` and ``transformation`` to a verb."""
    for option in reversed(_METHOD):
        verb = option(verb)
    return verb


def privacy_options(verb: Verb) -> Verb:
    """Add the options to a verb; :func:`privacy_settings` takes them from its arguments.

    Options that are gone are among them: they say what replaces them.
    """
    for option in reversed(_OPTIONS):
        verb = option(verb)
    return verb


def privacy_settings(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of a verb's arguments; returns those that were given.

    Examples
    --------
    >>> rest = {"added_error": 0.5, "share": None, "secure": None, "readings": "a.csv"}
    >>> privacy_settings(rest), rest
    ({'added_error': 0.5}, {'readings': 'a.csv'})
    """
    return taken(arguments, _NAMES)


def taken(arguments: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Take what was given under these names out of a verb's arguments."""
    given = {name: arguments.pop(name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}
