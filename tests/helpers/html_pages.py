"""HTML pages: parsed, and as a headless Chromium shows them."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

_VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Node:
    """An element, with its attributes, its text and its children."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    own_text: list[str] = field(default_factory=list)

    def all(self, tag: str) -> list[Node]:
        """Returns elements of that tag in it, in order."""
        return [node for node in self.walk() if node.tag == tag]

    def walk(self) -> Iterator[Node]:
        for child in self.children:
            yield child
            yield from child.walk()

    @property
    def every(self) -> list[Node]:
        """Every element in it."""
        return list(self.walk())

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(self.own_text) + "".join(child.text for child in self.children)

    def get(self, name: str) -> str:
        """Returns an attribute; "" if there is none."""
        return self.attributes.get(name) or ""


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self.unclosed = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self.unclosed[-1].children.append(node)
        if tag not in _VOID:
            self.unclosed.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.unclosed[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed[-1].tag == tag, f"</{tag}> closes <{self.unclosed[-1].tag}>"
        self.unclosed.pop()

    def handle_data(self, data: str) -> None:
        self.unclosed[-1].own_text.append(data)


def parsed_page(text: str) -> Node:
    """Parses a page, every element of which is closed in its parent."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert parser.unclosed == [parser.root], "an element is not closed"
    return parser.root


def data_of(page: Node) -> Any:
    """Reads the JSON in a page."""
    (script,) = (node for node in page.all("script"))
    assert script.attributes == {"type": "application/json", "id": "report"}
    return json.loads(script.text)


def colours(css: str) -> dict[str, dict[str, str]]:
    """Reads colours by the names of their variables, in light and in dark."""
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in _blocks(css))
    return {"light": light, "dark": {**light, **dark}}


def _blocks(css: str) -> tuple[str, str]:
    first, second = (m.group(1) for m in re.finditer(r":root \{([^}]*)\}", css.partition("@media print")[0]))
    return first, second


def contrast(one: str, other: str) -> float:
    """Computes the contrast of two colours, 1 to 21, by WCAG 2.2."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


class Browser:
    """A browser that records pages' requests to the network and their output on the console."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def open(self, page: Path, *, width: int = 1200, dark: bool = False, media: str = "screen") -> None:
        """Opens a page, and forgets the records of the page before."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self._driver.get_log("performance")
        self._driver.get_log("browser")
        self._driver.get(page.resolve().as_uri())

    def do(self, command: str, **arguments: Any) -> Any:
        """Does a command of the DevTools protocol."""
        return self._driver.execute_cdp_cmd(command, arguments)

    def ask(self, script: str) -> Any:
        """Evaluates a function's body in JavaScript."""
        return self._driver.execute_script(script)

    @property
    def console(self) -> list[str]:
        """The page's output on the console, errors of its own included."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def printed(self) -> bytes:
        """Prints the page as a PDF."""
        self.do("Emulation.setEmulatedMedia", media="print")
        return base64.b64decode(self.do("Page.printToPDF", printBackground=True)["data"])


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Starts a browser; skips the test if there is none."""
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
