"""Hide known entries, let methods fill them, score them on the same masks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.datasets.masks import hide
from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.owners import partition
from flfl.io.grid import MEAN_MONTH
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.methods import Method, find
from flfl.peak_memory import PeakMemory
from flfl.protocol.traffic import Traffic
from flfl.tuning import Tuned, tune

BLOCK_LENGTH, MONTHLY_BLOCK_LENGTH = 24, 12
Cell = tuple[str, float, int]
"""One mask: pattern, rate, seed."""


@dataclass(frozen=True)
class Row:
    """One method on one mask. Scores are in the readings' units; ``failed`` says why not.

    Attributes
    ----------
    coverage : share of the hidden readings inside the method's own interval, None if it has none
    interval_width : mean width of these intervals
    exchanges : question-and-sum exchanges by phase of the run
    settings : what tuning chose from the method's grid
    seconds, tuning_seconds : time of the fit itself, and of choosing its settings
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
    return MONTHLY_BLOCK_LENGTH if table.step == MEAN_MONTH else BLOCK_LENGTH


def training_mask(
    table: Table,
    sensors: Sensors,
    rate: float,
    pattern: str,
    seed: int,
    block_length: int | None = None,
) -> NDArray[np.bool_]:
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
    rates : shares of the known entries that are kept
    block_length : slots in a block; None for 24, or 12 for monthly readings
    options : constructor arguments by method name
    tuned : choose what ``options`` leaves open from each method's grid, on entries cut from the
        training entries (:mod:`flfl.tuning`)
    report : called with each row as it is finished
    """
    given = options or {}
    cells: list[Cell] = list(product(patterns, rates, seeds))

    def mask(cell: Cell) -> NDArray[np.bool_]:
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
            row = run_cell(
                table,
                sensors,
                kept,
                method,
                cell,
                given.get(method.name, {}),
                tuning_block=(block_length or default_block_length(table)) if tuned else None,
            )
            rows.append(row)
            if report is not None:
                report(row)
    return rows


def run_cell(
    table: Table,
    sensors: Sensors,
    kept: NDArray[np.bool_],
    method: Method,
    cell: Cell,
    options: dict[str, Any],
    *,
    tuning_block: int | None = None,
) -> Row:
    """One method on one mask; ``tuning_block`` is the run length of tuning, None for none."""
    pattern, rate, seed = cell
    # The hidden readings are not in the table that the method is given.
    seen = table.values.where(pd.DataFrame(kept.T, table.values.index, table.values.columns))
    scores, traffic, chosen = _Scores(), Traffic(), Tuned()
    start = time.perf_counter()
    fitting = start
    with PeakMemory() as memory:
        try:
            if tuning_block is not None:
                chosen = tune(
                    method, seen, sensors, pattern, seed,
                    block_length=tuning_block, options=options,
                )  # fmt: skip
            fitting = time.perf_counter()
            model = method.create(seed=seed, **(dict(chosen.options) | options))
            model.fit(seen, sensors=sensors)
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


_RUNAWAY = 100.0
"""An estimate this many ranges outside all that was observed is no estimate."""


def _score(table: Table, kept: NDArray[np.bool_], model: BaseRecoverer) -> _Scores:
    """Errors on the hidden readings, and how many of them lie in the method's interval."""
    hidden = table.known & ~kept.T
    truth, estimates = table.values.to_numpy()[hidden], model.estimates_[hidden]
    error = estimates - truth
    if not np.isfinite(error).all():
        return _Scores(failed="diverged: the estimates are not finite")
    seen = table.values.to_numpy()[kept.T]
    middle, reach = (seen.max() + seen.min()) / 2, max(float(np.ptp(seen)), np.finfo(float).tiny)
    if np.abs(estimates - middle).max() > _RUNAWAY * reach:
        return _Scores(failed=f"diverged: estimates up to {np.abs(estimates).max():.3g}")
    mae, rmse = float(np.abs(error).mean()), float(np.sqrt((error**2).mean()))
    bounds = model.interval()
    if bounds is None:
        return _Scores(mae, rmse)
    low, high = (bound[hidden] for bound in bounds)
    inside = (low <= truth) & (truth <= high)
    return _Scores(mae, rmse, float(inside.mean()), float((high - low).mean()))
