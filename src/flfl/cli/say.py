"""What every verb shares: plain errors, clean JSON, progress on stderr."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import click

from flfl.errors import FLFLError, InputError, explained

BAD_INPUT = 2
FAILED = 1
NO_FIGURES = "Note: no figures were drawn; they need matplotlib: pip install 'flfl[figures]'"
_ARGUMENTS = (
    "time_column|sensor_column|value_column|complete_grid|block_length|added_error|max_gap"
    "|min_readings|time_zone|date_order"
)

_WIDTH, _BAR = 78, 20
# Seconds before a run says anything, and between two changes of what it says.
_QUIET, _PAUSE = 2.0, 0.2

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
        except InputError as error:
            _leave(error, BAD_INPUT)
        except FLFLError as error:
            _leave(error, FAILED)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            # click leaves quietly when a reader such as `head` has had enough.
            raise
        except Exception as error:
            if _is_bad_parameter(error):
                _leave(error, BAD_INPUT)
            if ctx.params.get("debug"):
                traceback.print_exc()
            _leave(
                f"unexpected {type(error).__name__}: {error} (`flfl --debug ...` shows where)",
                FAILED,
            )


def _is_bad_parameter(error: Exception) -> bool:
    # Imported where something has failed, for it takes a second.
    from sklearn.utils._param_validation import InvalidParameterError

    return isinstance(error, InvalidParameterError)


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
    >>> _as_options("Name it with time_column.")
    'Name it with --time-column.'
    """
    text = re.sub(r"\b(duplicates|layout|decimal|parameter)=(\S+)", r"--\1 \2", text)
    text = re.sub(r"\bdate_order=", "--date-order ", text)
    text = re.sub(r"\bmissing_words\b", "--missing", text)
    text = re.sub(r"\b(with|Leave) parameter\b", r"\1 --parameter", text)
    text = re.sub(r"^(sites|rate): |\bGive (sites)\b", _named, text)
    return re.sub(rf"\b({_ARGUMENTS})(?!\.?\w)", _named, text)


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


class Progress:
    """One line on stderr that tells where a long run is; silent when that is no terminal.

    Nothing is shown of what is over within two seconds. The line is drawn from beside, so that
    the seconds go on while a file is read.
    """

    def __init__(self) -> None:
        self._words = ""
        self._over = threading.Event()
        self._drawing: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._drawing = threading.Thread(target=self._draw, daemon=True)
            self._drawing.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._drawing is not None:
            self._drawing.join()

    def stage(self, what: str) -> None:
        """What is being done now."""
        self._words = what

    def rounds(self, done: int, total: int, error: float | None = None) -> None:
        """After every round; ``error`` where the method knows one."""
        words = f"{_bar(done, total)} round {done} of at most {total}"
        self._words = words if error is None else f"{words}, error {error:.4f}"

    def step(self, done: int, total: int, what: str) -> None:
        """After each of so many pieces of work."""
        self._words = f"{_bar(done, total)} {done} of {total}, last {what}"

    def _draw(self) -> None:
        start = time.monotonic()
        pause = _QUIET
        while not self._over.wait(pause):
            pause = _PAUSE
            line = f"{time.monotonic() - start:.0f} s  {self._words}"
            click.echo(f"\r{line:<{_WIDTH}.{_WIDTH}}", err=True, nl=False)
        if pause == _PAUSE:
            click.echo("\r" + " " * _WIDTH + "\r", err=True, nl=False)


def _bar(done: int, total: int) -> str:
    """How much is done, to look at.

    Examples
    --------
    >>> _bar(1, 4)
    '[#####---------------]'
    """
    filled = round(_BAR * min(done / max(total, 1), 1.0))
    return f"[{'#' * filled}{'-' * (_BAR - filled)}]"


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
