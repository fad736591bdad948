"""``recover``: fill a table, say what is what, and score the filling on known readings."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.ensemble.recovery import METHODS
from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.owners import Sites, partition, resolve_sensors
from flfl.estimators.saved_model import Remembered
from flfl.io.columns import listing
from flfl.io.frames import as_pandas
from flfl.io.grid import Grid
from flfl.io.read import from_frame, is_long, read_readings, with_time_index
from flfl.io.sensors import Sensors, read_sensors
from flfl.io.suspicions import find_faults
from flfl.io.table import FILLED, Table
from flfl.io.write import flags_of
from flfl.methods import Method, find
from flfl.protocol.finish import published
from flfl.protocol.traffic import Traffic
from flfl.recovery import selftest
from flfl.recovery.progress import rounds as rounds_of
from flfl.recovery.progress import shown
from flfl.recovery.result import Recovery
from flfl.recovery.rules import NO_ESTIMATE, Rules, caution, fault_notes, treated
from flfl.recovery.selftest import SITE

Array = NDArray[np.float64]


def recover(
    readings: Any,
    sensors: Sensors | pd.DataFrame | str | Path | None = None,
    *,
    sites: Sites | Literal["each"] | None = None,
    reading: Mapping[str, Any] | None = None,
    method: Any = "flfl",
    seed: int = 0,
    added_error: float | str | None = None,
    share: float | None = None,
    effort: Literal["full", "quick"] | None = None,
    rank: int | None = None,
    rounds: int | None = None,
    pilot: bool | None = None,
    transformation: Literal["none", "sqrt", "log1p"] | None = None,
    season: int | None = None,
    coverage: float | None = None,
    n_regions: int | None = None,
    secure: bool | None = None,
    options: Mapping[str, Any] | None = None,
    max_gap: int | str | pd.Timedelta | None = None,
    min_readings: int = 0,
    extrapolate: int = 0,
    bounds: tuple[float | None, float | None] | None = None,
    suspicious: Literal["auto", "keep", "missing"] = "auto",
    self_test: bool = True,
    warm_start: Remembered | None = None,
    progress: Callable[[int, int], None] | None = None,
    verbose: int = 1,
) -> Recovery:
    """Fill the gaps of a time x sensor table.

    Parameters
    ----------
    readings : DataFrame, DataArray, array, Table or path
        A DataFrame (pandas, polars, any that narwhals knows) has times in its index or in a column
        of that name, and one column for each sensor; or it is long, with a time, a sensor and a
        value. The tables of the result are of the same kind, arrays where an array was given, one
        column for each sensor. NaN, -999 and -9999 are missing.
    sensors : Sensors, DataFrame or path, optional
        Coordinates (and sites), one row for each sensor.
    sites : sequence, mapping or "each", optional
        Owner of each sensor, by column order or by sensor id; names or numbers. ``"each"``: every
        sensor has an owner of its own. Without owners here or in ``sensors``, the regions found
        from the coordinates are the owners; without coordinates each sensor is. If all sensors are
        yours, give ``method="pooled"``.
    reading : mapping, optional
        How to read it, by the names of the command line's options: ``{"missing": (-99.9,),
        "parameter": "pm10", "step": "1h"}``.
    method : str, class or estimator
        A name that ``flfl methods`` lists, or ``"module:Class"``. Or a method of one's own: a class
        or an object that obeys :class:`~flfl.estimators.base.BaseRecoverer`, or a transformer of
        scikit-learn that fills the gaps of a time x sensor table.
    seed : int
        Of every random draw.
    added_error : float or str, optional
        The noise in what leaves an owner: a multiple of each sensor's own error in time (1), or a
        text in the readings' unit such as ``"2 ug/m3"``. 0: the coordinator is trusted.
    share : float, optional
        Numbers released for each reading (0.5).
    effort : "full" or "quick", optional
        Quick is without trees: faster, and a little less accurate.
    rank : int, optional
        Factors at the most (20). None, here and below, is the method's own default.
    rounds : int, optional
        Rounds of the shared fit (5).
    pilot : bool, optional
        Release a tenth of the slots first, to learn how little noise is enough (True).
    transformation : "none", "sqrt" or "log1p", optional
        Of the readings before they are modelled; the sites vote if not given.
    season : int, optional
        Slots of a period, 0 for none; the sites vote if not given.
    coverage : float, optional
        Of the intervals (0.9).
    n_regions : int, optional
        Regions to find from the coordinates; one for about 8 sensors if not given.
    secure : bool, optional
        Hide every site's part of the sums from the coordinator; with three sites or more if not
        given.
    options : mapping, optional
        Further settings of another method.
    max_gap : int, str or Timedelta, optional
        Longer gaps are left empty: slots, or a duration such as ``"6h"`` or ``"2d"``.
    min_readings : int
        Sensors with fewer readings are left empty.
    extrapolate : int
        A slot that nobody observed is left empty unless it is within so many slots of one that
        somebody did.
    bounds : pair of float, optional
        Limits of what is filled; None is an open end: ``(0, None)``.
    suspicious : "auto", "keep" or "missing"
        Readings that are probably faults (`suspicious` of the result) are used as they are, or
        treated as missing: a code such as -99.9, a stuck sensor, a change of level. With "auto"
        they are kept, but for codes that everybody uses: a table with those is refused.
    self_test : bool
        Score the method on readings hidden from it (a method that does not hold any out by itself
        is fitted twice, and both runs count in the traffic).
    warm_start : Remembered, optional
        An earlier result's ``remembered``, when this table goes on after that one: only the new
        slots are fitted, in a few rounds (``flfl`` only).
    progress : callable, optional
        Called with (done, total) after every round.
    verbose : int
        0: nothing is shown in a notebook or a terminal; else where the run is, by tqdm.

    Examples
    --------
    >>> t = np.arange(200.0)
    >>> table = pd.DataFrame({name: np.sin(t / 9) * i + i for i, name in enumerate("abcd", 1)})
    >>> table.loc[40:42, "a"] = np.nan
    >>> result = recover(table, effort="quick")
    >>> result.flags.loc[40, "a"], bool(table.fillna(result.values).isna().any().any())
    ('recovered', False)
    """
    start, way = time.perf_counter(), find(method)
    method = way.name
    given = {
        "added_error": added_error,
        "share": share,
        "effort": effort,
        "rank": rank,
        "rounds": rounds,
        "pilot": pilot,
        "transformation": transformation,
        "season": season,
        "coverage": coverage,
        "n_regions": n_regions,
        "secure": secure,
        **(options or {}),
    }
    given = {name: value for name, value in given.items() if value is not None}
    limits = {
        "max_gap": max_gap, "min_readings": min_readings, "extrapolate": extrapolate,
        "bounds": bounds,
    }  # fmt: skip
    settings = {"method": method, "seed": seed, **given, **limits, "suspicious": suspicious}
    rules = Rules.check(limits)
    hooks: dict[str, Any] = {"progress": progress}
    if warm_start is not None:
        if method != "flfl":
            raise InputError(f"{method} cannot go on from an earlier run", where="warm_start")
        hooks["warm_start"] = warm_start
    how, back = dict(reading or {}), None
    if isinstance(readings, str | Path):
        table = read_readings(readings, **how)
    elif isinstance(readings, Table):
        table = readings
    else:
        readings, back = as_pandas(readings)
        table = from_frame(readings, **how)
    faults = find_faults(table)
    table = treated(table, faults, suspicious)
    known = Sensors.of_table(table) if sensors is None else sensors
    if isinstance(known, str | Path):
        known = read_sensors(known, table.sensor_ids)
    network = resolve_sensors(table.sensor_ids, known, sites)
    reasons = rules.reasons(table)
    fit = partial(_fit, way, seed, given, network, table.grid, hooks)
    with shown(verbose if progress is None else 0) as tell:
        hooks["progress"] = progress or rounds_of(tell)
        model = fit(table.values)
    label = SITE if method == "alone" else "flfl" if method.startswith("flfl") else method
    again = fit if self_test else None
    test = selftest.self_test(table, model, label, rules, seed, again)
    remembered = getattr(model, "remembered_", None)
    public = None if remembered is None else _published(remembered, table)
    if public is not None:
        public = np.where(reasons == "", np.clip(public, *rules.bounds), np.nan)
    filled = np.where(reasons == "", np.clip(model.estimates_, *rules.bounds), np.nan)
    # What lay below a limit of detection is not filled above it.
    ceiling = np.inf if table.ceiling is None else np.nan_to_num(table.ceiling, nan=np.inf)
    filled = np.minimum(filled, ceiling)
    values = np.where(table.known, table.values, filled)
    flags = flags_of(table, values)
    reasons[(reasons == "") & (flags == "refused")] = NO_ESTIMATE
    # The method's own intervals, or else the self-test's error quantile around each value.
    reach = np.full(values.shape[1], np.nan) if test.width is None else test.width
    lower, upper = (
        np.where(np.isin(flags, FILLED), np.minimum(np.clip(bound, *rules.bounds), ceiling), values)
        for bound in model.interval() or (values - reach, values + reach)
    )
    owners = _sites(model, network, table)
    warning = caution(faults, table) if suspicious != "missing" else ""
    came = _origins(model, method, flags)
    shared = model.traffic_.numbers > 0 and len(set(owners) - {""}) > 1
    notes = [*table.notes, *network.notes, *rules.notes(table), *fault_notes(faults, suspicious)]
    if shared and (unused := _unused(came, owners)):
        notes.append(
            f"the network's curve is not used for {listing(unused)}: held-out readings show no gain"
        )
    nameless = network.sites is None and network.regions is None and len(table.sensor_ids) > 1
    if nameless and method != "pooled":
        notes.append(_nobody_named(network, method))
    if network.coordinates is None and network.regions is None:
        notes.append("no coordinates: nothing is known of who is near whom")
    if self_test and not test.overall:
        notes.append("too few readings for a self-test: no scores")
    # The rows and columns as the caller has them; inside, times are sorted and ids are text.
    index, columns, order = table.values.index, table.values.columns, None
    given_rows = isinstance(readings, pd.DataFrame) and not is_long(readings) and "step" not in how
    # Rows that were merged or inserted are nobody's.
    if given_rows and len(readings) == len(table.values):
        inside = with_time_index(readings)
        index, columns, order = readings.index, inside.columns, table.order
        index = inside.index if back is not None else index
    rows = slice(None) if order is None else order
    frames = [
        pd.DataFrame(cells[rows], index, columns)
        for cells in (
            values,
            flags,
            reasons,
            came,
            lower,
            upper,
            values if public is None else public,
        )
    ]
    added = getattr(model, "added_error_", np.full(len(columns), np.nan))
    result = Recovery(
        values=frames[0],
        flags=frames[1],
        reasons=frames[2],
        methods=frames[3],
        lower=frames[4],
        upper=frames[5],
        scores=test.overall,
        by_gap_length=test.by_gap_length,
        by_sensor=test.by_sensor,
        verdict=warning + selftest.verdict(test, label, shared),
        suspicious=faults,
        added_error=pd.Series(added, columns),
        traffic=model.traffic_ if test.traffic is None else _both(model.traffic_, test.traffic),
        seconds=time.perf_counter() - start,
        sites=owners,
        method=method,
        settings=settings,
        rules=rules,
        run_id=run_id(table, network, settings, warm_start),
        table=table,
        sensors=network,
        unit=table.unit,
        remembered=remembered,
        published=None if public is None else frames[6],
        secure=bool(getattr(model, "secure_", False)),
        notes=tuple(notes),
    )
    return result if back is None else result.in_kind(back)


def _fit(
    method: Method,
    seed: int,
    options: Mapping[str, Any],
    network: Sensors,
    grid: Grid,
    hooks: Mapping[str, Any],
    values: pd.DataFrame,
) -> BaseRecoverer:
    model = method.create(seed=seed, **options)
    return model.fit(values, sensors=network, grid=grid, **hooks)


def _origins(model: BaseRecoverer, method: str, flags: NDArray[np.object_]) -> NDArray[np.object_]:
    """What each filled cell comes from, empty elsewhere."""
    filled, came = np.isin(flags, FILLED), np.full(flags.shape, method, dtype=object)
    if hasattr(model, "method_"):
        came = np.array(METHODS, dtype=object)[np.nan_to_num(model.method_).astype(int)]
    return np.where(filled, came, "")


def _unused(came: NDArray[np.object_], owners: Sequence[str]) -> list[str]:
    """Owners with gaps, of which none is filled by the network."""
    found = []
    for owner in dict.fromkeys(name for name in owners if name):
        own = came[:, np.array(owners) == owner]
        if (own != "").any() and not (own == "network").any():
            found.append(owner)
    return found


def _published(run: Remembered, table: Table) -> Array | None:
    """What may be published, from copies only. None where copies have no noise: they are the
    readings."""
    if any((kept.sigmas[np.isfinite(kept.copies)] == 0).any() for kept in run.sites.values()):
        return None
    values, post = np.full(table.values.shape, np.nan), run.network.inferred.post
    for kept in run.sites.values():
        columns = [table.sensor_ids.index(sensor) for sensor in kept.ids]
        values[:, columns] = published(run.network, post, kept.ids, kept.copies).T
    return values


def _sites(model: BaseRecoverer, network: Sensors, table: Table) -> tuple[str, ...]:
    """The sites that took part. A sensor without readings took none, but may have an owner."""
    if not hasattr(model, "partition_"):
        return partition(network).sites
    sites = np.array(network.sites or network.regions or ("",) * len(network.ids), dtype=object)
    sites[table.known.any(axis=0)] = model.partition_.sites
    found = tuple(sites)
    if network.sites is None and network.regions is None:
        # Made-up owners are stretches of the map.
        found = tuple(re.sub(r"^region-(\d+)$", r"area \1", name) for name in found)
    return found


def _nobody_named(network: Sensors, method: str) -> str:
    """What was done where nobody said whose the sensors are."""
    whose = "sensors near each other were taken as one owner's"
    if network.coordinates is None:
        whose = "each sensor was taken as an owner of its own"
    told = f"no owners are named (sites), so {whose}"
    parts = method.startswith("flfl") or method == "alone"
    return f"{told}; if all sensors are yours, choose method=pooled" if parts else told


def _both(final: Traffic, test: Traffic) -> Traffic:
    """What travelled in the run and in its self-test; the rounds are those of the run."""
    return replace(
        final,
        up=final.up + test.up,
        down=final.down + test.down,
        messages_up=final.messages_up + test.messages_up,
        messages_down=final.messages_down + test.messages_down,
        exchanges=final.exchanges + test.exchanges,
        numbers=final.numbers + test.numbers,
        notes=[*final.notes, "the self-test was a run of its own; what travelled counts both"],
    )


def run_id(
    table: Table, network: Sensors, settings: Mapping[str, Any], warm_start: Remembered | None
) -> str:
    """Sixteen hexadecimal digits: the same for the same readings, settings and version."""
    index = table.values.index
    words = {
        "version": version("flfl"),
        "sensors": network.ids,
        "sites": network.sites,
        "regions": network.regions,
        "kind": network.kind,
        "settings": dict(settings),
    }
    if warm_start is not None:
        words["earlier"] = warm_start.network.digest.hex()
    digest = hashlib.sha256(json.dumps(words, sort_keys=True, default=str).encode())
    times = index.asi8 if isinstance(index, pd.DatetimeIndex) else index.to_numpy(dtype=np.float64)
    for array in (table.values.to_numpy(dtype=np.float64), times, network.coordinates):
        if array is not None:
            # One bit pattern for every missing reading and for either zero.
            plain = np.where(array == array, array + 0, np.nan)
            digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()[:16]
