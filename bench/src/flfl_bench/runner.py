"""Run the cells of an experiment that are not finished yet, and keep each as it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from flfl_bench.cells import Cell
from flfl_bench.execution import failure, run_cell, surroundings
from flfl_bench.pool import Lost, run_all
from flfl_bench.store import Store


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes
    ----------
    done, total : cells, those finished before included
    failed : of those done
    seconds_left : an estimate, from cells of the same label and data where there are some
    cell : the one that was finished last; None at the start
    """

    done: int
    total: int
    failed: int
    seconds_left: float
    cell: Cell | None = None


Report = Callable[[Progress], None]


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    *,
    workers: int | None = None,
    limit: float | None = None,
    report: Report | None = None,
) -> None:
    """Run what is not in the store yet, the cells that are expected to take longest first.

    Parameters
    ----------
    workers : processes; None for one a core
    limit : seconds a cell may take; then it counts as failed
    report : is told of every finished cell
    """
    workers = workers or os.cpu_count() or 1
    account = _Account({cell.key: cell for cell in cells}, workers)
    for cell in list(account.waiting.values()):
        row = store.find(cell)
        if row is not None:
            account.finish(cell, row)
    todo = sorted(account.waiting.values(), key=lambda cell: -cell.expected)
    say = report or _silence
    say(account.progress())
    jobs = [cell.as_dict() for cell in todo]
    for number, outcome in run_all(run_cell, jobs, workers=workers, limit=limit):
        cell = todo[number]
        row = (
            failure(outcome.reason, outcome.seconds) | surroundings()
            if isinstance(outcome, Lost)
            else outcome
        )
        store.keep(cell, row)
        account.finish(cell, row)
        say(account.progress(cell))


def _silence(progress: Progress) -> None:
    """Nobody asked."""


@dataclass
class _Account:
    """Which cells are done and how long they took, for the time left."""

    waiting: dict[str, Cell]
    workers: int
    failed: int = 0
    seconds: dict[tuple[str, ...], list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = len(self.waiting)

    def finish(self, cell: Cell, row: dict[str, object]) -> None:
        del self.waiting[cell.key]
        self.failed += row.get("failed") is not None
        parts = (row.get(name) for name in ("seconds", "tuning_seconds", "audit_seconds"))
        took = sum(part for part in parts if isinstance(part, int | float))
        for kind in ((cell.label, cell.source.name), (cell.label,)):
            self.seconds.setdefault(kind, []).append(took)

    def progress(self, cell: Cell | None = None) -> Progress:
        left = [self._expected(one) for one in self.waiting.values()]
        seconds = max(sum(left) / self.workers, max(left, default=0.0))
        return Progress(self.total - len(left), self.total, self.failed, seconds, cell)

    def _expected(self, cell: Cell) -> float:
        for kind in ((cell.label, cell.source.name), (cell.label,)):
            if kind in self.seconds:
                return fmean(self.seconds[kind])
        return cell.expected
