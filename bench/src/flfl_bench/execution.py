"""What a worker does: run one cell, and say what happened in plain values."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from flfl.audit import audit
from flfl.audit.attack import COORDINATOR
from flfl.evaluation import evaluate, training_mask
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl_bench.cells import Cell, json_text, load
from flfl_bench.experiment import AUDITED

_CPU_INFO = Path("/proc/cpuinfo")


def run_cell(given: Mapping[str, Any]) -> dict[str, Any]:
    """Run a cell, from and to plain values. What goes wrong inside it is a result too."""
    cell = Cell.from_dict(given)
    start, cpu = time.perf_counter(), time.process_time()
    try:
        row = _scored(cell)
    except Exception as error:
        row = failure(f"{type(error).__name__}: {error}", time.perf_counter() - start)
    row |= {"cpu_seconds": time.process_time() - cpu} | surroundings()
    return {name: value for name, value in row.items() if not _nothing(value)}


def _nothing(value: Any) -> bool:
    """No value, or a number that is none: JSON has no word for it."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def failure(reason: str, seconds: float) -> dict[str, Any]:
    """The row of a cell that has no scores, and why."""
    return {"failed": " ".join(reason.split()), "seconds": seconds}


def surroundings() -> dict[str, Any]:
    """Versions and machine; nothing that names its owner."""
    packages = {name: version(name) for name in ("flfl", "numpy", "scipy")}
    return packages | {
        "python": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "cpu": _cpu_model(),
    }


def _cpu_model() -> str:
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _scored(cell: Cell) -> dict[str, Any]:
    table, sensors = load(cell.source)
    options = json.loads(cell.options)
    (row,) = evaluate(
        table,
        sensors,
        rates=[cell.rate],
        methods=[cell.method],
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
    exposure = _attacked(cell, table, sensors, options) if cell.audit and not row.failed else {}
    return scored | size | exposure


def _attacked(
    cell: Cell, table: Table, sensors: Sensors, options: dict[str, Any]
) -> dict[str, Any]:
    """The most that the coordinator's attacks read of the same run."""
    kept = training_mask(table, sensors, cell.rate, cell.pattern, cell.seed, cell.block_length)
    seen = table.values.where(pd.DataFrame(kept.T, table.values.index, table.values.columns))
    report = audit(seen, sensors, disclosure=AUDITED[cell.method], seed=cell.seed, **options)
    attacks = [one for one in report.as_dict()["attacks"] if one["adversary"] == COORDINATOR]
    exposure, attack = worst(attacks, plain=report.disclosure == "plain")
    return {
        "exposure_worst": exposure,
        "exposure_attack": attack,
        "readings_exposed": max((one["readings_exposed"] or 0.0 for one in attacks), default=0.0),
        "audit_seconds": report.seconds,
    }


def worst(attacks: Sequence[Mapping[str, Any]], *, plain: bool) -> tuple[float, str | None]:
    """What is read best, and by which attack; 0 where nothing was shared.

    A share of the residual of the sensor that is read best. Plain uploads give away the readings
    themselves: there it is the share of all readings.

    Examples
    --------
    >>> attack = {"name": "lags", "residual_read_max": 0.3, "readings_exposed": 0.01}
    >>> worst([attack], plain=False), worst([], plain=False)
    ((0.3, 'lags'), (0.0, None))
    """
    figure = "readings_exposed" if plain else "residual_read_max"
    found = [(one[figure], one["name"]) for one in attacks if one[figure] is not None]
    return max(found, default=(0.0, None))
