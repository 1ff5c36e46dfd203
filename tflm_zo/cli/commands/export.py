"""``tflm-zo export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...converters import export_model
from ...data import read_arrays
from ..options import ExportBatch, Force, Json, OutputModel, ReRange, ZoModelFile, optional
from ..output_file import check_outputs, write_output
from ..results import show

EXAMPLE = "tflm-zo export model.zo.tflite -o trained.tflite --weights weights.npz --batch 1"


def export(
    model: ZoModelFile,
    output: OutputModel,
    weights: Annotated[
        Path | None,
        optional("FILE", "An .npz file of int8 weights by filter name (default: the initial weights).", "Files"),
    ] = None,
    batch: ExportBatch = None,
    re_range: ReRange = False,
    fractions: Annotated[
        Path | None,
        optional("FILE", "An .npz file of the weights' fraction bytes by filter name, for --re-range.", "Files"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Export a ZO model as a plain int8 model without custom operators."""
    check_outputs({"MODEL": model}, {"-o": output}, force=force)
    given = {} if weights is None else read_arrays(weights)
    rest = {} if fractions is None else read_arrays(fractions)
    data = export_model(model, given, batch=batch, fractions=rest, re_range=re_range).to_bytes()
    write_output(output, data, force=force)
    result = {"output": str(output), "bytes": len(data), "weights": sorted(given), "re_range": re_range}
    told = f"{output}: {len(data):,} bytes, {len(given)} filter(s) from {weights or 'the model alone'}"
    scales = ", scales from the range of the weights" if re_range else ""
    show(result, as_json=as_json, render=told + scales)
