"""``write_page``: a run as one HTML file that opens anywhere and asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from flfl.errors import InputError
from flfl.io.files import write_files
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.recovery import Recovery
from flfl.recovery.showing import telling
from flfl.report.content import content_of
from flfl.report.packing import coverage, flag_codes, pack, runs, stamps

SUFFIXES = (".html", ".htm")
"""What the name of a page may end in."""
SCRIPTS = ("readings.js", "view.js", "theme.js", "charts.js", "page.js")


def missing_libraries() -> list[str]:
    """The libraries of the extra ``report`` that are not installed."""
    return [name for name in ("bokeh", "jinja2") if find_spec(name) is None]


def check_report_extra() -> None:
    """Say how to get the libraries that a page needs, where they are not there."""
    for name in missing_libraries():
        raise InputError(
            f"the page needs the library {name}",
            where="report",
            remedy="Install the extra: pip install 'flfl[report]'",
        )


def write_page(
    path: str | Path,
    result: Recovery,
    table: Table,
    sensors: Sensors,
    settings: Mapping[str, object],
    *,
    title: str = "",
) -> None:
    """Write the page of a run: map, series, heat map, scores, traffic, settings.

    The file appears only when it is complete. ``result`` is what ``recover`` gave for ``table``;
    without coordinates there is a list in place of the map; ``settings`` are shown as they are;
    ``title`` is the heading, by default the name of the file that was read.
    """
    check_report_extra()
    # A page that shows other readings than the run's would be worse than none.
    shown, given = result.values.to_numpy(), table.values.to_numpy()
    if shown.shape != given.shape or not np.array_equal(shown[table.known], given[table.known]):
        raise InputError(
            "the result is not one of this table",
            where="result",
            remedy="Recover the table itself, then give both",
        )
    content = content_of(result, table, sensors, settings, title)
    page = render(result, table, sensors, content).encode("utf-8")
    write_files({Path(path): lambda file: file.write(page)})


def render(result: Recovery, table: Table, sensors: Sensors, content: dict[str, Any]) -> str:
    """Charts, packed readings and words in one page; Jinja escapes whatever comes from files."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from flfl.report import charts

    places, codes = stamps(table.values.index), flag_codes(result.flags)
    axis = charts.Axis.of(table.values.index, places)
    names = [one["name"] for one in content["sensors"]]
    drawn = {
        "series": charts.series(axis, table.unit),
        "heat": charts.heat_map(coverage(codes, places, axis.step), axis, names),
    }
    if sensors.coordinates is not None and sensors.kind is not None:
        # Those without a place stand in the middle of the others, but not on the map.
        nowhere = np.isin(sensors.ids, sensors.unplaced)[:, None]
        on_map = np.where(nowhere, np.nan, sensors.coordinates)
        drawn["map"] = charts.sensor_map(on_map, sensors.kind)
    if result.by_gap_length:
        drawn["gaps"] = charts.gap_scores(result.by_gap_length, content["methods"], table.unit)
    packed = pack(result.values.to_numpy(), codes, result.lower.to_numpy(), result.upper.to_numpy())
    slots = {"runs": runs(places), "isTime": axis.is_time}
    data = packed | {"slots": slots, "sensors": content["sensors"], "first": telling(result)[0]}
    pages = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return pages.from_string(_asset("page.html")).render(
        content=content,
        data=Markup(inert(json.dumps(data, allow_nan=False))),
        charts={k: Markup(inert(charts.as_text(v, f"chart-{k}"))) for k, v in drawn.items()},
        # The library's own text has no markup in it that could end the script; ours neither.
        library=Markup(charts.library()),
        scripts=[Markup(_asset(name)) for name in SCRIPTS],
        style=Markup(_asset("page.css")),
    )


def inert(text: str) -> str:
    r"""JSON for a ``<script>`` element: no character in it can end the element.

    Examples
    --------
    >>> print(inert('{"name": "</script><b>"}'))
    {"name": "\u003c/script\u003e\u003cb\u003e"}
    """
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _asset(name: str) -> str:
    return (files("flfl.report") / "assets" / name).read_text(encoding="utf-8")
