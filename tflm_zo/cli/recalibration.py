# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a recalibration has come to, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..converters import InjectSettings, Model, read_metadata
from ..converters.channel_statistics import read_statistics
from ..io.arrays import read_arrays
from ..recalibration import Recalibration, recalibrate
from ..training.injection import inject_plain
from .failures import note, warn
from .injection import parse_loss_output
from .progress import progress
from .set_option import parse_injection, split_set

__all__ = ["UNEVEN", "recalibrated", "sentence", "usually_recalibrated"]

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


def usually_recalibrated(
    model: Model,
    data: Path,
    labels: Path | None,
    set_options: Sequence[str] | None,
    loss_output: str | None,
) -> bool:
    """Returns whether a run recalibrates a plain model unasked; says so where its loss alone is against it.

    A model that keeps statistics is recalibrated, unless it is trained to reproduce its input. Such a network
    knows what its inputs are like, and nothing else: with its channels led back to the old inputs it
    reproduces the old ones, not the new (`examples/machine_sounds`).

    Raises:
        ConversionError: the model's loss cannot be told.
        DataError: the data cannot be read.
    """
    if read_statistics(model) is None:
        return False
    given = parse_injection(split_set(set_options)[1])
    settings = InjectSettings(
        trainable="none", loss=given.get("loss", "auto"), loss_output=parse_loss_output(loss_output)
    )
    loss = read_metadata(inject_plain(model, settings, batch=1)).loss
    reproduces = loss is not None and loss.kind == "mse" and labels is None and "y" not in read_arrays(data)
    if reproduces:
        note(
            "nothing is recalibrated: the model learns to reproduce its input, which recalibration makes no "
            "easier; --recalibrate asks for it"
        )
    return not reproduces
