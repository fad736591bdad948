"""Made-up readings that behave like a small air-quality network."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.datasets.masks import hide
from flfl.errors import InputError
from flfl.io.grid import infer_grid
from flfl.io.sensors import Sensors
from flfl.io.table import Table

# A city: readings around 50 with a spread of 12, sensors within about 60 km.
_LEVEL, _SPREAD, _SMALLEST = 50.0, 12.0, 0.1
_CORNER, _EXTENT = (52.2, 13.0), (0.6, 0.9)


def synthesize(
    sensors: int = 20,
    slots: int = 720,
    *,
    rank: int = 4,
    noise: float = 1.0,
    missing: float = 0.2,
    rng: np.random.Generator,
    start: str = "2024-01-01",
    step: str = "1h",
) -> tuple[Table, Sensors]:
    """Make a network: smooth fields in space, moving slowly in time, with a daily cycle.

    Readings are positive, to one decimal, around 50. There are ``rank`` factors, of which the first
    carries the daily cycle; ``noise`` is the standard deviation of what no factor explains, in the
    units of the readings. The share ``missing`` of the cells are gaps, half of them scattered, half
    in runs of up to 24 slots. ``start`` and ``step`` are as pandas understands them. The command
    ``flfl data synth`` has the same defaults.

    Examples
    --------
    >>> table, sensors = synthesize(5, 48, missing=0.25, rng=np.random.default_rng(0))
    >>> table.values.shape, sensors.coordinates.shape
    ((48, 5), (5, 2))
    """
    for name, given, least in (("sensors", sensors, 1), ("slots", slots, 2), ("rank", rank, 1)):
        if given < least:
            raise InputError(f"{given} is too few", where=name, remedy=f"Give {least} or more")
    if not (noise >= 0 and np.isfinite(noise)):
        raise InputError(f"{noise} is no noise level", where="noise", remedy="Give 0 or more")
    if not 0 <= missing < 1:
        raise InputError(f"{missing} is no share", where="missing", remedy="Give 0 <= missing < 1")
    try:
        index = pd.date_range(start, periods=slots, freq=step, name="time").as_unit("us")
    except (ValueError, OverflowError):
        problem, remedy = f"{start!r} and {step!r} are no start and step", "Give for example "
        raise InputError(
            problem, where="start, step", remedy=remedy + "2024-01-01 and 1h"
        ) from None
    unit = rng.random((sensors, 2))
    signal = _fields(unit, rank, rng) @ _courses(index, rank, rng).T
    signal *= _SPREAD / max(float(signal.std()), 1e-12)
    noisy = _LEVEL + signal + noise * rng.standard_normal(signal.shape)
    readings = np.asarray(np.round(np.maximum(noisy, _SMALLEST), 1), dtype=np.float64)
    whole, length = np.ones(readings.shape, dtype=bool), min(24, max(1, slots // 4))
    in_runs = hide(whole, 1 - missing / 2, "block", rng, block_length=length)
    readings[~hide(in_runs, (1 - missing) / (1 - missing / 2), "random", rng)] = np.nan
    ids = tuple(f"s{i:0{len(str(sensors - 1))}d}" for i in range(sensors))
    values = pd.DataFrame(readings.T, index=index, columns=list(ids), copy=False)
    table = Table(values, infer_grid(index), None, ("These readings are made up.",))
    coordinates = np.round(np.asarray(_CORNER) + unit * np.asarray(_EXTENT), 5)
    return table, Sensors(ids=ids, coordinates=coordinates, kind="latlon")


def _fields(unit: NDArray[np.float64], rank: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """One smooth field a factor: Gaussian bumps, above a level that all sensors share."""
    knots = rng.random((rank, 2))
    distance = np.square(unit[:, None, :] - knots[None, :, :]).sum(axis=2)
    fields: NDArray[np.float64] = np.exp(-distance / (2 * 0.3**2))
    fields[:, 0] += 1.0
    return fields


def _courses(index: pd.DatetimeIndex, rank: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The course of each factor: a slow wander, and a day's rise and fall for the first."""
    slots = len(index)
    # Smoothing white noise over a day or so gives a wander without a loop over slots.
    width = max(2, min(24, slots // 4))
    window = np.hanning(width + 2)[1:-1]
    white = rng.standard_normal((slots + width - 1, rank))
    window /= np.sqrt((window**2).sum())
    courses = np.column_stack([np.convolve(white[:, k], window, "valid") for k in range(rank)])
    hours = np.asarray((index - index.normalize()) / pd.Timedelta(hours=1), dtype=np.float64)
    courses[:, 0] += np.sin(2 * np.pi * (hours - 9) / 24) - 0.5 * np.cos(4 * np.pi * hours / 24)
    return courses
