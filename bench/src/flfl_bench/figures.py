"""Figures of an experiment: readable at column width, our method always the vermilion one.

Two equal figures are equal files: no dates, no versions, no random names in them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from scikit_posthocs import critical_difference_diagram

from flfl.methods import methods
from flfl_bench import owners, statistics
from flfl_bench.statistics import OURS
from flfl_bench.tables import short

COLUMN = 3.4
"""Inches: a column of a two-column page."""
OUR_COLOUR = "#D55E00"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: told apart by colour-blind readers too; ours is the vermilion one."""
MARKERS = "sD^vPX"
GREY = "#999999"
_STYLE: dict[Any, Any] = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "legend.fontsize": 6,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "savefig.dpi": 220,
    "svg.fonttype": "path",
    # Names inside an SVG are random without it.
    "svg.hashsalt": "flfl",
}


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name, what it shows, what draws it on an empty one, its height."""

    name: str
    caption: str
    draw: Callable[[Any], None]
    height: float


def render(picture: Picture, kind: str) -> bytes:
    """The file of a figure, ``"png"`` or ``"svg"``."""
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        figure = Figure(figsize=(COLUMN, picture.height), layout="constrained")
        FigureCanvasAgg(figure)
        picture.draw(figure)
        for text in figure.findobj(Text):
            # No ligature in our name; Matplotlib before 3.11 draws none.
            if hasattr(text, "set_fontfeatures"):
                text.set_fontfeatures(["-liga"])
        file = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(file, format=kind, metadata=metadata)
    return file.getvalue()


@dataclass(frozen=True)
class Look:
    """Colour, marker and weight of a method's line."""

    color: str
    marker: str
    linewidth: float
    zorder: int

    def line(self) -> dict[str, Any]:
        """Keywords of ``plot``."""
        return vars(self) | {"markersize": 4.5 if self.color == OUR_COLOUR else 3.0}


def looks(labels: Sequence[str], grey: Sequence[str] = ()) -> dict[str, Look]:
    """How each label is drawn: ours thick and vermilion, the others in colour while they last."""
    found = {OURS: Look(OUR_COLOUR, "o", 1.8, 5)}
    others = [label for label in labels if label != OURS and label not in grey]
    for label, colour, marker in zip(others, COLOURS, MARKERS, strict=False):
        found[label] = Look(colour, marker, 1.0, 4)
    return {label: found.get(label, Look(GREY, ".", 0.6, 2)) for label in [OURS, *labels]}


