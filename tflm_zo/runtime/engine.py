# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A segment of a ZO model in an interpreter: the interface that each runtime implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core import Directory

__all__ = ["Engine", "InvokeError", "RuntimeUnavailableError", "Segment", "Status"]


class RuntimeUnavailableError(ImportError):
    """The runtime asked for is not installed; the message says what installs it."""


class InvokeError(RuntimeError):
    """The interpreter stopped with an error; the message carries its own words."""


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


@dataclass(frozen=True)
class Segment:
    """One segment in its interpreter; numbers index its inputs and outputs, None where it has none."""

    engine: Engine
    directory: Directory
    inputs: dict[int, int]  # original input -> input of the segment
    outputs: dict[int, int]  # original output -> output of the segment
    boundary_input: int | None
    skips: dict[int, int]  # segment that a boundary entered -> input of this segment
    boundary_output: int | None
    label: int | None
    command: int | None
    loss: int | None
    status: int | None


@dataclass(frozen=True)
class Status:
    """Diagnostics of the last invoke (``zo_status``).

    Attributes:
        steps: steps applied since the weights were initialized or all restored, replayed ones included.
        saturated: number of weights that the last invoke clipped to the headroom.
        checksum: checksum of all trainable weights and fractions after the last invoke's weight ops, where
            the command asked for it, else 0; it does not depend on the model's cuts.
    """

    steps: int
    saturated: int
    checksum: int

    @classmethod
    def of(cls, words: NDArray[np.int64]) -> Status:
        """Sums the ``zo_status`` of segments up, [segments, 4]."""
        steps = int(words[:, 1].max(initial=0))
        return cls(steps, int(words[:, 2].sum()), int(words[:, 3].sum()) & 0xFFFFFFFF)
