"""Hide known entries, let methods fill them, score them on the same masks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.baselines import create, find
from flfl.benchmark.memory import PeakMemory
from flfl.data.masks import hide
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.estimators.network import partition
from flfl.recovery import numbers_per_reading


@dataclass(frozen=True)
class Row:
    """One method on one mask. Scores are in the readings' units; ``failed`` says why not."""

    method: str
    rate: float
    pattern: str
    seed: int
    mae: float | None
    rmse: float | None
    seconds: float
    peak_mb: float | None
    rounds: int
    numbers_per_reading: float
    bytes_up: int
    bytes_down: int
    failed: str | None = None
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "notes": list(self.notes)}


def training_mask(
    table: Table, sensors: Sensors, rate: float, pattern: str, seed: int, block_length: int = 24
) -> NDArray[np.bool_]:
    """Which known entries (sensors x slots) a method may see. One seed, one mask."""
    regions = partition(sensors).regions if pattern == "outage" else None
    return hide(
        table.known.T,
        rate,
        pattern,
        np.random.default_rng(seed),
        block_length=block_length,
        regions=regions,
    )


def evaluate(
    table: Table,
    sensors: Sensors,
    *,
    rates: Sequence[float],
    methods: Sequence[str],
    patterns: Sequence[str] = ("random",),
    seeds: Sequence[int] = (0,),
    block_length: int = 24,
    options: dict[str, dict[str, Any]] | None = None,
    report: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Score every method on every rate, pattern and seed.

    Parameters
    ----------
    rates : shares of the known entries that are kept
    options : constructor arguments by method name
    report : called with each row as it is finished
    """
    for method in methods:
        find(method)
    rows = []
    for pattern in patterns:
        for rate in rates:
            for seed in seeds:
                kept = training_mask(table, sensors, rate, pattern, seed, block_length)
                for method in methods:
                    row = _score(
                        table, sensors, kept, method, (rate, pattern, seed), (options or {})
                    )
                    rows.append(row)
                    if report is not None:
                        report(row)
    return rows


def _score(
    table: Table,
    sensors: Sensors,
    kept: NDArray[np.bool_],
    method: str,
    cell: tuple[float, str, int],
    options: dict[str, dict[str, Any]],
) -> Row:
    rate, pattern, seed = cell
    # The hidden readings are not in the table that the method is given.
    seen = table.values.where(pd.DataFrame(kept.T, table.values.index, table.values.columns))
    model = create(method, seed=seed, **options.get(method, {}))
    failed = None
    start = time.perf_counter()
    with PeakMemory() as memory:
        try:
            model.fit(seen, sensors=sensors)
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            failed = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    mae = rmse = None
    if failed is None:
        mae, rmse, failed = _errors(table, kept, model.estimates_)
    ledger = model.ledger_
    return Row(
        method=method,
        rate=rate,
        pattern=pattern,
        seed=seed,
        mae=mae,
        rmse=rmse,
        seconds=seconds,
        peak_mb=memory.peak_mb,
        rounds=ledger.rounds,
        numbers_per_reading=numbers_per_reading(ledger, int(kept.sum())),
        bytes_up=ledger.bytes_up,
        bytes_down=ledger.bytes_down,
        failed=failed,
        notes=tuple(ledger.notes),
    )


def _errors(
    table: Table, kept: NDArray[np.bool_], estimates: NDArray[np.float64]
) -> tuple[float | None, float | None, str | None]:
    hidden = table.known & ~kept.T
    error = (estimates - table.values.to_numpy())[hidden]
    if not len(error):
        return None, None, "nothing was hidden"
    if not np.isfinite(error).all():
        return None, None, "the estimates are not finite"
    return float(np.abs(error).mean()), float(np.sqrt((error**2).mean())), None