def rates(rows: pd.DataFrame, pattern: str) -> Picture:
    """Error against rate, a panel for each data set."""
    own = rows[rows["pattern"] == pattern]
    data = list(dict.fromkeys(own["data"]))
    table = statistics.scores(own).replace(np.inf, np.nan)
    # Methods that were run at every rate are worth a colour: they make lines.
    found = own.groupby("label", sort=False)["rate"].nunique()
    known = found.sort_values(ascending=False, kind="stable")
    look = looks(list(known.index), grey=list(known.index[known < known.max()]))
    lines = -(-len(data) // 2)

    def draw(figure: Any) -> None:
        axes = figure.subplots(lines, min(2, len(data)), squeeze=False).ravel()
        for axis, name in zip(axes, data, strict=False):
            panel = table.xs((name, pattern), level=("data", "pattern"))
            for label in reversed(known.index):
                values = panel[label].dropna().sort_index()
                axis.plot(values.index, values, label=label, **look[label].line())
            axis.set_title(short(name))
            _plain_log(axis)
            axis.set_xticks(sorted(own["rate"].unique())[:: max(1, panel.shape[0] // 5)])
        for axis in axes[len(data) :]:
            axis.set_visible(False)
        for axis in axes[max(0, len(data) - 2) : len(data)]:
            axis.set_xlabel("share of readings kept")
        for axis in axes[::2]:
            axis.set_ylabel("MAE")
        _legend(figure, axes[0], look)

    caption = f"MAE against the share of readings kept, {pattern} gaps; mean over seeds"
    return Picture(f"rates-{pattern}", caption, draw, 1.5 * lines + 0.7)


def _legend(figure: Any, axis: Any, look: dict[str, Look]) -> None:
    handles, labels = axis.get_legend_handles_labels()
    drawn = dict(zip(labels, handles, strict=True))
    named = [label for label, one in look.items() if one.color != GREY and label in drawn]
    shown = {label: drawn[label] for label in named}
    grey = [label for label in drawn if look[label].color == GREY]
    if grey:
        shown["others" if len(grey) > 1 else grey[0]] = drawn[grey[0]]
    figure.legend(
        list(shown.values()), list(shown), loc="outside lower center", ncols=min(4, len(shown))
    )


_STEPS = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7), tuple(np.arange(1, 10, 0.2).round(1)))
"""Numbers that may stand on a logarithmic axis, the more of them the less it spans."""


def _plain_log(axes: Any) -> None:
    """A logarithmic y axis with ordinary numbers, few of them but at least two."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    for steps in _STEPS:
        ticks = [m * 10.0**e for e in range(-6, 7) for m in steps if low <= m * 10.0**e <= high]
        if len(ticks) >= 2:
            break
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([], minor=True)


def parts(rows: pd.DataFrame, method: str) -> Picture:
    """What leaving out each part costs: a bar for the mean, a dot for each case."""
    own = rows[rows["method"] == method]
    table = statistics.scores(own).replace(np.inf, np.nan)
    change = 100 * (table.div(table[method], axis=0) - 1).drop(columns=method)
    order = change.mean().sort_values(kind="stable").index

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        places = np.arange(len(order))
        mean = change[order].mean().to_numpy()
        colours = [OUR_COLOUR if value > 0 else COLOURS[0] for value in mean]
        axis.barh(places, mean, color=colours, height=0.6, alpha=0.75)
        for place, label in zip(places, order, strict=True):
            values = change[label].dropna()
            axis.plot(values, np.full(len(values), place), "k.", markersize=2.5)
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set_yticks(places, [label.removeprefix(f"{method}: ") for label in order])
        axis.set_xlabel(f"change of MAE against {method} (%)")

    caption = f"{method} with a part changed: mean over cases (bars) and each case (dots)"
    return Picture(f"parts-{method}", caption, draw, 0.6 + 0.17 * len(order))


def relative_error(rows: pd.DataFrame) -> pd.Series:
    """Geometric mean over the common cases of each label's MAE over ours.

    A label that failed in one of them has none, and takes the case from nobody else.
    """
    table = statistics.paired_scores(rows)
    table = table[np.isfinite(table[OURS])]
    common = table.dropna() if len(table.dropna()) else table
    found = np.exp(np.log(common.div(common[OURS], axis=0)).mean())
    return found[np.isfinite(found)]


def against(rows: pd.DataFrame, column: str) -> Picture:
    """Error against what a method costs: processor seconds, or bytes that are moved."""
    fine = rows[rows["failed"].isna()]
    moved = fine["bytes_up"] + fine["bytes_down"]
    # Seconds on the clock depend on who else used the machine.
    priced = fine.assign(bytes=moved / 1e6, seconds=fine["cpu_seconds"])
    cost = priced.groupby("label", sort=False)[column].median()
    error = relative_error(rows)
    method = fine.groupby("label", sort=False)["method"].first()
    shown = [label for label in error.index if cost.get(label, 0) > 0]
    words = {
        "bytes": "MB moved between owners and coordinator",
        "seconds": "processor seconds, tuning included",
    }

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        axis.set(xscale="log", xlabel=words[column], ylabel="MAE / MAE of flfl")
        for kind, (colour, marker) in _KINDS.items():
            own = [label for label in shown if _kind(label, method[label]) == kind]
            if own:
                size = 6 if kind == OURS else 4
                axis.plot(cost[own], error[own], marker, color=colour, markersize=size, label=kind)
        axis.axhline(1, color=GREY, linewidth=0.5, linestyle=":")
        axis.margins(x=0.15, y=0.12)
        _plain_log(axis)
        _name_points(figure, axis, [(label, cost[label], error[label]) for label in shown])
        figure.legend(loc="outside lower center", ncols=4)

    caption = f"MAE over that of flfl (geometric mean over cases) against {words[column]} (median)"
    return Picture(column, caption, draw, 3.0)


_KINDS = {
    OURS: (OUR_COLOUR, "o"),
    "federated": (COLOURS[0], "s"),
    "pooled": (COLOURS[1], "D"),
    "nothing shared": (GREY, "^"),
}


def _kind(label: str, method: str) -> str:
    if label == OURS:
        return OURS
    known = methods()[method]
    return "federated" if known.federated else "pooled" if known.pooled else "nothing shared"


def _name_points(figure: Any, axis: Any, points: Sequence[tuple[str, float, float]]) -> None:
    """A name beside each point, at the nearest place where it covers nothing."""
    figure.canvas.draw()
    unit = figure.dpi / 72
    pixels = [axis.transData.transform((x, y)) for _, x, y in points]
    taken = [(x - 2 * unit, x + 2 * unit, y - 2 * unit, y + 2 * unit) for x, y in pixels]
    for (text, x, y), (left, level) in zip(points, pixels, strict=True):
        wide, high = 3.6 * len(text) * unit, 6.5 * unit
        places = [
            (side, shift * high / 2)
            for shift in sorted(range(-16, 17), key=abs)
            for side in (5 * unit, -5 * unit - wide)
        ]
        boxes = {
            (dx, dy): (left + dx, left + dx + wide, level + dy - high / 2, level + dy + high / 2)
            for dx, dy in places
        }
        dx, dy = next((at for at in places if not _covers(boxes[at], taken)), places[0])
        taken.append(boxes[dx, dy])
        axis.annotate(
            text, (x, y), xytext=(dx / unit, dy / unit), textcoords="offset points", fontsize=6,
            va="center", color=OUR_COLOUR if text == OURS else "black",
            arrowprops={"arrowstyle": "-", "linewidth": 0.3, "color": GREY} if dy else None,
        )  # fmt: skip


def _covers(box: Sequence[float], others: Sequence[Sequence[float]]) -> bool:
    left, right, low, high = box
    return any(
        left < their_right and their_left < right and low < their_high and their_low < high
        for their_left, their_right, their_low, their_high in others
    )


def exposure(rows: pd.DataFrame) -> Picture:
    """What noise costs and what it hides: error against alone, and what everybody else reads."""
    audited = rows[rows["everybody_median"].notna() & rows["failed"].isna()]
    audited = audited[~audited["label"].str.startswith("share")]
    audited = audited.assign(
        noise=audited["label"].map(owners.added_error),
        change=np.log(audited["mae"] / audited["alone_mae"]),
    )

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        points = []
        looked = (
            ("owners of single sensors", OUR_COLOUR, "o"),
            ("agencies or regions", COLOURS[0], "s"),
        )
        for single, (name, colour, marker) in zip((True, False), looked, strict=True):
            own = audited[(audited["owners"] == "1") == single]
            line = own.groupby("noise")[["everybody_median", "change"]].mean()
            change = 100 * np.expm1(line["change"])
            axis.plot(line["everybody_median"], change, color=colour, marker=marker, label=name)
            points += [
                (f"{at:g}", float(x), float(y))
                for at, x, y in zip(line.index, line["everybody_median"], change, strict=True)
            ]
        axis.axhline(0, color=GREY, linewidth=0.6, linestyle=":")
        axis.set_xlabel("R^2 that everybody else reads (median sensor)")
        axis.set_ylabel("error against alone (%)")
        axis.set_xlim(-0.03, 1.08)
        axis.margins(y=0.15)
        _name_points(figure, axis, points)
        figure.legend(loc="outside lower center", ncols=2)

    caption = (
        "What noise costs and what it hides: error against owners alone, and what all others"
        " together, with everything but this sensor in their hands, read of it; numbers: the added"
        f" error; networks: {audited['data'].nunique()}"
    )
    return Picture("exposure", caption, draw, 2.6)


def scaling(rows: pd.DataFrame) -> Picture:
    """Seconds and memory as sensors, and as slots, grow."""
    fine = rows[rows["failed"].isna()]
    label_order = list(dict.fromkeys(fine["label"]))
    look = looks(label_order)
    middle = {"sensors": _usual(fine["slots"]), "slots": _usual(fine["sensors"])}

    def draw(figure: Any) -> None:
        axes = figure.subplots(2, 2, sharey="row")
        for column, (grows, other) in enumerate((("sensors", "slots"), ("slots", "sensors"))):
            part = fine[fine[other] == middle[grows]]
            for axis, what in zip(axes[:, column], ("cpu_seconds", "peak_mb"), strict=True):
                for label in reversed(label_order):
                    line = part[part["label"] == label].groupby(grows)[what].median()
                    axis.plot(line.index, line, label=label, **look[label].line())
                axis.set(xscale="log", yscale="log")
                axis.set_xticks(sorted(part[grows].unique()))
                axis.xaxis.set_major_formatter("{x:g}")
                axis.xaxis.set_minor_formatter("")
            axes[0, column].set_title(f"{middle[grows]} {other}")
            axes[1, column].set_xlabel(grows)
        axes[0, 0].set_ylabel("processor seconds")
        axes[1, 0].set_ylabel("peak memory (MB)")
        _legend(figure, axes[0, 0], look)

    return Picture("scaling", "Time and memory as the network grows", draw, 3.4)


_PLACES = {
    "compact": "sensors side by side",
    "interleaved": "sensors interleaved",
}


def protection(rows: pd.DataFrame) -> list[Picture]:
    """What the noise costs: how much of the pooled gain is left, by the added error."""
    found = list(owners.by_noise(owners.paired(rows)))
    if len({noise for _, noise, _ in found}) < 2:
        return []

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for kind, colour, marker in zip(owners.KINDS, (OUR_COLOUR, COLOURS[0]), "os", strict=True):
            own = [(noise, one) for name, noise, one in found if name == kind]
            noise = [at for at, _ in own]
            closed = np.array([100 * one.closed for _, one in own])
            ends = 100 * np.array([one.intervals[-1] for _, one in own]).T
            axis.errorbar(
                noise, closed, np.abs(ends - closed), color=colour, marker=marker, capsize=2,
                label=f"owners of {kind}", elinewidth=0.8,
            )  # fmt: skip
        axis.axhline(100, color=GREY, linewidth=0.6, linestyle=":")
        axis.annotate(
            "all readings pooled", (0.99, 100), xycoords=("axes fraction", "data"), xytext=(0, 2),
            textcoords="offset points", fontsize=6, color="#555555", ha="right",
        )  # fmt: skip
        axis.set_xlabel("added error (multiples of a sensor's own error in time)")
        axis.set_ylabel("of the pooled gain (%)")
        axis.set_xticks(sorted({noise for _, noise, _ in found}))
        axis.set_ylim(0, 1.08 * max(axis.get_ylim()[1], 100))
        figure.legend(loc="outside lower center", ncols=2)

    caption = (
        "What protection costs: the share of the pooled gain that is left as owners add more noise"
        " to what leaves them; 95 % intervals"
    )
    return [Picture("protection", caption, draw, 2.2)]


def ownership(rows: pd.DataFrame) -> list[Picture]:
    """What an owner gains, by how many sensors it has: of what pooling would gain, how much."""
    pairs = owners.paired(rows)
    half = pairs["pattern"].isin(("random", "block")) & pairs["size"].notna()
    pairs = pairs[(pairs["label"] == OURS) & half]
    found = _by_size(pairs)
    places = [how for how in _PLACES if any(key[0] == how for key in found)]
    if not places:
        return []

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
        for axis, how in zip(axes, places, strict=True):
            _gains(axis, {size: one for (place, size), one in found.items() if place in (how, "")})
            axis.set(title=_PLACES[how], xlabel="sensors that you own")
        axes[0].set_ylabel("error lower than alone (%)")
        axes[0].margins(y=0.12)
        handles, labels = axes[0].get_legend_handles_labels()
        shown = dict(zip(labels, handles, strict=True))
        figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=2)

    caption = (
        "What you gain, by how many sensors you own: error on hidden readings against what each"
        f" owner reaches alone, mean over {pairs['data'].nunique()} networks, half of the readings"
        " missing (one by one and in blocks); line: 95 % interval; bold: the share of the pooled"
        " gain"
    )
    return [Picture("owners", caption, draw, 2.4)]


def _by_size(pairs: pd.DataFrame) -> dict[tuple[str, float], owners.Worth]:
    """What it is worth by place and size, where all cases were run: else means do not compare."""
    cases = len(pairs.groupby(["data", "pattern"]))
    found = {}
    for (how, size), own in pairs.dropna(subset="size").groupby(["how", "size"]):
        worth = owners.worth(own)
        if worth is not None and len(own.groupby(["data", "pattern"])) == cases:
            found[str(how), float(size)] = worth  # type: ignore[arg-type]
    return found


def _gains(axis: Any, found: dict[float, owners.Worth]) -> None:
    """A bar for what pooling gains, one in it for what we do, and the share above."""
    for place, (_, one) in enumerate(sorted(found.items())):
        gain, pooled = 100 * one.gain, 100 * one.pooled_gain
        axis.bar(place, pooled, 0.8, color="#CCCCCC", label="if all readings were pooled")
        axis.bar(place, gain, 0.5, color=OUR_COLOUR, label="flfl: readings stay at home")
        low, high = (100 * end for end in one.intervals[0])
        axis.plot([place, place], [low, high], color="black", linewidth=0.8)
        axis.annotate(
            f"{100 * one.closed:.0f} %" if np.isfinite(one.closed) else "",
            (place, max(gain, pooled, high, 0.0)), xytext=(0, 2), textcoords="offset points",
            ha="center", fontsize=6, fontweight="bold",
        )  # fmt: skip
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_xticks(range(len(found)), [f"{size:g}" for size in sorted(found)])
    axis.set_xlim(-0.6, len(found) - 0.4)


def _usual(sizes: pd.Series) -> int:
    return int(sizes.mode().iloc[0])


def ranks(rows: pd.DataFrame, metric: str = "mae") -> Picture | None:
    """Mean ranks on an axis; a bar joins methods that Nemenyi's test does not tell apart."""
    found = statistics.rank(statistics.paired_scores(rows, metric))
    if found is None:
        return None

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        colours = {label: OUR_COLOUR if label == OURS else "black" for label in found.ranks}
        critical_difference_diagram(
            found.ranks,
            found.nemenyi,
            ax=axis,
            label_fmt_left="{label}  {rank:.1f}",
            label_fmt_right="{rank:.1f}  {label}",
            label_props={"fontsize": 6},
            elbow_props={"linewidth": 0.6},
            marker_props={"s": 4},
            color_palette=colours,
        )
        axis.tick_params(labelsize=6)

    caption = (
        f"Mean ranks of {metric.upper()} over {found.cases} cases; a bar joins methods that"
        " Nemenyi's test does not tell apart at 5 %"
    )
    return Picture("ranks", caption, draw, 0.9 + 0.09 * len(found.ranks))
