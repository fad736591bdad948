"""The page as a file: complete, small, self-contained, and safe with any name."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from flfl import recover
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.io.inspection import inspect_table
from flfl.io.read import from_frame
from flfl.report import charts, write_page
from report.runs import NASTY

MEGABYTES = 1_000_000


class Parts(HTMLParser):
    """Elements, addresses that would be loaded, and the text of each data element."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.addresses, self.texts = [], [], [], []
        self.scripts, self._inside = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.tags.append(tag)
        self.ids.append(named.get("id"))
        self.addresses += [
            named[key] for key in ("src", "href", "srcset", "action") if key in named
        ]
        self._inside = named if tag == "script" else None
        if tag == "script":
            self.scripts.append((named, ""))

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside is None:
            self.texts.append(data)
        else:
            named, text = self.scripts[-1]
            self.scripts[-1] = named, text + data

    @property
    def visible(self):
        return " ".join(" ".join(self.texts).split())


def parts_of(path):
    return Parts(path.read_text(encoding="utf-8"))


@pytest.fixture
def written(tmp_path):
    def write(*run, **options):
        write_page(tmp_path / "page.html", *run, **options)
        return parts_of(tmp_path / "page.html")

    return write


def small(n=5, slots=120, **options):
    table, sensors = synthesize(n, slots, rng=np.random.default_rng(0))
    options = {"method": "linear"} | options
    return recover(table, sensors, **options), table, sensors, options


@pytest.mark.slow
def test_a_year_of_36_sensors_is_below_5_megabytes(big_page):
    assert big_page.stat().st_size < 5 * MEGABYTES


@pytest.mark.slow
def test_the_worst_numbers_are_below_5_megabytes(tmp_path, big_run):
    """No short decimals, half of all cells recovered, intervals without any pattern."""
    rng = np.random.default_rng(0)
    result, _, sensors, settings = big_run
    values = rng.normal(20, 5, (8760, 36))
    frame = pd.DataFrame(values, result.values.index, result.values.columns)
    hidden = rng.random(values.shape) < 0.5
    wide = replace(
        result,
        values=frame,
        flags=pd.DataFrame(np.where(hidden, "recovered", "observed"), frame.index, frame.columns),
        lower=frame.where(~hidden, frame - rng.random(values.shape)),
        upper=frame.where(~hidden, frame + rng.random(values.shape)),
    )
    path = tmp_path / "page.html"
    write_page(path, wide, from_frame(frame.mask(hidden)), sensors, settings)
    assert path.stat().st_size < 5 * MEGABYTES


def test_nothing_is_loaded_from_anywhere(nasty_page, tmp_path):
    mapped = tmp_path / "mapped.html"
    write_page(mapped, *small())
    for path in (mapped, nasty_page):
        text = path.read_text(encoding="utf-8")
        parts = Parts(text)
        assert all(address.startswith(("#", "data:")) for address in parts.addresses)
        assert not {"link", "iframe", "object", "embed", "audio", "video"} & set(parts.tags) - {
            "link"
        }
        style = text[text.index("<style>") : text.index("</style>")]
        assert not re.search(r"@import|url\(", style)
        assert "default-src 'none'" in text
        assert "connect-src 'none'" in text


def test_everything_is_there(written):
    result, *_ = run = small(max_gap=3)
    page = written(*run, title="My network")
    for place in ("chart-map", "chart-series", "chart-heat", "chart-gaps", "sensor", "by-sensor"):
        assert place in page.ids
    summary = result.summary()
    for said in (
        "My network",
        result.run_id,
        "gap longer than 3 slots",
        f"{summary['refused']} cells",
        "max_gap",
        "no copy of one, left any owner",
        *inspect_table(*run[1:3]).understood(),
        *result.values.columns,
    ):
        assert said in page.visible
    assert page.tags.count("script") == 1 + 4 + 1 + 5


