"""A page in a real browser, and what a reader does with it."""

import base64
import json
from contextlib import contextmanager

import numpy as np
import pytest

from flfl.io.table import FLAGS

webdriver = pytest.importorskip("selenium.webdriver")
ActionChains, Keys = webdriver.ActionChains, webdriver.Keys
builder = pytest.importorskip("selenium.webdriver.common.actions.action_builder")
ActionBuilder = builder.ActionBuilder
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait

SECONDS = 30


@contextmanager
def start_browser(chromium, driver):
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1320,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.set_script_timeout(SECONDS)
    try:
        yield started
    finally:
        started.quit()


class OpenPage:
    """One page, opened anew."""

    def __init__(self, browser, path, *, dark=False):
        self.browser = browser
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", media="", features=[scheme])
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.get(path.as_uri())
        WebDriverWait(browser, SECONDS).until(
            lambda one: one.execute_script("return document.documentElement.dataset.ready")
        )
        self.settle()

    def cdp(self, command, **arguments):
        return self.browser.execute_cdp_cmd(command, arguments)

    def js(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def settle(self):
        """Wait until what was asked for is drawn."""
        self.browser.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))"
        )

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def click(self, selector):
        element = self.find(selector)
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.settle()

    def press(self, selector, *keys):
        self.js("arguments[0].focus()", self.find(selector))
        ActionChains(self.browser).send_keys(*keys).perform()
        self.settle()

    def _spot(self, chart, x, y):
        """Where a chart's data point is on the screen."""
        return self.js(
            "const view = flflPage.charts.views.get('chart-' + arguments[0]);"
            "view.el.scrollIntoView({block: 'center'});"
            "const box = view.el.getBoundingClientRect();"
            "return [box.left + view.frame.x_scale.compute(arguments[1]),"
            " box.top + view.frame.y_scale.compute(arguments[2])]",
            chart, x, y,
        )  # fmt: skip

    def click_chart(self, chart, x, y):
        actions = ActionBuilder(self.browser)
        actions.pointer_action.move_to_location(*map(round, self._spot(chart, x, y))).click()
        actions.perform()
        # Bokeh waits to see whether a tap becomes a double tap.
        self.browser.execute_async_script("setTimeout(arguments[0], 400)")
        self.settle()

    def zoom_with_the_wheel(self, x, y, turns):
        left, top = map(round, self._spot("series", x, y))
        ActionChains(self.browser).key_down(Keys.CONTROL).perform()
        wheel = ActionBuilder(self.browser)
        for _ in range(turns):
            wheel.wheel_action.scroll(left, top, 0, -200)
        wheel.perform()
        ActionChains(self.browser).key_up(Keys.CONTROL).perform()
        self.settle()

    @property
    def chosen(self):
        return self.find("#chosen-name").get_attribute("textContent")

    def readings(self, sensor):
        """What the page unpacked of a sensor: flags, values, lower and upper ends."""
        text = self.js(
            "const {flags, value, lower, upper} = flflPage.readings.sensor(arguments[0]);"
            "const all = Float64Array.of(...flags, ...value, ...lower, ...upper);"
            "const bytes = new Uint8Array(all.buffer);"
            "return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))",
            sensor,
        )
        return np.frombuffer(base64.b64decode(text)).reshape(4, -1)

    def source(self, name):
        """The data that a chart draws."""
        return self.js(
            "const {data} = flflPage.charts.model(arguments[0]);"
            "return Object.fromEntries(Object.entries(data).map(([k, v]) => [k, Array.from(v)]))",
            name,
        )

    def picture(self, chart):
        return self.js(
            "return flflPage.charts.views.get('chart-' + arguments[0]).export().canvas.toDataURL()",
            chart,
        )

    def complaints(self):
        return [
            entry["message"]
            for entry in self.browser.get_log("browser")
            if entry["level"] not in ("INFO", "DEBUG")
        ]

    def requests(self):
        """Every address that was asked for since the page was opened."""
        messages = (
            json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")
        )
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]


def assert_shows(page, name, before):
    """The sensor is chosen everywhere, and its readings are drawn in place of the last picture."""
    assert page.chosen == name
    assert page.find("#sensor").get_attribute("value") == str(page.js("return flflPage.chosen"))
    assert page.picture("series") != before


def assert_arrived(page, result, table, every=1):
    """The browser holds what the run holds: observed values to the last bit."""
    for number in range(0, table.values.shape[1], every):
        flags, value, lower, upper = page.readings(number)
        assert [FLAGS[int(flag)] for flag in flags] == result.flags.iloc[:, number].tolist()
        known = table.known[:, number]
        np.testing.assert_array_equal(value[known], table.values.to_numpy()[known, number])
        close = {"rtol": 0, "atol": 1e-3 * np.nanstd(table.values)}
        np.testing.assert_allclose(value, result.values.iloc[:, number], **close)
        np.testing.assert_allclose(lower, result.lower.iloc[:, number], **close)
        np.testing.assert_allclose(upper, result.upper.iloc[:, number], **close)


def assert_quiet(page):
    """Whatever is pressed, no address is asked for and the console stays empty."""
    for selector in ("#next", "[data-view=in]", "#theme"):
        page.click(selector)
    page.picture("heat")
    asked = page.requests()
    assert asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.js("return performance.getEntriesByType('resource').map((e) => e.name)") == []
    assert page.complaints() == []
