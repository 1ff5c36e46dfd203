# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from ... import runtime as runtimes
from ...converters import ConversionError, Model, load_model
from ...converters import inject as inject_model
from ...converters.constants import METADATA_NAME
from ...converters.settings import LOSS_KINDS
from ...data import DataError, check_labels, check_samples, load_data, quantize
from ..options import Force, Json, ModelFile, OutputReport, RuntimeName
from ..output_file import check_output
from ..progress import progress
from ..results import show, write_report

EXAMPLE = "tflm-zo evaluate model.tflite test.npz --runtime litert-ref"

_BATCH = 32  # of a plain model, where it can be had


def evaluate(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(metavar="DATA", help=".npz file with x and y.", show_default=False)],
    runtime: RuntimeName = "litert",
    loss: Annotated[
        str | None, typer.Option(help=f"Of a plain model: one of {', '.join(LOSS_KINDS[:-1])}.")
    ] = None,
    output: OutputReport = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure accuracy and mean loss of a plain or ZO model on labelled data.

    A model with a mean squared error and data without y is taken for an autoencoder: its target is x.
    """
    check_output(output, force=force)
    if runtime not in runtimes.RUNTIMES:
        raise ValueError(f"no runtime {runtime!r}; there are {', '.join(runtimes.RUNTIMES)}")
    zo = _as_zo(load_model(model), loss)
    loaded = runtimes.load(zo, runtime)
    x, y = _samples_and_labels(loaded, data)
    names = {"model": str(model), "data": str(data), "runtime": runtime}
    result: dict[str, Any] = {**names, **_run(loaded, x, y)}
    write_report(output, result, force=force)
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _as_zo(model: Model, loss: str | None) -> Model:
    """A ZO model as it is; a plain one with a loss and nothing to train, which computes the same."""
    if model.find_metadata(METADATA_NAME) is not None:
        if loss is not None:
            raise ConversionError("--loss: a ZO model has its own loss")
        return model
    if loss is not None and loss not in LOSS_KINDS[:-1]:
        raise ConversionError(f"--loss must be one of {', '.join(LOSS_KINDS[:-1])}, not {loss!r}")
    graph_inputs = model.subgraphs[0].inputs if model.subgraphs else []
    own = graph_inputs[0].shape[0] if graph_inputs and graph_inputs[0].shape else 1
    settings: dict[str, Any] = {"trainable": "none", "head_room": 0, "replay": False, "loss": loss or "auto"}
    if own == 1:
        try:
            return inject_model(model, batch=_BATCH, **settings)
        except ConversionError:
            pass  # an operator may tie the model to its batch size; anything else is said again below
    return inject_model(model, batch=max(own, 1), **settings)


def _samples_and_labels(runtime: runtimes.Runtime, path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """All samples and labels as the model takes them."""
    loss, names = runtime.metadata.loss, runtime.metadata.original.inputs
    if len(names) != 1:
        raise DataError(f"the model has {len(names)} inputs ({', '.join(names)}); a data file feeds one")
    if loss is None:
        raise DataError("the model has no loss, so there is nothing to measure; inject it with one")
    shape, dtype, scale, zero_point = runtime.input_details()
    data = load_data(path, labels=loss.kind != "mse")
    x = check_samples(data.x, shape)
    targets = x if data.y is None and loss.kind == "mse" else data.y
    y = check_labels(targets, loss)
    if loss.kind == "mse":
        y = y.reshape(len(y), *runtime.output_details()[0][1:])
    return quantize(x, scale, zero_point, dtype), y


def _run(runtime: runtimes.Runtime, x: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    loss, batch = runtime.metadata.loss, runtime.batch
    assert loss is not None
    classifies = loss.kind != "mse"
    labelled = y >= 0 if classifies else np.ones(len(y), np.bool_)
    if not labelled.any():
        raise DataError("y: no sample has a label (all are -1)")
    total, right = 0.0, 0
    starts = range(0, len(x), batch)
    for start in progress(starts, len(starts), "evaluating"):
        used = min(batch, len(x) - start)
        rows = start + np.minimum(np.arange(batch), used - 1)  # the last batch repeats its last sample
        runtime.set_inputs(x[rows])
        runtime.set_labels(y[rows])
        runtime.invoke(runtime.command())
        total += float(runtime.losses()[:used].sum(dtype=np.int64)) / 65536
        if classifies:
            known = labelled[rows][:used]
            right += int(((_guesses(runtime, y.ndim) == y[rows])[:used] & known).sum())
    count = int(labelled.reshape(len(y), -1).any(1).sum())
    return {
        "samples": len(x),
        "labelled": count,
        "batch": batch,
        "loss_kind": loss.kind,
        "loss": total / count,
        "accuracy": right / int(labelled.sum()) if classifies else None,
    }


def _guesses(runtime: runtimes.Runtime, dimensions: int) -> NDArray[Any]:
    """Classes [batch], or 0 and 1 [batch, outputs], from the output that the loss belongs to."""
    loss = runtime.metadata.loss
    assert loss is not None
    # The metadata do not say which output that is: the first that has as many values.
    outputs = [v.reshape(len(v), -1) for v in runtime.outputs()]
    index = next(i for i, value in enumerate(outputs) if value.shape[1] == loss.elements)
    if dimensions == 1:
        return np.asarray(outputs[index].argmax(1))
    _, dtype, scale, zero_point = runtime.output_details(index)
    is_logit = scale == np.float32(loss.scale) and zero_point == loss.zero_point
    real = (outputs[index].astype(np.float64) - zero_point) * scale if dtype == np.int8 else outputs[index]
    return real > (0.0 if is_logit else 0.5)


def _render(console: Console, result: dict[str, Any]) -> None:
    accuracy = "" if result["accuracy"] is None else f"accuracy {result['accuracy']:.2%}, "
    console.print(
        f"{accuracy}{result['loss_kind']} {result['loss']:.4f} "
        f"({result['labelled']:,} labelled of {result['samples']:,} samples, {result['runtime']})",
    )
