"""Look at the built site in a browser: ``python docs/check_site.py``.

Every page opens from a folder, asks no other host for anything, has no error of its own and fits
a phone; the search finds what it should. Without Chromium it says that it was not looked at.
"""

import json
import shutil
import sys
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.support.ui import WebDriverWait

SITE = Path(__file__).parents[1] / "site"
SECONDS = 30
SOUGHT = {"index.html": "smoother", "concepts/noisy-copy.html": "lost store"}
"""What is looked for on which page: the search's own files lie elsewhere for a page in a folder."""
PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


def main() -> int:
    """0 when all is well."""
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if chromium is None or driver is None:
        sys.stdout.write("the site was not looked at: no chromium\n")
        return 0
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    pages = sorted(SITE.rglob("*.html"))
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        wrong = [fault for page in pages for fault in look_at(browser, page)]
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        missing = [one for one in SOUGHT.items() if not found(browser, *one)]
        wrong += [f"{page}: the search finds no {word}" for page, word in missing]
    finally:
        browser.quit()
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


def look_at(browser: webdriver.Chrome, page: Path) -> list[str]:
    """What is wrong with a page."""
    browser.get(page.as_uri())
    name, logged = page.relative_to(SITE).as_posix(), browser.get_log("performance")
    sent = (json.loads(line["message"])["message"] for line in logged)
    urls = [
        m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"
    ]
    faults = [
        f"{name}: asks for {url}" for url in urls if not url.startswith(("file:", "data:", "blob:"))
    ]
    errors = [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    faults += [f"{name}: {wide} pixels wide on a phone"] if wide > PHONE["width"] else []
    return faults + [f"{name}: {error}" for error in errors]


def found(browser: webdriver.Chrome, page: str, word: str) -> bool:
    """Whether the search of a page has results for a word."""
    browser.get((SITE / page).as_uri())
    browser.execute_script("document.querySelector('#__search').click()")
    results = "return document.querySelectorAll('.md-search-result__item').length"
    try:
        browser.find_element("css selector", ".md-search__input").send_keys(word)
        WebDriverWait(browser, SECONDS).until(lambda one: one.execute_script(results) > 0)
    except WebDriverException:  # no field to write into, or nothing found in time
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
