"""Settings chosen fairly: a small grid a method, the same budget for all, never on test entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.datasets.masks import hide
from flfl.errors import DivergedError, InputError
from flfl.estimators.owners import partition
from flfl.io.sensors import Sensors
from flfl.methods import Method

TUNING_SLOTS = 2000
"""Tuning looks at no more slots than this, from the middle of the table: time for all alike."""
VALIDATION_SHARE = 0.1


@dataclass(frozen=True)
class Tuned:
    """What tuning chose.

    Attributes
    ----------
    options : the settings of least error
    errors : validation MAE of every setting tried, None where it failed
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[float | None, ...] = ()


def tune(
    method: Method,
    seen: pd.DataFrame,
    sensors: Sensors,
    pattern: str,
    seed: int,
    *,
    block_length: int,
    options: Mapping[str, Any] | None = None,
) -> Tuned:
    """The settings of a method's grid with the least error on entries cut from ``seen``.

    Parameters
    ----------
    seen : slots x sensors, NaN = missing: the training entries, which the test entries are not
        among. A tenth of them is hidden again in the pattern of the test, within at most
        :data:`TUNING_SLOTS` slots.
    options : settings that are given; a grid that sets one of them is not tried

    Raises
    ------
    DivergedError
        When no setting of the grid gives numbers.
    """
    given = dict(options or {})
    grid = [setting for setting in method.grid if not set(setting) & set(given)]
    if len(grid) < 2:
        return Tuned(dict(grid[0]) if grid else {})
    start = max(0, (len(seen) - TUNING_SLOTS) // 2)
    window = seen.iloc[start : start + TUNING_SLOTS]
    known = window.notna().to_numpy()
    kept = _validation_mask(known.T, sensors, pattern, seed, block_length).T
    train = window.where(pd.DataFrame(kept, window.index, window.columns))
    held = known & ~kept & kept.any(axis=0)
    truth = window.to_numpy()[held]
    if not len(truth):
        return Tuned(dict(grid[0]))
    errors = [
        _error(method, train, sensors, held, truth, seed, given | dict(setting)) for setting in grid
    ]
    fine = [(error, number) for number, error in enumerate(errors) if error is not None]
    if not fine:
        raise DivergedError(f"none of its {len(grid)} settings gave numbers")
    return Tuned(dict(grid[min(fine)[1]]), tuple(errors))


def _validation_mask(
    known: NDArray[np.bool_], sensors: Sensors, pattern: str, seed: int, block_length: int
) -> NDArray[np.bool_]:
    """Which of the known entries (sensors x slots) the settings are trained on."""
    # Another stream than the test mask's, which comes from the seed alone.
    rng = np.random.default_rng([seed, 1])
    regions = partition(sensors).regions if pattern == "outage" else None
    try:
        return hide(
            known,
            1 - VALIDATION_SHARE,
            pattern,
            rng,
            block_length=min(block_length, known.shape[1]),
            regions=regions,
        )
    except InputError:
        # A short stretch may not hold so many runs; scattered entries always do.
        return hide(known, 1 - VALIDATION_SHARE, "random", rng)


def _error(
    method: Method,
    train: pd.DataFrame,
    sensors: Sensors,
    held: NDArray[np.bool_],
    truth: NDArray[np.float64],
    seed: int,
    options: Mapping[str, Any],
) -> float | None:
    try:
        model = method.create(seed=seed, **options).fit(train, sensors=sensors)
    except (ArithmeticError, np.linalg.LinAlgError):
        return None
    error = float(np.abs(model.estimates_[held] - truth).mean())
    return error if np.isfinite(error) else None
