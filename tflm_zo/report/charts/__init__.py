# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Pictures of a report, in SVG: drawn from its data, without a script that would have to run."""

from __future__ import annotations

from .axes import percent
from .bars import Bar, bar_chart, histogram
from .cells import LEVELS, landscape, matrix
from .dumbbells import dumbbells
from .lines import Line, line_chart
from .svg import HEIGHT, Cell, Picture, drawing

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