def test_the_ledger_and_the_verdict_of_a_federation(written):
    table, sensors = synthesize(6, 120, rank=2, rng=np.random.default_rng(0))
    result = recover(table, sensors, sites="each", effort="quick")
    page = written(result, table, sensors, {"effort": "quick"})
    assert result.verdict in page.visible
    assert "numbers for every 100 readings" in page.visible
    for kind in {*result.traffic.up, *result.traffic.down}:
        assert kind in page.visible
    assert "noisy copies" in page.visible
    assert f"{result.added_error.iloc[0]:.3g}" in page.visible


def test_names_are_escaped_everywhere(nasty_page, nasty_run):
    text = nasty_page.read_text(encoding="utf-8")
    page = Parts(text)
    assert "b" not in page.tags
    assert "img" not in page.tags
    assert "alert(1)" not in "".join(code for _, code in page.scripts)
    assert "</script><script>alert(1)" in page.visible
    (data,) = (code for named, code in page.scripts if named.get("id") == "data")
    assert [one["name"] for one in json.loads(data)["sensors"]] == list(NASTY)
    assert "{{ name }}" in page.visible


def test_without_coordinates_there_is_a_list_instead_of_the_map(nasty_page):
    ids = parts_of(nasty_page).ids
    assert "sensor-list" in ids
    assert "chart-map" not in ids


def test_without_a_self_test_it_says_so(written):
    page = written(*small(self_test=False))
    assert "There was no self-test" in page.visible
    assert "chart-gaps" not in page.ids


@pytest.mark.parametrize(
    "index",
    [
        range(60),
        pd.date_range("2000-01-01", periods=60, freq="MS"),
        pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Berlin"),
    ],
)
def test_any_time_axis(index, written):
    _, table, sensors, _ = small(slots=60)
    given = from_frame(table.values.set_axis(pd.Index(index), axis="index"))
    page = written(recover(given, sensors, method="linear"), given, sensors, {})
    (data,) = (code for named, code in page.scripts if named.get("id") == "data")
    slots = json.loads(data)["slots"]
    assert sum(count for *_, count in slots["runs"]) == 60
    assert slots["isTime"] == isinstance(given.values.index, pd.DatetimeIndex)


def test_a_result_of_another_table_is_refused(tmp_path):
    result, table, sensors, settings = small()
    other = from_frame(table.values + 1)
    with pytest.raises(InputError, match="not one of this table"):
        write_page(tmp_path / "page.html", result, other, sensors, settings)
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(InputError, match=r"pip install 'flfl\[report\]'"):
        write_page(tmp_path / "page.html", *small())
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_starts_without_the_library():
    code = "import sys, flfl.cli; sys.exit(bool({'bokeh', 'jinja2'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_suspicions_and_slots_that_nobody_observed_are_shown(tmp_path):
    values = np.column_stack([np.sin(np.arange(300) / 9 + i) + 5 for i in range(3)])
    values[::20, 0], values[290:] = -99.9, np.nan
    for treatment, words in {"keep": "used as they are", "missing": "treated as missing"}.items():
        result = recover(values, method="linear", extrapolate=4, suspicious=treatment)
        result.to_html(tmp_path / "page.html")
        said = parts_of(tmp_path / "page.html").visible
        assert "15 of 870 readings (1.7 %) are -99.9" in said
        assert words in said
        assert said.count("are -99.9, far") == 1
        assert "extrapolated, 1.3 % 12" in said
        assert "nobody observed these slots" in said


