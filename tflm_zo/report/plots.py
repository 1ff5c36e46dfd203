"""Charts of a report in SVG, drawn without a script: bars, dumbbells, histograms, cells, lines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from .svg import HEIGHT, WIDTH, Axis, Frame, element, number, percent, shortened, text

_ROW: Final = 24
_LABEL: Final = 150
_VALUE: Final = 78
_LABEL_LENGTH: Final = 19

_HISTOGRAM_HEIGHT: Final = 170


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length as a share of the longest possible one, and its formatted value."""

    label: str
    share: float
    value: str


def bar_chart(bars: Sequence[Bar]) -> tuple[list[Element], float]:
    """Draws bars with labels and values. Returns them and their height."""
    room = WIDTH - _LABEL - _VALUE
    words, tracks, lengths = [], [], []
    for i, bar in enumerate(bars):
        y, length = i * _ROW, number(room * bar.share)
        words.append(text(shortened(bar.label, _LABEL_LENGTH), 0, y + 17, class_="name"))
        words.append(text(bar.value, WIDTH, y + 17, text_anchor="end", class_="tick"))
        tracks.append(f"M{_LABEL} {y + 4}h{room}v{_ROW - 8}h-{room}z")
        lengths.append(f"M{_LABEL} {y + 4}h{length}v{_ROW - 8}h-{length}z")
    # One path for all: an element for each would be a third of a page of many layers.
    drawn = [element("path", d="".join(tracks), class_="track"), element("path", d="".join(lengths), class_="bar")]
    parts = [*drawn, *words]
    return parts, len(bars) * _ROW + 2


def histogram(first: int, width: int, counts: Sequence[int]) -> tuple[list[Element], float]:
    """Draws a histogram of weight changes, LSB. Returns it and its height.

    Args:
        first: smallest change of the first bin.
        width: width of a bin.
        counts: number of weights in each bin; at least one is not 0.
    """
    total, most = sum(counts), max(counts)
    left, bottom, top = 8.0, _HISTOGRAM_HEIGHT - 34.0, 26.0
    room = (WIDTH - 2 * left) / len(counts)
    steps = []
    for i, count in enumerate(counts):
        if count:
            # Even a small value is visible.
            height = max((bottom - top) * count / most, 1.0)
            x = left + i * room
            up, right = number(height), number(room * 0.84)
            steps.append(f"M{number(x + room * 0.08)} {number(bottom)}v-{up}h{right}v{up}z")
    middle = len(counts) // 2
    centre = left + (middle + 0.5) * room
    ends = ((0, "start", left), (middle, "middle", centre), (len(counts) - 1, "end", WIDTH - left))
    parts = [
        element("path", d="".join(steps), class_="bar"),
        element("line", x1=left, x2=WIDTH - left, y1=bottom, y2=bottom, class_="axis"),
        element("line", x1=centre, x2=centre, y1=bottom, y2=bottom + 5, class_="axis"),
        text(f"{percent(most / total)} in the tallest bar", WIDTH - left, 15, text_anchor="end", class_="tick"),
    ]
    for i, anchor, x in ends:
        move = first + i * width + width // 2
        shown = "0 LSB" if i == middle else f"{move:+d}".replace("-", "−")
        parts.append(text(shown, x, bottom + 21, text_anchor=anchor, class_="tick"))
    return parts, _HISTOGRAM_HEIGHT


_DUMBBELL_ROW: Final = 22
_BARS_TOP: Final = 34
_BARS_LEFT: Final = 60
_BARS_RIGHT: Final = 24


def dumbbells(rows: Sequence[tuple[str, float, float]]) -> tuple[list[Element], float]:
    """Draws two marks for each row, a hollow one before and a filled one after. Returns them and their
    height.

    Args:
        rows: label and the two shares, 0..1, of each row.
    """
    axis, bottom = Axis.of("", 0.0, 1.0, is_share=True), _BARS_TOP + len(rows) * _DUMBBELL_ROW

    def at(share: float) -> float:
        return _BARS_LEFT + (WIDTH - _BARS_LEFT - _BARS_RIGHT) * axis.share(share)

    parts = [
        element("circle", cx=8, cy=10, r=5, class_="before"),
        text("before", 19, 15, class_="label"),
        element("circle", cx=88, cy=10, r=5, class_="after"),
        text("after", 99, 15, class_="label"),
    ]
    for value in axis.ticks:
        parts.append(element("line", x1=at(value), x2=at(value), y1=_BARS_TOP - 6, y2=bottom, class_="grid"))
        parts.append(text(axis.written(value), at(value), bottom + 18, text_anchor="middle", class_="tick"))
    for i, (label, before, after) in enumerate(rows):
        y = _BARS_TOP + (i + 0.5) * _DUMBBELL_ROW
        parts.append(text(label, _BARS_LEFT - 14, y + 5, text_anchor="end", class_="tick"))
        parts.append(element("line", x1=at(before), x2=at(after), y1=y, y2=y, class_="stretch"))
        parts.append(element("circle", cx=at(before), cy=y, r=5, class_="before"))
        parts.append(element("circle", cx=at(after), cy=y, r=5, class_="after"))
    return parts, bottom + 26


