"""Pages, and a real browser to open them in."""

import shutil

import pytest

from flfl.report import missing_libraries, write_page
from report.runs import nasty, year


def pytest_collection_modifyitems(items):
    """Pages need the libraries of the extra ``report``; packing does not."""
    for item in items:
        if "report/test_page" in item.nodeid and missing_libraries():
            item.add_marker(pytest.mark.skip(reason="the extra report is not installed"))


@pytest.fixture(scope="session")
def big_run():
    return year()


@pytest.fixture(scope="session")
def nasty_run():
    return nasty()


@pytest.fixture(scope="session")
def big_page(big_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "big.html"
    write_page(path, *big_run)
    return path


@pytest.fixture(scope="session")
def nasty_page(nasty_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "nasty.html"
    write_page(path, *nasty_run, title="<img src=x onerror=alert(1)>")
    return path


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no browser found: install chromium and chromium-driver")
    from report.browser import start_browser

    with start_browser(chromium, driver) as started:
        yield started
