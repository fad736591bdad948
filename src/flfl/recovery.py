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
from flfl.data.write import flags_of
from flfl.estimators.base import BaseRecoverer, resolve_sensors
from flfl.estimators.network import partition
from flfl.federation.ledger import Ledger
from flfl.federation.paper import Progress

Array = NDArray[np.float64]
Scores = dict[str, dict[str, float]]

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
    lower, upper : bounds of the interval of each recovered value (the value itself where
        observed, NaN where refused)
    scores : the self-test: errors on readings that were hidden, against each sensor alone
    exposure : share of each sensor's news that the coordinator may read, by sensor
    ledger : what travelled
    notes : what was understood and decided, in plain sentences
    """

    values: pd.DataFrame
    flags: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame
    scores: Mapping[str, Mapping[str, float]]
    exposure: pd.Series
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
        exposure = self.exposure.dropna()
        return {
            "sensors": self.values.shape[1],
            "slots": self.values.shape[0],
            "sites": len(set(self.sites)),
            **{flag: self.count(flag) for flag in FLAGS},
            "rounds": self.ledger.rounds,
            "exchanges": dict(self.ledger.exchanges),
            "seconds": round(self.seconds, 3),
            "numbers_per_reading": numbers_per_reading(self.ledger, observed),
            "exposure": {
                "worst": float(exposure.max()) if len(exposure) else 0.0,
                "median": float(exposure.median()) if len(exposure) else 0.0,
            },
            "bytes_up": self.ledger.bytes_up,
            "bytes_down": self.ledger.bytes_down,
            "bytes_raw": 8 * observed,
            "self_test": {name: dict(scores) for name, scores in self.scores.items()},
            "notes": [*self.notes, *self.ledger.notes],
        }


def recover(
    readings: pd.DataFrame | Array | Table,
    sensors: Sensors | pd.DataFrame | None = None,
    *,
    sites: Sequence[str] | Mapping[str, str] | None = None,
    method: str = "flfl",
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
    self_test : score the method on readings hidden from it (a method that does not hold any out
        by itself is fitted twice)
    options : arguments of the method, such as ``max_exposure=0.3``

    Examples
    --------
    >>> t = np.arange(200.0)
    >>> table = pd.DataFrame({name: np.sin(t / 9) * i + i for i, name in enumerate("abcd", 1)})
    >>> table.loc[40:42, "a"] = np.nan
    >>> result = recover(table, effort="quick")
    >>> result.flags.loc[40, "a"], bool(result.values.isna().any().any())
    ('recovered', False)
    """
    start = time.perf_counter()
    table = readings if isinstance(readings, Table) else from_frame(readings)
    network = resolve_sensors(table.sensor_ids, sensors, sites)
    notes = [*table.notes, *network.notes]
    if network.coordinates is None and network.regions is None:
        notes.append("no coordinates: nothing is known of who is near whom")
    runner = _Runner(table, network, method, seed, progress, options)
    model = runner.fit(table.values)
    scores: Scores = {}
    width: Array | None = None
    if self_test:
        scores, width = runner.self_test(model)
        if not scores:
            notes.append("too few readings for a self-test: no scores")
    index, columns = table.values.index, table.values.columns
    values = table.values.where(table.known, pd.DataFrame(model.estimates_, index, columns))
    flags = pd.DataFrame(flags_of(table, values), index, columns)
    lower, upper = _interval(model, values, flags.to_numpy() == "recovered", width)
    exposed = np.where(values.isna().all(), np.nan, float(bool(model.ledger_.numbers)))
    return Recovery(
        values=values,
        flags=flags,
        lower=lower,
        upper=upper,
        scores=scores,
        # A method that computes no exposure and sends anything is taken to show everything.
        exposure=pd.Series(getattr(model, "exposure_", exposed), columns),
        ledger=model.ledger_,
        seconds=time.perf_counter() - start,
        sites=partition(network).sites,
        notes=tuple(notes),
    )