#: Steps of the scale of colours.
LEVELS: Final = 7

_CELLS_LEFT: Final = 46
_CELLS_TOP: Final = 44
_MOST_WITH_NUMBERS: Final = 16


def matrix(counts: Sequence[Sequence[int]]) -> tuple[list[Element], float]:
    """Draws a confusion matrix with a row for each true class. Returns it and its height.

    A square's colour is its share of the true class.

    Args:
        counts: number of samples [true][predicted].
    """
    classes = len(counts)
    side = (WIDTH - _CELLS_LEFT - 4) / classes
    bottom = _CELLS_TOP + classes * side
    parts = [text("predicted →", _CELLS_LEFT, 15, class_="label"), text("true ↓", 0, _CELLS_TOP - 7, class_="label")]
    every = -(-classes // _MOST_WITH_NUMBERS)
    for i, row in enumerate(counts):
        total = max(1, sum(row))
        y = _CELLS_TOP + i * side
        if not i % every:
            middle = _CELLS_LEFT + (i + 0.5) * side
            parts.append(text(str(i), middle, _CELLS_TOP - 7, text_anchor="middle", class_="tick"))
            parts.append(text(str(i), _CELLS_LEFT - 10, y + side / 2 + 5, text_anchor="end", class_="tick"))
        for j, count in enumerate(row):
            level = math.ceil(count / total * (LEVELS - 1))
            x = _CELLS_LEFT + j * side
            parts.append(element("rect", x=x, y=y, width=side, height=side, class_=f"cell h{level}"))
            if count and classes <= _MOST_WITH_NUMBERS:
                parts.append(
                    text(str(count), x + side / 2, y + side / 2 + 5, text_anchor="middle", class_=f"on h{level}")
                )
    return parts, bottom + 4


def landscape(offsets: Sequence[int], losses: Sequence[Sequence[float]]) -> tuple[list[Element], float]:
    """Draws losses as squares around the kept weights, with a key. Returns them and their height.

    The ranges of colours are logarithmic.
    """
    flat = [loss for row in losses for loss in row]
    ends = _ranges(min(flat), max(flat))
    side = (WIDTH - _CELLS_LEFT - 130) / len(offsets)
    bottom = _CELLS_TOP - 10 + len(offsets) * side
    parts = [text("second direction, LSB", 0, 15, class_="label")]
    for i, (offset, row) in enumerate(zip(reversed(offsets), reversed(losses), strict=True)):
        y = _CELLS_TOP - 10 + i * side
        if not i % 3:
            shown = str(offset).replace("-", "−")
            parts.append(text(shown, _CELLS_LEFT - 8, y + side / 2 + 5, text_anchor="end", class_="tick"))
        for j, loss in enumerate(row):
            level = sum(loss > end for end in ends[:-1])
            x = _CELLS_LEFT + j * side
            parts.append(element("rect", x=x, y=y, width=side, height=side, class_=f"cell h{level}"))
    for j, offset in enumerate(offsets):
        if not j % 3:
            shown = str(offset).replace("-", "−")
            x = _CELLS_LEFT + (j + 0.5) * side
            parts.append(text(shown, x, bottom + 18, text_anchor="middle", class_="tick"))
    end = _CELLS_LEFT + len(offsets) * side
    parts.append(text("first direction, LSB", end, bottom + 38, text_anchor="end", class_="label"))
    middle = len(offsets) // 2
    parts.append(
        element(
            "rect",
            x=_CELLS_LEFT + middle * side,
            y=_CELLS_TOP - 10 + middle * side,
            width=side,
            height=side,
            class_="here",
        )
    )
    parts.append(text("loss", end + 14, _CELLS_TOP + 4, class_="label"))
    begin = min(flat)
    for level in reversed(range(LEVELS)):
        y = _CELLS_TOP + 14 + (LEVELS - 1 - level) * 24
        low = begin if level == 0 else ends[level - 1]
        parts.append(element("rect", x=end + 14, y=y, width=18, height=18, class_=f"cell h{level}"))
        parts.append(text(f"{low:.2g} to {ends[level]:.2g}", end + 38, y + 14, class_="tick"))
    return parts, bottom + 46


def _ranges(least: float, most: float) -> list[float]:
    """Returns the upper end of the range of each colour."""
    if least > 0 and most > least:
        ratio = (most / least) ** (1 / LEVELS)
        return [least * ratio ** (i + 1) for i in range(LEVELS)]
    width = (most - least) / LEVELS
    return [least + width * (i + 1) for i in range(LEVELS)]


_NAME_ROOM: Final = 122
_NAME_LENGTH: Final = 12
_LINE_HEIGHT: Final = 17
_LARGE_RATIO: Final = 10.0
_LARGEST_RATIO: Final = 1e5

# Of each number, in the square from -1 to 1: lines that colours do not tell apart differ by these.
_SHAPES: Final = (
    None,  # a circle
    "M-.9-.9H.9V.9H-.9Z",
    "M0-1.1L1 .8H-1Z",
    "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
    "M0 1.1L1-.8H-1Z",
    "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
    "M-1-.5L0-1.1L1-.5V.5L0 1.1L-1 .5Z",
    "M-.45-1.2H.45V1.2H-.45Z",
)


@dataclass(frozen=True)
class Line:
    """A line of a run."""

    name: str  # name of the run
    number: int  # number of the run, 0..7, which selects colour, dash and marker
    points: Sequence[tuple[float, float]]  # (x, y) of its points
    # (x, least, most) of an area around the line; empty: none
    band: Sequence[tuple[float, float, float]] = ()
    marked: bool = False  # True to mark each point
    ring: int | None = None  # number of the point that a ring marks, or None


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, *, share: bool = False) -> list[Element]:
    """Draws lines and axes. Several lines have their names at their ends.

    Args:
        lines: the lines; at least one has a point.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        share: True for a vertical axis of shares, 0..1.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    least = min(ys)
    ys += [y for line in lines for _, *both in line.band for y in both]
    frame = Frame(Axis.of(x_label, 0.0, max(xs)), _vertical(y_label, ys, least, share=share))
    if len(lines) > 1:
        frame = dataclasses.replace(frame, right=_NAME_ROOM)
    parts = frame.drawn()
    for line in lines:
        if line.band:
            parts.append(_band(frame, line))
    for line in lines:
        parts += _drawn(frame, line)
    if len(lines) > 1:
        parts += _names(frame, lines)
    return parts


def _vertical(label: str, values: Sequence[float], least: float, *, share: bool) -> Axis:
    """Returns the vertical axis; a logarithmic one if losses fall by an order of magnitude or more.

    Args:
        label: label of the axis.
        values: all values.
        least: smallest value of a line, without the areas around lines, which may end at 0.
        share: True for an axis of shares.
    """
    most = max(values)
    if share:
        return Axis.of(label, 0.0, 1.0, is_share=True)
    if 0 < least < most / _LARGE_RATIO:
        return Axis.of_ratios(f"{label}, logarithmic", max(least, most / _LARGEST_RATIO), most)
    return Axis.of(label, 0.0 if 0 <= min(values) < most / 2 else min(values), most)


def _band(frame: Frame, line: Line) -> Element:
    upper = [frame.at(x, most) for x, _, most in line.band]
    lower = [frame.at(x, least) for x, least, _ in reversed(line.band)]
    return element("polygon", points=_path([*upper, *lower]), class_=f"band s{line.number}")


def _drawn(frame: Frame, line: Line) -> list[Element]:
    at = [frame.at(x, y) for x, y in line.points]
    parts = []
    if len(at) > 1:
        parts.append(element("polyline", points=_path(at), class_=f"line s{line.number} d{line.number}"))
    if line.marked or len(at) == 1:
        parts += [marker(line.number, x, y) for x, y in at]
    if line.ring is not None:
        x, y = at[line.ring]
        parts.append(element("circle", cx=x, cy=y, r=8, class_=f"ring s{line.number}"))
    return parts


def marker(number_: int, x: float, y: float, size: float = 4, **attributes: str) -> Element:
    """Returns the marker of a run at a point."""
    classes = f"mark s{number_} {attributes.pop('also', '')}".strip()
    shape = _SHAPES[number_]
    if shape is None:
        return element("circle", cx=x, cy=y, r=size, class_=classes)
    at = f"translate({number(x)} {number(y)}) scale({number(size)})"
    return element("path", d=shape, transform=at, class_=classes)


def _names(frame: Frame, lines: Sequence[Line]) -> list[Element]:
    """Draws names at the ends of the lines, shifted so that they do not overlap."""
    ends = sorted(((frame.at(*line.points[-1])[1], line) for line in lines if line.points), key=lambda end: end[0])
    heights: list[float] = []
    for wanted, _ in ends:
        heights.append(max(wanted, heights[-1] + _LINE_HEIGHT if heights else 0.0))
    lowest = HEIGHT - 50.0
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], lowest)
        lowest = heights[i] - _LINE_HEIGHT
    parts = []
    for height, (_, line) in zip(heights, ends, strict=True):
        left = WIDTH - _NAME_ROOM + 14
        parts.append(marker(line.number, left, height, 4))
        parts.append(text(shortened(line.name, _NAME_LENGTH), left + 9, height + 5, class_=f"name s{line.number}"))
    return parts


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)
