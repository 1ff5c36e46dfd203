# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Bars of layers or operators, one below the other, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from .axes import percent
from .svg import WIDTH, element, number, shortened, text

__all__ = ["Bar", "bar_chart", "histogram"]

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
