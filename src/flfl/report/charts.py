"""The page's charts, in Bokeh: the one file that imports it.

The charts are made empty where their data are large: the page's script fills them from the packed
readings. Text that comes from the user's files is ``PlainText``: Bokeh reads ``$$`` in an ordinary
string as mathematics and would ask the network for a typesetter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from bokeh import models
from bokeh.embed import json_item
from bokeh.palettes import Cividis256
from bokeh.plotting import figure
from bokeh.resources import INLINE
from bokeh.transform import dodge
from numpy.typing import NDArray

from flfl.recovery import GapScore
from flfl.report.outlines import outlines

Array = NDArray[np.float64]
Chart: TypeAlias = figure

_TALL = 420
_MOST_NAMES = 60
_LONGEST_NAME = 16


@dataclass(frozen=True)
class Axis:
    """The time axis: the ends of its first and last slot, the usual step, and what it is called."""

    low: float
    high: float
    step: float
    label: str
    is_time: bool

    @classmethod
    def of(cls, index: pd.Index, places: Array) -> Axis:
        """The axis of a table, whose slots have these places on it."""
        step = float(np.median(np.diff(places))) if len(places) > 1 else 1.0
        low, high = float(places[0]) - step / 2, float(places[-1]) + step / 2
        if not isinstance(index, pd.DatetimeIndex):
            return cls(low, high, step, "slot", is_time=False)
        return cls(low, high, step, "time" if index.tz is None else "time (UTC)", is_time=True)


def library() -> str:
    """Bokeh itself, without its widgets, tables, WebGL and typesetter: none is used here."""
    (core,) = (text for text in INLINE.clone(components=["bokeh"]).js_raw if len(text) > 100_000)
    return core


def as_text(chart: Chart, place: str) -> str:
    """A chart for the element with this id, as JSON."""
    return json.dumps(json_item(chart, place))


def _chart(name: str, height: int, axis: Axis | None = None, **options: Any) -> Chart:
    """An empty chart, as wide as its place; along time where an axis is given."""
    options = {"tools": [], "toolbar_location": None, "sizing_mode": "stretch_width"} | options
    if axis is None:
        return figure(name=name, height=height, **options)
    kind = "datetime" if axis.is_time else "linear"
    chart = figure(name=name, height=height, x_axis_type=kind, x_axis_label=axis.label, **options)
    if axis.is_time:
        chart.xaxis.formatter = models.DatetimeTickFormatter(
            hourmin="%H:%M", hours="%H:%M", days="%d %b", months="%b %Y", years="%Y"
        )
    return chart


def sensor_map(coordinates: Array, kind: str) -> Chart:
    """Sensors where they stand, equal scales in both directions; coloured by the script."""
    if kind == "latlon":
        (y, x), labels = coordinates.T, ("longitude (°)", "latitude (°)")
        # Near its middle a map is true to scale when degrees of longitude are shortened so.
        shorten = float(np.cos(np.deg2rad(np.clip(np.nanmean(y), -80, 80))))
    else:
        (x, y), labels, shorten = coordinates.T, ("x (m)", "y (m)"), 1.0
    chart = _chart(
        "map",
        _TALL,
        match_aspect=True,
        aspect_scale=shorten,
        tools=[models.TapTool(callback=None)],
        x_axis_label=labels[0],
        y_axis_label=labels[1],
    )
    chart.x_range.range_padding = chart.y_range.range_padding = 0.08
    if kind == "latlon":
        _draw_outlines(chart, x, y)
    columns = {"x": x, "y": y, "colour": np.full(len(x), np.nan), "name": [""] * len(x)}
    points = models.ColumnDataSource(columns, name="map-points")
    mapper = models.LinearColorMapper(palette=Cividis256, name="map-colours", low=0, high=1)
    dot = float(np.clip(100 / np.sqrt(len(x)), 5, 13))
    drawn = chart.scatter(
        "x", "y", source=points, size=dot, line_width=1, name="map-dots",
        fill_color={"field": "colour", "transform": mapper},
    )  # fmt: skip
    # The sensors alone say how far the map reaches.
    chart.x_range.renderers = chart.y_range.renderers = [drawn]
    drawn.nonselection_glyph = drawn.selection_glyph = None
    ring = {"source": _empty("map-ring", "x", "y"), "size": dot + 9, "name": "map-chosen"}
    chart.scatter("x", "y", line_width=3, fill_alpha=0, **ring)
    tips = [("sensor", "@name"), ("shown", "@shown")]
    chart.add_tools(models.HoverTool(renderers=[drawn], tooltips=tips))
    bar = models.ColorBar(color_mapper=mapper, width=10, name="map-bar", padding=8)
    chart.add_layout(bar, "right")
    points.selected.js_on_change("indices", _event("flfl-map"))
    return chart


def _draw_outlines(chart: Chart, x: Array, y: Array) -> None:
    """Coasts and borders around the sensors, some way beyond them: the map may be wider."""
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    wide, tall = float(np.ptp(x)) or 1.0, float(np.ptp(y)) or 1.0
    west, east = float(x.min()) - 2 * wide, float(x.max()) + 2 * wide
    south, north = float(y.min()) - 2 * tall, float(y.max()) + 2 * tall
    lines = outlines(west, south, east, north)
    drawn = {
        "x": [np.round(line[:, 0], 3).tolist() for line in lines],
        "y": [np.round(line[:, 1], 3).tolist() for line in lines],
    }
    source = models.ColumnDataSource(drawn)
    chart.multi_line("x", "y", source=source, line_width=1, name="map-outline")


def series(axis: Axis, unit: str | None) -> Chart:
    """One sensor: observed points, the recovered line in its interval, refused stretches."""
    bounds = (axis.low, axis.high)
    chart = _chart(
        "series",
        _TALL,
        axis,
        x_range=models.Range1d(*bounds, bounds=bounds, min_interval=3 * axis.step),
        y_range=models.Range1d(0, 1),
        toolbar_location="right",
        y_axis_label=_measured("reading", unit),
    )
    pan = models.PanTool(dimensions="width")
    wheel = models.WheelZoomTool(dimensions="width", modifiers={"ctrl": True})
    chart.add_tools(pan, models.BoxZoomTool(dimensions="width"), wheel)
    chart.toolbar.active_drag, chart.toolbar.active_scroll = pan, wheel
    chart.toolbar.logo = None
    _draw_series(chart, axis)
    for end in ("start", "end"):
        chart.x_range.js_on_change(end, _event("flfl-view"))
    return chart


def _draw_series(chart: Chart, axis: Axis) -> None:
    chart.vstrip(
        x0="x0", x1="x1", source=_empty("refused", "x0", "x1"), name="draw-refused",
        hatch_pattern="right_diagonal_line", hatch_scale=8, hatch_weight=1, line_width=0,
    )  # fmt: skip
    chart.vstrip(
        x0="x0", x1="x1", source=_empty("extrapolated", "x0", "x1"), name="draw-extrapolated",
        line_width=0,
    )  # fmt: skip
    chart.patch("x", "y", source=_empty("band", "x", "y"), name="draw-band", line_width=0)
    chart.line("x", "y", source=_empty("line", "x", "y"), name="draw-line", line_width=1.5)
    when = ("at", "@x{%F %H:%M}" if axis.is_time else "@x{0.[000]}")
    formatters = {"@x": "datetime" if axis.is_time else "numeral"}
    for flag, marker in {"observed": "circle", "recovered": "diamond"}.items():
        look = {"marker": marker, "size": 4, "line_width": 0, "name": f"draw-{flag}"}
        drawn = chart.scatter("x", "y", source=_empty(flag, "x", "y", "text"), **look)
        tips = {"tooltips": [(flag, "@text"), when], "formatters": formatters, "mode": "mouse"}
        chart.add_tools(models.HoverTool(renderers=[drawn], visible=False, **tips))


def heat_map(shares: NDArray[np.uint8], axis: Axis, names: Sequence[str]) -> Chart:
    """Sensors x time: what was observed, recovered, refused. ``shares`` as in ``coverage``."""
    rows = len(names)
    chart = _chart(
        "heat",
        int(np.clip(13 * rows, 120, 720)) + 60,
        axis,
        x_range=models.Range1d(axis.low, axis.high),
        y_range=models.Range1d(rows, 0),
    )
    mapper = models.LinearColorMapper(palette=["#000000"] * 26, low=0, high=25, name="heat-colours")
    # Bokeh draws an image upwards from y, and this axis runs downwards.
    wide = axis.high - axis.low
    chart.image(image=[shares], x=axis.low, y=0, dw=wide, dh=rows, color_mapper=mapper)
    every = -(-rows // _MOST_NAMES)
    ticks = [row + 0.5 for row in range(0, rows, every)]
    chart.yaxis.ticker = models.FixedTicker(ticks=ticks)
    texts = {tick: models.PlainText(text=_short(names[int(tick)])) for tick in ticks}
    chart.yaxis.major_label_overrides = texts
    chart.yaxis.major_tick_line_color = None
    chart.grid.visible = False
    chart.add_layout(models.BoxAnnotation(name="heat-window", level="overlay", line_width=1.5))
    row = {"name": "heat-row", "fill_alpha": 0, "line_width": 2, "line_alpha": 1}
    chart.add_layout(models.BoxAnnotation(level="overlay", **row))
    chart.js_on_event("tap", _event("flfl-heat", "cb_obj.y"))
    return chart


def gap_scores(scores: Sequence[GapScore], ways: Sequence[str], unit: str | None) -> Chart:
    """Error on hidden readings by length of their gap, one bar for each way to recover."""
    labels = [_lengths(score) for score in scores]
    columns = zip(*(score.mae.values() for score in scores), strict=True)
    errors = {way: list(column) for way, column in zip(ways, columns, strict=True)}
    chart = _chart(
        "gaps",
        300,
        x_range=models.FactorRange(factors=labels),
        x_axis_label="length of the gap (slots)",
        y_axis_label=_measured("mean absolute error", unit),
    )
    source = models.ColumnDataSource({"gap": labels} | errors)
    step = 0.84 / max(len(errors), 1)
    for i, name in enumerate(errors):
        bars = chart.vbar(
            x=dodge("gap", step * (i - (len(errors) - 1) / 2), range=chart.x_range),
            top=name, source=source, width=0.9 * step, line_width=0, name=f"bars-{i}",
        )  # fmt: skip
        tips = [("gap", "@gap"), (name, f"@{{{name}}}{{0.[000]}}")]
        chart.add_tools(models.HoverTool(renderers=[bars], tooltips=tips, visible=False))
    chart.y_range.start = 0
    chart.xgrid.visible = False
    return chart


def _empty(name: str, *columns: str) -> models.ColumnDataSource:
    """Data that the page's script fills in."""
    return models.ColumnDataSource({column: [] for column in columns}, name=name)


def _measured(what: str, unit: str | None) -> models.PlainText:
    return models.PlainText(text=what if unit is None else f"{what} ({unit})")


def _lengths(score: GapScore) -> str:
    if score.longest is None:
        return f"{score.shortest}+"
    several = score.longest != score.shortest
    return f"{score.shortest}-{score.longest}" if several else f"{score.shortest}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _event(name: str, detail: str = "null") -> models.CustomJS:
    """Bokeh's event as one of the page's own, for the page's script to hear."""
    event = f"new CustomEvent({json.dumps(name)}, {{detail: {detail}}})"
    return models.CustomJS(code=f"document.dispatchEvent({event})")
