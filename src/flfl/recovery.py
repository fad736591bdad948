"""``recover``: fill a table, say what is what, and score the filling on known readings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.baselines import create
from flfl.data.masks import hide
from flfl.data.read import from_frame
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.estimators.base import BaseRecoverer, resolve_sensors
from flfl.estimators.network import partition
from flfl.federation.ledger import Ledger
from flfl.federation.paper import Progress

SELF_TEST_SHARE = 0.1
COVERAGE = 0.9
FLAGS = ("observed", "recovered", "refused")


@dataclass(frozen=True)
class Recovery:
    """A filled table.

    Attributes
    ----------
    values : time x sensor; observed values as they were, recovered ones filled in, refused NaN
    flags : time x sensor, ``observed``, ``recovered`` or ``refused``
    lower, upper : bounds of the 90 % interval of each recovered value (the value itself where
        observed, NaN where refused)
    scores : the self-test: errors on readings that were hidden from a first fit
    ledger : what travelled
    notes : what was understood and decided, in plain sentences
    """

    values: pd.DataFrame
    flags: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame
    scores: Mapping[str, Mapping[str, float]]
    ledger: Ledger
    seconds: float
    sites: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())

    def count(self, flag: str) -> int:
        """How many cells carry the flag."""
        return int((self.flags.to_numpy() == flag).sum())

    def summary(self) -> dict[str, Any]:
        """The figures of the run, ready for JSON."""
        observed = self.count("observed")
        return {
            "sensors": self.values.shape[1],
            "slots": self.values.shape[0],
            "sites": len(set(self.sites)),
            **{flag: self.count(flag) for flag in FLAGS},
            "rounds": self.ledger.rounds,
            "seconds": round(self.seconds, 3),
            "numbers_per_reading": numbers_per_reading(self.ledger, observed),
            "exposure": {"worst": 1.0, "median": 1.0},
            "bytes_up": self.ledger.bytes_up,
            "bytes_down": self.ledger.bytes_down,
            "bytes_raw": 8 * observed,
            "self_test": {name: dict(scores) for name, scores in self.scores.items()},
            "notes": [*self.notes, *self.ledger.notes],
        }


def recover(
    readings: pd.DataFrame | NDArray[np.float64] | Table,
    sensors: Sensors | pd.DataFrame | None = None,
    *,
    sites: Sequence[str] | Mapping[str, str] | None = None,
    method: str = "flfl-paper",
    seed: int = 0,
    self_test: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Recovery:
    """Fill the gaps of a time x sensor table.

    Parameters
    ----------
    readings : DataFrame (index = time, one column a sensor, NaN = missing), array, or Table
    sensors : coordinates (and sites): a DataFrame with one row a sensor
    sites : owner of each sensor, by column order or by sensor id
    method : a name from the registry
    self_test : hide a tenth of the readings first, and score the method on them
    options : arguments of the method, such as ``rank=5``

    Examples
    --------
    >>> t = np.arange(100.0)
    >>> table = pd.DataFrame({"a": np.sin(t / 9), "b": 2 * np.sin(t / 9) + 1})
    >>> table.loc[40:42, "a"] = np.nan
    >>> result = recover(table, rank=1)
    >>> result.flags.loc[40, "a"], bool(result.values.isna().any().any())
    ('recovered', False)
    """
    start = time.perf_counter()
    table = readings if isinstance(readings, Table) else from_frame(readings)
    network = resolve_sensors(table.sensor_ids, sensors, sites)
    notes = [*table.notes, *network.notes]
    if network.coordinates is None and network.regions is None:
        notes.append("no coordinates: the spatial part is off and each sensor is its own region")
    runner = _Runner(table, network, method, seed, progress, options)
    errors = runner.self_test() if self_test else None
    if self_test and errors is None:
        notes.append("too few readings for a self-test: no scores, no intervals")
    model = runner.fit(table.values)
    estimates = pd.DataFrame(model.estimates_, table.values.index, table.values.columns)
    values = table.values.where(table.known, estimates)
    flags = _flags(table, values)
    widths = errors.widths(table) if errors is not None else np.full(len(table.sensor_ids), np.nan)
    filled = flags.to_numpy() == "recovered"
    return Recovery(
        values=values,
        flags=flags,
        lower=values.where(~filled, values - widths),
        upper=values.where(~filled, values + widths),
        scores=errors.scores if errors is not None else {},
        ledger=model.ledger_,
        seconds=time.perf_counter() - start,
        sites=partition(network).sites,
        notes=tuple(notes),
    )


def numbers_per_reading(ledger: Ledger, readings: int) -> float:
    """Numbers uploaded for each reading (8 bytes each). At one or more, nothing is hidden."""
    return ledger.bytes_up / 8 / max(readings, 1)


def _flags(table: Table, values: pd.DataFrame) -> pd.DataFrame:
    flags = np.where(values.isna().to_numpy(), "refused", "recovered").astype(object)
    flags[table.known] = "observed"
    return pd.DataFrame(flags, values.index, values.columns)


@dataclass(frozen=True)
class _SelfTest:
    scores: dict[str, dict[str, float]]
    error: NDArray[np.float64]
    """(hidden entries) absolute errors of the method, in units of each sensor's spread"""

    def widths(self, table: Table) -> NDArray[np.float64]:
        """Half width of the interval of each sensor: the error's quantile, to its own scale."""
        return np.quantile(self.error, COVERAGE) * _spread(table.values.to_numpy())