def numbers_per_reading(ledger: Ledger, readings: int) -> float:
    """Independent numbers released for each reading. At one or more, nothing is hidden."""
    return ledger.numbers / max(readings, 1)


def _interval(
    model: BaseRecoverer, values: pd.DataFrame, filled: NDArray[np.bool_], width: Array | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The method's own intervals, or else the self-test's error quantile around each value."""
    if hasattr(model, "lower_"):
        # An interval always holds the value that is written.
        low = np.minimum(model.lower_, values.to_numpy())
        high = np.maximum(model.upper_, values.to_numpy())
    else:
        reach = np.full(values.shape[1], np.nan) if width is None else width
        low, high = values.to_numpy() - reach, values.to_numpy() + reach
    frames = (pd.DataFrame(bound, values.index, values.columns) for bound in (low, high))
    lower, upper = (frame.where(filled, values) for frame in frames)
    return lower, upper


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
        self.label = "flfl" if method.startswith("flfl") else method

    def fit(self, values: pd.DataFrame) -> BaseRecoverer:
        """The method on these values."""
        model = create(self.method, seed=self.seed, **self.options)
        if hasattr(model, "progress"):
            model.progress = self.progress
        return model.fit(values, sensors=self.network)

    def self_test(self, model: BaseRecoverer) -> tuple[Scores, Array | None]:
        """Scores on readings hidden from the method, and half widths of an interval by sensor.

        Empty where there are too few readings to spare any.
        """
        if hasattr(model, "holdout_"):
            hidden = ~np.isnan(model.holdout_)
            estimates, coverage = model.holdout_, model.inside_
        else:
            known = self.table.known.T
            kept = hide(known, 1 - SELF_TEST_SHARE, "random", np.random.default_rng(self.seed))
            seen = self.table.values.where(kept.T)
            hidden = (known & ~kept).T & seen.notna().any().to_numpy()
            estimates = self.fit(seen).estimates_ if hidden.any() else model.estimates_
            coverage = None
        if not hidden.any():
            return {}, None
        truth = self.table.values.to_numpy()[hidden]
        error = estimates[hidden] - truth
        scores = {self.label: _score(error), **self._alone(hidden, truth)}
        spread = _spread(self.table.values.to_numpy())
        relative = np.abs(error) / np.broadcast_to(spread, hidden.shape)[hidden]
        scores[self.label]["coverage"] = (
            _cross_coverage(relative, self.seed)
            if coverage is None
            else float(coverage[hidden].mean())
        )
        return scores, np.quantile(relative, COVERAGE) * spread

    def _alone(self, hidden: NDArray[np.bool_], truth: Array) -> Scores:
        """What each sensor does by itself on the same readings."""
        seen = self.table.values.mask(hidden)
        return {
            name: _score(create(method).fit(seen).estimates_[hidden] - truth)
            for name, method in (("alone", "pchip"), ("linear", "linear"))
        }


def _score(error: Array) -> dict[str, float]:
    return {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt((error**2).mean()))}


def _spread(values: Array) -> Array:
    """Each column's standard deviation; one where a column is constant or empty."""
    with np.errstate(invalid="ignore", divide="ignore"):
        count = (~np.isnan(values)).sum(axis=0)
        mean = np.nansum(values, axis=0) / count
        spread = np.sqrt(np.nansum((values - mean) ** 2, axis=0) / count)
    return np.where(spread > 0, spread, 1.0)


def _cross_coverage(error: Array, seed: int) -> float:
    """Share of errors inside the quantile that the *other* half gives."""
    if len(error) < 2:
        return float("nan")
    halves = np.array_split(np.random.default_rng(seed).permutation(error), 2)
    inside = [
        np.mean(mine <= np.quantile(other, COVERAGE)) for mine, other in (halves, halves[::-1])
    ]
    return float(np.mean(inside))
