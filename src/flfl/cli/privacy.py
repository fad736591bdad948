"""The options by which an owner says what may be read of its sensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from flfl.errors import InputError

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
    click.option("--bounds", help="Limits of the readings, known beforehand, such as 0,500."),
)


def privacy_options(verb: Verb) -> Verb:
    """Add the options to a verb; :func:`privacy_settings` makes arguments of them."""
    for option in reversed(_OPTIONS):
        verb = option(verb)
    return verb


account_option = click.option(
    "--account",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder where each site keeps its account of what it has released: exposure adds up over"
    " runs, and a run that would pass the cap is refused.",
)


def privacy_settings(bounds: str | None = None, **given: Any) -> dict[str, Any]:
    """Arguments of the estimator: those that were given.

    Examples
    --------
    >>> privacy_settings("0,500", epsilon=3.0, blur=None)
    {'epsilon': 3.0, 'bounds': (0.0, 500.0)}
    """
    settings = {name: value for name, value in given.items() if value is not None}
    if bounds is not None:
        settings["bounds"] = _limits(bounds)
    return settings


def _limits(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
        if low < high:
            return low, high
    except ValueError:
        pass
    raise InputError(
        f"{text!r} is not a pair of limits", where="--bounds", remedy="Use two numbers: 0,500"
    )
