# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Windows of convolutions and pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Windows"]


@dataclass(frozen=True)
class Windows:
    """The positions of a kernel's windows: everything as (rows, columns).

    Attributes:
        kernel: size of a window.
        stride: from one window to the next.
        outputs: number of windows.
        before: padding above and left of the image.
        after: padding below and right of it.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    outputs: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]

    @classmethod
    def of(cls, image: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], same: bool) -> Windows:
        """Computes TFLite's SAME or VALID padding."""
        outputs, before, after = [], [], []
        for size, k, s in zip(image, kernel, stride, strict=True):
            count = -(-size // s) if same else (size - k) // s + 1
            missing = max(0, (count - 1) * s + k - size) if same else 0
            outputs.append(count)
            before.append(missing // 2)
            after.append(missing - missing // 2)
        return cls(kernel, stride, _pair(outputs), _pair(before), _pair(after))

    @property
    def trivial(self) -> bool:
        """Whether every window is one pixel and every pixel a window."""
        return self.kernel == (1, 1) and self.stride == (1, 1)

    def padded(self, x: NDArray[np.int8], value: int) -> NDArray[np.int8]:
        """Pads the image [batch, rows, columns, channels]."""
        if not any(self.before + self.after):
            return x
        rows, columns = zip(self.before, self.after, strict=True)
        return np.pad(x, ((0, 0), rows, columns, (0, 0)), constant_values=value)

    def taps(self, padded: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Yields each place (i, j) in the window with a view of its values, [batch, *outputs, channels]."""
        (rows, columns), (down, right) = self.outputs, self.stride
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                bottom, end = i + down * (rows - 1) + 1, j + right * (columns - 1) + 1
                yield i, j, padded[:, i:bottom:down, j:end:right]


def _pair(values: list[int]) -> tuple[int, int]:
    return values[0], values[1]
