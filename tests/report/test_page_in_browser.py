"""The page in a real browser: what is chosen is drawn, exactly, at once, and nothing is fetched."""

import base64

import numpy as np
import pytest

from flfl.recovery.showing import telling
from flfl.report.packing import stamps
from report.browser import Keys, OpenPage, assert_arrived, assert_quiet, assert_shows

pytestmark = pytest.mark.slow


@pytest.fixture
def big(browser, big_page):
    page = OpenPage(browser, big_page)
    page.js("flflPage.choose(0)")
    return page


def test_the_sensor_with_the_most_telling_gap_is_shown_first(browser, big_page, big_run):
    page = OpenPage(browser, big_page)
    assert page.js("return flflPage.chosen") == telling(big_run[0])[0]


def test_every_reading_arrives(big, big_run):
    assert_arrived(big, *big_run[:2], every=5)


def test_a_sensor_is_chosen_on_the_map_and_in_the_heat_map(big, big_run):
    sensors = big_run[2]
    before = big.picture("series")
    latitude, longitude = sensors.coordinates[7]
    big.click_chart("map", longitude, latitude)
    assert_shows(big, sensors.ids[7], before)
    before = big.picture("series")
    big.click_chart("heat", float(np.mean(stamps(big_run[1].values.index))), 20.5)
    assert_shows(big, sensors.ids[20], before)


def test_a_sensor_is_chosen_by_list_by_key_and_in_the_table(big, big_run):
    ids = big_run[2].ids
    for choose, number in (
        (lambda: big.press("#sensor", Keys.DOWN), 1),
        (lambda: big.press("#chart-series", Keys.DOWN, Keys.DOWN), 3),
        (lambda: big.press("#chart-heat", Keys.UP), 2),
        (lambda: big.click("#next"), 3),
        (lambda: big.click("#by-sensor tbody tr[data-sensor='5']"), 5),
    ):
        before = big.picture("series")
        choose()
        assert_shows(big, ids[number], before)


def in_view(page, big_run, number):
    """What the file holds of the slots in view, as the chart should draw it."""
    result, table, *_ = big_run
    places = stamps(table.values.index)
    start, end = page.js("const {start, end} = flflPage.charts.view; return [start, end]")
    within = (places >= start) & (places <= end)
    return places, within, table.values.to_numpy()[:, number], result.flags.iloc[:, number]


@pytest.mark.parametrize("how", ["keys", "buttons", "wheel"])
def test_zoomed_in_every_slot_is_drawn_exactly(big, big_run, how):
    assert big.js("return flflPage.drawn.exact") is False
    places, *_ = in_view(big, big_run, 0)
    if how == "keys":
        big.press("#chart-series", *"+++++", Keys.ARROW_LEFT)
    elif how == "buttons":
        for _ in range(4):
            big.click("[data-view=in]")
        big.click("[data-view=later]")
    else:
        middle = big.js("const r = flflPage.charts.model('series').y_range; return r.end")
        big.zoom_with_the_wheel(float(places[4000]), middle * 0.5, 12)
    places, within, values, flags = in_view(big, big_run, 0)
    assert 10 < within.sum() < 2000
    assert big.js("return flflPage.drawn.exact") is True
    drawn = dict(zip(*(big.source("observed")[key] for key in "xy"), strict=True))
    observed = within & (flags == "observed").to_numpy()
    assert {x: drawn[x] for x in places[observed]} == dict(
        zip(places[observed], values[observed], strict=True)
    )
    recovered = within & (flags == "recovered").to_numpy()
    assert set(places[recovered]) <= set(big.source("recovered")["x"])
    assert set(places[recovered]) <= set(big.source("line")["x"])
    assert str(int(within.sum())) in big.find("#view").text


def test_zoomed_out_no_peak_is_lost_and_refused_stretches_are_shaded(big, big_run):
    result, table, *_ = big_run
    values = table.values.to_numpy()[:, 0]
    drawn = big.source("observed")["y"]
    assert len(drawn) <= 2000
    assert max(drawn) == np.nanmax(values)
    assert min(drawn) == np.nanmin(values)
    assert set(drawn) <= set(values)
    strips = big.source("refused")
    places = stamps(table.values.index)
    refused = places[(result.flags.iloc[:, 0] == "refused").to_numpy()]
    shaded = np.zeros(len(refused), dtype=bool)
    for left, right in zip(strips["x0"], strips["x1"], strict=True):
        shaded |= (refused > left) & (refused < right)
    assert shaded.all()
    hours = (np.array(strips["x1"]) - np.array(strips["x0"])).sum() / 3.6e6
    assert hours == pytest.approx(len(refused), abs=1)


def test_pan_and_back_to_all(big):
    whole = big.js("return flflPage.charts.view")
    big.press("#chart-series", "+", "+", Keys.ARROW_RIGHT)
    moved = big.js("return flflPage.charts.view")
    assert whole["start"] < moved["start"] < moved["end"] <= whole["end"]
    assert moved["end"] - moved["start"] == pytest.approx((whole["end"] - whole["start"]) / 4)
    window = big.js("const w = flflPage.charts.model('heat-window'); return [w.left, w.right]")
    assert window == [moved["start"], moved["end"]]
    big.press("#chart-series", "0")
    assert big.js("return flflPage.charts.view") == whole


