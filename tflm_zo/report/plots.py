"""Charts of a report in SVG, drawn without a script. Each function returns elements and their height."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from .svg import HEIGHT, WIDTH, Axis, Frame, element, number, percent, shortened, text

_Drawn = tuple[list[Element], float]

_ROW: Final = 24
_LABEL: Final = 150
_VALUE: Final = 78
_LABEL_LENGTH: Final = 19

_HISTOGRAM_HEIGHT: Final = 170


def signed(value: int) -> str:
    """Formats a distance: +4, −4 or 0."""
    return f"{value:+d}".replace("-", "−") if value else "0"


def _tick(words: str, x: float, y: float, anchor: str = "end") -> Element:
    return text(words, x, y, text_anchor=anchor, class_="tick")


def bar_chart(bars: Sequence[tuple[str, float, str]]) -> _Drawn:
    """Draws a bar for each label, length as a share of the longest possible one, and formatted value."""
    room = WIDTH - _LABEL - _VALUE
    words, tracks, lengths = [], [], []
    for i, (label, share, value) in enumerate(bars):
        y, length = i * _ROW, number(room * share)
        words += [text(shortened(label, _LABEL_LENGTH), 0, y + 17, class_="name"), _tick(value, WIDTH, y + 17)]
        tracks.append(f"M{_LABEL} {y + 4}h{room}v{_ROW - 8}h-{room}z")
        lengths.append(f"M{_LABEL} {y + 4}h{length}v{_ROW - 8}h-{length}z")
    # One path for all: an element for each would be a third of a page of many layers.
    drawn = [element("path", d="".join(tracks), class_="track"), element("path", d="".join(lengths), class_="bar")]
    return drawn + words, len(bars) * _ROW + 2


def histogram(first: int, width: int, counts: Sequence[int]) -> _Drawn:
    """Draws a histogram of weight changes, LSB, with bins of `width` from `first`; at least one count is not 0."""
    most = max(counts)
    left, right, bottom, top = 8.0, WIDTH - 8.0, _HISTOGRAM_HEIGHT - 34.0, 26.0
    room = (right - left) / len(counts)
    steps = []
    for i, count in enumerate(counts):
        if count:
            # Even a small value is visible.
            height, wide = number(max((bottom - top) * count / most, 1.0)), number(room * 0.84)
            steps.append(f"M{number(left + i * room + room * 0.08)} {number(bottom)}v-{height}h{wide}v{height}z")
    middle, last = len(counts) // 2, len(counts) - 1
    centre = left + (middle + 0.5) * room
    parts = [
        element("path", d="".join(steps), class_="bar"),
        element("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"),
        element("line", x1=centre, x2=centre, y1=bottom, y2=bottom + 5, class_="axis"),
        _tick(f"{percent(most / sum(counts))} in the tallest bar", right, 15),
    ]
    for i, anchor, x in ((0, "start", left), (middle, "middle", centre), (last, "end", right)):
        shown = "0 LSB" if i == middle else signed(first + i * width + width // 2)
        parts.append(_tick(shown, x, bottom + 21, anchor))
    return parts, _HISTOGRAM_HEIGHT


_DUMBBELL_ROW: Final = 22
_BARS_TOP: Final = 34
_BARS_LEFT: Final = 60
_BARS_RIGHT: Final = 24


def dumbbells(rows: Sequence[tuple[str, float, float]]) -> _Drawn:
    """Draws a hollow mark before and a filled one after for each row, of a label and two shares, 0..1."""
    axis, bottom = Axis.of("", 0.0, 1.0, is_share=True), _BARS_TOP + len(rows) * _DUMBBELL_ROW

    def at(share: float) -> float:
        return _BARS_LEFT + (WIDTH - _BARS_LEFT - _BARS_RIGHT) * axis.share(share)

    parts = []
    for x, name in ((8, "before"), (88, "after")):
        parts += [element("circle", cx=x, cy=10, r=5, class_=name), text(name, x + 11, 15, class_="label")]
    for value in axis.ticks:
        parts.append(element("line", x1=at(value), x2=at(value), y1=_BARS_TOP - 6, y2=bottom, class_="grid"))
        parts.append(_tick(axis.written(value), at(value), bottom + 18, "middle"))
    for i, (label, before, after) in enumerate(rows):
        y = _BARS_TOP + (i + 0.5) * _DUMBBELL_ROW
        parts.append(_tick(label, _BARS_LEFT - 14, y + 5))
        parts.append(element("line", x1=at(before), x2=at(after), y1=y, y2=y, class_="stretch"))
        parts.append(element("circle", cx=at(before), cy=y, r=5, class_="before"))
        parts.append(element("circle", cx=at(after), cy=y, r=5, class_="after"))
    return parts, bottom + 26


_LEVELS: Final = 7  # steps of the scale of colours

_CELLS_LEFT: Final = 46
_CELLS_TOP: Final = 44
_MOST_WITH_NUMBERS: Final = 16


def _square(x: float, y: float, side: float, classes: str) -> Element:
    return element("rect", x=x, y=y, width=side, height=side, class_=classes)


def matrix(counts: Sequence[Sequence[int]]) -> _Drawn:
    """Draws a confusion matrix, samples [true][predicted]. A square's colour is its share of the true class."""
    classes = len(counts)
    side = (WIDTH - _CELLS_LEFT - 4) / classes
    parts = [text("predicted →", _CELLS_LEFT, 15, class_="label"), text("true ↓", 0, _CELLS_TOP - 7, class_="label")]
    every = -(-classes // _MOST_WITH_NUMBERS)
    for i, row in enumerate(counts):
        total = max(1, sum(row))
        y = _CELLS_TOP + i * side
        if not i % every:
            parts.append(_tick(str(i), _CELLS_LEFT + (i + 0.5) * side, _CELLS_TOP - 7, "middle"))
            parts.append(_tick(str(i), _CELLS_LEFT - 10, y + side / 2 + 5))
        for j, count in enumerate(row):
            level = math.ceil(count / total * (_LEVELS - 1))
            x = _CELLS_LEFT + j * side
            parts.append(_square(x, y, side, f"cell h{level}"))
            if count and classes <= _MOST_WITH_NUMBERS:
                middle = x + side / 2
                parts.append(text(str(count), middle, y + side / 2 + 5, text_anchor="middle", class_=f"on h{level}"))
    return parts, _CELLS_TOP + classes * side + 4


def landscape(offsets: Sequence[int], losses: Sequence[Sequence[float]]) -> _Drawn:
    """Draws losses as squares around the kept weights, with a key. The ranges of colours are logarithmic."""
    flat = [loss for row in losses for loss in row]
    ends = _ranges(min(flat), max(flat))
    side = (WIDTH - _CELLS_LEFT - 130) / len(offsets)
    top, middle = _CELLS_TOP - 10, len(offsets) // 2
    bottom, end = top + len(offsets) * side, _CELLS_LEFT + len(offsets) * side
    parts = [text("second direction, LSB", 0, 15, class_="label")]
    for i, (offset, row) in enumerate(zip(reversed(offsets), reversed(losses), strict=True)):
        y = top + i * side
        if not i % 3:
            parts.append(_tick(str(offset).replace("-", "−"), _CELLS_LEFT - 8, y + side / 2 + 5))
        for j, loss in enumerate(row):
            parts.append(_square(_CELLS_LEFT + j * side, y, side, f"cell h{sum(loss > e for e in ends[:-1])}"))
    for j, offset in list(enumerate(offsets))[::3]:
        x = _CELLS_LEFT + (j + 0.5) * side
        parts.append(_tick(str(offset).replace("-", "−"), x, bottom + 18, "middle"))
    parts.append(text("first direction, LSB", end, bottom + 38, text_anchor="end", class_="label"))
    parts.append(_square(_CELLS_LEFT + middle * side, top + middle * side, side, "here"))
    parts.append(text("loss", end + 14, _CELLS_TOP + 4, class_="label"))
    for level, (low, high) in reversed(list(enumerate(zip([min(flat), *ends[:-1]], ends, strict=True)))):
        y = _CELLS_TOP + 14 + (_LEVELS - 1 - level) * 24
        parts.append(_square(end + 14, y, 18, f"cell h{level}"))
        parts.append(text(f"{low:.2g} to {high:.2g}", end + 38, y + 14, class_="tick"))
    return parts, bottom + 46


def _ranges(least: float, most: float) -> list[float]:
    """Returns the upper end of the range of each colour."""
    if least > 0 and most > least:
        ratio = (most / least) ** (1 / _LEVELS)
        return [least * ratio ** (i + 1) for i in range(_LEVELS)]
    width = (most - least) / _LEVELS
    return [least + width * (i + 1) for i in range(_LEVELS)]


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
    band: Sequence[tuple[float, float, float]] = ()  # (x, least, most) of an area around the line; empty: none
    marked: bool = False  # True to mark each point
    ring: int | None = None  # number of the point that a ring marks, or None


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, *, share: bool = False) -> _Drawn:
    """Draws lines, at least one with a point, and labelled axes. Several lines have their names at their ends. `share`
    is True for a vertical axis of shares, 0..1.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    edges = [y for line in lines for _, *both in line.band for y in both]
    frame = Frame(Axis.of(x_label, 0.0, max(xs)), _vertical(y_label, ys, edges, share=share))
    if len(lines) > 1:
        frame = dataclasses.replace(frame, right=_NAME_ROOM)
    parts = frame.drawn()
    for line in lines:
        if line.band:
            outline = [frame.at(x, most) for x, _, most in line.band]
            outline += [frame.at(x, least) for x, least, _ in reversed(line.band)]
            parts.append(element("polygon", points=_path(outline), class_=f"band s{line.number}"))
    for line in lines:
        parts += _drawn(frame, line)
    return parts + (_names(frame, lines) if len(lines) > 1 else []), HEIGHT


def _vertical(label: str, values: Sequence[float], edges: Sequence[float], *, share: bool) -> Axis:
    """Returns the vertical axis, logarithmic if losses fall to a tenth. Edges of areas may end at 0."""
    if share:
        return Axis.of(label, 0.0, 1.0, is_share=True)
    least, lowest, most = min(values), min([*values, *edges]), max([*values, *edges])
    if 0 < least < most / _LARGE_RATIO:
        return Axis.of_ratios(f"{label}, logarithmic", max(least, most / _LARGEST_RATIO), most)
    return Axis.of(label, 0.0 if 0 <= lowest < most / 2 else lowest, most)


def _drawn(frame: Frame, line: Line) -> list[Element]:
    at = [frame.at(x, y) for x, y in line.points]
    parts = []
    if len(at) > 1:
        parts.append(element("polyline", points=_path(at), class_=f"line s{line.number} d{line.number}"))
    if line.marked or len(at) == 1:
        parts += [_marker(line.number, x, y) for x, y in at]
    if line.ring is not None:
        x, y = at[line.ring]
        parts.append(element("circle", cx=x, cy=y, r=8, class_=f"ring s{line.number}"))
    return parts


def _marker(run: int, x: float, y: float) -> Element:
    classes, shape = f"mark s{run}", _SHAPES[run]
    if shape is None:
        return element("circle", cx=x, cy=y, r=4, class_=classes)
    return element("path", d=shape, transform=f"translate({number(x)} {number(y)}) scale(4)", class_=classes)


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
    left, parts = WIDTH - _NAME_ROOM + 14, []
    for height, (_, line) in zip(heights, ends, strict=True):
        parts.append(_marker(line.number, left, height))
        parts.append(text(shortened(line.name, _NAME_LENGTH), left + 9, height + 5, class_=f"name s{line.number}"))
    return parts


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)
