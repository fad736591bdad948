"""The runs that a party has seen: sums for ever, and the last of them one by one.

``diary.json`` in the state folder is for people and for the status page. Nothing depends on it: a
damaged one is set aside and begun anew.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from flfl.io.files import write_files

_LOG = logging.getLogger("flfl.diary")
NAME = "diary.json"
_KEPT = 400
"""Runs that are kept one by one: more than a year of nights."""


def stamp(seconds: float | None = None) -> str:
    """A time, by default now, as it is told everywhere.

    Examples
    --------
    >>> stamp(0.0)
    '1970-01-01T00:00:00Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Run(BaseModel):
    """One that has ended: ``failed`` says why it failed, or nothing; figures as they were given."""

    model_config = ConfigDict(frozen=True, extra="allow")
    run: str
    ended: str
    failed: str = ""

    def figure(self, name: str) -> float | None:
        """A figure, None where there is none of that name."""
        found = (self.model_extra or {}).get(name)
        return found if isinstance(found, int | float) and math.isfinite(found) else None


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)
    totals: dict[str, int] = {"runs": 0, "failures": 0}
    last_success: str = ""
    runs: tuple[Run, ...] = ()


class Diary:
    """A party's diary; figures whose name is in ``counted`` are added up for ever."""

    def __init__(self, folder: Path, counted: Sequence[str] = ()) -> None:
        self._path, self._counted = folder / NAME, counted
        self._kept = self._read()

    @property
    def runs(self) -> tuple[Run, ...]:
        """The last runs, the newest last."""
        return self._kept.runs

    @property
    def totals(self) -> dict[str, int]:
        """Sums over all runs: those that went well, failures, and what is counted."""
        return self._kept.totals

    @property
    def last_success(self) -> str:
        """When a run last went well; empty if none did."""
        return self._kept.last_success

    def _read(self) -> _Document:
        try:
            return _Document.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return _Document()
        except (OSError, ValueError) as error:
            _LOG.warning("%s is damaged and begun anew: %s", self._path, error)
        with suppress(OSError):
            self._path.replace(self._path.with_suffix(".damaged"))
        return _Document()

    def record(self, run: str, failed: str = "", **figures: Any) -> None:
        """Keep a run that has ended; one that is told twice is counted once."""
        entry = Run(run=run, ended=stamp(), failed=failed[:300], **figures)
        runs, totals = self.runs, dict(self.totals)
        if runs and runs[-1].run == run:
            runs = runs[:-1]
        else:
            for name in self._counted:
                totals[name] = totals.get(name, 0) + int(entry.figure(name) or 0)
            word = "failures" if failed else "runs"
            totals[word] = totals.get(word, 0) + 1
        last = self.last_success if failed else entry.ended
        kept = _Document(totals=totals, last_success=last, runs=(*runs, entry)[-_KEPT:])
        self._kept, data = kept, kept.model_dump_json(indent=1).encode()
        try:
            write_files({self._path: lambda file: file.write(data) and None}, private=True)
        except OSError as error:
            _LOG.warning("the diary cannot be written: %s", error)
