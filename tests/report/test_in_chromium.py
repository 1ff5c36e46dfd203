"""Pages in a browser: nothing is asked for, nothing is wrong, and all of it can be seen and read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.html_pages import Browser, browser

PAGES = ("one", "several", "eight", "long", "model")

# Of each text in a picture, by how much it lies beyond the picture's edges, in pixels; 0 if it does not.
BEYOND = """
return [...document.querySelectorAll('figure svg')].flatMap(svg => {
  const own = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].map(text => {
    const box = text.getBoundingClientRect();
    return [svg.parentElement.id, text.textContent, Math.max(
      own.left - box.left, box.right - own.right, own.top - box.top, box.bottom - own.bottom, 0)];
  });
});
"""

# Pairs of texts of a picture that lie upon each other.
UPON = """
return [...document.querySelectorAll('figure svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')];
  const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
    .map(([other]) => [svg.parentElement.id, one, other]));
});
"""

DRAWN = """
return [...document.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const marks = svg.querySelectorAll('polyline, path, rect, circle').length;
  return [svg.parentElement.id, box.width, box.height, marks];
});
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def folder(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200], ids=["phone", "desktop"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page(name: str, width: int, dark: bool, folder: Path, chromium: Browser) -> None:
    path = folder / f"{name}.html"
    chromium.open(path, width=width, dark=dark)
    assert chromium.requests == [path.resolve().as_uri()]
    assert chromium.console == []
    assert chromium.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    drawn = chromium.ask(DRAWN)
    assert len(drawn) > 1
    for figure, across, height, marks in drawn:
        assert across > 250 and height > 15 and marks > 0, figure
    beyond = [found for found in chromium.ask(BEYOND) if found[2] > 1]
    assert beyond == []
    assert chromium.ask(UPON) == []
    ground = chromium.ask("return getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")


@pytest.mark.parametrize("name", PAGES)
def test_what_a_screen_reader_is_told(name: str, folder: Path, chromium: Browser) -> None:
    """Pictures are images with names, and no part of them is read by itself."""
    chromium.open(folder / f"{name}.html")
    nodes = chromium.do("Accessibility.getFullAXTree")["nodes"]
    seen = [n for n in nodes if not n.get("ignored")]
    images = [n for n in seen if n["role"]["value"] in ("image", "img")]
    assert len(images) == chromium.ask("return document.querySelectorAll('figure').length")
    assert all(n["name"]["value"] for n in images)
    assert {n["role"]["value"] for n in seen} >= {"main", "heading", "table", "DisclosureTriangle"}
    chromium.do("Accessibility.disable")


def test_tables_open(folder: Path, chromium: Browser) -> None:
    chromium.open(folder / "one.html", width=360)
    chromium.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chromium.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    heights = chromium.ask("return [...document.querySelectorAll('details table')].map(t => t.offsetHeight)")
    assert heights and all(height > 30 for height in heights)


def test_print(folder: Path, chromium: Browser) -> None:
    """Prints on light paper, without closed parts that cannot be opened there."""
    chromium.open(folder / "one.html", dark=True, media="print")
    assert chromium.ask("return getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    assert chromium.ask("return getComputedStyle(document.querySelector('details')).display") == "none"
    printed = chromium.printed()
    assert printed.startswith(b"%PDF") and len(printed) > 10_000
