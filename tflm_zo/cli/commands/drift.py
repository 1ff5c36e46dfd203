"""``tflm-zo drift``."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ...io.table import table
from ...recalibration import drift as measure
from ..failures import waiting_for
from ..options import Json, ModelFile, NewSamples, RuntimeName
from ..results import show

EXAMPLE = "tflm-zo drift model.tflite new.npz"


def drift(
    model: ModelFile,
    data: NewSamples,
    runtime: RuntimeName = "litert",
    as_json: Json = False,
) -> None:
    """Measure how far new data are from the data that MODEL was made for, without labels.

    The drift of a layer is the part of its channels' shifts that is not chance, in deviations of the old data. The
    score is the median over the layers. Compare it with the score of samples on which MODEL works. A MODEL of convert,
    recalibrate or train has the statistics of its old data.
    """
    with waiting_for("measuring"):
        found = measure(model, data, runtime=runtime)
    result: dict[str, Any] = {"samples": found.samples, "score": found.score, "layers": found.layers}

    def render(console: Console) -> None:
        console.print(
            table("Drift", ["layer", "drift"], [[name, f"{size:.2f}"] for name, size in found.layers.items()])
        )
        console.print(f"score {found.score:.2f} of {found.samples:,} samples")

    show(result, as_json=as_json, render=render)