def test_the_map_is_coloured_by_error_or_by_share(big, big_run):
    result = big_run[0]
    assert big.source("map-points")["colour"] == pytest.approx(
        [score.mae["linear"] for score in result.by_sensor]
    )
    before = big.picture("map")
    big.press("#colouring", Keys.DOWN)
    share = (result.flags == "recovered").mean().tolist()
    assert big.source("map-points")["colour"] == pytest.approx(share)
    assert big.picture("map") != before


def test_the_table_sorts(big, big_run):
    errors = [score.mae["linear"] for score in big_run[0].by_sensor]
    for wanted in (np.argmin(errors), np.argmax(errors)):
        big.click("#by-sensor thead th:nth-child(7) button")
        first = big.find("#by-sensor tbody tr").get_attribute("data-sensor")
        assert errors[int(first)] == pytest.approx(errors[wanted], rel=1e-3)


def test_dark_and_light(browser, big_page):
    page = OpenPage(browser, big_page, dark=True)

    def grounds():
        return page.js(
            "return [getComputedStyle(document.body).backgroundColor,"
            " flflPage.charts.model('series').background_fill_color]"
        )

    dark = grounds()
    page.click("#theme")
    light = grounds()
    assert all(a != b for a, b in zip(dark, light, strict=True))
    page.click("#theme")
    assert grounds() == dark
    assert OpenPage(browser, big_page).js("return document.documentElement.dataset.theme") == (
        "light"
    )


def test_nothing_is_fetched_and_nothing_complains(big):
    assert_quiet(big)


def test_the_page_may_not_fetch_even_if_it_wanted_to(big):
    refused = big.browser.execute_async_script(
        "const done = arguments[0];"
        "fetch('https://example.org/').then(() => done(false), () => done(true))"
    )
    assert refused
    assert "Content Security Policy" in " ".join(big.complaints())
    assert not any(url.startswith("http") for url in big.requests())


def test_paper_hides_nothing_but_controls(big):
    visible = (
        "return [...document.querySelectorAll('h1, h2, table, .verdict, .tiles, caption')]"
        ".filter((e) => e.getBoundingClientRect().height === 0).length"
    )
    assert big.js(visible) == 0
    pages = base64.b64decode(big.cdp("Page.printToPDF", printBackground=True)["data"])
    assert pages.startswith(b"%PDF")
    assert big.js("return document.querySelectorAll('canvas.snapshot').length") == 4
    assert big.js("return document.body.classList.contains('printing')") is False
    big.cdp(
        "Emulation.setDeviceMetricsOverride",
        width=720,
        height=1000,
        deviceScaleFactor=1,
        mobile=False,
    )
    big.cdp("Emulation.setEmulatedMedia", media="print")
    try:
        big.js("window.dispatchEvent(new Event('beforeprint'))")
        assert big.js(visible) == 0
        assert big.js(
            "return [...document.querySelectorAll('canvas.snapshot')]"
            ".map((canvas) => canvas.getBoundingClientRect())"
            ".every((box) => box.height > 50 && box.right <= innerWidth)"
        )
        assert big.js(
            "return [...document.querySelectorAll('.scroll')]"
            ".every((box) => box.scrollHeight <= box.clientHeight + 1)"
        )
        assert big.js("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        big.cdp("Emulation.clearDeviceMetricsOverride")
        big.cdp("Emulation.setEmulatedMedia", media="")


def test_a_telephone_shows_it_without_sideways_scrolling(browser, big_page):
    page = OpenPage(browser, big_page)
    page.cdp(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=800,
        deviceScaleFactor=2,
        mobile=True,
    )
    try:
        page.settle()
        assert page.js("return document.documentElement.scrollWidth") <= 390
        wide = page.js(
            "return [...document.querySelectorAll('.scroll')]"
            ".filter((box) => box.scrollWidth > box.clientWidth + 1)"
            ".map((box) => [box.innerText.slice(0, 300), box.scrollWidth, box.clientWidth])"
        )
        assert wide == []
    finally:
        page.cdp("Emulation.clearDeviceMetricsOverride")


STEPS = ("in", "later", "in", "in", "earlier", "out", "later", "all")


def test_it_is_quick(big):
    """Ready in seconds, a step of zoom or pan in a fifth of one, in the page's own time.

    The browser counts the processor time of the page's thread, so that whatever else the machine
    does at the moment is left out.
    """

    def spent():
        metrics = big.cdp("Performance.getMetrics")["metrics"]
        return {metric["name"]: 1000 * metric["value"] for metric in metrics}["TaskDuration"]

    big.cdp("Performance.enable", timeDomain="threadTicks")
    try:
        ready = big.js("return performance.getEntriesByName('flfl-ready')[0].startTime")
        costs = []
        for step in STEPS:
            before = spent()
            big.js("flflPage.move(arguments[0])", step)
            big.settle()
            costs.append(spent() - before)
    finally:
        big.cdp("Performance.disable")
    print(f"ready after {ready:.0f} ms; steps {[round(cost) for cost in costs]} ms")  # noqa: T201
    assert min(costs) > 0
    assert max(costs) < 200
    assert ready < 10_000
