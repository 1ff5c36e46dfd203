# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The interface that a runtime implements: one segment of a ZO model in one interpreter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Engine"]


class Engine(ABC):
    """One standalone, single-subgraph model in one interpreter."""

    keeps_inputs: ClassVar[bool] = False
    """True if inputs are after an invoke what they were before it."""

    @abstractmethod
    def set_input(self, index: int, value: NDArray[Any]) -> None:
        """Copies `value`, of the input's shape and dtype, into input `index`."""

    @abstractmethod
    def get_output(self, index: int) -> NDArray[Any]:
        """Returns a copy of output `index`."""

    @abstractmethod
    def invoke(self) -> None:
        """Runs the model once.

        Raises:
            InvokeError: an operator failed.
        """

    @abstractmethod
    def input_details(self, index: int) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Returns shape, dtype, scale and zero point of input `index` (0.0 and 0 if not quantized)."""

    @abstractmethod
    def output_details(self, index: int) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Returns shape, dtype, scale and zero point of output `index` (0.0 and 0 if not quantized)."""
