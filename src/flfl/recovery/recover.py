"""``recover``: fill a table, say what is what, and score the filling on known readings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.flfl import FLFL
from flfl.estimators.owners import Sites, partition, resolve_sensors
from flfl.estimators.saved_model import Remembered
from flfl.io.read import from_frame, with_time_index
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.io.write import flags_of
from flfl.methods import create
from flfl.paper.estimator import PaperFLFL
from flfl.protocol.finish import published
from flfl.protocol.network import posterior
from flfl.protocol.traffic import Traffic
from flfl.recovery.identity import run_id
from flfl.recovery.result import Recovery
from flfl.recovery.rules import NO_ESTIMATE, Bounds, Gap, Rules
from flfl.recovery.selftest import Fit, SelfTest, Stage, Tester
from flfl.recovery.verdict import verdict

Array = NDArray[np.float64]

Progress = Callable[..., None]
_EACH_SITE = ("effort", "transformation", "season", "coverage", "n_regions", "random_state")
"""Options that a site would also use by itself."""


def recover(
    readings: pd.DataFrame | Array | Table,
    sensors: Sensors | pd.DataFrame | None = None,
    *,
    sites: Sites | Literal["each"] | None = None,
    method: str = "flfl",
    seed: int = 0,
    max_gap: Gap | None = None,
    min_readings: int = 0,
    bounds: Bounds | None = None,
    self_test: bool = True,
    progress: Progress | None = None,
    stage: Stage | None = None,
    warm_start: Remembered | None = None,
    **options: Any,
) -> Recovery:
    """Fill the gaps of a time x sensor table.

    Parameters
    ----------
    readings : DataFrame (index = time, one column a sensor, NaN = missing), array, or Table. No
        number stands for a missing reading: replace -999 and the like by NaN first
    sensors : coordinates (and sites): a DataFrame with one row a sensor
    sites : owner of each sensor, by column order or by sensor id; names or numbers. ``"each"``:
        every sensor has an owner of its own
    method : a name from the registry
    seed : of every random draw; ``random_state`` among the options comes before it
    max_gap : leave longer gaps empty: a number of slots, or a duration such as ``"6h"``, ``"2d"``
    min_readings : leave sensors with fewer readings empty
    bounds : physical limits (low, high), None for an open end: recovered values and their
        intervals stay inside
    self_test : score the method on readings hidden from it (a method that does not hold any out
        by itself is fitted twice, and both runs count in the traffic)
    progress : called with (round, rounds) after every round, by some methods with an error besides
    stage : called with the name of each stage of the run as it begins
    warm_start : an earlier result's ``remembered``, when this table goes on after that one: only
        the new slots are fitted, in a few rounds (``flfl`` only)
    options : arguments of the method, such as ``added_error=0.5`` or ``share=0.3``

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
    rules = Rules(max_gap, min_readings, bounds)
    table = readings if isinstance(readings, Table) else from_frame(readings)
    known = Sensors.of_table(table) if sensors is None else sensors
    network = resolve_sensors(table.sensor_ids, known, sites)
    reasons = rules.reasons(table)
    settings = {"method": method, "seed": seed, **options, **vars(rules)}
    fit = _fitter(network, method, seed, progress, options, warm_start)
    alone = None
    if method == "flfl" and warm_start is None:
        own = {name: options[name] for name in _EACH_SITE if name in options}
        alone = _fitter(network, "alone", seed, None, own, None)
    model = fit(table.values)
    tester = Tester(table, method, seed, rules, fit, alone, stage)
    test = tester.test(model) if self_test else SelfTest.none(table, tester.label)
    filled = np.where(reasons == "", rules.clip(model.estimates_), np.nan)
    values = np.where(table.known, table.values, filled)
    flags = flags_of(table, values)
    reasons[(reasons == "") & (flags == "refused")] = NO_ESTIMATE
    lower, upper = _interval(model, values, flags == "recovered", test.width)
    given = _Given.of(readings, table)
    owners = _sites(model, network, table)
    remembered = getattr(model, "remembered_", None)
    shown = None if remembered is None else _published(remembered, table, rules)
    shared = model.traffic_.numbers > 0 and len(set(owners) - {""}) > 1
    return Recovery(
        values=given.frame(values),
        flags=given.frame(flags),
        reasons=given.frame(reasons),
        lower=given.frame(np.where(table.known, values, rules.clip(lower))),
        upper=given.frame(np.where(table.known, values, rules.clip(upper))),
        scores=test.overall,
        by_gap_length=test.by_gap_length,
        by_sensor=test.by_sensor,
        verdict=verdict(test.overall, test.by_gap_length, test.by_sensor, tester.label, shared),
        added_error=pd.Series(_added_error(model, table), given.columns),
        unit=table.unit,
        traffic=model.traffic_ if test.traffic is None else _both(model.traffic_, test.traffic),
        seconds=time.perf_counter() - start,
        sites=owners,
        method=method,
        rules=rules,
        run_id=run_id(table, network, settings, warm_start),
        remembered=remembered,
        published=None if shown is None else given.frame(shown),
        secure=bool(getattr(model, "secure_", False)),
        notes=_notes(table, network, rules, self_test and not test.overall),
    )


def _notes(table: Table, network: Sensors, rules: Rules, untested: bool) -> tuple[str, ...]:
    notes = [*table.notes, *network.notes, *rules.notes(table)]
    if network.coordinates is None and network.regions is None:
        notes.append("no coordinates: nothing is known of who is near whom")
    if untested:
        notes.append("too few readings for a self-test: no scores")
    return tuple(notes)


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


def _added_error(model: BaseRecoverer, table: Table) -> Array:
    """Of each sensor's copies, in the readings' units; NaN where the method makes none."""
    return np.asarray(getattr(model, "added_error_", np.full(len(table.sensor_ids), np.nan)))


def _published(run: Remembered, table: Table, rules: Rules) -> Array | None:
    """What may be published, from copies only; what the rules refuse stays empty.

    None where copies have no noise: they are the readings.
    """
    if any((kept.sigmas[np.isfinite(kept.copies)] == 0).any() for kept in run.sites.values()):
        return None
    values, (post, _) = np.full(table.values.shape, np.nan), posterior(run.network)
    for kept in run.sites.values():
        columns = [table.sensor_ids.index(sensor) for sensor in kept.ids]
        values[:, columns] = published(run.network, post, kept.ids, kept.copies).T
    refused = ~table.known & (rules.reasons(table) != "")
    return np.where(refused, np.nan, rules.clip(values))


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


def _both(final: Traffic, test: Traffic) -> Traffic:
    """What travelled in the run and in its self-test; the rounds are those of the run."""
    return Traffic(
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


def _fitter(
    network: Sensors,
    method: str,
    seed: int,
    progress: Progress | None,
    options: Mapping[str, Any],
    warm_start: Remembered | None,
) -> Fit:
    """Fits the method to the readings it is given."""
    if warm_start is not None and method != "flfl":
        raise InputError(f"{method} cannot go on from an earlier run", where="warm_start")
    more: dict[str, Any] = {} if warm_start is None else {"warm_start": warm_start}

    def fit(values: pd.DataFrame) -> BaseRecoverer:
        model = create(method, seed=seed, **options)
        if isinstance(model, FLFL | PaperFLFL):
            return model.fit(values, sensors=network, progress=progress, **more)
        return model.fit(values, sensors=network)

    return fit
