"""``recover``: fill a table, say what is what, and score the filling on known readings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.baselines import create, find
from flfl.data.masks import hide
from flfl.data.read import from_frame, with_time_index
from flfl.data.scaling import Scaling
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.data.write import FLAGS, flags_of
from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer, Sites, resolve_sensors
from flfl.estimators.memory import Remembered
from flfl.estimators.network import partition
from flfl.federation.ledger import Ledger
from flfl.federation.paper import Progress

Array = NDArray[np.float64]
Scores = dict[str, dict[str, float]]

SELF_TEST_SHARE = 0.1
COVERAGE = 0.9


@dataclass(frozen=True)
class Recovery:
    """A filled table.

    The tables have the rows and columns that were given: same order, same index, same names (a
    time column of the DataFrame is left out).

    Attributes
    ----------
    values : time x sensor; observed values as they were, recovered ones filled in, refused NaN
    flags : time x sensor, ``observed``, ``recovered`` or ``refused``
    lower, upper : bounds of the interval of each recovered value (the value itself where
        observed, NaN where refused)
    scores : the self-test: errors on readings that were hidden, against each sensor alone and
        against each site alone (``site``, where sites have several sensors)
    by_sensor : the self-test by sensor: ``hidden`` (how many readings were hidden), ``mae`` of the
        method, ``alone`` (MAE of the sensor's own best: linear or pchip, whichever is smaller),
        ``gains`` (whether the method's is below that); NaN where nothing was hidden. A few hidden
        readings say little of one sensor
    exposure : share of each sensor's news that another party may read, by sensor
    ledger : what travelled, a self-test that is a run of its own included
    sites : owner of each sensor; empty where a sensor without readings has none
    remembered : the finished run, for ``warm_start`` and :func:`~flfl.save_model` (``flfl`` only)
    secure : whether the sites' sums were hidden from the coordinator
    notes : what was understood and decided, in plain sentences
    """

    values: pd.DataFrame
    flags: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame
    scores: Mapping[str, Mapping[str, float]]
    by_sensor: pd.DataFrame
    exposure: pd.Series
    ledger: Ledger
    seconds: float
    sites: tuple[str, ...]
    remembered: Remembered | None = None
    secure: bool = False
    notes: tuple[str, ...] = field(default=())

    def count(self, flag: str) -> int:
        """How many cells carry the flag."""
        return int((self.flags.to_numpy() == flag).sum())

    def summary(self) -> dict[str, Any]:
        """The figures of the run, ready for JSON."""
        observed = self.count("observed")
        exposure = self.exposure.dropna()
        tested = int((self.by_sensor["hidden"] > 0).sum())
        gaining = int(self.by_sensor["gains"].sum())
        return {
            "sensors": self.values.shape[1],
            "slots": self.values.shape[0],
            "sites": len(set(self.sites) - {""}),
            **{flag: self.count(flag) for flag in FLAGS},
            "rounds": self.ledger.rounds,
            "exchanges": dict(self.ledger.exchanges),
            "seconds": round(self.seconds, 3),
            "numbers_per_reading": numbers_per_reading(self.ledger, observed),
            "exposure": {
                "worst": float(exposure.max()) if len(exposure) else 0.0,
                "median": float(exposure.median()) if len(exposure) else 0.0,
            },
            "secure": self.secure,
            "bytes_up": self.ledger.bytes_up,
            "bytes_down": self.ledger.bytes_down,
            "bytes_raw": 8 * observed,
            "self_test": {name: dict(scores) for name, scores in self.scores.items()},
            "sensors_gaining": gaining,
            "sensors_not_gaining": tested - gaining,
            "notes": [*self.notes, *self.ledger.notes],
        }


def recover(
    readings: pd.DataFrame | Array | Table,
    sensors: Sensors | pd.DataFrame | None = None,
    *,
    sites: Sites | None = None,
    method: str = "flfl",
    seed: int = 0,
    self_test: bool = True,
    progress: Progress | None = None,
    warm_start: Remembered | None = None,
    **options: Any,
) -> Recovery:
    """Fill the gaps of a time x sensor table.

    Parameters
    ----------
    readings : DataFrame (index = time, one column a sensor, NaN = missing), array, or Table. No
        number stands for a missing reading: replace -999 and the like by NaN first
    sensors : coordinates (and sites): a DataFrame with one row a sensor
    sites : owner of each sensor, by column order or by sensor id; names or numbers
    method : a name from the registry
    seed : of every random draw; ``random_state`` among the options comes before it
    self_test : score the method on readings hidden from it (a method that does not hold any out
        by itself is fitted twice, and both runs count in the ledger)
    warm_start : an earlier result's ``remembered``, when this table goes on after that one: only
        the new slots are fitted, in a few rounds (``flfl`` only)
    options : arguments of the method, such as ``max_exposure=0.3``

    Examples
    --------
    >>> t = np.arange(200.0)
    >>> table = pd.DataFrame({name: np.sin(t / 9) * i + i for i, name in enumerate("abcd", 1)})
    >>> table.loc[40:42, "a"] = np.nan
    >>> result = recover(table, effort="quick")
    >>> result.flags.loc[40, "a"], bool(table.fillna(result.values).isna().any().any())
    ('recovered', False)
    """
    start = time.perf_counter()
    table = readings if isinstance(readings, Table) else from_frame(readings)
    known = Sensors.of_table(table) if sensors is None else sensors
    network = resolve_sensors(table.sensor_ids, known, sites)
    notes = [*table.notes, *network.notes]
    if network.coordinates is None and network.regions is None:
        notes.append("no coordinates: nothing is known of who is near whom")
    runner = _Runner(table, network, method, seed, progress, options, warm_start)
    model = runner.fit(table.values)
    test = runner.self_test(model) if self_test else _SelfTest.none(table)
    if self_test and not test.scores:
        notes.append("too few readings for a self-test: no scores")
    values = np.where(table.known, table.values, model.estimates_)
    flags = flags_of(table, values)
    lower, upper = _interval(model, values, flags == "recovered", test.width)
    given = _Given.of(readings, table)
    return Recovery(
        values=given.frame(values),
        flags=given.frame(flags),
        lower=given.frame(lower),
        upper=given.frame(upper),
        scores=test.scores,
        by_sensor=test.by_sensor.set_axis(given.columns, axis="index"),
        exposure=pd.Series(_exposure(model, method, table), given.columns),
        ledger=model.ledger_ if test.ledger is None else _both(model.ledger_, test.ledger),
        seconds=time.perf_counter() - start,
        sites=_sites(model, network, table),
        remembered=getattr(model, "remembered_", None),
        secure=bool(getattr(model, "secure_", False)),
        notes=tuple(notes),
    )


def numbers_per_reading(ledger: Ledger, readings: int) -> float:
    """Independent numbers released for each reading. At one or more, nothing is hidden."""
    return ledger.numbers / max(readings, 1)


@dataclass(frozen=True)
class _Given:
    """The rows and columns as the caller has them; inside, times are sorted and ids are text."""

    index: pd.Index
    columns: pd.Index
    order: NDArray[np.intp] | None

    @classmethod
    def of(cls, readings: pd.DataFrame | Array | Table, table: Table) -> _Given:
        if isinstance(readings, Table):
            return cls(table.values.index, table.values.columns, None)
        frame = readings if isinstance(readings, pd.DataFrame) else pd.DataFrame(readings)
        return cls(frame.index, with_time_index(frame).columns, table.order)

    def frame(self, cells: NDArray[Any]) -> pd.DataFrame:
        rows = cells if self.order is None else cells[self.order]
        return pd.DataFrame(rows, self.index, self.columns)


def _exposure(model: BaseRecoverer, method: str, table: Table) -> Array:
    """As the method computes it; else everything where anything is sent or pooled, else nothing."""
    if hasattr(model, "exposure_"):
        return np.asarray(model.exposure_)
    shown = float(find(method).pooled or model.ledger_.numbers > 0)
    return np.where(table.known.any(axis=0), shown, np.nan)


def _sites(model: BaseRecoverer, network: Sensors, table: Table) -> tuple[str, ...]:
    """The sites that took part. A sensor without readings took none, but may have an owner."""
    if not hasattr(model, "partition_"):
        return partition(network).sites
    sites = list(network.sites or network.regions or ("",) * len(network.ids))
    for sensor, site in zip(
        np.flatnonzero(table.known.any(axis=0)), model.partition_.sites, strict=True
    ):
        sites[sensor] = site
    return tuple(sites)


def _both(final: Ledger, test: Ledger) -> Ledger:
    """What travelled in the run and in its self-test; the rounds are those of the run."""
    return Ledger(
        up=final.up + test.up,
        down=final.down + test.down,
        messages_up=final.messages_up + test.messages_up,
        messages_down=final.messages_down + test.messages_down,
        rounds=final.rounds,
        exchanges=final.exchanges + test.exchanges,
        numbers=final.numbers + test.numbers,
        notes=[*final.notes, "the self-test was a run of its own; what travelled counts both"],
    )


def _interval(
    model: BaseRecoverer, values: Array, filled: NDArray[np.bool_], width: Array | None
) -> tuple[Array, Array]:
    """The method's own intervals, or else the self-test's error quantile around each value."""
    reach = np.full(values.shape[1], np.nan) if width is None else width
    low, high = model.interval() or (values - reach, values + reach)
    return np.where(filled, low, values), np.where(filled, high, values)


@dataclass(frozen=True)
class _SelfTest:
    """Scores, half widths of an interval by sensor, and what travelled in a run of its own."""

    scores: Scores
    by_sensor: pd.DataFrame
    width: Array | None = None
    ledger: Ledger | None = None

    @classmethod
    def none(cls, table: Table) -> _SelfTest:
        """Nothing was hidden."""
        nothing = np.full(len(table.sensor_ids), np.nan)
        return cls({}, _by_sensor(np.zeros(len(nothing)), nothing, nothing))


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
        warm_start: Remembered | None,
    ) -> None:
        if warm_start is not None and method != "flfl":
            raise InputError(f"{method} cannot go on from an earlier run", where="warm_start")
        self._fit_options: dict[str, Any] = {} if warm_start is None else {"warm_start": warm_start}
        self.table, self.network, self.method = table, network, method
        self.seed, self.progress, self.options = seed, progress, options
        self.label = "flfl" if method.startswith("flfl") else method

    def fit(self, values: pd.DataFrame) -> BaseRecoverer:
        """The method on these values."""
        model = create(self.method, seed=self.seed, **self.options)
        if hasattr(model, "progress"):
            model.progress = self.progress
        return model.fit(values, sensors=self.network, **self._fit_options)

    def self_test(self, model: BaseRecoverer) -> _SelfTest:
        """Scores on readings hidden from the method; none where there are too few to spare any."""
        if hasattr(model, "holdout_"):
            hidden = ~np.isnan(model.holdout_)
            if not hidden.any():
                return _SelfTest.none(self.table)
            test = self._score(hidden, model.holdout_, float(model.inside_[hidden].mean()))
            by_site = self._each_site_alone(model, hidden)
            return test if by_site is None else replace(test, scores=test.scores | by_site)
        hidden = self._hidden()
        if not hidden.any():
            return _SelfTest.none(self.table)
        again = self.fit(self.table.values.mask(hidden))
        return self._score(hidden, again.estimates_, None, again.ledger_)

    def _each_site_alone(self, model: BaseRecoverer, hidden: NDArray[np.bool_]) -> Scores | None:
        """What each owner could do with its own sensors and nothing shared, on the same readings.

        None where that is no question: one owner, or one sensor each, or a run that goes on.
        """
        sites = model.partition_.sites
        if self._fit_options or not 1 < len(set(sites)) < len(sites):
            return None
        kept = ("effort", "transformation", "season", "coverage", "random_state")
        options = {name: self.options[name] for name in kept if name in self.options}
        values, alive = self.table.values, np.flatnonzero(self.table.known.any(axis=0))
        error = np.full(hidden.shape, np.nan)
        for site in dict.fromkeys(sites):
            home = alive[np.array(sites) == site]
            own = self.network.subset(np.isin(np.arange(values.shape[1]), home))
            # A network of one site under a cap that nothing fits: its own choices, nothing else's.
            alone = create(self.method, seed=self.seed, max_exposure=1e-9, **options)
            alone.fit(values.iloc[:, home], sensors=own, sites=[site] * len(home))
            error[:, home] = alone.holdout_ - values.iloc[:, home].to_numpy()
        return {"site": _summary(np.where(hidden, error, np.nan))}

    def _hidden(self) -> NDArray[np.bool_]:
        """A share of the readings, of sensors that keep some."""
        known = self.table.known
        rng = np.random.default_rng(self.seed)
        kept = hide(known.T, 1 - SELF_TEST_SHARE, "random", rng).T
        return known & ~kept & kept.any(axis=0)

    def _score(
        self,
        hidden: NDArray[np.bool_],
        estimates: Array,
        coverage: float | None,
        ledger: Ledger | None = None,
    ) -> _SelfTest:
        values = self.table.values.to_numpy()
        error = np.where(hidden, estimates - values, np.nan)
        # The same readings are hidden from each sensor alone.
        seen = self.table.values.mask(hidden)
        alone, linear = (
            np.where(hidden, create(name).fit(seen).estimates_ - values, np.nan)
            for name in ("pchip", "linear")
        )
        scores = {self.label: _summary(error), "alone": _summary(alone), "linear": _summary(linear)}
        spread = Scaling.fit(values.T).scale
        relative = (np.abs(error) / spread)[hidden]
        scores[self.label]["coverage"] = (
            _cross_coverage(relative, self.seed) if coverage is None else coverage
        )
        best = np.minimum(_mae(alone), _mae(linear))
        return _SelfTest(
            scores,
            _by_sensor(hidden.sum(axis=0), _mae(error), best),
            np.quantile(relative, COVERAGE) * spread,
            ledger,
        )


def _by_sensor(hidden: Array, mae: Array, alone: Array) -> pd.DataFrame:
    return pd.DataFrame(
        {"hidden": hidden.astype(int), "mae": mae, "alone": alone, "gains": mae < alone}
    )


def _mae(error: Array) -> Array:
    """Mean absolute error of each column; NaN where a column has none."""
    count = (~np.isnan(error)).sum(axis=0)
    return np.where(count > 0, np.nansum(np.abs(error), axis=0) / np.maximum(count, 1), np.nan)


def _summary(error: Array) -> dict[str, float]:
    return {
        "mae": float(np.nanmean(np.abs(error))),
        "rmse": float(np.sqrt(np.nanmean(error**2))),
    }


def _cross_coverage(error: Array, seed: int) -> float:
    """Share of errors inside the quantile that the *other* half gives."""
    if len(error) < 2:
        return float("nan")
    halves = np.array_split(np.random.default_rng(seed).permutation(error), 2)
    inside = [
        np.mean(mine <= np.quantile(other, COVERAGE)) for mine, other in (halves, halves[::-1])
    ]
    return float(np.mean(inside))
