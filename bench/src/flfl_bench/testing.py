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

    :data:`LAWS` names them. A class that says ``_unit_free = False`` is let off the law of units.

    Parameters
    ----------
    method : str or BaseRecoverer
        A name of the registry, or an estimator, which is cloned and not fitted.
    options : object
        Constructor arguments, with a name.

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
    case = _Case(estimator, *_network())
    for law, check in LAWS.items():
        try:
            broken = check(case)
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
class _Case:
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


def _shape(case: _Case) -> Complaint:
    shape = np.shape(case.fit().estimates_)
    right = case.values.shape
    return None if shape == right else f"gave {shape} estimates for a table of {right}"


def _no_gaps(case: _Case) -> Complaint:
    model = case.fit()
    gaps = int(np.isnan(np.asarray(model.transform(case.values), dtype=float)).sum())
    if gaps:
        return f"left {gaps} gaps"
    bad = int((~np.isfinite(model.estimates_)).sum())
    return f"has {bad} estimates that are no numbers" if bad else None


def _untouched(case: _Case) -> Complaint:
    filled = np.asarray(case.fit().transform(case.values))
    changed = int((filled[case.known] != case.values.to_numpy()[case.known]).sum())
    return f"altered {changed} of them" if changed else None


def _frames(case: _Case) -> Complaint:
    model = case.fit()
    filled = model.transform(case.values)
    if not isinstance(filled, pd.DataFrame):
        return f"gave a {type(filled).__name__} for a DataFrame"
    same = filled.index.equals(case.values.index) and filled.columns.equals(case.values.columns)
    if not same:
        return "changed the index or the columns"
    some = slice(40, 60)
    if not model.transform(case.values[some]).equals(filled[some]):
        return "fills some of the rows otherwise than all of them"
    # A bare index: an array has no clock, and a season may be read from one.
    plain = case.values.reset_index(drop=True)
    framed, array = (case.fit(values).estimates_ for values in (plain, plain.to_numpy()))
    return None if np.array_equal(framed, array) else "estimates otherwise for an array"


def _input_alone(case: _Case) -> Complaint:
    wide, frame = np.array(case.values, order="C"), case.values.copy()
    tables = ((wide, case.sensors), _first_sensor(wide, case.sensors), (frame, case.sensors))
    for values, sensors in tables:
        before = np.array(values)
        model = case.fit(values, sensors)
        model.transform(values)
        if not np.array_equal(np.asarray(values), before, equal_nan=True):
            kind = "DataFrame" if values is frame else "table"
            return f"wrote into the {kind} of {values.shape[1]} sensors that it was given"
    return None


def _settings_alone(case: _Case) -> Complaint:
    model = clone(case.estimator)
    before = model.get_params(deep=False)
    after = model.fit(case.values.copy(), sensors=case.sensors).get_params(deep=False)
    changed = [name for name, value in after.items() if value is not before[name]]
    return f"set {changed[0]} itself" if changed else None


def _intervals(case: _Case) -> Complaint:
    for values in (case.values, case.values.assign(**{str(_EMPTY): np.nan})):
        bounds = case.fit(values).interval()
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


def _repeats(case: _Case) -> Complaint:
    one, two = (case.fit().estimates_ for _ in range(2))
    return None if np.array_equal(one, two) else "gave other estimates the second time"


def _units(case: _Case) -> Complaint:
    if not case.estimator._unit_free:
        return None
    plain, scaled = case.fit().estimates_, case.fit(1000 * case.values - 7).estimates_
    away = float(np.abs(scaled - (1000 * plain - 7)).max()) / float(np.abs(scaled).max())
    return None if away < 1e-5 else f"is off by {away:.1g} of the largest estimate at 1000 x - 7"


