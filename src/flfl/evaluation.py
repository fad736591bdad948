"""Hide known entries, let methods fill them, score them on the same masks.

Settings are chosen fairly: a small grid for each method, the same budget for all, never on test
entries.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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

    Attributes
    ----------
    coverage, interval_width : float or None
        Share of the hidden readings inside the method's own interval, and its mean width; None if
        it has none.
    exchanges : mapping
        Question-and-sum exchanges by phase of the run.
    settings : mapping
        What tuning chose from the method's grid.
    seconds, tuning_seconds : float
        Time of the fit itself, and of choosing its settings.
    """

    method: str
    rate: float
    pattern: str
    seed: int
    mae: float | None
    rmse: float | None
    coverage: float | None
    interval_width: float | None
    seconds: float
    peak_mb: float | None
    rounds: int
    exchanges: dict[str, int]
    numbers_per_reading: float
    bytes_up: int
    bytes_down: int
    failed: str | None = None
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    tuning_seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "notes": list(self.notes)}


@dataclass(frozen=True)
class _Scores:
    mae: float | None = None
    rmse: float | None = None
    coverage: float | None = None
    interval_width: float | None = None
    failed: str | None = field(default=None, kw_only=True)


def default_block_length(table: Table) -> int:
    """24 slots, or 12 for monthly readings."""
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

    ``block_length`` is 24 slots where it is not given, 12 for monthly readings.

    Raises
    ------
    InputError
        When the rate leaves nothing hidden or nothing to learn from.
    """
    known = table.known.T
    kept = hide(
        known,
        rate,
        pattern,
        np.random.default_rng(seed),
        block_length=block_length or default_block_length(table),
        regions=partition(sensors).regions if pattern == "outage" else None,
    )
    total = int(known.sum())
    if round(rate * total) == 0 or kept.sum() == total:
        fate = "hides" if kept.sum() == total else "keeps"
        raise InputError(
            f"keeping the share {rate:g} of {total} readings {fate} none of them"
            f" (pattern {pattern})",
            where="rate",
            remedy="Give a rate further from 0 and 1",
        )
    return kept


def evaluate(
    table: Table,
    sensors: Sensors,
    *,
    rates: Sequence[float],
    methods: Sequence[str | Method],
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
    rates : sequence of float
        Shares of the known entries that are kept.
    block_length : int, optional
        Slots in a block; None for 24, or 12 for monthly readings.
    options : mapping, optional
        Settings by method name.
    tuned : bool
        Choose what ``options`` leaves open from each method's grid, on entries cut from the
        training entries (:func:`tune`).
    report : callable, optional
        Called with each row as it is finished.
    """
    given, block = options or {}, block_length or default_block_length(table)
    cells: list[Cell] = list(product(patterns, rates, seeds))

    def mask(cell: Cell) -> Mask:
        pattern, rate, seed = cell
        return training_mask(table, sensors, rate, pattern, seed, block_length)

    # What cannot be done is said before hours of work, not after.
    chosen = [m if isinstance(m, Method) else find(m) for m in methods]
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
    scores, traffic, chosen = _Scores(), Traffic(), Tuned()
    fitting = start = time.perf_counter()
    with PeakMemory() as memory:
        try:
            if tuning_block is not None:
                chosen = tune(method, seen, sensors, pattern, seed, tuning_block, options)
            fitting = time.perf_counter()
            model = method.create(seed=seed, **(dict(chosen.options) | options))
            model.fit(seen, sensors=sensors, grid=table.grid)
            traffic = model.traffic_
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            scores = _Scores(failed=f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - fitting
    if scores.failed is None:
        scores = _score(table, kept, model)
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
        settings=dict(chosen.options),
        tuning_seconds=fitting - start,
        **asdict(scores),
    )


def _score(table: Table, kept: Mask, model: BaseRecoverer) -> _Scores:
    """Errors on the hidden readings, and how many of them lie in the method's interval."""
    hidden = table.known & ~kept.T
    truth, estimates = table.values.to_numpy()[hidden], model.estimates_[hidden]
    error = estimates - truth
    if not np.isfinite(error).all():
        return _Scores(failed="diverged: the estimates are not finite")
    seen = table.values.to_numpy()[kept.T]
    middle, reach = (seen.max() + seen.min()) / 2, max(float(np.ptp(seen)), np.finfo(float).tiny)
    if np.abs(estimates - middle).max() > constants.RUNAWAY * reach:
        return _Scores(failed=f"diverged: estimates up to {np.abs(estimates).max():.3g}")
    mae, rmse = float(np.abs(error).mean()), float(np.sqrt((error**2).mean()))
    bounds = model.interval()
    if bounds is None:
        return _Scores(mae, rmse)
    low, high = (bound[hidden] for bound in bounds)
    inside = (low <= truth) & (truth <= high)
    return _Scores(mae, rmse, float(inside.mean()), float((high - low).mean()))


# --- tuning ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuned:
    """What tuning chose: the ``options`` of least error, and the validation MAE of every setting
    tried (``errors``, None where it failed)."""

    options: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[float | None, ...] = ()


def tune(
    method: Method,
    seen: pd.DataFrame,
    sensors: Sensors,
    pattern: str,
    seed: int,
    block_length: int,
    options: Mapping[str, Any] | None = None,
) -> Tuned:
    """The settings of a method's grid with the least error on entries cut from ``seen``.

    Parameters
    ----------
    seen : DataFrame
        Slots x sensors, NaN = missing: the training entries, which the test entries are not among.
        Some of them are hidden again in the pattern of the test, within a limited stretch.
    options : mapping, optional
        Settings that are given; a grid that sets one of them is not tried.

    Raises
    ------
    DivergedError
        When no setting of the grid gives numbers.
    """
    given = dict(options or {})
    grid = [setting for setting in method.grid if not set(setting) & set(given)]
    if len(grid) < 2:
        return Tuned(dict(grid[0]) if grid else {})
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
        return Tuned(dict(grid[0]))
    errors: list[float | None] = []
    for setting in grid:
        try:
            model = method.create(seed=seed, **given | dict(setting)).fit(train, sensors=sensors)
            error = float(np.abs(model.estimates_[held] - truth).mean())
        except (ArithmeticError, np.linalg.LinAlgError):
            error = np.nan
        errors.append(error if np.isfinite(error) else None)
    fine = [(error, number) for number, error in enumerate(errors) if error is not None]
    if not fine:
        raise DivergedError(f"none of its {len(grid)} settings gave numbers")
    return Tuned(dict(grid[min(fine)[1]]), tuple(errors))


# --- memory ---------------------------------------------------------------------------------------


class PeakMemory:
    """Context manager: the most memory the process held *above* its start, in MB.

    Sampled every 5 ms by a thread; None where the system does not tell (no ``/proc``).
    """

    def __init__(self) -> None:
        self.peak_mb: float | None = None
        self._samples: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if _PAGES.exists():
            self._sample()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._samples:
            self._stop.set()
            self._thread.join()
            self._sample()
            self.peak_mb = max(self._samples) - self._samples[0]

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self._sample()

    def _sample(self) -> None:
        held = int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        # The first and the largest so far are enough.
        self._samples = [*self._samples[:1], max([*self._samples, held])]
