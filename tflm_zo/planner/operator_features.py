# SPDX-License-Identifier: Apache-2.0
"""What the instructions of an operator depend on: its kernel, and counts that follow from its shapes."""

from __future__ import annotations

import math

from ..converters.kernels import macs
from ..converters.model import Operator
from ..converters.model.schema import BuiltinOperator as B

__all__ = ["FEATURES", "features"]

#: Counts of an operator. `blocks` are groups of up to 16 products that are summed up together, as many as a
#: vector register of MVE holds; `positions` those of an image; `patches` the values that a convolution copies
#: into rows; `rows` the pieces
#: in which it copies them; `odd` the weights where one position is left when two at a time are computed;
#: `variable` those that are no constant, whose sums kernels cannot keep.
FEATURES = (
    "call",
    "macs",
    "blocks",
    "outputs",
    "positions",
    "patches",
    "rows",
    "inputs",
    "weights",
    "odd",
    "variable",
)

_BLOCK = 16


def features(op: Operator) -> tuple[str, dict[str, int]]:
    """Returns the name of the kernel that an operator runs, and what its instructions grow with.

    Args:
        op: an operator with int8 tensors and a batch of one sample.
    """
    kind = op.code.name
    first, output = op.input(0), op.outputs[0]
    positions = output.size // output.shape[-1] if output.shape else 1
    counts = {
        "call": 1,
        "outputs": output.size,
        "inputs": 0 if first is None else first.size,
        "positions": positions,
    }
    filters = op.input(1)
    if op.builtin not in (B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED) or filters is None:
        return kind, counts
    counts["macs"] = macs(op)
    counts["weights"] = filters.size
    counts["odd"] = filters.size if positions % 2 else 0
    counts["variable"] = filters.size if filters.is_variable else 0
    if op.builtin == B.FULLY_CONNECTED:
        counts["blocks"] = output.size * -(-filters.shape[-1] // _BLOCK)
        del counts["weights"], counts["odd"]  # they are what is multiplied
        return kind, counts
    height, width = filters.shape[1:3]
    if op.builtin == B.DEPTHWISE_CONV_2D:
        counts["blocks"] = positions * height * width * -(-output.shape[-1] // _BLOCK)
        return (f"{kind} 3x3" if height == width == 3 else kind), counts
    row = math.prod(filters.shape[1:])
    counts["blocks"] = output.size * -(-row // _BLOCK)
    if height == width == 1:
        return f"{kind} 1x1", counts
    counts["patches"], counts["rows"] = positions * row, positions * height
    return kind, counts
