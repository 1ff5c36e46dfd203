# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a recalibration has come to, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..converters import Model
from ..recalibration import Recalibration, recalibrate
from .failures import note, warn
from .progress import progress

__all__ = ["UNEVEN", "recalibrated", "sentence"]

UNEVEN: Final = (
    "nothing is recalibrated: the data differ from the old ones more from place to place than as a whole, as "
    "rotated images do, or samples of one class alone; scales and biases cannot undo that"
)


def sentence(found: Recalibration) -> str:
    """Returns one line that says what was corrected, from how many samples."""
    channels = sum(layer.corrected for layer in found.layers)
    layers = sum(layer.corrected > 0 for layer in found.layers)
    return (
        f"{channels:,} channels in {layers} of {len(found.layers)} layers corrected from {found.samples:,} "
        f"new samples and {found.source_samples:,} of the old data"
    )


def recalibrated(model: Model, data: Path, runtime: str, threads: int) -> Model:
    """Returns a plain model recalibrated to a data file, and says what was done."""
    found = recalibrate(
        model,
        data,
        runtime=runtime,
        threads=threads,
        watch=lambda layers: progress(layers, len(layers), "recalibrating"),
    )
    if found.uneven:
        warn(UNEVEN)
    else:
        note(sentence(found))
    return found.model
