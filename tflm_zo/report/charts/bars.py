# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Bars and dumbbells: values of named rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from .svg import WIDTH, Axis, element, number, percent, shortened, text

__all__ = ["Bar", "bar_chart", "dumbbells", "histogram"]


_ROW: Final = 24
_LABEL: Final = 150
_VALUE: Final = 78
_LABEL_LENGTH: Final = 19

_HISTOGRAM_HEIGHT: Final = 170


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length as a share of the longest possible, and its value for people."""

    label: str
    share: float
    value: str


def bar_chart(bars: Sequence[Bar]) -> tuple[list[Element], float]:
    """Returns bars with their labels and values, and the height that they take."""
    room = WIDTH - _LABEL - _VALUE
    words, tracks, lengths = [], [], []
    for i, bar in enumerate(bars):
        y, length = i * _ROW, number(room * bar.share)
        words.append(text(shortened(bar.label, _LABEL_LENGTH), 0, y + 17, class_="name"))
        words.append(text(bar.value, WIDTH, y + 17, text_anchor="end", class_="tick"))
        tracks.append(f"M{_LABEL} {y + 4}h{room}v{_ROW - 8}h-{room}z")
        lengths.append(f"M{_LABEL} {y + 4}h{length}v{_ROW - 8}h-{length}z")
    # One path for all: an element for each would be a third of a page of many layers.
    drawn = [
        element("path", d="".join(tracks), class_="track"),
        element("path", d="".join(lengths), class_="bar"),
    ]
    parts = [*drawn, *words]
    return parts, len(bars) * _ROW + 2


def histogram(first: int, width: int, counts: Sequence[int]) -> tuple[list[Element], float]:
    """Returns the bars of a histogram over moves, LSB, and the height that they take.

    Args:
        first: smallest move of the first bin.
        width: moves of a bin.
        counts: weights in each bin, one of which at least is not 0.
    """
    total, most = sum(counts), max(counts)
    left, bottom, top = 8.0, _HISTOGRAM_HEIGHT - 34.0, 26.0
    room = (WIDTH - 2 * left) / len(counts)
    steps = []
    for i, count in enumerate(counts):
        if count:
            # What there is can be seen, however little it is.
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
        text(
            f"{percent(most / total)} in the tallest bar", WIDTH - left, 15, text_anchor="end", class_="tick"
        ),
    ]
    for i, anchor, x in ends:
        move = first + i * width + width // 2
        shown = "0 LSB" if i == middle else f"{move:+d}".replace("-", "−")
        parts.append(text(shown, x, bottom + 21, text_anchor=anchor, class_="tick"))
    return parts, _HISTOGRAM_HEIGHT


_DUMBBELL_ROW: Final = 22
_TOP: Final = 34
_LEFT: Final = 60
_RIGHT: Final = 24


def dumbbells(rows: Sequence[tuple[str, float, float]]) -> tuple[list[Element], float]:
    """Returns a hollow mark before and a full one after for each row, and the height that they take.

    Args:
        rows: label and the two shares, 0..1, of each row.
    """
    axis, bottom = Axis.of("", 0.0, 1.0, is_share=True), _TOP + len(rows) * _DUMBBELL_ROW

    def at(share: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * axis.share(share)

    parts = [
        element("circle", cx=8, cy=10, r=5, class_="before"),
        text("before", 19, 15, class_="label"),
        element("circle", cx=88, cy=10, r=5, class_="after"),
        text("after", 99, 15, class_="label"),
    ]
    for value in axis.ticks:
        parts.append(element("line", x1=at(value), x2=at(value), y1=_TOP - 6, y2=bottom, class_="grid"))
        parts.append(text(axis.written(value), at(value), bottom + 18, text_anchor="middle", class_="tick"))
    for i, (label, before, after) in enumerate(rows):
        y = _TOP + (i + 0.5) * _DUMBBELL_ROW
        parts.append(text(label, _LEFT - 14, y + 5, text_anchor="end", class_="tick"))
        parts.append(element("line", x1=at(before), x2=at(after), y1=y, y2=y, class_="stretch"))
        parts.append(element("circle", cx=at(before), cy=y, r=5, class_="before"))
        parts.append(element("circle", cx=at(after), cy=y, r=5, class_="after"))
    return parts, bottom + 26
