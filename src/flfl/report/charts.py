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
from bokeh.embed import json_item
from bokeh.models import (
    BoxAnnotation,
    BoxZoomTool,
    ColorBar,
    ColumnDataSource,
    CustomJS,
    DatetimeTickFormatter,
    FactorRange,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    PanTool,
    PlainText,
    Range1d,
    TapTool,
    WheelZoomTool,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure
from bokeh.resources import INLINE
from bokeh.transform import dodge
from numpy.typing import NDArray

Array = NDArray[np.float64]
Chart: TypeAlias = figure

_TALL = 420
_MOST_NAMES = 60
_LONGEST_NAME = 16


@dataclass(frozen=True)
class Axis:
    """The time axis: its ends, and what it is called."""

    start: float
    end: float
    step: float
    label: str
    is_time: bool

    @property
    def type(self) -> str:
        """In Bokeh's words."""
        return "datetime" if self.is_time else "linear"

    @property
    def edges(self) -> tuple[float, float]:
        """The ends of the first and the last slot."""
        return self.start - self.step / 2, self.end + self.step / 2


def library() -> str:
    """Bokeh itself, without its widgets, tables, WebGL and typesetter: none is used here."""
    (core,) = (text for text in INLINE.clone(components=["bokeh"]).js_raw if len(text) > 100_000)
    return core


def as_text(chart: Chart, place: str) -> str:
    """A chart for the element with this id, as JSON."""
    return json.dumps(json_item(chart, place))


def sensor_map(coordinates: Array, kind: str) -> Chart:
    """Sensors where they stand, equal scales in both directions; coloured by the script."""
    if kind == "latlon":
        (y, x), labels = coordinates.T, ("longitude (°)", "latitude (°)")
        # Near its middle a map is true to scale when degrees of longitude are shortened so.
        shorten = float(np.cos(np.deg2rad(np.clip(y.mean(), -80, 80))))
    else:
        (x, y), labels, shorten = coordinates.T, ("x (m)", "y (m)"), 1.0
    chart = figure(
        name="map",
        height=_TALL,
        match_aspect=True,
        aspect_scale=shorten,
        tools=[TapTool(callback=None)],
        toolbar_location=None,
        x_axis_label=labels[0],
        y_axis_label=labels[1],
        sizing_mode="stretch_width",
    )
    chart.x_range.range_padding = chart.y_range.range_padding = 0.08
    points = ColumnDataSource(
        {"x": x, "y": y, "colour": np.full(len(x), np.nan), "name": [""] * len(x)},
        name="map-points",
    )
    mapper = LinearColorMapper(palette=Cividis256, name="map-colours", low=0, high=1)
    dot = float(np.clip(100 / np.sqrt(len(x)), 5, 13))
    drawn = chart.scatter(
        "x", "y", source=points, size=dot, line_width=1, name="map-dots",
        fill_color={"field": "colour", "transform": mapper},
    )  # fmt: skip
    drawn.nonselection_glyph = drawn.selection_glyph = None
    ring = ColumnDataSource({"x": [], "y": []}, name="map-ring")
    chart.scatter(
        "x", "y", source=ring, size=dot + 9, line_width=3, fill_alpha=0, name="map-chosen"
    )
    chart.add_tools(
        HoverTool(renderers=[drawn], tooltips=[("sensor", "@name"), ("shown", "@shown")])
    )
    chart.add_layout(ColorBar(color_mapper=mapper, width=10, name="map-bar", padding=8), "right")
    _tell(points.selected, "indices", "flfl-map")
    return chart


def series(axis: Axis, unit: str | None) -> Chart:
    """One sensor: observed points, the recovered line in its interval, refused stretches."""
    low, high = axis.edges
    chart = figure(
        name="series",
        height=_TALL,
        x_axis_type=axis.type,
        x_range=Range1d(low, high, bounds=(low, high), min_interval=3 * axis.step),
        y_range=Range1d(0, 1),
        tools=[],
        toolbar_location="right",
        sizing_mode="stretch_width",
        x_axis_label=axis.label,
        y_axis_label=_measured("reading", unit),
    )
    _label_times(chart, axis)
    pan, wheel = (
        PanTool(dimensions="width"),
        WheelZoomTool(dimensions="width", modifiers={"ctrl": True}),
    )
    chart.add_tools(pan, BoxZoomTool(dimensions="width"), wheel)
    chart.toolbar.active_drag, chart.toolbar.active_scroll = pan, wheel
    chart.toolbar.logo = None
    _draw_series(chart, axis)
    for end in ("start", "end"):
        _tell(chart.x_range, end, "flfl-view")
    return chart


def _draw_series(chart: Chart, axis: Axis) -> None:
    strips = ColumnDataSource({"x0": [], "x1": []}, name="refused")
    chart.vstrip(
        x0="x0", x1="x1", source=strips, name="draw-refused",
        hatch_pattern="right_diagonal_line", hatch_scale=8, hatch_weight=1, line_width=0,
    )  # fmt: skip
    band = ColumnDataSource({"x": [], "y": []}, name="band")
    chart.patch("x", "y", source=band, name="draw-band", line_width=0)
    line = ColumnDataSource({"x": [], "y": []}, name="line")
    chart.line("x", "y", source=line, name="draw-line", line_width=1.5)
    marks = {}
    for flag, marker in {"observed": "circle", "recovered": "diamond"}.items():
        points = ColumnDataSource({"x": [], "y": [], "text": []}, name=flag)
        marks[flag] = chart.scatter(
            "x", "y", source=points, marker=marker, size=4, line_width=0,
            name=f"draw-{flag}",
        )  # fmt: skip
    when = ("at", "@x{%F %H:%M}" if axis.is_time else "@x{0.[000]}")
    for flag, drawn in marks.items():
        chart.add_tools(
            HoverTool(
                renderers=[drawn],
                tooltips=[(flag, "@text"), when],
                formatters={"@x": "datetime" if axis.is_time else "numeral"},
                mode="mouse",
                visible=False,
            )
        )


def heat_map(shares: NDArray[np.uint8], axis: Axis, names: Sequence[str]) -> Chart:
    """Sensors x time: what was observed, recovered, refused. ``shares`` as in ``coverage``."""
    low, high = axis.edges
    rows = len(names)
    chart = figure(
        name="heat",
        height=int(np.clip(13 * rows, 120, 720)) + 60,
        x_axis_type=axis.type,
        x_range=Range1d(low, high),
        y_range=Range1d(rows, 0),
        tools=[],
        toolbar_location=None,
        sizing_mode="stretch_width",
        x_axis_label=axis.label,
    )
    _label_times(chart, axis)
    mapper = LinearColorMapper(palette=["#000000"] * 26, low=0, high=25, name="heat-colours")
    # Bokeh draws an image upwards from y, and this axis runs downwards.
    chart.image(image=[shares], x=low, y=0, dw=high - low, dh=rows, color_mapper=mapper)
    every = -(-rows // _MOST_NAMES)
    ticks = [row + 0.5 for row in range(0, rows, every)]
    chart.yaxis.ticker = FixedTicker(ticks=ticks)
    chart.yaxis.major_label_overrides = {
        tick: PlainText(text=_short(names[int(tick)])) for tick in ticks
    }
    chart.yaxis.major_tick_line_color = None
    chart.grid.visible = False
    chart.add_layout(BoxAnnotation(name="heat-window", level="overlay", line_width=1.5))
    chart.add_layout(
        BoxAnnotation(name="heat-row", level="overlay", fill_alpha=0, line_width=2, line_alpha=1)
    )
    chart.js_on_event("tap", _event("flfl-heat", "cb_obj.y"))
    return chart


def gap_scores(labels: Sequence[str], errors: dict[str, list[float]], unit: str | None) -> Chart:
    """Error on hidden readings by length of their gap, a bar a method."""
    data: dict[str, Any] = {"gap": list(labels)} | errors
    chart = figure(
        name="gaps",
        height=300,
        x_range=FactorRange(factors=list(labels)),
        tools=[],
        toolbar_location=None,
        sizing_mode="stretch_width",
        x_axis_label="length of the gap (slots)",
        y_axis_label=_measured("mean absolute error", unit),
    )
    source = ColumnDataSource(data)
    for i, name in enumerate(errors):
        bars = chart.vbar(
            x=dodge("gap", 0.27 * (i - (len(errors) - 1) / 2), range=chart.x_range),
            top=name, source=source, width=0.24, line_width=0, name=f"bars-{i}",
        )  # fmt: skip
        chart.add_tools(
            HoverTool(
                renderers=[bars],
                tooltips=[("gap", "@gap"), (name, f"@{{{name}}}{{0.[000]}}")],
                visible=False,
            )
        )
    chart.y_range.start = 0
    chart.xgrid.visible = False
    return chart


def _label_times(chart: Chart, axis: Axis) -> None:
    if axis.is_time:
        chart.xaxis.formatter = DatetimeTickFormatter(
            hourmin="%H:%M", hours="%H:%M", days="%d %b", months="%b %Y", years="%Y"
        )


def _measured(what: str, unit: str | None) -> PlainText:
    return PlainText(text=what if unit is None else f"{what} ({unit})")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _event(name: str, detail: str = "null") -> CustomJS:
    """Bokeh's event as one of the page's own, for the page's script to hear."""
    return CustomJS(
        code=f"document.dispatchEvent(new CustomEvent({json.dumps(name)}, {{detail: {detail}}}))"
    )


def _tell(model: Any, name: str, event: str) -> None:
    model.js_on_change(name, _event(event))
