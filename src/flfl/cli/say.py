"""What every verb shares: plain errors, clean JSON, progress on stderr."""

from __future__ import annotations

import json
import math
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from sklearn.utils._param_validation import InvalidParameterError

from flfl.errors import FLFLError, InputError, explained

BAD_INPUT = 2
FAILED = 1
NO_FIGURES = "Note: no figures were drawn; they need matplotlib: pip install 'flfl[figures]'"
_ARGUMENTS = "time_column|sensor_column|value_column|complete_grid|block_length|max_exposure"

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document to stdout."
)
seed_option = click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed."
)


class FriendlyGroup(click.Group):
    """Turns exceptions into one line for a person: exit 2 for bad input, 1 for a failure."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except (InputError, InvalidParameterError) as error:
            _leave(error, BAD_INPUT)
        except FLFLError as error:
            _leave(error, FAILED)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            _leave(
                f"unexpected {type(error).__name__}: {error} (`flfl --debug ...` shows where)",
                FAILED,
            )


def _leave(problem: object, code: int) -> None:
    click.echo(f"flfl: {_as_options(str(problem))}", err=True)
    raise click.exceptions.Exit(code)


def _as_options(text: str) -> str:
    """Python arguments that a message names, as they are spelled on the command line.

    Examples
    --------
    >>> _as_options("choose duplicates=mean, or give time_column")
    'choose --duplicates mean, or give --time-column'
    >>> _as_options("Use a shorter block_length")
    'Use a shorter --block-length'
    """
    text = re.sub(r"\b(duplicates|layout)=(\w+)", r"--\1 \2", text)
    text = re.sub(r"^(sites|rate): |\bGive (sites)\b", _named, text)
    return re.sub(rf"\b({_ARGUMENTS})(?![\w.])", _named, text)


def _named(match: re.Match[str]) -> str:
    name = next(filter(None, match.groups()))
    return match.group(0).replace(name, "--" + name.replace("_", "-"))


def make_folder(path: Path) -> None:
    """Make an output folder, or say why it cannot be made."""
    with explained("cannot make the folder", where=str(path), remedy="Choose another --out"):
        path.mkdir(parents=True, exist_ok=True)


def print_json(document: Any) -> None:
    """One strict JSON document: a number that is not finite becomes null."""
    click.echo(json.dumps(_strict(document), indent=2, ensure_ascii=False))


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns that line up; the first one left, the others right."""
    for line in table_lines(header, rows):
        click.echo(line)


def table_lines(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of such a table."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *rest]).rstrip()


def count(number: int, noun: str) -> str:
    """A number and its noun.

    Examples
    --------
    >>> count(1, "sensor"), count(0, "sensor")
    ('1 sensor', '0 sensors')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def names(text: str, option: str, *, required: bool = True) -> list[str]:
    """The words of a list such as ``a,b``, each once.

    Examples
    --------
    >>> names("a, b,a", "--methods")
    ['a', 'b']
    """
    found = [name.strip() for name in text.split(",") if name.strip()]
    if required and not found:
        raise InputError("names nothing", where=option, remedy="Give a list such as a,b")
    return list(dict.fromkeys(found))


def share(text: str, option: str) -> float:
    """A number between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < 1:
        raise InputError(
            f"{text!r} is not a share between 0 and 1", where=option, remedy="Use 0.5 or 0.1,0.9"
        )
    return number


def figure(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits; a dash for none.

    Examples
    --------
    >>> figure(0.123456), figure(1234.5), figure(None)
    ('0.1235', '1234', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    shown = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in shown and abs(value) >= 1 else shown


def size(count: float) -> str:
    """Bytes for people.

    Examples
    --------
    >>> size(999), size(2_500_000)
    ('999 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def round_progress(label: str) -> Callable[[int, int, float], None]:
    """A line on stderr that is rewritten at every check; silent when piped."""
    last = [0.0]

    def show(done: int, total: int, error: float) -> None:
        if not sys.stderr.isatty() or time.monotonic() - last[0] < 0.2:
            return
        last[0] = time.monotonic()
        click.echo(
            f"\r{label}: round {done} of at most {total}, error {error:.4f} ", err=True, nl=False
        )

    return show


def end_progress() -> None:
    """Wipe the progress line."""
    if sys.stderr.isatty():
        click.echo("\r" + " " * 72 + "\r", err=True, nl=False)
