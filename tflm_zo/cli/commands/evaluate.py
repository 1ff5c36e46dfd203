"""``tflm-zo evaluate``."""

from __future__ import annotations

from typing import Annotated, Any

from ...adaptation import evaluate as evaluate_model
from ...adaptation import loss_told, with_loss
from ...converters import load_model, read_metadata
from ...converters.loss_parts import ERRORS
from ...converters.settings import LOSS_KINDS
from ..options import (
    DataFile,
    Force,
    Json,
    LabelsFile,
    LossOutput,
    ModelFile,
    OutputReport,
    RuntimeName,
    Threads,
    choice,
    optional,
)
from ..output_file import check_outputs
from ..results import progress, show, write_report
from ..set_option import parse_loss, parse_loss_output, say_loss_output

EXAMPLE = "tflm-zo evaluate model.tflite test.npz --runtime litert"

_LOSSES = tuple(kind.replace("_", "-") for kind in LOSS_KINDS if kind != "none")


def evaluate(
    model: ModelFile,
    data: DataFile,
    labels: LabelsFile = None,
    runtime: RuntimeName = "litert",
    threads: Threads = 1,
    loss: Annotated[
        str | None,
        optional(
            None,
            f"Loss of a plain model: {', '.join(_LOSSES)}, or OUTPUT=LOSS*WEIGHT,… for a sum (default: auto).",
            "Data",
            **choice(_LOSSES, listed=False, others="="),
        ),
    ] = None,
    loss_output: LossOutput = None,
    output: OutputReport = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure accuracy and mean loss of a plain or ZO model on labelled data.

    A model with a mean squared error is taken for an autoencoder, whose target is x, if the data have no y.
    """
    check_outputs({"MODEL": model, "DATA": data}, {"-o": output}, force=force)
    source, wanted = load_model(model), parse_loss_output(loss_output)
    kind = loss_told(source, data, labels, parse_loss(loss), wanted)
    zo = with_loss(source, kind, wanted)
    if zo is not source:
        say_loss_output(zo, wanted)
    found = evaluate_model(
        zo,
        data,
        labels,
        runtime=runtime,
        threads=threads,
        watch=lambda starts: progress(starts, len(starts), "evaluating"),
    )
    metadata = read_metadata(zo)
    assert metadata.loss is not None  # evaluate_model has refused such a model
    result: dict[str, Any] = {
        "model": str(model),
        "data": str(data),
        "runtime": runtime,
        "batch": metadata.batch,
        "loss_kind": metadata.loss.kind,
        "samples": found.samples,
        "labelled": found.labelled,
        "loss": found.loss,
        "accuracy": found.accuracy,
        **({"parts": found.parts} if found.parts else {}),
    }
    write_report(output, result, force=force)
    accuracy = "" if found.accuracy is None else f"accuracy {found.accuracy:.2%}, "
    parts = {part.key: part.kind for part in metadata.loss.parts}
    accuracy += "".join(
        f"{key}: {f'error {value:.4g}' if parts[key] in ERRORS else f'accuracy {value:.2%}'}, "
        for key, value in found.parts.items()
    )
    samples = f"{found.labelled:,} labelled of {found.samples:,} samples"
    told = f"{accuracy}{metadata.loss.kind} {found.loss:.5g} ({samples}, {runtime})"
    show(result, as_json=as_json, render=told)
