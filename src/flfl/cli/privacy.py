"""Options of the default method that several verbs take: above all what may be read of a sensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from flfl.cli.types import LimitsType

Verb = TypeVar("Verb", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--max-exposure",
        type=click.FloatRange(0, 1, min_open=True),
        help="Share of a sensor's news that the sums may carry. 1: a trusted coordinator."
        "  [default: 0.5]",
    ),
    click.option(
        "--collusion",
        type=click.FloatRange(0, 1, max_open=True),
        help="Hold the cap against a coalition of this share of the other sensors.  [default: 0]",
    ),
    click.option(
        "--blur",
        type=click.FloatRange(min=0),
        help="Noise on the readings that enter the sums, in units of each sensor's own"
        " interpolation error.  [default: 0]",
    ),
    click.option(
        "--epsilon",
        type=click.FloatRange(min=0, min_open=True),
        help="Privacy budget for single readings: one noisy release. Needs --bounds.",
    ),
    click.option(
        "--delta",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Of the budget; below one over the number of readings.",
    ),
    click.option(
        "--bounds",
        type=LimitsType(),
        metavar="LOW,HIGH",
        help="Physical limits, known beforehand, such as 0,500 or, with an open end, 0, : what"
        " `recover` fills stays inside them. --epsilon needs both.",
    ),
    click.option(
        "--secure/--no-secure",
        default=None,
        help="Hide every site's sums from the coordinator.  [default: with 3 sites or more]",
    ),
)
_NAMES = ("max_exposure", "collusion", "blur", "epsilon", "delta", "bounds", "secure", "account")


_METHOD = (
    click.option(
        "--projection",
        type=click.Choice(["fixed", "learned", "adaptive"]),
        help="How readings enter the sums.  [default: fixed]",
    ),
    click.option("--rank", type=click.IntRange(min=1), help="Number of latent factors."),
    click.option(
        "--transformation",
        type=click.Choice(["none", "sqrt", "log1p"]),
        help="Of the readings.  [default: chosen from sums; none with --epsilon]",
    ),
)


def method_options(verb: Verb) -> Verb:
    """Add ``projection``, ``rank`` and ``transformation`` to a verb."""
    for option in reversed(_METHOD):
        verb = option(verb)
    return verb


def privacy_options(verb: Verb) -> Verb:
    """Add the options to a verb; :func:`privacy_settings` takes them from its arguments."""
    for option in reversed(_OPTIONS):
        verb = option(verb)
    return verb


account_option = click.option(
    "--account",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder where each site keeps its account of what it has released: exposure adds up over"
    " runs, and a run that would pass the cap is refused.",
)


def privacy_settings(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of a verb's arguments; returns those that were given.

    Examples
    --------
    >>> rest = {"epsilon": 3.0, "blur": None, "bounds": (0.0, 500.0), "readings": "a.csv"}
    >>> privacy_settings(rest), rest
    ({'epsilon': 3.0, 'bounds': (0.0, 500.0)}, {'readings': 'a.csv'})
    """
    return taken(arguments, _NAMES)


def taken(arguments: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Take what was given under these names out of a verb's arguments."""
    given = {name: arguments.pop(name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}
