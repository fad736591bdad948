"""Check a method of your own against the contract that every method here obeys.

>>> import numpy as np
>>> from flfl.estimators.base import BaseRecoverer
>>> class Median(BaseRecoverer):
...     def _estimate(self, Y, positions, sensors):
...         return np.repeat(np.nanmedian(Y, axis=1, keepdims=True), Y.shape[1], axis=1)
>>> check_recoverer(Median())

Nothing is said: all is well. A method that breaks a law is told which:

>>> class Forgetful(BaseRecoverer):
...     def _estimate(self, Y, positions, sensors):
...         return Y
>>> check_recoverer(Forgetful())
Traceback (most recent call last):
AssertionError: every gap is filled: Forgetful left 192 gaps
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.methods import create

Array = NDArray[np.float64]

_POISON = 1e6
_EMPTY = 3
"""The sensor that is robbed of its readings where a law is about such a sensor."""


def check_recoverer(method: str | BaseRecoverer, **options: Any) -> None:
    """Hold a method to every law of the contract, on a small made-up network.

    The laws, in this order: a value for every entry; every gap filled; known readings untouched;
    the same bits for the same seed; DataFrame in, DataFrame out, rows found by their index, with
    the numbers that the array gives; the input and the settings left alone; intervals of the
    table's shape; other units give the same estimates in those, to five digits (unless the class
    says ``_unit_free = False``); what was seen in an earlier fit or in ``transform`` does not
    matter; a sensor without readings stays NaN and changes nothing for the others; a constant
    sensor, one reading, two rows, slots that nobody observed, a single sensor, sensors without
    coordinates and two at one place are survived; a table without readings is refused.

    Parameters
    ----------
    method : a name of the registry, or an estimator, which is cloned and not fitted
    options : constructor arguments, with a name

    Raises
    ------
    AssertionError
        One sentence: the law, and how it was broken.

    Examples
    --------
    >>> check_recoverer("linear")
    >>> check_recoverer("lfa", rank=2)
    """
    estimator = create(method, **options) if isinstance(method, str) else method
    if options and not isinstance(method, str):
        raise InputError("options are for a name", remedy="Give them to the estimator itself")
    trial = _Trial(estimator, *_network())
    for law, check in _LAWS:
        try:
            broken = check(trial)
        except Exception as error:
            # Whatever a method raises, its author is told under which law.
            broken = f"raised {type(error).__name__}: {error}"
        if broken:
            raise AssertionError(f"{law}: {type(estimator).__name__} {broken}")


def _network() -> tuple[pd.DataFrame, Sensors]:
    table, sensors = synthesize(8, 120, rank=2, rng=np.random.default_rng(0))
    # The names that the columns of an array have: one description serves both.
    ids = tuple(str(number) for number in range(len(sensors.ids)))
    return table.values.set_axis(list(ids), axis=1), replace(sensors, ids=ids)


@dataclass(frozen=True)
class _Trial:
    """A method and the network it is tried on."""

    estimator: BaseRecoverer
    values: pd.DataFrame
    sensors: Sensors

    def fit(
        self, values: pd.DataFrame | Array | None = None, sensors: Sensors | None = None
    ) -> BaseRecoverer:
        """A fresh copy, fitted to the network or to what is given instead."""
        # A copy: what writes into its input must not spoil the network for other laws.
        chosen = self.values.copy() if values is None else values
        return clone(self.estimator).fit(chosen, sensors=sensors or self.sensors)

    @property
    def known(self) -> NDArray[np.bool_]:
        return self.values.notna().to_numpy()


Complaint = str | None


def _shape(trial: _Trial) -> Complaint:
    shape = np.shape(trial.fit().estimates_)
    right = trial.values.shape
    return None if shape == right else f"gave {shape} estimates for a table of {right}"


def _no_gaps(trial: _Trial) -> Complaint:
    model = trial.fit()
    gaps = int(np.isnan(np.asarray(model.transform(trial.values), dtype=float)).sum())
    if gaps:
        return f"left {gaps} gaps"
    bad = int((~np.isfinite(model.estimates_)).sum())
    return f"has {bad} estimates that are no numbers" if bad else None


def _untouched(trial: _Trial) -> Complaint:
    filled = np.asarray(trial.fit().transform(trial.values))
    changed = int((filled[trial.known] != trial.values.to_numpy()[trial.known]).sum())
    return f"altered {changed} of them" if changed else None


def _frames(trial: _Trial) -> Complaint:
    model = trial.fit()
    filled = model.transform(trial.values)
    if not isinstance(filled, pd.DataFrame):
        return f"gave a {type(filled).__name__} for a DataFrame"
    same = filled.index.equals(trial.values.index) and filled.columns.equals(trial.values.columns)
    if not same:
        return "changed the index or the columns"
    some = slice(40, 60)
    if not model.transform(trial.values[some]).equals(filled[some]):
        return "fills some of the rows otherwise than all of them"
    # A bare index: an array has no clock, and a season may be read from one.
    plain = trial.values.reset_index(drop=True)
    framed, array = (trial.fit(values).estimates_ for values in (plain, plain.to_numpy()))
    return None if np.array_equal(framed, array) else "estimates otherwise for an array"


def _input_alone(trial: _Trial) -> Complaint:
    wide, frame = np.array(trial.values, order="C"), trial.values.copy()
    tables = ((wide, trial.sensors), _first_sensor(wide, trial.sensors), (frame, trial.sensors))
    for values, sensors in tables:
        before = np.array(values)
        model = trial.fit(values, sensors)
        model.transform(values)
        if not np.array_equal(np.asarray(values), before, equal_nan=True):
            kind = "DataFrame" if values is frame else "table"
            return f"wrote into the {kind} of {values.shape[1]} sensors that it was given"
    return None


def _settings_alone(trial: _Trial) -> Complaint:
    model = clone(trial.estimator)
    before = model.get_params(deep=False)
    after = model.fit(trial.values.copy(), sensors=trial.sensors).get_params(deep=False)
    changed = [name for name, value in after.items() if value is not before[name]]
    return f"set {changed[0]} itself" if changed else None


def _intervals(trial: _Trial) -> Complaint:
    for values in (trial.values, trial.values.assign(**{str(_EMPTY): np.nan})):
        bounds = trial.fit(values).interval()
        if bounds is None:
            return None
        shapes = [np.shape(bound) for bound in bounds]
        if set(shapes) != {values.shape}:
            return f"has bounds of {shapes[0]} and {shapes[1]} for a table of {values.shape}"
        some = values.notna().any().to_numpy()
        bad = int(sum((~np.isfinite(bound[:, some])).sum() for bound in bounds))
        if bad:
            return f"has {bad} bounds that are no numbers"
    return None


def _repeats(trial: _Trial) -> Complaint:
    one, two = (trial.fit().estimates_ for _ in range(2))
    return None if np.array_equal(one, two) else "gave other estimates the second time"


def _units(trial: _Trial) -> Complaint:
    if not trial.estimator._unit_free:
        return None
    plain, scaled = trial.fit().estimates_, trial.fit(1000 * trial.values - 7).estimates_
    away = float(np.abs(scaled - (1000 * plain - 7)).max()) / float(np.abs(scaled).max())
    return None if away < 1e-5 else f"is off by {away:.1g} of the largest estimate at 1000 x - 7"


def _only_what_is_fitted(trial: _Trial) -> Complaint:
    fresh = trial.fit().estimates_
    poisoned = trial.values.fillna(_POISON)
    model = trial.fit(poisoned).fit(trial.values, sensors=trial.sensors)
    if not np.array_equal(model.estimates_, fresh):
        return "remembers the table of an earlier fit"
    before = model.transform(trial.values)
    model.transform(poisoned)
    after = model.transform(trial.values)
    return None if np.array_equal(before, after) else "learned from a table given to transform"


def _empty_sensor(trial: _Trial) -> Complaint:
    values = trial.values.copy()
    values.iloc[:, _EMPTY] = np.nan
    estimates = trial.fit(values).estimates_
    if not np.isnan(estimates[:, _EMPTY]).all():
        return "made up values for it"
    others = np.arange(values.shape[1]) != _EMPTY
    without = trial.fit(values.loc[:, others], trial.sensors.subset(others)).estimates_
    same = np.allclose(estimates[:, others], without, rtol=1e-9)
    return None if same else "estimates the others otherwise than without it"


def _finite(trial: _Trial, values: pd.DataFrame | Array, sensors: Sensors) -> Complaint:
    bad = int((~np.isfinite(trial.fit(values, sensors).estimates_)).sum())
    return f"gave {bad} estimates that are no numbers" if bad else None


def _one_reading(trial: _Trial) -> Complaint:
    values = trial.values.copy()
    values.iloc[1:, 0] = np.nan
    values.iloc[0, 0] = 5.0
    return _finite(trial, values, trial.sensors)


def _two_rows(trial: _Trial) -> Complaint:
    return _finite(trial, trial.values.bfill().iloc[:2], trial.sensors)


def _constant(trial: _Trial) -> Complaint:
    values = trial.values.copy()
    values.iloc[:, 1] = 3.0
    return _finite(trial, values, trial.sensors) or _finite(trial, 0 * values + 3, trial.sensors)


def _empty_slots(trial: _Trial) -> Complaint:
    values = trial.values.copy()
    values.iloc[[0, *range(40, 45), -1]] = np.nan
    return _finite(trial, values, trial.sensors)


def _single_sensor(trial: _Trial) -> Complaint:
    values, sensors = _first_sensor(trial.values.to_numpy(), trial.sensors)
    return _finite(trial, values, sensors)


def _no_places(trial: _Trial) -> Complaint:
    return _finite(trial, trial.values, Sensors(trial.sensors.ids))


def _one_place(trial: _Trial) -> Complaint:
    places = np.array(trial.sensors.coordinates)
    places[1] = places[0]
    return _finite(trial, trial.values, replace(trial.sensors, coordinates=places))


def _nothing_known(trial: _Trial) -> Complaint:
    try:
        trial.fit(trial.values * np.nan)
    except InputError:
        return None
    return "fitted it without an InputError"


def _first_sensor(values: Array, sensors: Sensors) -> tuple[Array, Sensors]:
    return values[:, :1].copy(), sensors.subset(np.arange(1))


_LAWS: tuple[tuple[str, Callable[[_Trial], Complaint]], ...] = (
    ("every entry has an estimate", _shape),
    ("every gap is filled", _no_gaps),
    ("known readings are untouched", _untouched),
    ("the same seed gives the same bits", _repeats),
    ("a DataFrame comes back as it is, and counts as its array", _frames),
    ("the input is left alone", _input_alone),
    ("settings are left alone", _settings_alone),
    ("intervals have the shape of the table", _intervals),
    ("other units give the same estimates in those units", _units),
    ("only the table that was fitted matters", _only_what_is_fitted),
    ("a sensor without readings stays NaN and hurts nobody", _empty_sensor),
    ("a constant sensor is survived", _constant),
    ("one reading is enough", _one_reading),
    ("two rows are enough", _two_rows),
    ("slots that nobody observed are survived", _empty_slots),
    ("a single sensor is survived", _single_sensor),
    ("sensors without coordinates are survived", _no_places),
    ("two sensors at one place are survived", _one_place),
    ("a table without readings is refused", _nothing_known),
)
