"""A small page with names that break things, in a real browser."""

import pytest

from report.browser import OpenPage, assert_arrived, assert_quiet, assert_shows
from report.runs import NASTY


@pytest.fixture(scope="module")
def nasty(browser, nasty_page):
    return OpenPage(browser, nasty_page)


def test_every_reading_arrives(nasty, nasty_run):
    assert_arrived(nasty, *nasty_run[:2])


def test_nothing_is_fetched_and_nothing_complains(nasty):
    assert_quiet(nasty)


def test_without_coordinates_there_is_a_list(nasty):
    before = nasty.picture("series")
    nasty.click("#sensor-list li:nth-child(2) button")
    assert_shows(nasty, NASTY[1], before)
    pressed = nasty.find("#sensor-list [aria-pressed='true']")
    assert pressed.get_attribute("data-sensor") == "1"


def test_names_are_text_never_markup(nasty, nasty_run):
    options = "return [...document.querySelectorAll('#sensor option')].map((o) => o.textContent)"
    assert nasty.js(options) == list(NASTY)
    assert (
        nasty.js("return document.querySelectorAll('main b, h1 img, main i:not([class])').length")
        == 0
    )
    assert nasty.find("#chosen-unit").text == "in $$m^2$$<b>"
    assert nasty.find("h1").text == "<img src=x onerror=alert(1)>"
    nasty.click("#sensor-list li:nth-child(6) button")
    assert nasty.chosen == "empty"
    assert "200 refused" in nasty.find("#status").text
    assert nasty.source("observed")["x"] == []
