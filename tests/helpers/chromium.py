# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, for pages as a reader's browser has them."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Browser", "browser"]


class Browser:
    """A browser that notes what pages ask of the network and what they write to the console.

    Args:
        driver: driver of the browser.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def open(self, page: Path, *, width: int = 1200, dark: bool = False, media: str = "screen") -> None:
        """Opens a page, and forgets what the page before has done."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._driver.get_log("performance")
        self._driver.get_log("browser")
        self._driver.get(page.resolve().as_uri())

    def do(self, command: str, **arguments: Any) -> Any:
        """Does a command of the DevTools protocol."""
        return self._driver.execute_cdp_cmd(command, arguments)

    def ask(self, script: str) -> Any:
        """What a function's body in JavaScript returns."""
        return self._driver.execute_script(script)

    @property
    def console(self) -> list[str]:
        """What the page has written to the console, errors of its own included."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path) -> None:
        """Writes a picture of the whole page."""
        found = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def printed(self) -> bytes:
        """The page as a PDF."""
        self.do("Emulation.setEmulatedMedia", media="print")
        return base64.b64decode(self.do("Page.printToPDF", printBackground=True)["data"])


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Starts a browser; skips the test where there is none."""
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if chromium is None or driver is None:
        pytest.skip("NO CHROMIUM: PAGES WERE NOT LOOKED AT. Debian: apt-get install chromium chromium-driver")
    selenium = pytest.importorskip("selenium.webdriver", reason="NO SELENIUM: PAGES WERE NOT LOOKED AT")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
