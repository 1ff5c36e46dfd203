"""Elements of SVG, pictures and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

#: Of a picture, in its own units: pixels where the page has room for two side by side.
WIDTH: Final = 480
HEIGHT: Final = 300

Cell = str | int


@dataclass(frozen=True)
class Picture:
    """A picture with its title, its description and its numbers as a table."""

    name: str  # name of the picture, unique in its page, a word
    title: str  # title, one line
    description: str  # description in a sentence or two, for screen readers
    svg: str  # the picture
    columns: tuple[str, ...]  # headings of the table
    rows: tuple[tuple[Cell, ...], ...]  # rows of the table; the first cell is the name


def element(tag: str, *children: Element, **attributes: str | float) -> Element:
    """Returns an element of SVG. Underscores in names of attributes become dashes; one at the end is removed."""
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    made = Element(tag, {k: v if isinstance(v, str) else number(v) for k, v in named.items()})
    made.extend(children)
    return made


def text(words: str, x: float, y: float, **attributes: str | float) -> Element:
    """Draws words at (x, y), aligned by `text_anchor`."""
    made = element("text", x=x, y=y, **attributes)
    made.text = words
    return made


def number(value: float) -> str:
    """Formats a coordinate with one decimal."""
    shown = f"{value:.1f}"
    return shown[:-2] if shown.endswith(".0") else shown


def shortened(words: str, most: int) -> str:
    """Shortens words to a number of characters; keeps the beginning and the end."""
    if len(words) <= most:
        return words
    end = (most - 1) // 2
    return f"{words[: most - 1 - end]}…{words[len(words) - end :]}"


def drawing(name: str, title: str, description: str, parts: Sequence[Element], height: float) -> str:
    """Returns a picture of width `WIDTH` as SVG, with a name that is unique in its page."""
    titled, described = element("title", id=f"{name}-title"), element("desc", id=f"{name}-desc")
    titled.text, described.text = title, description
    root = element(
        "svg",
        titled,
        described,
        *parts,
        viewBox=f"0 0 {WIDTH} {number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    return ElementTree.tostring(root, encoding="unicode")


_TICKS: Final = 7  # at most, but for the ends
_ROUND: Final = (1, 2, 5)
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 34, 46


@dataclass(frozen=True)
class Axis:
    """A range of values, from `low` to `high`, with ticks."""

    label: str  # name of the values with their unit
    low: float
    high: float
    ticks: tuple[float, ...]  # values of the ticks
    is_share: bool = False  # True for shares, which are written in percent
    is_log: bool = False  # True for a logarithmic axis; values below `low` are drawn at `low`

    @classmethod
    def of(cls, label: str, low: float, high: float, *, is_share: bool = False) -> Axis:
        """Returns an axis that covers two values and ends at ticks."""
        if not high > low:
            spread = abs(high) or 1.0
            low, high = low - spread / 2, high + spread / 2
        raw = (high - low) / _TICKS
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(factor * power for factor in (*_ROUND, 10) if factor * power >= raw * (1 - 1e-9))
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        ticks = tuple(i * step for i in range(first, last + 1))
        return cls(label, ticks[0], ticks[-1], ticks, is_share)

    @classmethod
    def of_ratios(cls, label: str, low: float, high: float) -> Axis:
        """Returns a logarithmic axis that covers two positive values and ends at round numbers."""
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        numbers = [factor * 10.0**power for power in powers for factor in _ROUND]
        begin = max(i for i, number in enumerate(numbers) if number <= low * (1 + 1e-9))
        end = min(i for i, number in enumerate(numbers) if number >= high * (1 - 1e-9))
        ticks = numbers[begin : end + 1]
        if len(ticks) > _TICKS:
            ticks = [number for i, number in enumerate(numbers) if begin <= i <= end and not i % len(_ROUND)]
        return cls(label, numbers[begin], numbers[end], tuple(ticks), is_log=True)

    def share(self, value: float) -> float:
        """Returns the position of a value between the ends, 0..1."""
        if self.is_log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def written(self, value: float) -> str:
        """Formats the value of a tick."""
        return percent(value) if self.is_share else compact(value)


@dataclass(frozen=True)
class Frame:
    """Axes on a picture of the usual size."""

    x: Axis
    y: Axis
    right: float = _RIGHT  # space at the right side for names of lines

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Returns the coordinates of a point."""
        width, height = WIDTH - _LEFT - self.right, HEIGHT - _TOP - _BOTTOM
        return _LEFT + width * self.x.share(x), _TOP + height * (1 - self.y.share(y))

    def drawn(self) -> list[Element]:
        """Draws the axes: lines, ticks with their values, and labels."""
        parts, bottom, end = [text(self.y.label, 0, 15, class_="label")], HEIGHT - _BOTTOM, WIDTH - self.right
        for value in self.y.ticks:
            _, y = self.at(self.x.low, value)
            parts.append(element("line", x1=_LEFT, x2=end, y1=y, y2=y, class_="grid"))
            parts.append(text(self.y.written(value), _LEFT - 8, y + 5, text_anchor="end", class_="tick"))
        for value in self.x.ticks:
            x, _ = self.at(value, self.y.low)
            parts.append(element("line", x1=x, x2=x, y1=bottom, y2=bottom + 5, class_="axis"))
            parts.append(text(self.x.written(value), x, bottom + 20, text_anchor="middle", class_="tick"))
        parts.append(element("line", x1=_LEFT, x2=end, y1=bottom, y2=bottom, class_="axis"))
        parts.append(text(self.x.label, end, HEIGHT - 5, text_anchor="end", class_="label"))
        return parts


def percent(share: float, digits: int = 0) -> str:
    """Formats a share in percent, e.g. "63 %"."""
    return f"{100 * share:.{digits}f} %"


def compact(value: float) -> str:
    """Formats a number in few characters: 20000 as "20k"."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{0.0 if size < 1e-12 else value:.3g}".replace("-", "−")
