"""The contract every method obeys: scikit-learn's, on a time x sensor table with gaps."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from flfl.config import Settings, check_parameters
from flfl.errors import InputError
from flfl.estimators.owners import Sites, resolve_sensors
from flfl.io.frames import Back, as_pandas
from flfl.io.grid import Grid, infer_grid, natural_period
from flfl.io.read import with_time_index
from flfl.io.sensors import Sensors
from flfl.protocol.traffic import Traffic

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]
_OWN_SLOTS = (
    "Fit on the table that is to be filled: a model belongs to its slots. So cross_val_score, which"
    " keeps rows back, cannot judge it; flfl.evaluation.evaluate hides single readings instead"
)


def plain_frame(X: Any) -> tuple[Any, Back | None]:
    """A frame of another kind as one of pandas with its times in the index, and the way back."""
    known = isinstance(X, pd.DataFrame | np.ndarray | list | tuple)
    # Sparse and odd input is scikit-learn's to refuse.
    if known or hasattr(X, "tocsr") or (not hasattr(X, "columns") and not hasattr(X, "dims")):
        return X, None
    frame, back = as_pandas(X)
    return with_time_index(frame), back


class BaseRecoverer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base class: subclasses implement :meth:`_estimate`.

    ``fit`` learns from the known entries (NaN = missing) and estimates every entry of the table
    it was given; ``transform`` fills the gaps of that table. Known entries are never altered. A
    sensor without a single reading cannot be estimated and stays NaN.

    Attributes
    ----------
    estimates_ : (n_slots, n_sensors) array
        The method's value for every entry.
    index_, fitted_, sensors_
        Index of the table (None for an array), its readings; coordinates, regions and sites of its
        columns.
    period_, per_hour_
        Slots in the season that the time grid suggests (24 for hours, 0 for none), and in an hour
        (1 where a slot is longer or no time).
    traffic_ : Traffic
        What travelled between the parties (empty for a method that is not federated).
    """

    settings: ClassVar[type[Settings] | None] = None
    """The model that checks the parameters; None where the types of a dataclass do, or nothing."""
    missing: Sequence[float] = ()
    """Numbers that stand for a missing reading, where a method has such a parameter."""
    _by_sensor: ClassVar[tuple[str, ...]] = ()
    """Further fitted arrays whose last axis is the sensors that have readings."""
    _unit_free: ClassVar[bool] = True
    """False for a method that may see other things in other units (after a root, a logarithm)."""

    @abstractmethod
    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        """Estimate every entry (M, N).

        What a method of one's own implements. No row of the readings Y (M, N) is all NaN; positions
        (N,) are elapsed steps of the slots, never None. ``sensors`` has M ``ids``, and
        ``coordinates`` (M, 2) and ``sites``, each None where nothing is known of it.
        """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
        grid: Grid | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from the known entries of a time x sensor table.

        Parameters
        ----------
        X : (n_slots, n_sensors) array or DataFrame
            NaN = missing. The index of a DataFrame may hold times; one of polars or another kind
            has them in a column. ``y`` is ignored.
        sensors : Sensors or DataFrame, optional
            One row for each sensor: ``sensor_id`` or the index, ``latitude``/``longitude`` or
            ``x``/``y``, perhaps ``region`` and ``site``.
        sites : sequence, Series or mapping, optional
            Owner of each sensor, in column order or by sensor id; names or numbers.
        grid : Grid, optional
            The time grid of the rows, where it is known; else found from the index.
        progress : callable, optional
            Called with (done, total) after every round, by methods that have rounds.
        """
        return self._fit(X, sensors, sites, grid, self._estimate)

    def _fit(
        self,
        X: Any,
        sensors: Sensors | pd.DataFrame | None,
        sites: Sites | None,
        grid: Grid | None,
        estimate: Callable[[Array, Array, Sensors], Array],
    ) -> Self:
        """Check what is given, estimate every entry, keep what was found."""
        check_parameters(self)
        X, _ = plain_frame(X)
        index = X.index if isinstance(X, pd.DataFrame) else None
        values = validate_data(
            self, X, ensure_all_finite="allow-nan", dtype=np.float64, ensure_min_samples=2
        )
        self.fitted_ = values = self._without_codes(values, told=True)
        names = X.columns if isinstance(X, pd.DataFrame) else range(values.shape[1])
        ids = tuple(str(name).strip() for name in names)
        self.index_, self.sensors_ = index, resolve_sensors(ids, sensors, sites)
        if grid is None and isinstance(index, pd.DatetimeIndex) and index.is_unique:
            grid = infer_grid(index) if index.is_monotonic_increasing else None
        positions = np.arange(len(values), dtype=float) if grid is None else grid.positions
        self.period_ = 0 if grid is None else natural_period(grid)
        self.per_hour_ = 1.0
        if grid is not None and isinstance(grid.step, pd.Timedelta):
            self.per_hour_ = max(pd.Timedelta(hours=1) / grid.step, 1.0)
        alive = ~np.isnan(values).all(axis=0)
        if not alive.any():
            raise InputError(
                "the table holds no reading", remedy="Give at least one sensor with readings"
            )
        self.traffic_ = Traffic()
        Y = np.ascontiguousarray((values if alive.all() else values[:, alive]).T)
        with threadpool_limits(limits=1):
            # Small products on two cores run faster on one thread than on two.
            self.estimates_ = estimate(Y, positions, self.sensors_.subset(alive)).T
        if not alive.all():
            for name in ("estimates_", *self._by_sensor):
                narrow = getattr(self, name)
                wide = np.full((*narrow.shape[:-1], len(alive)), np.nan)
                wide[..., alive] = narrow
                setattr(self, name, wide)
        return self

    def transform(self, X: Any) -> Any:
        """Fill the gaps of the table that was fitted.

        The rows of a DataFrame are found by their index. **An array has none: one with as many rows
        as the fitted table is taken to be that table**, whatever it holds. To fill another table,
        fit on it. A table without gaps comes back as it is, a DataFrame as a DataFrame.

        Raises
        ------
        InputError
            When X has gaps at slots that were not fitted.
        """
        check_is_fitted(self)
        X, back = plain_frame(X)
        values = validate_data(
            self, X, ensure_all_finite="allow-nan", dtype=np.float64, reset=False, copy=True
        )
        values = self._without_codes(values)
        gaps = np.isnan(values)
        if gaps.any():
            rows = self._fitted_rows(X, len(values))
            values[gaps] = self.estimates_[rows][gaps]
        if isinstance(X, pd.DataFrame):
            filled = pd.DataFrame(values, index=X.index, columns=X.columns)
            return filled if back is None else back(filled)
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
        X, _ = plain_frame(X)
        values = validate_data(
            self, X, ensure_all_finite="allow-nan", dtype=np.float64, reset=False
        )
        values, rows = self._without_codes(values), self._fitted_rows(X, len(values))
        # Rows without names may be others than those that were fitted, as in cross-validation.
        fitted = self.fitted_[rows]
        if (~np.isnan(values) & ~np.isnan(fitted) & (values != fitted)).any():
            raise InputError("these are not the rows that were fitted", remedy=_OWN_SLOTS)
        error = np.abs(values - self.estimates_[rows])
        if np.isnan(error).all():
            raise InputError("nothing to score: no entry is known and estimated")
        return -float(np.nanmean(error))

    def _without_codes(self, values: Array, told: bool = False) -> Any:
        """Numbers that stand for a missing reading as NaN; a warning counts them."""
        found = np.isin(values, self.missing)
        if not found.any():
            return values
        if told:
            numbers, counts = np.unique(values[found], return_counts=True)
            words = [f"{n} of {x:g}" for x, n in zip(numbers.tolist(), counts, strict=True)]
            note = f"numbers that stand for a missing reading: {', '.join(words)}; missing=() keeps"
            warnings.warn(f"{note} them", UserWarning, stacklevel=4)
        return np.where(found, np.nan, values)

    def _fitted_rows(self, X: Any, n_rows: int) -> Any:
        if isinstance(X, pd.DataFrame) and self.index_ is not None:
            if X.index.equals(self.index_):
                return slice(None)
            if self.index_.is_unique:
                rows = self.index_.get_indexer(X.index)
                if (rows >= 0).all():
                    return rows
        elif n_rows == len(self.estimates_):
            return slice(None)
        raise InputError(
            "the table has gaps at slots that were not fitted",
            remedy=_OWN_SLOTS,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
