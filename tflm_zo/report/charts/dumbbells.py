# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Shares before and after, one row for each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element

from .axes import Axis
from .svg import WIDTH, element, text

__all__ = ["dumbbells"]

_ROW: Final = 22
_TOP: Final = 34
_LEFT: Final = 60
_RIGHT: Final = 24


def dumbbells(rows: Sequence[tuple[str, float, float]]) -> tuple[list[Element], float]:
    """Returns a hollow mark before and a full one after for each row, and the height that they take.

    Args:
        rows: label and the two shares, 0..1, of each row.
    """
    axis, bottom = Axis.of("", 0.0, 1.0, is_share=True), _TOP + len(rows) * _ROW

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
        y = _TOP + (i + 0.5) * _ROW
        parts.append(text(label, _LEFT - 14, y + 5, text_anchor="end", class_="tick"))
        parts.append(element("line", x1=at(before), x2=at(after), y1=y, y2=y, class_="stretch"))
        parts.append(element("circle", cx=at(before), cy=y, r=5, class_="before"))
        parts.append(element("circle", cx=at(after), cy=y, r=5, class_="after"))
    return parts, bottom + 26
