"""What ``recover`` gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from flfl.errors import InputError
from flfl.estimators.saved_model import Remembered
from flfl.io.files import NETCDF_SUFFIXES, OUTPUT_SUFFIXES, suffix_of
from flfl.io.sensors import Sensors
from flfl.io.suspicions import Suspicion
from flfl.io.table import FLAGS, Table
from flfl.io.write import Provenance, check_rows, filled_rows, write_result
from flfl.protocol.added_error import best_guess, epsilon, gaussian_dp
from flfl.protocol.traffic import Traffic
from flfl.recovery import showing
from flfl.recovery.rules import Rules, count_reasons
from flfl.recovery.selftest import GapScore, SensorScore


@dataclass(frozen=True)
class SiteScore:
    """The self-test of one owner: how many sensors it has, how many readings of them were hidden.

    ``mae`` is as in `GapScore`, ``added_error`` the median of its sensors (NaN: nothing left it).
    """

    site: str
    sensors: int
    count: int
    mae: Mapping[str, float]
    added_error: float


@dataclass(frozen=True, repr=False)
class Recovery:
    """A filled table.

    The tables have the rows and columns that were given: same order, same index, same names (a
    time column of the DataFrame is left out). They are of the kind that was given; arrays have no
    names, ``plain`` has numbers for them.

    Attributes
    ----------
    values, flags, reasons : DataFrame
        Time x sensor: observed values as they were, recovered ones filled in, refused NaN; whether
        each is ``observed``, ``recovered``, ``refused`` or, in a slot that nobody observed,
        ``extrapolated``; why it was refused.
    methods : DataFrame
        What each filled value mostly comes from: ``network``, ``site`` (the owner's own sensors) or
        ``interpolation``, whichever its owner's held-out readings favour; for a method other than
        ``flfl`` its name. Empty where nothing was filled.
    lower, upper : DataFrame
        Interval of each recovered value (the value where observed, NaN where refused).
    scores, by_gap_length, by_sensor, verdict
        The self-test: errors on readings that were hidden, against each sensor alone (``alone``:
        pchip; ``linear``) and each owner alone (``site``, where sites have several sensors); by
        length of the gap; by sensor (a few hidden readings say little of one); in words.
    added_error : Series
        Noise in each sensor's copies at its median reading, in the readings' units; NaN for a
        sensor of which nothing left.
    traffic, secure, sites
        What travelled, a self-test that is a run of its own included; whether sums were hidden from
        the coordinator; the owner of each sensor that took part.
    settings, rules, run_id
        What was given; the same for the same readings, settings and version.
    table, sensors, unit, notes, suspicious
        What was recovered, as it was understood; readings in it that are probably faults.
    remembered, published
        ``flfl`` only: the finished run, for ``warm_start`` and :func:`~flfl.save_model`; a table
        filled from noisy copies, without a clean reading.
    plain
        The same result with tables of pandas, where those of another kind were given; else None.
    """

    values: pd.DataFrame
    flags: pd.DataFrame
    reasons: pd.DataFrame
    methods: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame
    scores: Mapping[str, Mapping[str, float]]
    by_gap_length: tuple[GapScore, ...]
    by_sensor: tuple[SensorScore, ...]
    verdict: str
    added_error: pd.Series
    traffic: Traffic
    seconds: float
    sites: tuple[str, ...]
    method: str
    settings: Mapping[str, Any]
    rules: Rules
    run_id: str
    table: Table
    sensors: Sensors
    unit: str | None = None
    remembered: Remembered | None = None
    published: pd.DataFrame | None = None
    secure: bool = False
    notes: tuple[str, ...] = ()
    suspicious: tuple[Suspicion, ...] = ()
    plain: Recovery | None = None

    @property
    def provenance(self) -> Provenance:
        """What a file says of every cell besides its value and its interval."""
        return Provenance(self.reasons, self.method, self.run_id, self.rules.bounds, self.methods)

    @property
    def treatment(self) -> str:
        """What was done with suspicious readings: ``auto``, ``keep`` or ``missing``."""
        return str(self.settings.get("suspicious", "auto"))

    def count(self, flag: str) -> int:
        """How many cells carry the flag."""
        return int((self._own.flags.to_numpy() == flag).sum())

    def by_site(self) -> tuple[SiteScore, ...]:
        """The self-test and the added error by owner, each hidden reading with the same weight."""
        owners, added_error = np.array(self.sites), self.added_error.to_numpy()
        found = []
        for site in dict.fromkeys(name for name in self.sites if name):
            at = np.flatnonzero(owners == site)
            tested = [self.by_sensor[i] for i in at if self.by_sensor[i].count]
            count = sum(score.count for score in tested)
            mae = {
                way: sum(s.count * s.mae[way] for s in tested) / count if count else np.nan
                for way in self.by_sensor[at[0]].mae
            }
            added = added_error[at][np.isfinite(added_error[at])]
            median = float(np.median(added)) if len(added) else np.nan
            found.append(SiteScore(site, len(at), count, mae, median))
        return tuple(found)

    def summary(self) -> dict[str, Any]:
        """The figures of the run, ready for JSON."""
        if self.plain is not None:
            return self.plain.summary()
        cells = self.flags.to_numpy()
        observed = int((cells == "observed").sum())
        tested = sum(score.count > 0 for score in self.by_sensor)
        gaining = sum(score.gains for score in self.by_sensor)
        losing = sum(score.loses for score in self.by_sensor)
        added = float(self.added_error.median())
        return {
            "run_id": self.run_id,
            "method": self.method,
            "sensors": self.values.shape[1],
            "slots": self.values.shape[0],
            "sites": len(set(self.sites) - {""}),
            **{flag: int((cells == flag).sum()) for flag in FLAGS},
            "refusals": count_reasons(self.reasons.to_numpy()),
            "methods": count_reasons(self.methods.to_numpy()),
            "readings_of_a_cell": _tally(self.table.counts),
            "suspicious": [one.as_dict() for one in self.suspicious],
            "rounds": self.traffic.rounds,
            "exchanges": dict(self.traffic.exchanges),
            "seconds": round(self.seconds, 3),
            "numbers_per_reading": self.traffic.numbers_per_reading(observed),
            "added_error": {"median": added, "unit": self.unit},
            "guarantee": guarantee(added),
            "secure": self.secure,
            "bytes_up": self.traffic.bytes_up,
            "bytes_down": self.traffic.bytes_down,
            "bytes_raw": 8 * observed,
            "self_test": {name: dict(scores) for name, scores in self.scores.items()},
            "by_gap_length": [asdict(score) for score in self.by_gap_length],
            "by_sensor": [asdict(score) for score in self.by_sensor],
            "by_site": [asdict(score) for score in self.by_site()],
            "sensors_gaining": gaining,
            "sensors_losing": losing,
            "sensors_too_close": tested - gaining - losing,
            "verdict": self.verdict,
            "notes": [*self.notes, *self.traffic.notes],
        }

    def save(
        self,
        path: str | Path,
        flags: str | Path | None = None,
        rows: str | Path | None = None,
    ) -> None:
        """Write the filled table (.csv, .xlsx, .parquet, .nc) in the layout of its source, or the
        whole result (.zip), which :func:`flfl.load` reads again.

        ``flags`` is a long table besides: time, sensor, value, flag, lower, upper, method, reason,
        run_id. ``rows`` is the file as it came, where its rows were put together (``step``), with
        what was recovered in the cells that held no reading.
        """
        if self.plain is not None:
            return self.plain.save(path, flags, rows)
        if suffix_of(path) == ".zip":
            from flfl.recovery.stored import save

            return save(path, self)
        if suffix_of(path) not in OUTPUT_SUFFIXES + NETCDF_SUFFIXES:
            problem = f"the suffix {suffix_of(path)!r} is not one that can be written"
            remedy = "Give .zip for the whole result, or .csv, .xlsx, .parquet or .nc for its table"
            raise InputError(problem, where=str(path), remedy=remedy)
        order = self.table.order
        # In the order of time, as the table has its rows.
        back = slice(None) if order is None else np.argsort(order)
        values, lower, upper = (x.iloc[back] for x in (self.values, self.lower, self.upper))
        about = replace(
            self.provenance, reasons=self.reasons.iloc[back], methods=self.methods.iloc[back]
        )
        write_result(path, flags, self.table, values, lower, upper, about, self.sensors, rows)

    def to_rows(self) -> pd.DataFrame:
        """The rows as they came, where they were put together (``step``), with what was recovered
        in the cells that held no reading."""
        original = check_rows(self.table, "to_rows")
        arrays = filled_rows(self.table, self._own.values, self.rules.bounds)
        return pa.table(arrays, list(original.raw.names)).to_pandas()

    def to_html(self, path: str | Path, title: str = "") -> None:
        """Write one page to look at: map, series, scores, what left the sites.

        It needs the extra ``report``: ``pip install 'flfl[report]'``.
        """
        from flfl.report import check_report_extra, write_page

        check_report_extra()
        own = self._own
        write_page(path, own, own.table, own.sensors, own.settings, title=title)

    def plot(self, sensor: object = None, ax: Any = None) -> Any:
        """Draw one sensor with Matplotlib: readings, recovered, intervals.

        By default the sensor whose gaps tell most.

        Returns
        -------
        matplotlib.axes.Axes
        """
        return showing.plot(self._own, sensor, ax)

    def plot_gaps(self, ax: Any = None) -> Any:
        """Draw what was there and what was filled, sensors by time; returns the axes."""
        return showing.plot_gaps(self._own, ax)

    def plot_scores(self, ax: Any = None) -> Any:
        """Draw the errors on hidden readings by length of their gap; returns the axes."""
        return showing.plot_scores(self._own, ax)

    def to_long(self) -> pd.DataFrame:
        """One row for each cell: time, sensor, value, flag, lower, upper, method, reason."""
        own = self._own
        parts = {"value": own.values, "flag": own.flags, "lower": own.lower, "upper": own.upper,
                 "method": own.methods, "reason": own.reasons}  # fmt: skip
        index, sensors = own.values.index, [str(name) for name in own.values.columns]
        long = {name: frame.to_numpy().T.ravel() for name, frame in parts.items()}
        time = {"time": np.tile(np.arange(len(index)), len(sensors))}
        made = pd.DataFrame({**time, "sensor": np.repeat(sensors, len(index)), **long})
        return made.assign(time=index.take(made["time"].to_numpy()))

    def to_xarray(self) -> Any:
        """An xarray Dataset of time x sensor: value, flag, lower, upper, reason, and places."""
        try:
            import xarray
        except ImportError:
            remedy = "pip install 'flfl[netcdf]'"
            raise InputError("this needs xarray", where="to_xarray", remedy=remedy) from None
        own = self._own
        index = own.values.index
        if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
            index = index.tz_convert("UTC").tz_localize(None)
        tables = {"value": own.values, "flag": own.flags, "lower": own.lower, "upper": own.upper,
                  "reason": own.reasons}  # fmt: skip
        made = xarray.Dataset(
            {name: (("time", "sensor"), frame.to_numpy()) for name, frame in tables.items()},
            {"time": index, "sensor": [str(name) for name in own.values.columns]},
        )
        if own.sensors.coordinates is not None:
            names = ("latitude", "longitude") if own.sensors.kind == "latlon" else ("x", "y")
            places = zip(names, own.sensors.coordinates.T, strict=True)
            made = made.assign_coords({name: ("sensor", cells) for name, cells in places})
        if own.unit:
            made["value"].attrs["units"] = own.unit
        return made.assign_attrs(method=own.method, run_id=own.run_id)

    def in_kind(self, back: Callable[[pd.DataFrame], Any]) -> Recovery:
        """The same with tables of another kind; ``plain`` keeps those of pandas."""
        names = [
            one.name for one in fields(self) if isinstance(getattr(self, one.name), pd.DataFrame)
        ]
        return replace(self, plain=self, **{name: back(getattr(self, name)) for name in names})

    @property
    def _own(self) -> Recovery:
        return self.plain or self

    def __repr__(self) -> str:
        return showing.in_short(self._own)

    def _repr_html_(self) -> str:
        return showing.as_html(self._own)


def _tally(counts: Any) -> dict[str, int] | None:
    """How many cells come from one reading, from two, and so on; None where rows stayed rows."""
    if counts is None:
        return None
    number, cells = np.unique(counts, return_counts=True)
    return {str(n): int(c) for n, c in zip(number, cells, strict=True)}


DELTA = 1e-5
"""For which (epsilon, delta) is reported."""
_CHANGES = ((1.0, 1), (2.0, 1), (3.0, 1), (1.0, 10), (1.0, 100))
"""Changes for which the guarantee is reported: how many added errors, at how many readings."""


def guarantee(added_error: float) -> list[dict[str, float]]:
    """What an added error means for changes of some sizes; empty where there is none.

    Examples
    --------
    >>> [(row["change"], row["readings"], round(row["told_apart"], 2)) for row in guarantee(4.0)]
    [(4.0, 1, 0.69), (8.0, 1, 0.84), (12.0, 1, 0.93), (4.0, 10, 0.94), (4.0, 100, 1.0)]
    """
    if not added_error > 0:
        return []
    return [
        {
            "change": multiple * added_error,
            "readings": readings,
            "told_apart": best_guess(multiple, 1.0, readings),
            "gaussian_dp": gaussian_dp(multiple, 1.0, readings),
            "epsilon": epsilon(gaussian_dp(multiple, 1.0, readings), DELTA),
            "delta": DELTA,
        }
        for multiple, readings in _CHANGES
    ]