class TestWhatIsAskedFirst:
    def said(self, tmp_path, result):
        result.to_html(tmp_path / "page.html")
        return parts_of(tmp_path / "page.html").visible

    def test_three_answers_stand_at_the_top(self, tmp_path):
        table, sensors = synthesize(6, 300, rank=2, rng=np.random.default_rng(0))
        values = table.values.copy()
        values.iloc[40:260, 3] = np.nan
        result = recover(values, sensors, method="linear")
        said = self.said(tmp_path, result)
        gaps = int(values.isna().sum().sum())
        places = [
            said.index(words)
            for words in ("How much was missing?", f"{gaps:,} of 1,800", "How good is the filling?",
                          "Where not to trust it?", "filled at " + values.columns[3], "The sensors")
        ]  # fmt: skip
        assert places == sorted(places)

    def test_a_sensor_better_off_alone_is_named(self, tmp_path):
        values = np.column_stack([np.sin(np.arange(300) / 9 + i) for i in range(3)])
        values[10:14, 0] = np.nan
        result = recover(pd.DataFrame(values), method="linear")
        assert [one.loses for one in result.by_sensor] == [True] * 3
        assert "Alone would be better at 0, 1, 2." in self.said(tmp_path, result)
        one, *others = result.by_sensor
        result = replace(result, by_sensor=(one, *(replace(o, loses=False) for o in others)))
        assert "Alone would be better at 0." in self.said(tmp_path, result)

    def test_without_a_test_nobody_knows(self, tmp_path):
        values = np.column_stack([np.sin(np.arange(90) / 9 + i) for i in range(3)])
        values[10:12, 0] = np.nan
        said = self.said(tmp_path, recover(values, method="linear", self_test=False))
        assert "Nobody knows" in said

    def test_the_sensor_shown_first_has_a_telling_gap(self, tmp_path):
        values = np.column_stack([np.sin(np.arange(400) / 9 + i) for i in range(4)])
        values[50:, 0] = np.nan
        values[100:112, 2] = np.nan
        recover(values, method="linear").to_html(tmp_path / "page.html")
        scripts = parts_of(tmp_path / "page.html").scripts
        (data,) = (json.loads(text) for named, text in scripts if named.get("id") == "data")
        assert data["first"] == 2


def test_bars_of_four_methods_stand_beside_each_other():
    pytest.importorskip("bokeh")
    from flfl.recovery import GapScore
    from flfl.report.charts import gap_scores

    ways = ["flfl", "pchip", "linear", "owner"]
    chart = gap_scores([GapScore(1, 1, 9, dict.fromkeys(ways, 1.0))], ways, "ug/m3")
    bars = [chart.select_one({"name": f"bars-{i}"}).glyph for i in range(4)]
    edges = [
        (bar.x.transform.value - bar.width / 2, bar.x.transform.value + bar.width / 2)
        for bar in bars
    ]
    assert all(left[1] < right[0] for left, right in pairwise(edges))
    assert edges[0][0] > -0.5
    assert edges[-1][1] < 0.5


def test_coasts_and_borders_are_where_they_should_be():
    from flfl.report.outlines import outlines

    lines = np.concatenate(outlines(5.0, 54.0, 9.5, 55.5))
    # Sylt lies off the coast of the North Sea, at 54.9 N and 8.3 E.
    assert np.hypot(*(lines - [8.3, 54.9]).T).min() < 0.15
    assert np.hypot(*(lines - [5.5, 54.6]).T).min() > 0.5


def test_sensors_without_a_place_are_counted_and_not_drawn(tmp_path):
    table, sensors = synthesize(9, 120, missing=0.2, rng=np.random.default_rng(2))
    lost = replace(sensors, unplaced=(sensors.ids[4],), sites=None, regions=None)
    result = recover(table, lost, method="linear", verbose=0)
    write_page(tmp_path / "p.html", result, table, lost, {})
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert f"1 sensor ({sensors.ids[4]})" in text
    chart = charts.sensor_map(
        np.where(np.arange(9)[:, None] == 4, np.nan, sensors.coordinates), "latlon"
    )
    drawn = next(one for one in chart.renderers if one.name == "map-dots").data_source.data
    assert np.flatnonzero(np.isnan(drawn["x"])).tolist() == [4]


def test_made_up_owners_are_areas_and_a_note_says_so():
    table, sensors = synthesize(20, 120, missing=0.2, rng=np.random.default_rng(2))
    near = recover(
        table, replace(sensors, sites=None, regions=None), effort="quick", secure=False, verbose=0
    )
    assert {name.split()[0] for name in near.sites} == {"area"}
    assert any("near each other" in note and "method=pooled" in note for note in near.notes)
    pooled = recover(
        table, replace(sensors, sites=None), method="pooled", effort="quick", verbose=0
    )
    assert not any("no owners are named" in note for note in pooled.notes)
    named = recover(table, sensors, sites=["x", "y"] * 10, method="linear", verbose=0)
    assert not any("no owners are named" in note for note in named.notes)
