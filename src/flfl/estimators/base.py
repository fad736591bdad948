"""The contract every method obeys: scikit-learn's, on a time x sensor table with gaps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from flfl.errors import InputError
from flfl.io.grid import Grid, infer_grid, natural_period
from flfl.io.sensors import EACH, Sensors, sensors_from_frame
from flfl.io.times import Times
from flfl.protocol.traffic import Traffic

Array = NDArray[np.float64]
Sites = Sequence[object] | NDArray[Any] | pd.Series | Mapping[Any, object]


class BaseRecoverer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base class: subclasses implement :meth:`_estimate`.

    ``fit`` learns from the known entries (NaN = missing) and estimates every entry of the table
    it was given; ``transform`` fills the gaps of that table. Known entries are never altered. A
    sensor without a single reading cannot be estimated and stays NaN.

    Attributes
    ----------
    estimates_ : (n_slots, n_sensors) array, the method's value for every entry
    period_ : slots in the season that the time grid suggests (24 for hours), 0 for none
    traffic_ : what travelled between the parties (empty for a method that is not federated)
    n_features_in_, feature_names_in_ : as in scikit-learn
    """

    _by_sensor: ClassVar[tuple[str, ...]] = ()
    """Further fitted arrays whose last axis is the sensors that have readings."""
    _unit_free: ClassVar[bool] = True
    """False for a method that may see other things in other units (after a root, a logarithm)."""

    @abstractmethod
    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        """Estimate every entry.

        Parameters
        ----------
        Y : (M, N) readings, NaN = missing; no row is all NaN
        positions : (N,) elapsed time of the slots, in steps
        sensors : the M sensors

        Returns
        -------
        (M, N) array without NaN
        """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
    ) -> Self:
        """Learn from the known entries of a time x sensor table.

        Parameters
        ----------
        X : (n_slots, n_sensors) array or DataFrame, NaN = missing. The index of a DataFrame may
            hold times.
        y : ignored
        sensors : coordinates, regions and sites: a DataFrame with one row a sensor (``sensor_id``
            or the index, ``latitude``/``longitude`` or ``x``/``y``, perhaps ``region``, ``site``)
        sites : owner of each sensor, in column order or by sensor id; names or numbers
        """
        index = X.index if isinstance(X, pd.DataFrame) else None
        values = validate_data(
            self, X, ensure_all_finite="allow-nan", dtype=np.float64, ensure_min_samples=2
        )
        names = X.columns if isinstance(X, pd.DataFrame) else range(values.shape[1])
        ids = tuple(str(name).strip() for name in names)
        known_sensors = resolve_sensors(ids, sensors, sites)
        grid = _grid(index)
        positions = np.arange(len(values), dtype=float) if grid is None else grid.positions
        self.period_ = 0 if grid is None else natural_period(grid)
        alive = ~np.isnan(values).all(axis=0)
        if not alive.any():
            raise InputError(
                "the table holds no reading", remedy="Give at least one sensor with readings"
            )
        self.traffic_ = Traffic()
        everyone = alive.all()
        Y = np.ascontiguousarray((values if everyone else values[:, alive]).T)
        with threadpool_limits(limits=1):
            # Small products on two cores run faster on one thread than on two.
            estimates = self._estimate(Y, positions, known_sensors.subset(alive)).T
        self.estimates_ = estimates
        if not everyone:
            for name in ("estimates_", *self._by_sensor):
                setattr(self, name, _widen(getattr(self, name), alive))
        self._index = index
        return self

    def transform(self, X: Any) -> Any:
        """Fill the gaps of the table that was fitted.

        A table without gaps comes back as it is. A DataFrame comes back as a DataFrame.

        .. warning::
            The rows of a DataFrame are found by their index. An **array has none: any array with
            as many rows as the fitted table is taken to be that table**, and its gaps are filled
            with the estimates for the fitted slots, whatever the array holds. To fill another
            table, fit on it.

        Raises
        ------
        InputError
            When X has gaps at slots that were not fitted.
        """
        check_is_fitted(self)
        values = validate_data(
            self, X, ensure_all_finite="allow-nan", dtype=np.float64, reset=False, copy=True
        )
        gaps = np.isnan(values)
        if gaps.any():
            rows = self._fitted_rows(X, len(values))
            values[gaps] = self.estimates_[rows][gaps]
        if isinstance(X, pd.DataFrame):
            return pd.DataFrame(values, index=X.index, columns=X.columns)
        return values

    def interval(self) -> tuple[Array, Array] | None:
        """Lower and upper bound of every entry; None for a method that has no intervals.

        The bounds always hold the estimate between them.
        """
        check_is_fitted(self)
        if not hasattr(self, "lower_"):
            return None
        lower, upper = self.lower_, self.upper_
        return np.minimum(lower, self.estimates_), np.maximum(upper, self.estimates_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean absolute error of the estimates on the known entries of X.

        Give the entries that were hidden from ``fit`` and NaN elsewhere; larger is better.
        """
        check_is_fitted(self)
        values = validate_data(
            self, X, ensure_all_finite="allow-nan", dtype=np.float64, reset=False
        )
        error = np.abs(values - self.estimates_[self._fitted_rows(X, len(values))])
        if np.isnan(error).all():
            raise InputError("nothing to score: no entry is known and estimated")
        return -float(np.nanmean(error))

    def _fitted_rows(self, X: Any, n_rows: int) -> Any:
        if isinstance(X, pd.DataFrame) and self._index is not None:
            if X.index.equals(self._index):
                return slice(None)
            if self._index.is_unique:
                rows = self._index.get_indexer(X.index)
                if (rows >= 0).all():
                    return rows
        elif n_rows == len(self.estimates_):
            return slice(None)
        raise InputError(
            "the table has gaps at slots that were not fitted",
            remedy="Fit on the table that is to be filled; the factors belong to its slots",
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def resolve_sensors(
    ids: Sequence[str], sensors: Sensors | pd.DataFrame | None, sites: Sites | None
) -> Sensors:
    """The sensors of a table from what the caller knows of them.

    Examples
    --------
    >>> resolve_sensors(["a", "b"], None, {"a": "north", "b": "south"}).sites
    ('north', 'south')
    >>> resolve_sensors(["7", "8"], None, [1, 1]).sites
    ('1', '1')
    """
    if isinstance(sensors, pd.DataFrame):
        sensors = sensors_from_frame(sensors, ids)
    resolved = sensors or Sensors.bare(ids)
    if resolved.ids != tuple(ids):
        raise InputError("the sensors do not match the table's columns")
    if isinstance(sites, str) and sites == EACH:
        return resolved.with_sites(EACH)
    return resolved if sites is None else resolved.with_sites(_site_of_each(ids, sites))


def _site_of_each(ids: Sequence[str], sites: Sites) -> list[str]:
    """One name a sensor: ids and sites may be numbers, and a Series may be keyed by sensor."""
    if isinstance(sites, str):
        raise InputError(
            f"{sites!r} is one text, not a site for each sensor",
            where="sites",
            remedy="Give a list in column order, a mapping from sensor to site, or 'each'",
        )
    if isinstance(sites, pd.Series):
        keyed = set(ids) <= {str(name) for name in sites.index}
        sites = dict(sites.items()) if keyed else sites.tolist()
    if isinstance(sites, Mapping):
        owner = {str(sensor): site for sensor, site in sites.items()}
        lost = [sensor for sensor in ids if sensor not in owner]
        if lost:
            raise InputError(f"no site is given for sensor {lost[0]!r}", where="sites")
        sites = [owner[sensor] for sensor in ids]
    if any(site is None or site != site for site in sites):
        raise InputError("a site is missing", where="sites", remedy="Name one for each sensor")
    return [str(site) for site in sites]


def _widen(values: Array, alive: NDArray[np.bool_]) -> Array:
    """NaN for the sensors that had nothing to say."""
    out = np.full((*values.shape[:-1], len(alive)), np.nan)
    out[..., alive] = values
    return out


def _grid(index: pd.Index | None) -> Grid | None:
    """The time grid where the index holds increasing times."""
    if isinstance(index, pd.DatetimeIndex) and index.is_monotonic_increasing and index.is_unique:
        return infer_grid(Times(index, index))
    return None
