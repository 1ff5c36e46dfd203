"""``tflm-zo recalibrate``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from ...converters import load_model
from ...io.table import table
from ...recalibration import Recalibration
from ...recalibration import recalibrate as recalibrate_model
from ..failures import warn
from ..options import Force, Json, ModelFile, NewSamples, OutputModel, RuntimeName, Threads, optional
from ..output_file import check_outputs, write_output
from ..results import progress, show

EXAMPLE = "tflm-zo recalibrate model.tflite new.npz -o recalibrated.tflite"


def recalibrate(
    model: ModelFile,
    data: NewSamples,
    output: OutputModel,
    source: Annotated[
        Path | None,
        optional("FILE", "Samples of the data that MODEL was made for (default: the statistics in MODEL).", "Data"),
    ] = None,
    runtime: RuntimeName = "litert",
    threads: Threads = 1,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Restore each channel's mean and deviation on new data, without labels.

    New data shift the mean and the deviation of each channel of each layer. Changes of filter scales and biases
    correct the shift; weights, operators and arena do not change. 16 samples are enough. A MODEL of convert or
    recalibrate has the statistics of its old data.
    """
    check_outputs({"MODEL": model, "DATA": data, "--source": source}, {"-o": output}, force=force)
    found = recalibrate_model(
        load_model(model),
        data,
        source=source,
        runtime=runtime,
        threads=threads,
        watch=lambda layers: progress(layers, len(layers), "recalibrating"),
    )
    written = found.model.to_bytes()
    write_output(output, written, force=force)
    if found.uneven:
        warn(found.sentence)
    result: dict[str, Any] = {
        "output": str(output),
        "bytes": len(written),
        "runtime": runtime,
        "samples": found.samples,
        "source_samples": found.source_samples,
        "uneven": found.uneven,
        "layers": [dataclasses.asdict(layer) for layer in found.layers],
    }
    show(result, as_json=as_json, render=lambda console: _render(console, found, f"{output}: {len(written):,} bytes"))


def _render(console: Console, found: Recalibration, file: str) -> None:
    rows = [
        [
            *(c.layer, c.operator, c.left_alone or f"{c.corrected} of {c.channels} channels"),
            *(f"{c.mean_shift:.2f}", f"{c.mean_share:.0%}", f"{c.deviation_shift:.2f}", f"{c.deviation_share:.0%}"),
        ]
        for c in found.layers
    ]
    columns = ["layer", "operator", "corrected", "mean's shift", "undone", "log deviation's shift", "undone"]
    console.print(table("Layers", columns, rows))
    console.print(f"{file}; {found.sentence}")
