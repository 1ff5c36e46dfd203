# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Pictures of a report, in SVG: drawn from its data, without a script that would have to run."""

from __future__ import annotations

from .bars import Bar, bar_chart, dumbbells, histogram
from .cells import LEVELS, landscape, matrix
from .lines import Line, line_chart
from .svg import HEIGHT, Cell, Picture, drawing, percent

__all__ = [
    "HEIGHT",
    "LEVELS",
    "Bar",
    "Cell",
    "Line",
    "Picture",
    "bar_chart",
    "drawing",
    "dumbbells",
    "histogram",
    "landscape",
    "line_chart",
    "matrix",
    "percent",
]
