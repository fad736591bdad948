"""A result for people: plots with Matplotlib, the view of a notebook, the gap to look at first."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from flfl.errors import InputError
from flfl.io.table import FILLED, FLAGS
from flfl.recovery.selftest import span

if TYPE_CHECKING:
    from flfl.recovery.result import Recovery

WAYS = {"alone": "sensor alone (pchip)", "linear": "sensor alone (linear)", "site": "owner alone"}
OBSERVED, RECOVERED, REFUSED = "#2a87c8", "#dd6b10", "#b8bec8"


def telling(result: Recovery) -> tuple[int, int, int]:
    """Sensor (its number), first and last slot of the gap that shows most of the filling.

    A long gap that was filled whole, between readings, of a sensor that is mostly observed; (0, 0,
    0) where nothing was filled.
    """
    flags = result.flags.to_numpy()
    filled, observed = np.isin(flags, FILLED), flags == "observed"
    slots = len(flags)
    best, found = 0.0, (0, 0, 0)
    longest = int(np.clip(slots // 40, 12, 60))
    for i in np.flatnonzero(filled.any(axis=0)).tolist():
        edge = np.diff(filled[:, i].astype(int), prepend=0, append=0)
        starts, ends = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
        before = observed[np.maximum(starts - 1, 0), i]
        after = observed[np.minimum(ends, slots - 1), i]
        length = ends - starts
        share = observed[:, i].mean()
        score = np.minimum(length, longest) * (1 + before + after) * share
        score = score / np.maximum(length / longest, 1)
        at = int(np.argmax(score))
        if score[at] > best:
            best, found = float(score[at]), (i, int(starts[at]), int(ends[at]) - 1)
    return found


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        remedy = "pip install 'flfl[plot]'"
        raise InputError("a plot needs Matplotlib", where="plot", remedy=remedy) from None
    return pyplot


def plot(result: Recovery, sensor: object = None, ax: Any = None) -> Any:
    """One sensor: readings, what was recovered, intervals; the most telling one by default."""
    name = result.values.columns[telling(result)[0]] if sensor is None else sensor
    if name not in result.values.columns:
        raise InputError(f"there is no sensor {name!r}", where="sensor")
    axes = _pyplot().subplots(figsize=(9, 3.2))[1] if ax is None else ax
    filled = result.flags[name].isin(FILLED)
    values, at = result.values[name], result.values.index
    if isinstance(at, pd.PeriodIndex):
        at = at.to_timestamp()
    low, high = (
        bound[name].where(filled).to_numpy(float) for bound in (result.lower, result.upper)
    )
    axes.plot(at, values.mask(filled), color=OBSERVED, lw=1, label="observed")
    axes.plot(at, values.where(filled), ".", color=RECOVERED, ms=4, label="recovered")
    axes.fill_between(at, low, high, color=RECOVERED, alpha=0.25, lw=0, label="interval")
    axes.set(title=str(name), ylabel=_measured("reading", result.unit))
    axes.legend(loc="best", frameon=False)
    return axes


def plot_gaps(result: Recovery, ax: Any = None) -> Any:
    """What was there and what was filled: sensors by time."""
    _pyplot()
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    tall = max(2.0, 0.16 * result.values.shape[1] + 1)
    axes = _pyplot().subplots(figsize=(9, tall))[1] if ax is None else ax
    colours = [OBSERVED, RECOVERED, REFUSED, "#f3b98a"]
    codes = np.argmax([result.flags.to_numpy() == flag for flag in FLAGS], axis=0).T
    axes.imshow(codes, aspect="auto", cmap=ListedColormap(colours), vmin=0, vmax=3,
                interpolation="nearest")  # fmt: skip
    names = [str(name) for name in result.values.columns]
    every = max(len(names) // 40, 1)
    axes.set_yticks(range(0, len(names), every), names[::every], fontsize=7)
    ticks = np.linspace(0, len(result.values) - 1, 6).astype(int)
    axes.set_xticks(ticks, [_short(result.values.index[i]) for i in ticks])
    shown = [
        Patch(color=colour, label=flag)
        for code, (flag, colour) in enumerate(zip(FLAGS, colours, strict=True))
        if (codes == code).any()
    ]
    axes.legend(
        handles=shown, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4, frameon=False
    )
    return axes


def plot_scores(result: Recovery, ax: Any = None) -> Any:
    """The error on hidden readings by length of their gap, beside other ways to fill them."""
    if not result.by_gap_length:
        remedy = "Recover with self_test=True and more readings"
        raise InputError("there was no self-test, so there are no scores", remedy=remedy)
    axes = _pyplot().subplots(figsize=(9, 3.2))[1] if ax is None else ax
    ways = list(result.by_gap_length[0].mae)
    width = 0.8 / len(ways)
    colours = [RECOVERED, "#5aa9dd", "#8b93a1", "#3d6b35"]
    for i, way in enumerate(ways):
        at = np.arange(len(result.by_gap_length)) + (i - (len(ways) - 1) / 2) * width
        heights = [score.mae[way] for score in result.by_gap_length]
        label = WAYS.get(way, way)
        axes.bar(at, heights, 0.9 * width, color=colours[i % len(colours)], label=label)
    axes.set_xticks(range(len(result.by_gap_length)), [span(s) for s in result.by_gap_length])
    axes.set(ylabel=_measured("mean absolute error", result.unit))
    axes.legend(frameon=False)
    return axes


def _measured(what: str, unit: str | None) -> str:
    return f"{what} ({unit})" if unit else what


def _short(place: object) -> str:
    return f"{place:%Y-%m-%d}" if isinstance(place, pd.Timestamp) else str(place)


def in_short(result: Recovery) -> str:
    """One line: the shape, what was done, how good it is."""
    slots, sensors = result.values.shape
    done = ", ".join(f"{result.count(flag)} {flag}" for flag in FLAGS if result.count(flag))
    said = f"Recovery by {result.method}: {sensors} sensors x {slots} slots; {done}"
    if result.scores:
        ours, *others = result.scores.items()
        errors = ", ".join(f"{WAYS.get(n, n)} {s['mae']:.4g}" for n, s in others)
        said += f"; mean absolute error {ours[1]['mae']:.4g}" + (f" ({errors})" if errors else "")
    return said


def as_html(result: Recovery) -> str:
    """The verdict, a small chart and the scores, for a notebook."""
    parts = [f"<p><b>{escape(in_short(result))}</b></p>"]
    parts += [f"<p>{escape(result.verdict)}</p>"] if result.verdict else []
    parts += [f"<p>{escape(one.sentence)}</p>" for one in result.suspicious]
    parts.append(_sketch(result))
    if result.scores:
        names = {name: WAYS.get(name, name) for name in result.scores}
        scores = pd.DataFrame(result.scores).T.rename(index=names).round(4)
        parts.append(scores.to_html(na_rep=""))
    return f"<div>{''.join(parts)}</div>"


def _sketch(result: Recovery) -> str:
    """The most telling gap with some readings around it, as a small drawing."""
    sensor, first, last = telling(result)
    room = max(3 * (last - first + 1), 24)
    near = slice(max(first - room, 0), last + room + 1)
    values = result.values.iloc[near, sensor].to_numpy(float)
    filled = result.flags.iloc[near, sensor].isin(FILLED).to_numpy()
    low, high = (b.iloc[near, sensor].to_numpy(float) for b in (result.lower, result.upper))
    shown = np.concatenate([values, low, high])
    if not np.isfinite(shown).any() or len(values) < 2:
        return ""
    bottom, top = np.nanmin(shown), np.nanmax(shown)
    x = np.linspace(4, 556, len(values))

    def y(numbers: Any) -> Any:
        return 112 - 104 * (numbers - bottom) / ((top - bottom) or 1.0)

    # A recovered stretch is tied to the readings at its ends.
    tied = filled | np.append(filled[1:], False) | np.insert(filled[:-1], 0, False)
    band = [
        f"M{x[r[0]]:.1f},{y(high[r[0]]):.1f}"
        + "".join(f"L{x[i]:.1f},{y(high[i]):.1f}" for i in r)
        + "".join(f"L{x[i]:.1f},{y(low[i]):.1f}" for i in r[::-1])
        + "Z"
        for r in _runs(tied & np.isfinite(low))
    ]
    name = escape(str(result.values.columns[sensor]))
    label = f"{name}: readings, and a gap that was filled, with its interval"
    return (
        f'<figure style="margin:0"><svg viewBox="0 0 560 120" width="560" role="img" '
        f'aria-label="{label}"><path d="{"".join(band)}" fill="{RECOVERED}" fill-opacity=".25"/>'
        f'<path d="{_line(x, y(values), ~filled)}" fill="none" stroke="{OBSERVED}"/>'
        f'<path d="{_line(x, y(values), tied)}" fill="none" stroke="{RECOVERED}" '
        f'stroke-width="1.6"/></svg><figcaption>{name}: observed in blue, recovered in orange, '
        "with its interval</figcaption></figure>"
    )


def _runs(wanted: Any) -> list[Any]:
    at = np.flatnonzero(wanted)
    return [] if not len(at) else np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)


def _line(x: Any, y: Any, wanted: Any) -> str:
    return "".join(
        "M" + "L".join(f"{x[i]:.1f},{y[i]:.1f}" for i in run)
        for run in _runs(wanted & np.isfinite(y))
    )
