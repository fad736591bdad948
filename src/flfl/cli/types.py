"""Kinds of values on the command line and in ``flfl.toml``."""

from __future__ import annotations

import math
from typing import Any

import click
from click.shell_completion import CompletionItem

from flfl.errors import InputError
from flfl.methods import methods
from flfl.protocol.copier import AddedError
from flfl.recovery.rules import Gap, Rules


class GapType(click.ParamType):
    """A number of slots, or a duration such as 6h."""

    name = "slots or duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Gap:
        """Refuse what the rules would refuse, before any file is read."""
        try:
            Rules(max_gap=value)
        except InputError as error:
            self.fail(f"{error.problem}. {error.remedy}.", param, ctx)
        return value


class NumberOrWord(click.ParamType):
    """A finite number, or any other text as it is.

    Examples
    --------
    >>> [NumberOrWord().convert(given, None, None) for given in ("-99", "--", "nan", -1)]
    [-99.0, '--', 'nan', -1.0]
    """

    name = "number or word"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """A number where it is one."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.fail(f"{value!r} is neither a number nor a word.", param, ctx)
        try:
            number = float(value)
        except ValueError:
            return str(value)
        return number if math.isfinite(number) else str(value)


class AddedErrorType(click.ParamType):
    """A multiple, or a number with a unit.

    Examples
    --------
    >>> [AddedErrorType().convert(given, None, None) for given in ("0.5", 2, "2 ug/m3")]
    [0.5, 2.0, '2 ug/m3']
    """

    name = "number [unit]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """A number for a multiple, the text as it is where it names a unit."""
        try:
            found = AddedError.parse(str(value))
        except InputError as error:
            self.fail(f"{error.problem}. {error.remedy}.", param, ctx)
        return found.multiple if found.units is None else str(value)


class LimitsType(click.ParamType):
    """Two numbers, either end of which may be open.

    Examples
    --------
    >>> LimitsType().convert("0,500", None, None), LimitsType().convert([0, 500], None, None)
    ((0.0, 500.0), (0.0, 500.0))
    >>> LimitsType().convert("0,", None, None)
    (0.0, inf)
    """

    name = "low,high"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Two numbers, from a text or from a pair."""
        parts = value.split(",") if isinstance(value, str) else value
        try:
            low, high = parts
            limits = _end(low, -math.inf), _end(high, math.inf)
        except (TypeError, ValueError):
            limits = (math.nan, math.nan)
        if not limits[0] < limits[1]:
            self.fail(
                f"{value!r} is not a pair of limits. Use two numbers, the lower one first, or"
                " leave an end open: 0,500 or 0,",
                param,
                ctx,
            )
        return limits


def _end(given: Any, open_end: float) -> float:
    return open_end if isinstance(given, str) and not given.strip() else float(given)


def complete_method(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Methods whose names begin so; the last one of a list with commas."""
    earlier, comma, last = incomplete.rpartition(",")
    return [
        CompletionItem(earlier + comma + name, help=method.summary)
        for name, method in methods().items()
        if name.startswith(last)
    ]
