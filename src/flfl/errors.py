"""Errors that speak to the person at the keyboard.

Every message says what is wrong, where, and what to do about it, on one line.
"""

from __future__ import annotations


class FLFLError(Exception):
    """Base class of every error this package raises on purpose."""


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


class MissingExtraError(FLFLError, ImportError):
    """An optional dependency is not installed.

    Parameters
    ----------
    extra : str
        The name of the pip extra that brings it.
    purpose : str
        What it is needed for, as the start of a sentence.

    Examples
    --------
    >>> str(MissingExtraError("netcdf", "Reading NetCDF files"))
    "Reading NetCDF files needs the extra 'netcdf'. Run: pip install 'flfl[netcdf]'"
    """

    def __init__(self, extra: str, purpose: str) -> None:
        self.extra = extra
        self.purpose = purpose
        super().__init__(f"{purpose} needs the extra '{extra}'. Run: pip install 'flfl[{extra}]'")

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingExtraError, (self.extra, self.purpose))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else text + "."


def _rebuild_input_error(problem: str, where: str | None, remedy: str | None) -> InputError:
    return InputError(problem, where=where, remedy=remedy)