class _Runner:
    """Fits the method and its references on the whole table, or on a part of its readings."""

    def __init__(
        self,
        table: Table,
        network: Sensors,
        method: str,
        seed: int,
        progress: Progress | None,
        options: dict[str, Any],
    ) -> None:
        self.table, self.network, self.method = table, network, method
        self.seed, self.progress, self.options = seed, progress, options

    def fit(self, values: pd.DataFrame) -> BaseRecoverer:
        model = create(self.method, seed=self.seed, **self.options)
        if hasattr(model, "progress"):
            model.progress = self.progress
        return model.fit(values, sensors=self.network)

    def self_test(self) -> _SelfTest | None:
        """Hide a tenth of the readings, fill them, and compare with each sensor alone.

        None where there are too few readings to spare any.
        """
        known = self.table.known.T
        kept = hide(known, 1 - SELF_TEST_SHARE, "random", np.random.default_rng(self.seed))
        seen = self.table.values.where(kept.T)
        hidden = (known & ~kept).T & seen.notna().any().to_numpy()
        if not hidden.any():
            return None
        truth = self.table.values.to_numpy()[hidden]
        spread = np.broadcast_to(_spread(seen.to_numpy()), hidden.shape)[hidden]
        ours = self.fit(seen).estimates_[hidden] - truth
        ours_name = "flfl" if self.method.startswith("flfl") else self.method
        scores = {ours_name: _score(ours)}
        for name, alone in (("alone", "pchip"), ("linear", "linear")):
            model = create(alone).fit(seen, sensors=self.network)
            scores[name] = _score(model.estimates_[hidden] - truth)
        error = np.abs(ours) / spread
        scores[ours_name]["coverage"] = _cross_coverage(error, self.seed)
        return _SelfTest(scores, error)


def _score(error: NDArray[np.float64]) -> dict[str, float]:
    return {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt((error**2).mean()))}


def _spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each column's standard deviation; one where a column is constant or empty."""
    with np.errstate(invalid="ignore", divide="ignore"):
        count = (~np.isnan(values)).sum(axis=0)
        mean = np.nansum(values, axis=0) / count
        spread = np.sqrt(np.nansum((values - mean) ** 2, axis=0) / count)
    return np.where(spread > 0, spread, 1.0)


def _cross_coverage(error: NDArray[np.float64], seed: int) -> float:
    """Share of errors inside the quantile that the *other* half gives."""
    if len(error) < 2:
        return float("nan")
    halves = np.array_split(np.random.default_rng(seed).permutation(error), 2)
    inside = [
        np.mean(mine <= np.quantile(other, COVERAGE)) for mine, other in (halves, halves[::-1])
    ]
    return float(np.mean(inside))
