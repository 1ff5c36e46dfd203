# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Squares of values: confusion matrices and landscapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element

from .svg import WIDTH, element, text

__all__ = ["LEVELS", "landscape", "matrix"]

#: Steps of the scale of colours.
LEVELS: Final = 7

_LEFT: Final = 46
_TOP: Final = 44
_MOST_WITH_NUMBERS: Final = 16


def matrix(counts: Sequence[Sequence[int]]) -> tuple[list[Element], float]:
    """Returns a confusion matrix, true classes downwards, and the height that it takes.

    A square's colour is its share of the true class.

    Args:
        counts: number of samples [true][predicted].
    """
    classes = len(counts)
    side = (WIDTH - _LEFT - 4) / classes
    bottom = _TOP + classes * side
    parts = [text("predicted →", _LEFT, 15, class_="label"), text("true ↓", 0, _TOP - 7, class_="label")]
    every = -(-classes // _MOST_WITH_NUMBERS)
    for i, row in enumerate(counts):
        total = max(1, sum(row))
        y = _TOP + i * side
        if not i % every:
            middle = _LEFT + (i + 0.5) * side
            parts.append(text(str(i), middle, _TOP - 7, text_anchor="middle", class_="tick"))
            parts.append(text(str(i), _LEFT - 10, y + side / 2 + 5, text_anchor="end", class_="tick"))
        for j, count in enumerate(row):
            level = math.ceil(count / total * (LEVELS - 1))
            x = _LEFT + j * side
            parts.append(element("rect", x=x, y=y, width=side, height=side, class_=f"cell h{level}"))
            if count and classes <= _MOST_WITH_NUMBERS:
                parts.append(
                    text(
                        str(count),
                        x + side / 2,
                        y + side / 2 + 5,
                        text_anchor="middle",
                        class_=f"on h{level}",
                    )
                )
    return parts, bottom + 4


def landscape(offsets: Sequence[int], losses: Sequence[Sequence[float]]) -> tuple[list[Element], float]:
    """Returns losses as squares, the kept weights in the middle, a key, and the height that they take.

    Colours are of ranges whose ends have equal ratios: losses rise by orders of magnitude.
    """
    flat = [loss for row in losses for loss in row]
    ends = _ranges(min(flat), max(flat))
    side = (WIDTH - _LEFT - 130) / len(offsets)
    bottom = _TOP - 10 + len(offsets) * side
    parts = [text("second direction, LSB", 0, 15, class_="label")]
    for i, (offset, row) in enumerate(zip(reversed(offsets), reversed(losses), strict=True)):
        y = _TOP - 10 + i * side
        if not i % 3:
            shown = str(offset).replace("-", "−")
            parts.append(text(shown, _LEFT - 8, y + side / 2 + 5, text_anchor="end", class_="tick"))
        for j, loss in enumerate(row):
            level = sum(loss > end for end in ends[:-1])
            x = _LEFT + j * side
            parts.append(element("rect", x=x, y=y, width=side, height=side, class_=f"cell h{level}"))
    for j, offset in enumerate(offsets):
        if not j % 3:
            shown = str(offset).replace("-", "−")
            x = _LEFT + (j + 0.5) * side
            parts.append(text(shown, x, bottom + 18, text_anchor="middle", class_="tick"))
    end = _LEFT + len(offsets) * side
    parts.append(text("first direction, LSB", end, bottom + 38, text_anchor="end", class_="label"))
    middle = len(offsets) // 2
    parts.append(
        element(
            "rect",
            x=_LEFT + middle * side,
            y=_TOP - 10 + middle * side,
            width=side,
            height=side,
            class_="here",
        )
    )
    parts.append(text("loss", end + 14, _TOP + 4, class_="label"))
    begin = min(flat)
    for level in reversed(range(LEVELS)):
        y = _TOP + 14 + (LEVELS - 1 - level) * 24
        low = begin if level == 0 else ends[level - 1]
        parts.append(element("rect", x=end + 14, y=y, width=18, height=18, class_=f"cell h{level}"))
        parts.append(text(f"{low:.2g} to {ends[level]:.2g}", end + 38, y + 14, class_="tick"))
    return parts, bottom + 46


def _ranges(least: float, most: float) -> list[float]:
    """Returns the upper ends of as many ranges as there are colours."""
    if least > 0 and most > least:
        ratio = (most / least) ** (1 / LEVELS)
        return [least * ratio ** (i + 1) for i in range(LEVELS)]
    width = (most - least) / LEVELS
    return [least + width * (i + 1) for i in range(LEVELS)]
