# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The search for the block of layers that is best trained alone, on the desktop and on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..converters import ZoMetadata
from .checks import SettingsError, check_integer, check_number
from .plan import trained_tensors
from .settings import Settings

__all__ = ["BlockSearch", "check_layerwise"]


@dataclass(frozen=True)
class BlockSearch:
    """A search for the best block; see `choose_block`.

    Attributes:
        blocks: number of blocks, 1 to the number of layers that are trained.
        held_out: share of the labelled samples that judge the probes, 0..1.
        epochs: epochs of each probe, >= 1.

    Raises:
        SettingsError: a value is out of range.
    """

    blocks: int = 4
    held_out: float = 0.2
    epochs: int = 1

    def __post_init__(self) -> None:
        """Checks every range."""
        check_integer("blocks", self.blocks, 1, 2**31)
        check_integer("epochs", self.epochs, 1, 2**31)
        check_number("held_out", self.held_out, 0.0, 1.0)

    def split(self, settings: Settings, metadata: ZoMetadata) -> tuple[tuple[str, ...], ...]:
        """Returns the names of the layers of each block: consecutive layers in execution order, in groups of
        nearly equal number, the larger ones first.

        Raises:
            SettingsError: the settings are of weight perturbation, or there are more blocks than layers.
        """
        check_layerwise(settings)
        tensors = trained_tensors(settings, metadata)
        names = list(dict.fromkeys(metadata.trainable[i].layer for i in tensors))
        if self.blocks > len(names):
            raise SettingsError(
                f"blocks: expected 1..{len(names)}, the number of layers that are trained "
                f"({', '.join(names)}), got {self.blocks}"
            )
        parts = np.array_split(np.arange(len(names)), self.blocks)
        return tuple(tuple(names[i] for i in part) for part in parts)


def check_layerwise(settings: Settings) -> None:
    """Raises SettingsError where the settings are of weight perturbation."""
    if not settings.is_layerwise:
        raise SettingsError("a block is chosen for layer-wise runs, not for weight perturbation")
