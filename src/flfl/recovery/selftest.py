"""The self-test: errors on readings that were hidden, by gap and by sensor, and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from flfl import constants
from flfl.ensemble.holdout import draw_holdout, runs
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.interpolation import Kind, interpolate
from flfl.io.columns import listing
from flfl.io.table import Table
from flfl.paper.scaling import Scaling
from flfl.protocol.traffic import Traffic
from flfl.recovery.rules import Rules, gap_lengths

Array = NDArray[np.float64]
Errors = Mapping[str, Array]
"""Estimate minus reading of each way to recover, time x sensor, NaN where nothing was hidden."""
Fit = Callable[[pd.DataFrame], Any]

ALONE: dict[str, Kind] = {"alone": "pchip", "linear": "linear"}
"""What each sensor could do by itself: the name of the score, and how it interpolates."""
SITE = "site"
"""The score of what each site could do with its own sensors and nothing shared."""


@dataclass(frozen=True)
class GapScore:
    """The self-test in gaps of ``shortest`` to ``longest`` slots (None: no upper end).

    ``count`` readings were hidden in such gaps. ``mae`` is the mean absolute error of the method,
    of each sensor ``alone`` (pchip) and ``linear``, and of each ``site`` where that was tried.
    """

    shortest: int
    longest: int | None
    count: int
    mae: Mapping[str, float]


@dataclass(frozen=True)
class SensorScore:
    """The self-test of one sensor: ``count`` readings were hidden, ``mae`` as in `GapScore`.

    ``lead`` is by how much the method's error lies below that of the best other way, the sensor
    alone or its site alone; ``margin`` what chance may make of it, 19 times of 20 (NaN where fewer
    than two gaps tell). The sensor ``gains`` or ``loses`` where the lead is more than chance.
    """

    sensor: str
    count: int
    mae: Mapping[str, float]
    lead: float
    margin: float
    gains: bool
    loses: bool


@dataclass(frozen=True)
class SelfTest:
    """What was found on the hidden readings; empty where none were hidden.

    ``width`` (n_sensors,) are half widths of an interval, ``traffic`` is what travelled where the
    test was a run of its own.
    """

    overall: dict[str, dict[str, float]]
    by_gap_length: tuple[GapScore, ...]
    by_sensor: tuple[SensorScore, ...]
    width: Array | None = None
    traffic: Traffic | None = None


def self_test(
    table: Table,
    model: BaseRecoverer,
    label: str,
    rules: Rules,
    seed: int,
    again: Fit | None,
) -> SelfTest:
    """Scores on readings hidden from the method; none where there are too few to spare any.

    A method that holds readings out by itself (``holdout_``: scattered, and in runs like the
    table's own gaps; see :func:`~flfl.ensemble.holdout.draw_holdout`) is tested on those. Any
    other is fitted again without such readings.

    The model was fitted to the whole table; its scores go under the name ``label``. ``again`` fits
    the method to a table of readings: without it there is no test. A model that knows what each
    site gets by itself (``site_holdout_``) gives that a score too.
    """
    values = table.values.to_numpy()
    hidden, estimates = np.zeros(values.shape, bool), {label: values}
    by_site = coverage = traffic = None
    if again is not None and hasattr(model, "holdout_"):
        hidden, estimates[label] = ~np.isnan(model.holdout_), model.holdout_
        sites = model.partition_.sites
        # No question for one owner, or where each has one sensor.
        if label != SITE and 1 < len(set(sites)) < len(sites):
            by_site = model.site_holdout_
        coverage = float(model.inside_[hidden].mean()) if hidden.any() else None
    elif again is not None:
        share, rng = constants.SELF_TEST_SHARE, np.random.default_rng(seed)
        hidden = draw_holdout(table.known.T, rng, share=share, per_hour=model.per_hour_).T
        if hidden.any():
            second = again(table.values.mask(hidden))
            estimates[label], traffic = second.estimates_, second.traffic_
    if by_site is not None:
        estimates[SITE] = by_site
    return scored(table, hidden, estimates, rules.bounds, seed, coverage, traffic)


def scored(
    table: Table,
    hidden: NDArray[np.bool_],
    estimates: Mapping[str, Array],
    bounds: tuple[float, float],
    seed: int = 0,
    coverage: float | None = None,
    traffic: Traffic | None = None,
) -> SelfTest:
    """Scores of ``estimates`` (time x sensor, by the name of the way; the first is the method) of
    the ``hidden`` readings, beside what each sensor alone makes of them. ``coverage`` is the share
    inside the method's own intervals, where it has any."""
    (label, *_), values = estimates, table.values.to_numpy()
    if not hidden.any():
        nothing = np.full((1, len(table.sensor_ids)), np.nan)
        errors = dict.fromkeys((label, *ALONE), nothing)
        return SelfTest({}, (), by_sensor(errors, table.sensor_ids, label))
    # The same readings are hidden from each sensor alone.
    seen = np.where(hidden, np.nan, values).T
    alone = {name: interpolate(seen, table.positions, kind).T for name, kind in ALONE.items()}
    errors = {
        name: np.where(hidden, np.clip(estimate, *bounds) - values, np.nan)
        for name, estimate in {label: values, **alone, **estimates}.items()
    }
    overall = {}
    for name, error in errors.items():
        mae, rmse = np.nanmean(np.abs(error)), np.sqrt(np.nanmean(error**2))
        overall[name] = {"mae": float(mae), "rmse": float(rmse)}
    spread = Scaling.fit(values.T).scale
    relative = (np.abs(errors[label]) / spread)[hidden]
    overall[label]["coverage"] = _cross_coverage(relative, seed) if coverage is None else coverage
    lengths = gap_lengths(table.known & ~hidden, table.positions)
    return SelfTest(
        overall,
        by_gap_length(errors, lengths),
        by_sensor(errors, table.sensor_ids, label),
        np.quantile(relative, constants.SELF_TEST_COVERAGE) * spread,
        traffic,
    )


def _cross_coverage(error: Array, seed: int) -> float:
    """Share of errors inside the quantile that the *other* half gives."""
    if len(error) < 2:
        return float("nan")
    halves = np.array_split(np.random.default_rng(seed).permutation(error), 2)
    level = constants.SELF_TEST_COVERAGE
    both = (halves, halves[::-1])
    return float(np.mean([np.mean(mine <= np.quantile(other, level)) for mine, other in both]))


def by_gap_length(errors: Errors, lengths: Array) -> tuple[GapScore, ...]:
    """Scores in classes of gap length (time x sensor, in slots); empty classes are left out."""
    hidden = ~np.isnan(next(iter(errors.values())))
    ends = constants.GAP_CLASSES
    group = np.searchsorted(ends, lengths[hidden])
    counts = np.bincount(group, minlength=len(ends) + 1)
    sums = {
        name: np.bincount(group, np.abs(error[hidden]), len(counts))
        for name, error in errors.items()
    }
    shortest = (1, *(longest + 1 for longest in ends))
    return tuple(
        GapScore(
            shortest[i],
            (*ends, None)[i],
            int(counts[i]),
            {name: float(total[i] / counts[i]) for name, total in sums.items()},
        )
        for i in np.flatnonzero(counts)
    )


def by_sensor(errors: Errors, names: Sequence[object], method: str) -> tuple[SensorScore, ...]:
    """Scores of each column, beside the best of the other ways."""
    counts = (~np.isnan(errors[method])).sum(axis=0)
    means = {
        name: np.where(counts, np.nansum(np.abs(error), axis=0) / np.maximum(counts, 1), np.nan)
        for name, error in errors.items()
    }
    others = [name for name in errors if name != method] or [method]
    best = np.argmin([means[name] for name in others], axis=0)
    scores = []
    for i, name in enumerate(names):
        best_other = errors[others[best[i]]][:, i]
        lead, margin = _lead(np.abs(best_other) - np.abs(errors[method][:, i]))
        mae = {way: float(mean[i]) for way, mean in means.items()}
        gains, loses = lead > margin, -lead > margin
        scores.append(SensorScore(str(name), int(counts[i]), mae, lead, margin, gains, loses))
    return tuple(scores)


def _lead(differences: Array) -> tuple[float, float]:
    """Mean of the differences along time (NaN: none), and half its 95 % interval.

    The errors inside one gap are alike, so each run of hidden readings counts as one draw: with
    ``s_g`` its sum and ``n_g`` its length, the variance of the mean ``m`` over G runs is
    ``G / (G - 1) sum_g (s_g - n_g m)^2 / n^2``.

    Examples
    --------
    >>> lead, margin = _lead(np.array([1.0, np.nan, 3.0, np.nan, 2.0]))
    >>> lead, round(margin, 3)  # 4.303 standard errors with two degrees of freedom
    (2.0, 2.484)
    """
    tested = ~np.isnan(differences)
    _, starts, ends = runs(tested[None])
    lengths, count = ends - starts, len(starts)
    if not count:
        return np.nan, np.nan
    mean = float(differences[tested].mean())
    if count < 2:
        return mean, np.nan
    sums = np.bincount(np.repeat(np.arange(count), lengths), differences[tested])
    off = sums - lengths * mean
    deviation = np.sqrt(count / (count - 1) * (off**2).sum()) / lengths.sum()
    return mean, float(stdtrit(count - 1, 0.975) * deviation)


def verdict(test: SelfTest, label: str, shared: bool) -> str:
    """What federation bought, in which gaps it did not, which sensors gain and which do not.

    The measure is what each owner does with its own sensors, where that was tried: the method's
    lead over interpolation is not all due to the others. Empty where nothing was tested, or where
    the method is no federation. Where nothing was ``shared`` between owners, nothing is said to
    have come of it.
    """
    if label != "flfl" or label not in test.overall:
        return ""
    mae = {name: found["mae"] for name, found in test.overall.items()}
    than_sensors, over_sensors = _below(mae["flfl"], min(mae[name] for name in ALONE))
    if not shared:
        return (
            "Federation bought nothing here: nothing was shared between owners. From what each has"
            f" itself, the error is {than_sensors} interpolating each sensor."
        )
    than_sites, over_sites = _below(mae["flfl"], mae[SITE]) if SITE in mae else ("", over_sensors)
    bought = "What federation bought" if over_sites > 0 else "Federation bought nothing here"
    sites = f"{than_sites} each owner alone, and " if than_sites else ""
    said = [f"{bought}: the error is {sites}{than_sensors} each sensor alone."]
    lost = [
        span(score)
        for score in test.by_gap_length
        if _below(score.mae["flfl"], min(score.mae[name] for name in ALONE))[1] <= 0
    ]
    if 0 < len(lost) < len(test.by_gap_length):
        said.append(f"In gaps of {', '.join(lost)} a sensor alone does as well.")
    # Sensors that gain or lose by more than chance; of the rest a few readings do not tell.
    tested = [score for score in test.by_sensor if score.count]
    gaining = sum(score.gains for score in tested)
    losing = [score.sensor for score in tested if score.loses]
    close, untested = len(tested) - gaining - len(losing), len(test.by_sensor) - len(tested)
    said.append(
        f"{gaining} sensor{'s' * (gaining != 1)} of {len(tested)} clearly"
        f" gain{'s' * (gaining == 1)} from the network,"
        f" {len(losing)} clearly lose{'s' * (len(losing) == 1)}"
        + (f" ({listing(losing)})" if losing else "")
        + f", {close} {'is' if close == 1 else 'are'} too close to tell"
        + (f" ({untested} not tested)." if untested else ".")
    )
    return " ".join(said)


def _below(mae: float, reference: float) -> tuple[str, int]:
    """Per cent by which an error lies below another, in words and as a number.

    Examples
    --------
    >>> [_below(mae, 1.0)[0] for mae in (0.97, 1.0, 1.2)]
    ['3 % below', 'the same as that of', '20 % above']
    """
    change = round(100 * (1 - mae / reference)) if reference else 0
    words = f"{abs(change)} % {'below' if change > 0 else 'above'}"
    return words if change else "the same as that of", change


def span(score: GapScore) -> str:
    """The lengths of a class of gaps.

    Examples
    --------
    >>> [span(GapScore(*ends, 0, {})) for ends in ((1, 1), (2, 3), (49, None))]
    ['1 slot', '2 to 3 slots', '49 slots or more']
    """
    if score.longest is None:
        return f"{score.shortest} slots or more"
    if score.longest == score.shortest:
        return f"{score.shortest} slot{'s' * (score.shortest != 1)}"
    return f"{score.shortest} to {score.longest} slots"
