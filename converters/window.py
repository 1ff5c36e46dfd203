# SPDX-License-Identifier: Apache-2.0
"""The window of a convolution or a pooling along one axis of its image."""

from __future__ import annotations

import dataclasses
from typing import Final

from .model import Operator
from .model.schema import BuiltinOperator

_SAME: Final = 0  # Padding.SAME
_DILATED: Final = (BuiltinOperator.CONV_2D, BuiltinOperator.DEPTHWISE_CONV_2D)


@dataclasses.dataclass(frozen=True)
class Window:
    """A window along one axis.

    Attributes:
        size: number of values that it reads.
        stride: number of values from one position of the window to the next.
        dilation: distance of two values that the window reads one after the other.
        same: True if the image is padded with zeros (``Padding.SAME``).
    """

    size: int
    stride: int
    dilation: int
    same: bool

    @classmethod
    def of(cls, op: Operator, side: str, size: int) -> Window:
        """The window of an operator.

        Args:
            op: convolution or pooling that has the window.
            side: "h" or "w", the axis.
            size: number of values that it reads; the options of a convolution do not have it.
        """
        return cls(
            size=size,
            stride=int(op.option(f"stride{side.upper()}", 1)),
            dilation=int(op.option(f"dilation{side.upper()}Factor", 1)) if op.builtin in _DILATED else 1,
            same=op.option("padding", _SAME) == _SAME,
        )

    @property
    def reach(self) -> int:
        """From the first value that it reads to the last one, both included."""
        return (self.size - 1) * self.dilation + 1

    def positions(self, length: int) -> int:
        """Returns the number of positions on an axis of this length."""
        return -(-(length if self.same else length - self.reach + 1) // self.stride)

    def zeros_before(self, length: int, positions: int) -> int:
        """Zeros of the padding before the first value of an axis."""
        if not self.same:
            return 0
        return max((positions - 1) * self.stride + self.reach - length, 0) // 2
