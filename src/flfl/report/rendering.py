"""A run drawn and written down: charts, packed readings and words in one page."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.recovery import GapScore, Recovery
from flfl.report import charts, template
from flfl.report.content import Content
from flfl.report.coverage import coverage
from flfl.report.packing import flag_codes, pack, runs, stamps

Array = NDArray[np.float64]


def render(result: Recovery, table: Table, sensors: Sensors, content: Content) -> str:
    """The page as text."""
    places, codes = stamps(table.values.index), flag_codes(result.flags)
    axis = _axis(table.values.index, places)
    names = [one["name"] for one in content.sensors]
    drawn = {
        "series": charts.series(axis, table.unit),
        "heat": charts.heat_map(coverage(codes, places, axis.step), axis, names),
    }
    if sensors.coordinates is not None and sensors.kind is not None:
        drawn["map"] = charts.sensor_map(sensors.coordinates, sensors.kind)
    if result.by_gap_length:
        drawn["gaps"] = _gap_chart(result.by_gap_length, content.methods, table.unit)
    return template.render(
        content=content,
        data=_data(result, content, codes, places, is_time=axis.is_time),
        charts={name: charts.as_text(chart, f"chart-{name}") for name, chart in drawn.items()},
        library=charts.library(),
    )


def _axis(index: pd.Index, places: Array) -> charts.Axis:
    step = float(np.median(np.diff(places))) if len(places) > 1 else 1.0
    is_time = isinstance(index, pd.DatetimeIndex)
    label = "slot"
    if isinstance(index, pd.DatetimeIndex):
        label = "time" if index.tz is None else "time (UTC)"
    return charts.Axis(float(places[0]), float(places[-1]), step, label, is_time)


def _gap_chart(scores: tuple[GapScore, ...], methods: list[str], unit: str | None) -> charts.Chart:
    errors = {
        method: [score.mae[name] for score in scores]
        for method, name in zip(methods, scores[0].mae, strict=True)
    }
    return charts.gap_scores([_lengths(score) for score in scores], errors, unit)


def _lengths(score: GapScore) -> str:
    if score.longest is None:
        return f"{score.shortest}+"
    return (
        f"{score.shortest}"
        if score.longest == score.shortest
        else (f"{score.shortest}-{score.longest}")
    )


def _data(
    result: Recovery,
    content: Content,
    codes: NDArray[np.uint8],
    places: Array,
    *,
    is_time: bool,
) -> str:
    """What the page's script reads."""
    packed = pack(result.values.to_numpy(), codes, result.lower.to_numpy(), result.upper.to_numpy())
    return json.dumps(
        {
            "streams": packed.streams,
            "decimals": packed.decimals,
            "slots": {"runs": runs(places), "isTime": is_time},
            "sensors": content.sensors,
        },
        allow_nan=False,
    )
