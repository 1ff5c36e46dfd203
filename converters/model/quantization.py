# SPDX-License-Identifier: Apache-2.0
"""Quantization parameters of a tensor."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from .schema import schema


@dataclasses.dataclass(eq=False)
class Quantization:
    """Affine quantization, real = scale * (stored - zero point).

    Attributes:
        scales: scales, float32 [channels]; [1] for the whole tensor; [0] where the table holds no parameters.
        zero_points: zero points, int64 [scales]; files of older converters may have another number of them.
        axis: dimension of the channels; meaningless where there is one scale.
        raw: the object of the generated schema, which keeps all that is not modelled here (min, max,
            details).
    """

    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.int64]
    axis: int = 0
    raw: Any = dataclasses.field(default_factory=schema.QuantizationParametersT)

    @property
    def is_per_channel(self) -> bool:
        """True if there is more than one scale."""
        return len(self.scales) > 1

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantization (the first one otherwise), as the float32 it is."""
        return float(self.scales[0])

    @property
    def zero_point(self) -> int:
        """The zero point that belongs to ``scale``; 0 where none is stored."""
        return int(self.zero_points[0]) if len(self.zero_points) else 0

    def copy(self) -> Quantization:
        """Returns a copy with arrays of its own."""
        return dataclasses.replace(self, scales=self.scales.copy(), zero_points=self.zero_points.copy())
