# SPDX-License-Identifier: Apache-2.0
"""Samples that are compiled into the example."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class SampleArrays:
    """Samples as the model reads them.

    Attributes:
        inputs: int8 [samples, ...], one array per input.
        labels: int32 [samples] or [samples, outputs], or int8 [samples, outputs].
    """

    inputs: Sequence[npt.NDArray[np.int8]]
    labels: npt.NDArray[np.int32] | npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.labels)
