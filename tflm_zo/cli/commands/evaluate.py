# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo evaluate``."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer
from rich.console import Console

from ... import runtime as runtimes
from ...converters import ConversionError, InjectSettings, Model, load_model
from ...converters.settings import LOSS_KINDS, LossKind
from ...data import prepare
from ...training.evaluation import evaluate as evaluate_runtime
from ...training.injection import inject_plain, is_zo
from ..injection import parse_loss_output, say_loss_output
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
)
from ..output_file import check_output
from ..progress import progress
from ..results import show, write_report

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
        typer.Option(
            help=f"Loss of a plain model: {', '.join(_LOSSES)} (default: auto).",
            show_default=False,
            rich_help_panel="Data",
            **choice(_LOSSES, listed=False),
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
    check_output(output, force=force)
    if runtime not in runtimes.RUNTIMES:
        raise ValueError(f"no runtime {runtime!r}; there are {', '.join(runtimes.RUNTIMES)}")
    zo = _as_zo(load_model(model), loss, loss_output)
    loaded = runtimes.load(zo, runtime, threads=threads)
    given = prepare(loaded, data, labels)
    found = evaluate_runtime(loaded, given, lambda starts: progress(starts, len(starts), "evaluating"))
    assert loaded.metadata.loss is not None  # prepare has refused such a model
    result: dict[str, Any] = {
        "model": str(model),
        "data": str(data),
        "runtime": runtime,
        "batch": loaded.batch,
        "loss_kind": loaded.metadata.loss.kind,
        "samples": found.samples,
        "labelled": found.labelled,
        "loss": found.loss,
        "accuracy": found.accuracy,
    }
    write_report(output, result, force=force)
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _as_zo(model: Model, loss: str | None, loss_output: str | None) -> Model:
    """Returns a ZO model as it is, and a plain model with a loss added, which computes the same."""
    if is_zo(model):
        if loss is not None:
            raise ConversionError("--loss: a ZO model has its own loss")
        if loss_output is not None:
            raise ConversionError("--loss-output: a ZO model has its own loss")
        return model
    output = parse_loss_output(loss_output)
    kind = cast(LossKind, (loss or "auto").replace("-", "_"))
    zo = inject_plain(model, InjectSettings(trainable="none", loss=kind, loss_output=output))
    say_loss_output(zo, output)
    return zo


def _render(console: Console, result: dict[str, Any]) -> None:
    accuracy = "" if result["accuracy"] is None else f"accuracy {result['accuracy']:.2%}, "
    console.print(
        f"{accuracy}{result['loss_kind']} {result['loss']:.5g} "
        f"({result['labelled']:,} labelled of {result['samples']:,} samples, {result['runtime']})",
    )
