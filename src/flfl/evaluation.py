"""Hide known entries, let methods fill them, score them on the same masks.

Settings are chosen fairly: a small grid for each method, the same budget for all, never on test
entries.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl import constants
from flfl.datasets.masks import hide
from flfl.errors import DivergedError, InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.owners import partition
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.methods import Method, find
from flfl.protocol.traffic import Traffic

Mask = NDArray[np.bool_]
Cell = tuple[str, float, int]
"""One mask: pattern, rate, seed."""
_PAGES = Path("/proc/self/statm")


@dataclass(frozen=True)
class Row:
    """One method on one mask. Scores are in the readings' units; ``failed`` says why not.

    ``coverage`` and ``interval_width`` are those of the method's own intervals, None if it has
    none; ``settings`` what tuning chose, ``tuning_seconds`` how long that took.
    """

    method: str
    rate: float
    pattern: str
    seed: int
    seconds: float
    peak_mb: float | None
    rounds: int
    exchanges: dict[str, int]
    numbers_per_reading: float
    bytes_up: int
    bytes_down: int
    mae: float | None = None
    rmse: float | None = None
    coverage: float | None = None
    interval_width: float | None = None
    failed: str | None = None
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    tuning_seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "notes": list(self.notes)}


def _usual_block(table: Table) -> int:
    return constants.MONTHLY_BLOCK_SLOTS if table.grid.months == 1 else constants.BLOCK_SLOTS


def training_mask(
    table: Table,
    sensors: Sensors,
    rate: float,
    pattern: str,
    seed: int,
    block_length: int | None = None,
) -> Mask:
    """Which known entries (sensors x slots) a method may see. One seed, one mask.

    ``block_length`` is 24 slots where it is not given, 12 for monthly readings. A rate that leaves
    nothing hidden or nothing to learn from is refused.
    """
    known, rng = table.known.T, np.random.default_rng(seed)
    regions = partition(sensors).regions if pattern == "outage" else None
    block = block_length or _usual_block(table)
    kept = hide(known, rate, pattern, rng, block_length=block, regions=regions)
    total = int(known.sum())
    if round(rate * total) == 0 or kept.sum() == total:
        fate = "hides" if kept.sum() == total else "keeps"
        problem = f"keeping the share {rate:g} of {total} readings {fate} none of them"
        remedy = "Give a rate further from 0 and 1"
        raise InputError(f"{problem} (pattern {pattern})", where="rate", remedy=remedy)
    return kept


def evaluate(
    table: Table,
    sensors: Sensors,
    *,
    rates: Sequence[float],
    methods: Sequence[Any],
    patterns: Sequence[str] = ("random",),
    seeds: Sequence[int] = (0,),
    block_length: int | None = None,
    options: dict[str, dict[str, Any]] | None = None,
    tuned: bool = True,
    report: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Score every method on every rate, pattern and seed.

    Parameters
    ----------
    table : Table
        Readings, as ``load_dataset``, ``synthesize`` or ``flfl.io.read`` gives them.
    sensors : Sensors
        Coordinates and owners.
    rates : sequence of float
        Shares of the known entries that are kept.
    methods : sequence
        Names that ``flfl methods`` lists, ``"module:Class"``, classes or objects.
    patterns : sequence of str
        How entries are hidden: ``"random"``, ``"block"``, ``"outage"``.
    seeds : sequence of int
        One mask for each.
    block_length : int, optional
        Slots of a block: 24, for monthly readings 12.
    options : mapping, optional
        Settings by method name.
    tuned : bool
        Whether what the options leave open is chosen on entries cut from the training entries.
    report : callable, optional
        Called with each row as it is finished.
    """
    given, block = options or {}, block_length or _usual_block(table)
    cells: list[Cell] = list(product(patterns, rates, seeds))

    def mask(cell: Cell) -> Mask:
        pattern, rate, seed = cell
        return training_mask(table, sensors, rate, pattern, seed, block_length)

    # What cannot be done is said before hours of work, not after.
    chosen = [find(method) for method in methods]
    for method in chosen:
        method.require()
    for cell in cells:
        mask(cell)
    rows = []
    for cell in cells:
        kept = mask(cell)
        for method in chosen:
            settings = given.get(method.name, {})
            row = _row(table, sensors, kept, method, cell, settings, block if tuned else None)
            rows.append(row)
            if report is not None:
                report(row)
    return rows


