"""Renew the pictures of the page and of the site, seen at 1400 and 390 pixels, and as print.

    python docs/make_pictures.py [--page FILE] [--only page|site]

Needs chromium, chromium-driver, selenium and Pillow. Without ``--page`` the demo is run first. The
site is that of ``make docs``.
"""

from __future__ import annotations

import argparse
import base64
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

IMAGES = Path(__file__).parent / "images"
HOME = Path(__file__).parents[1] / "site" / "index.html"
SCREENS = {"report.png": (1400, 1850), "report-phone.png": (390, 2000)}
SITE = {
    "docs-site.png": (1400, 1000, "light"),
    "docs-site-dark.png": (1400, 1000, "dark"),
    "docs-site-phone.png": (390, 844, "light"),
}
# A sheet at 96 dots an inch, its margin, and how many stand side by side.
PAPER, MARGIN, SHEETS = (816, 1056), 38, 4


def seen(
    browser: Any, page: Path, width: int, height: int, scheme: str = "light", media: str = "screen"
) -> Image.Image:
    """The top of a page in a window of this size."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": wanted})
    browser.get(page.resolve().as_uri())
    browser.execute_script("localStorage.clear()")  # the site remembers a reader's choice
    browser.refresh()
    if page != HOME:
        ready = "return document.documentElement.dataset.ready"
        WebDriverWait(browser, 60).until(lambda one: one.execute_script(ready))
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    how = {"format": "png", "clip": clip, "captureBeyondViewport": True}
    data = browser.execute_cdp_cmd("Page.captureScreenshot", how)["data"]
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def on_paper(browser: Any, page: Path) -> Image.Image:
    """The first sheets beside each other, at three quarters of their size."""
    width, height = PAPER
    inner, tall = width - 2 * MARGIN, height - 2 * MARGIN
    long = seen(browser, page, inner, tall * SHEETS, media="print")
    sheets = Image.new("RGB", (width * SHEETS, height), "white")
    for i in range(SHEETS):
        part = long.crop((0, i * tall, inner, (i + 1) * tall))
        sheets.paste(part, (i * width + MARGIN, MARGIN))
    return sheets.resize((width * SHEETS * 3 // 4, height * 3 // 4), Image.Resampling.LANCZOS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path, help="A page that is there already.")
    parser.add_argument("--only", choices=["page", "site"])
    arguments = parser.parse_args()
    page, only, made = arguments.page, arguments.only, {}
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory() as folder:
        if page is None and only != "site":
            demo = [sys.executable, "-m", "flfl", "demo", "--out", folder]
            subprocess.run(demo, check=True)
            page = Path(folder, "page.html")
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        with webdriver.Chrome(options=options, service=service) as browser:
            if only != "page":
                made |= {name: seen(browser, HOME, *how) for name, how in SITE.items()}
            if only != "site":
                made |= {name: seen(browser, page, *size) for name, size in SCREENS.items()}
                made["report-print.png"] = on_paper(browser, page)
    for name, image in made.items():
        image.quantize(256).save(IMAGES / name, optimize=True)


if __name__ == "__main__":
    main()
