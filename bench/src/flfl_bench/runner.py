"""Run the cells of an experiment that are not finished yet, and keep each as it ends."""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import flfl
from flfl.estimators.base import BaseRecoverer
from flfl.evaluation import evaluate, training_mask
from flfl.io.table import Table
from flfl.methods import Method, find
from flfl_bench import exposure
from flfl_bench.cells import Cell, json_text, load
from flfl_bench.owners import deal
from flfl_bench.pool import Lost, run_all
from flfl_bench.store import Store

_CPU_INFO = Path("/proc/cpuinfo")


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
    say = report or (lambda _progress: None)
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


def run_cell(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker does: run a cell, from and to plain values. A failure is a result too."""
    cell = Cell.from_dict(given)
    give_back_memory()
    start, cpu = time.perf_counter(), time.process_time()
    try:
        row = _scored(cell)
    except Exception as error:
        row = failure(f"{type(error).__name__}: {error}", time.perf_counter() - start)
    row |= {"cpu_seconds": time.process_time() - cpu} | surroundings()
    # JSON has no word for a number that is none.
    return {
        name: value
        for name, value in row.items()
        if value is not None and (not isinstance(value, float) or math.isfinite(value))
    }


def give_back_memory() -> None:
    """Hand freed memory to the system: what an earlier cell of this process held on to would be
    used again by the next, and its peak above the start would come out too small."""
    gc.collect()
    # Only glibc has a word for it.
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def failure(reason: str, seconds: float) -> dict[str, Any]:
    """The row of a cell that has no scores, and why."""
    return {"failed": " ".join(reason.split()), "seconds": seconds}


def surroundings() -> dict[str, Any]:
    """Versions and machine; nothing that names its owner."""
    packages = {name: version(name) for name in ("flfl", "numpy", "scipy")}
    return packages | {
        "commit": code_commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "cpu": _cpu_model(),
    }


@cache
def code_commit() -> str | None:
    """The last commit that changed flfl, a plus where it was changed since; None without git."""
    here = str(Path(flfl.__file__).parent)
    asked = (
        ("log", "-1", "--format=%h", "--abbrev=12", "--", here),
        ("status", "--porcelain", "--untracked-files=no", "--", here),
    )
    try:
        commit, changed = (
            subprocess.run(
                ["git", "-C", here, *words], capture_output=True, text=True, check=True
            ).stdout
            for words in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.strip() + ("+" if changed else "") or None


def _cpu_model() -> str:
    lines = _CPU_INFO.read_text(encoding="utf-8").splitlines() if _CPU_INFO.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


@dataclass(frozen=True)
class Watched(Method):
    """A method whose estimators are fitted with the given owners, and can be looked at later.

    Masks follow from the sensors alone, so that other owners have the same ones.
    """

    owners: tuple[str, ...] | None = None
    made: list[BaseRecoverer] = field(default_factory=list)

    def create(self, *, seed: int = 0, **options: Any) -> BaseRecoverer:
        """An estimator as the method makes it."""
        model = super().create(seed=seed, **options)
        if self.owners is not None:
            model.fit = partial(model.fit, sites=self.owners)  # type: ignore[method-assign]
        self.made.append(model)
        return model


def by_sensor(table: Table, kept: NDArray[np.bool_], model: BaseRecoverer) -> dict[str, Any]:
    """Hidden readings of each sensor and the sum of their errors, for whom the owner alone too.

    ``flfl`` finds what each owner gets by itself in the same fit.
    """
    hidden, truth = table.known & ~kept.T, table.values.to_numpy()

    def error(estimates: NDArray[np.float64]) -> list[float]:
        return np.where(hidden, np.abs(estimates - truth), 0.0).sum(axis=0).tolist()

    found = {"sensor_hidden": hidden.sum(axis=0).tolist(), "sensor_error": error(model.estimates_)}
    alone = getattr(model, "site_estimates_", None)
    if alone is None:
        return found
    errors = error(alone)
    return found | {"sensor_alone_error": errors, "alone_mae": sum(errors) / int(hidden.sum())}


def _scored(cell: Cell) -> dict[str, Any]:
    table, sensors = load(cell.source)
    options = json.loads(cell.options)
    method = Watched(**vars(find(cell.method)), owners=deal(sensors, cell.owners))
    (row,) = evaluate(
        table,
        sensors,
        rates=[cell.rate],
        methods=[method],
        patterns=[cell.pattern],
        seeds=[cell.seed],
        block_length=cell.block_length,
        options={cell.method: options},
    )
    scored = row.as_dict()
    for name in ("exchanges", "notes", "settings"):
        scored[name] = json_text(scored.get(name))
    known = table.known
    size = {"sensors": known.shape[1], "slots": known.shape[0], "readings": int(known.sum())}
    if row.failed:
        return scored | size
    kept = training_mask(table, sensors, cell.rate, cell.pattern, cell.seed, cell.block_length)
    scored |= size | by_sensor(table, kept, method.made[-1])
    if cell.audit:
        seen = table.values.where(pd.DataFrame(kept.T, table.values.index, table.values.columns))
        scored |= exposure.read(seen, sensors, method.owners, cell.method, cell.seed, options)
    return scored
