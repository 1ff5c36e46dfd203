# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Lines of several runs over the same axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from .svg import HEIGHT, WIDTH, Axis, Frame, element, number, shortened, text

__all__ = ["Line", "line_chart", "marker"]

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
    """A line of a run.

    Attributes:
        name: name of the run.
        number: number of the run, 0..7, which says its colour, dash and marker.
        points: (x, y) of its points.
        band: (x, least, most) of an area around the line; empty: none.
        marked: True to mark each point.
        ring: number of the point that a ring marks, or None.
    """

    name: str
    number: int
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    marked: bool = False
    ring: int | None = None


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, *, share: bool = False) -> list[Element]:
    """Returns lines and axes; with more than one line each has its name at its end.

    Args:
        lines: the lines, of which one at least has a point.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        share: True if the vertical axis is of shares, 0..1.
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
    """Of losses that fall by an order of magnitude or more, most would lie on the bottom of a linear axis.

    Args:
        label: label of the axis.
        values: all values.
        least: the smallest value of a line; areas around lines may end at 0, which has no logarithm.
        share: True if the axis is of shares.
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
    """Names beside the ends of the lines, moved so far that none lies upon another."""
    ends = sorted(
        ((frame.at(*line.points[-1])[1], line) for line in lines if line.points), key=lambda end: end[0]
    )
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
        parts.append(
            text(shortened(line.name, _NAME_LENGTH), left + 9, height + 5, class_=f"name s{line.number}")
        )
    return parts


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)