def _only_what_is_fitted(case: _Case) -> Complaint:
    fresh = case.fit().estimates_
    poisoned = case.values.fillna(_POISON)
    model = case.fit(poisoned).fit(case.values, sensors=case.sensors)
    if not np.array_equal(model.estimates_, fresh):
        return "remembers the table of an earlier fit"
    before = model.transform(case.values)
    model.transform(poisoned)
    after = model.transform(case.values)
    return None if np.array_equal(before, after) else "learned from a table given to transform"


def _empty_sensor(case: _Case) -> Complaint:
    values = case.values.copy()
    values.iloc[:, _EMPTY] = np.nan
    estimates = case.fit(values).estimates_
    if not np.isnan(estimates[:, _EMPTY]).all():
        return "made up values for it"
    others = np.arange(values.shape[1]) != _EMPTY
    without = case.fit(values.loc[:, others], case.sensors.subset(others)).estimates_
    same = np.allclose(estimates[:, others], without, rtol=1e-9)
    return None if same else "estimates the others otherwise than without it"


Change = Callable[[pd.DataFrame, Sensors], tuple[pd.DataFrame | Array, Sensors]]


def _survives(*changes: Change) -> Callable[[_Case], Complaint]:
    """The law that every estimate is a number after each of these changes to the network."""

    def check(case: _Case) -> Complaint:
        for change in changes:
            estimates = case.fit(*change(case.values.copy(), case.sensors)).estimates_
            bad = int((~np.isfinite(estimates)).sum())
            if bad:
                return f"gave {bad} estimates that are no numbers"
        return None

    return check


def _one_reading(values: pd.DataFrame, sensors: Sensors) -> tuple[pd.DataFrame, Sensors]:
    values.iloc[1:, 0] = np.nan
    values.iloc[0, 0] = 5.0
    return values, sensors


def _empty_slots(values: pd.DataFrame, sensors: Sensors) -> tuple[pd.DataFrame, Sensors]:
    values.iloc[[0, *range(40, 45), -1]] = np.nan
    return values, sensors


def _one_place(values: pd.DataFrame, sensors: Sensors) -> tuple[pd.DataFrame, Sensors]:
    places = np.array(sensors.coordinates)
    places[1] = places[0]
    return values, replace(sensors, coordinates=places)


def _nothing_known(case: _Case) -> Complaint:
    try:
        case.fit(case.values * np.nan)
    except InputError:
        return None
    return "fitted it without an InputError"


def _first_sensor(values: Array, sensors: Sensors) -> tuple[Array, Sensors]:
    return values[:, :1].copy(), sensors.subset(np.arange(1))


LAWS: dict[str, Callable[[_Case], Complaint]] = {
    "every entry has an estimate": _shape,
    "every gap is filled": _no_gaps,
    "known readings are untouched": _untouched,
    "the same seed gives the same bits": _repeats,
    "a DataFrame comes back as it is, and counts as its array": _frames,
    "the input is left alone": _input_alone,
    "settings are left alone": _settings_alone,
    "intervals have the shape of the table": _intervals,
    "other units give the same estimates in those units": _units,
    "only the table that was fitted matters": _only_what_is_fitted,
    "a sensor without readings stays NaN and hurts nobody": _empty_sensor,
    "a constant sensor is survived": _survives(
        lambda values, sensors: (values.assign(**{values.columns[1]: 3.0}), sensors),
        lambda values, sensors: (0 * values + 3, sensors),
    ),
    "one reading is enough": _survives(_one_reading),
    "two rows are enough": _survives(lambda values, sensors: (values.bfill().iloc[:2], sensors)),
    "slots that nobody observed are survived": _survives(_empty_slots),
    "a single sensor is survived": _survives(
        lambda values, sensors: _first_sensor(values.to_numpy(), sensors)
    ),
    "sensors without coordinates are survived": _survives(
        lambda values, sensors: (values, Sensors(sensors.ids))
    ),
    "two sensors at one place are survived": _survives(_one_place),
    "a table without readings is refused": _nothing_known,
}
"""What every method here obeys, in the order in which it is checked."""