def _row(
    table: Table,
    sensors: Sensors,
    kept: Mask,
    method: Method,
    cell: Cell,
    options: dict[str, Any],
    tuning_block: int | None,
) -> Row:
    """One method on one mask; ``tuning_block`` is the run length of tuning, None for none."""
    pattern, rate, seed = cell
    # The hidden readings are not in the table that the method is given.
    seen = table.values.where(pd.DataFrame(kept.T, table.values.index, table.values.columns))
    failed, traffic, chosen = None, Traffic(), dict[str, Any]()
    fitting = start = time.perf_counter()
    with peak_memory() as memory:
        try:
            if tuning_block is not None:
                chosen = tune(method, seen, sensors, pattern, seed, tuning_block, options)
            fitting = time.perf_counter()
            model = method.create(seed=seed, **(chosen | options))
            model.fit(seen, sensors=sensors, grid=table.grid)
            traffic = model.traffic_
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            failed = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - fitting
    scores = _score(table, kept, model) if failed is None else {"failed": failed}
    return Row(
        method=method.name,
        rate=rate,
        pattern=pattern,
        seed=seed,
        seconds=seconds,
        peak_mb=memory.peak_mb,
        rounds=traffic.rounds,
        exchanges=dict(traffic.exchanges),
        numbers_per_reading=traffic.numbers_per_reading(int(kept.sum())),
        bytes_up=traffic.bytes_up,
        bytes_down=traffic.bytes_down,
        notes=tuple(traffic.notes),
        settings=chosen,
        tuning_seconds=fitting - start,
        **scores,
    )


def _score(table: Table, kept: Mask, model: BaseRecoverer) -> dict[str, Any]:
    """Errors on the hidden readings, and how many of them lie in the method's interval."""
    hidden = table.known & ~kept.T
    truth, estimates = table.values.to_numpy()[hidden], model.estimates_[hidden]
    error = estimates - truth
    if not np.isfinite(error).all():
        return {"failed": "diverged: the estimates are not finite"}
    seen = table.values.to_numpy()[kept.T]
    middle, reach = (seen.max() + seen.min()) / 2, max(float(np.ptp(seen)), np.finfo(float).tiny)
    if np.abs(estimates - middle).max() > constants.RUNAWAY * reach:
        return {"failed": f"diverged: estimates up to {np.abs(estimates).max():.3g}"}
    scores = {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt((error**2).mean()))}
    if (bounds := model.interval()) is not None:
        low, high = (bound[hidden] for bound in bounds)
        inside = (low <= truth) & (truth <= high)
        scores |= {"coverage": float(inside.mean()), "interval_width": float((high - low).mean())}
    return scores


# --- tuning ---------------------------------------------------------------------------------------


def tune(
    method: Method,
    seen: pd.DataFrame,
    sensors: Sensors,
    pattern: str,
    seed: int,
    block_length: int,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The settings of a method's grid with the least error on entries cut from ``seen``.

    ``seen`` (slots x sensors) are the training entries, which the test entries are not among; some
    of them are hidden again in the pattern of the test, within a limited stretch. What ``options``
    set is not tried. Where no setting gives numbers, that is a DivergedError.
    """
    given = dict(options or {})
    grid = [setting for setting in method.grid if not set(setting) & set(given)]
    if len(grid) < 2:
        return dict(grid[0]) if grid else {}
    start = max(0, (len(seen) - constants.TUNING_SLOTS) // 2)
    window = seen.iloc[start : start + constants.TUNING_SLOTS]
    known = window.notna().to_numpy()
    # Another stream than the test mask's, which comes from the seed alone.
    rng = np.random.default_rng([seed, 1])
    regions = partition(sensors).regions if pattern == "outage" else None
    rate, block = 1 - constants.TUNING_SHARE, min(block_length, len(window))
    try:
        kept = hide(known.T, rate, pattern, rng, block_length=block, regions=regions).T
    except InputError:
        # A short stretch may not hold so many runs; scattered entries always do.
        kept = hide(known.T, rate, "random", rng).T
    train = window.where(pd.DataFrame(kept, window.index, window.columns))
    held = known & ~kept & kept.any(axis=0)
    truth = window.to_numpy()[held]
    if not len(truth):
        return dict(grid[0])
    errors = np.full(len(grid), np.inf)
    for number, setting in enumerate(grid):
        with suppress(ArithmeticError, np.linalg.LinAlgError):
            model = method.create(seed=seed, **given | dict(setting)).fit(train, sensors=sensors)
            errors[number] = np.nan_to_num(
                np.abs(model.estimates_[held] - truth).mean(), nan=np.inf
            )
    if not np.isfinite(errors).any():
        raise DivergedError(f"none of its {len(grid)} settings gave numbers")
    return dict(grid[int(np.argmin(errors))])


# --- memory ---------------------------------------------------------------------------------------


@dataclass
class PeakMemory:
    """The most memory the process held *above* its start, in MB; None where no ``/proc`` tells."""

    peak_mb: float | None = None


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Watch the memory of a stretch of code, sampled every 5 ms by a thread."""
    found, stop = PeakMemory(), threading.Event()

    def held() -> float:
        return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def watch(start: float) -> None:
        most = start
        while not stop.wait(0.005):
            most = max(most, held())
        found.peak_mb = max(most, held()) - start

    watching = threading.Thread()
    if _PAGES.exists():
        watching = threading.Thread(target=watch, args=(held(),), daemon=True)
        watching.start()
    try:
        yield found
    finally:
        stop.set()
        if watching.ident is not None:
            watching.join()
