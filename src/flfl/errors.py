"""Errors that speak to the person at the keyboard.

Every message says what is wrong, where, and what to do about it, on one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class FLFLError(Exception):
    """Base class of every error this package raises on purpose."""


class OutOfRangeError(FLFLError, OverflowError):
    """A number that does not fit the fixed-point form. Never clipped silently."""


class DivergedError(FLFLError, ArithmeticError):
    """A method ran away: it has no estimate, and says so instead of giving numbers."""


class InputError(FLFLError, ValueError):
    """Something given to the package cannot be used as it is.

    Parameters
    ----------
    problem : str
        What is wrong, without a final full stop.
    where : str, optional
        File, line and column, or the name of the argument.
    remedy : str, optional
        What to do about it, as a sentence.

    Examples
    --------
    >>> str(InputError("no readings", where="a.csv", remedy="Give a file with readings"))
    'a.csv: no readings. Give a file with readings.'
    """

    def __init__(
        self, problem: str, *, where: str | None = None, remedy: str | None = None
    ) -> None:
        self.problem = problem
        self.where = where
        self.remedy = remedy
        super().__init__(problem)

    def __str__(self) -> str:
        start = f"{self.where}: " if self.where else ""
        end = f" {_sentence(self.remedy)}" if self.remedy else ""
        return " ".join(f"{start}{_sentence(self.problem)}{end}".split())

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword arguments do not survive the default way an exception is copied
        # between processes.
        return (_rebuild_input_error, (self.problem, self.where, self.remedy))


@contextmanager
def explained(problem: str, *, where: str, remedy: str) -> Iterator[None]:
    """Turn what the operating system refuses into an `InputError` that says what was tried.

    Examples
    --------
    >>> with explained("the file cannot be opened", where="a.csv", remedy="Check the name"):
    ...     raise FileNotFoundError(2, "No such file")
    Traceback (most recent call last):
    flfl.errors.InputError: a.csv: the file cannot be opened (No such file). Check the name.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"{problem} ({error.strerror})", where=where, remedy=remedy) from None


def nearest(word: str, known: Iterable[str]) -> str:
    """A remedy for a word that is not known: the one that was probably meant, or all of them.

    Examples
    --------
    >>> nearest("lineer", ["linear", "pchip"])
    "Did you mean 'linear'?"
    >>> nearest("x", ["linear", "pchip"])
    'Known are linear, pchip'
    """
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(words)}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else text + "."


def _rebuild_input_error(problem: str, where: str | None, remedy: str | None) -> InputError:
    return InputError(problem, where=where, remedy=remedy)
