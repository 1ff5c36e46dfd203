"""``tflm-zo convert``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...converters.passes.layer_names import shown_name
from ...io.table import table
from ..failures import warn
from ..options import Force, Json, OutputModel, argument
from ..output_file import check_outputs, write_output
from ..results import show

EXAMPLE = "tflm-zo convert model.keras train.npz -o model.tflite"


def convert(
    model: Annotated[Path, argument("MODEL", "A .keras or .h5 file, a SavedModel, or a float32 .tflite file.")],
    representative: Annotated[
        Path,
        argument(
            "DATA",
            "An .npz file of typical inputs (x, or arrays by the inputs' names; y: labels), or an .npy file of x.",
        ),
    ],
    output: OutputModel,
    batch: Annotated[int, typer.Option(help="Samples per invoke.")] = 1,
    per_channel_dense: Annotated[bool, typer.Option(help="Quantize Dense layers per output channel.")] = True,
    activation_headroom: Annotated[
        float, typer.Option(help="Fraction by which to widen the ranges of activations.")
    ] = 0.0,
    classes: Annotated[
        int | None, typer.Option(help="Number of outputs of the last layer, to add new classes later.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Convert a Keras model (needs TensorFlow) or a float .tflite (needs ai-edge-quantizer) to full int8."""
    if model.suffix == ".tflite":
        from ...conversion.quantize import quantize as convert_model
    else:
        from ...conversion.keras import convert as convert_model

    check_outputs({"MODEL": model, "DATA": representative}, {"-o": output}, force=force)
    for path in (model, representative):
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file")
    converted = convert_model(
        str(model),
        str(representative),
        batch=batch,
        per_channel_dense=per_channel_dense,
        activation_headroom=activation_headroom,
        classes=classes,
    )
    data = converted.model.to_bytes()
    write_output(output, data, force=force)
    report = dataclasses.asdict(converted.report)
    result: dict[str, Any] = {"output": str(output), "bytes": len(data), **report}
    for message in converted.report.warnings:
        warn(message)
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _render(console: Console, result: dict[str, Any]) -> None:
    rows = [
        [kind, shown_name(port["name"]), "x".join(map(str, port["shape"])), f"{port['scale']:g}", port["zero_point"]]
        for kind in ("inputs", "outputs")
        for port in result[kind]
    ]
    console.print(table("Inputs and outputs", ["", "name", "shape", "scale", "zero point"], rows))
    for note in result["notes"]:
        console.print(note)
    if result["float_accuracy"] is not None:
        console.print(f"accuracy here: float {result['float_accuracy']:.2%}, int8 {result['int8_accuracy']:.2%}")
    console.print(f"{result['output']}: {result['bytes']:,} bytes, {len(result['operators'])} operators")
