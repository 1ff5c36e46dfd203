# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Axes of a picture: ranges, ticks at round numbers, and how these are written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from .svg import HEIGHT, WIDTH, element, text

__all__ = ["Axis", "Frame", "compact", "percent"]

_TICKS: Final = 7  # at most, but for the ends
_ROUND: Final = (1, 2, 5)
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 34, 46


@dataclass(frozen=True)
class Axis:
    """A range of values, from `low` to `high`, with ticks.

    Attributes:
        label: what the values are, with their unit.
        ticks: values of the ticks.
        is_log: True if equal lengths are equal ratios; values below `low` are then drawn there.
        is_share: True if they are shares, which are written in percent.
    """

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    is_share: bool = False
    is_log: bool = False

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
        """Returns where a value lies between the ends, 0..1."""
        if self.is_log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def written(self, value: float) -> str:
        """Returns a tick's value, for people."""
        return percent(value) if self.is_share else compact(value)


@dataclass(frozen=True)
class Frame:
    """Axes on a picture of the usual size.

    Attributes:
        x, y: the axes.
        right: room at the right side, for names of lines.
    """

    x: Axis
    y: Axis
    right: float = _RIGHT

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Returns where a point is drawn."""
        width, height = WIDTH - _LEFT - self.right, HEIGHT - _TOP - _BOTTOM
        return _LEFT + width * self.x.share(x), _TOP + height * (1 - self.y.share(y))

    @property
    def bottom(self) -> float:
        """Where the lower end of the vertical axis is drawn."""
        return HEIGHT - _BOTTOM

    @property
    def end(self) -> float:
        """Where the right end of the horizontal axis is drawn."""
        return WIDTH - self.right

    def drawn(self) -> list[Element]:
        """Returns the axes: lines, ticks with their values, and labels."""
        parts = [text(self.y.label, 0, 15, class_="label")]
        for value in self.y.ticks:
            _, y = self.at(self.x.low, value)
            parts.append(element("line", x1=_LEFT, x2=self.end, y1=y, y2=y, class_="grid"))
            parts.append(text(self.y.written(value), _LEFT - 8, y + 5, text_anchor="end", class_="tick"))
        for value in self.x.ticks:
            x, _ = self.at(value, self.y.low)
            parts.append(element("line", x1=x, x2=x, y1=self.bottom, y2=self.bottom + 5, class_="axis"))
            parts.append(
                text(self.x.written(value), x, self.bottom + 20, text_anchor="middle", class_="tick")
            )
        parts.append(element("line", x1=_LEFT, x2=self.end, y1=self.bottom, y2=self.bottom, class_="axis"))
        parts.append(text(self.x.label, self.end, HEIGHT - 5, text_anchor="end", class_="label"))
        return parts


def percent(share: float, digits: int = 0) -> str:
    """Returns a share in percent, e.g. "63 %"."""
    return f"{100 * share:.{digits}f} %"


def compact(value: float) -> str:
    """Returns a number in few characters: 20000 as "20k"."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{0.0 if size < 1e-12 else value:.3g}".replace("-", "−")
