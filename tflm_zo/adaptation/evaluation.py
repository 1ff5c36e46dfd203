"""The evaluation of a model, of its file or its bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ..converters import InjectSettings, Model, load_model
from ..converters.loss_parts import loss_text, parse_parts
from ..converters.model import Subgraph, Tensor
from ..converters.model.schema import TensorType
from ..converters.passes.loss import logits_of, output_number, part_output
from ..converters.settings import Loss, LossOver
from ..converters.states import main_graph
from ..data import Labels, Samples, prepare
from ..io.arrays import as_array, labels_of, padded, read_arrays, read_labels, unmasked
from ..io.errors import SettingsError
from ..runtime import load
from ..training.evaluation import Evaluation, Watch
from ..training.evaluation import evaluate as evaluate_loaded
from ..training.injection import inject_plain, is_zo


def with_loss(
    model: Model | bytes | str | os.PathLike[str],
    loss: Loss | None = None,
    loss_output: int | str | None = None,
    loss_over: LossOver = "auto",
) -> Model:
    """Returns a ZO model as it is, and a plain model with a loss, which computes the same outputs.

    Args:
        model: a plain int8 model or a ZO model, its bytes or its path.
        loss: loss of a plain model, see `InjectSettings`; None: "auto".
        loss_output: output of a plain model that the loss belongs to, see `InjectSettings`.
        loss_over: loss of a sequence of a plain model, see `InjectSettings`.

    Raises:
        ConversionError: the model cannot have the loss.
        SettingsError: a loss is given for a ZO model, which has its own.
    """
    source = load_model(model)
    if not is_zo(source):
        own = InjectSettings(trainable="none", loss=loss or "auto", loss_output=loss_output, loss_over=loss_over)
        return inject_plain(source, own)
    for name, value in (("loss", loss), ("loss_output", loss_output)):
        if value is not None:
            raise SettingsError(name, "be left out, since a ZO model has its own loss")
    return source


def loss_told(
    model: Model,
    x: Samples,
    y: Labels | None = None,
    loss: Loss | None = None,
    loss_output: int | str | None = None,
) -> Loss | None:
    """Returns the loss that the labels tell, or the given one where that or the model tells it.

    The last operator of a classifier tells the loss. Without a SOFTMAX or LOGISTIC, the labels do: integers of a number
    for each place mean the cross-entropy, 0 and 1 for each output the binary cross-entropy, and others, in the shape of
    the output, the mean squared error. Labels of several outputs make a sum of such losses. For arguments see
    `evaluate`.

    Raises:
        DataError: the labels cannot be read.
        ConversionError: labels are of an output that the model does not have.
    """
    labels = labels_in(x) if y is None else read_labels(y)
    graph = main_graph(model)
    # A damaged model is left to `inject`, which refuses it.
    if loss not in (None, "auto") or is_zo(model) or labels is None or graph is None or not graph.outputs:
        return loss
    if not isinstance(labels, Mapping):
        told = _told(graph, graph.outputs[output_number(graph, loss_output)], labels)
        return loss if told is None else cast(Loss, told)
    parts = parse_parts(loss_text({str(key): "auto" for key in labels}))
    outputs = [graph.outputs[part_output(graph, p)] for p in parts]
    pairs = zip(parts, outputs, strict=True)
    return {p.key: _told(graph, output, labels[p.key], p.begin, p.end) or "auto" for p, output in pairs}


def _told(graph: Subgraph, output: Tensor, labels: Any, begin: int = 0, end: int | None = None) -> str | None:
    """Returns the kind of loss that labels of some channels of an output tell, or None."""
    if logits_of(graph, output)[1] is not None or output.type not in _OF_VALUES or not (output.shape and output.size):
        return None
    given, channels = unmasked(padded(labels, "y", -1)[0], "y"), len(range(output.shape[-1])[begin:end])
    if given.dtype.kind != "f":
        given = as_array(given, "y")  # of targets by part, NaN is none
    if given.ndim == 0:
        return None
    values = output.size // output.shape[0] // output.shape[-1] * channels
    if given.size == len(given) * values:
        if np.isin(given, (-1, 0, 1)).all():
            rows = given.reshape(-1, channels)
            return "cross_entropy" if channels > 1 and (rows.sum(1) == 1).all() else "binary_cross_entropy"
        return "mse"
    return None if given.dtype.kind == "f" or channels < 2 else "cross_entropy"


_OF_VALUES = (TensorType.INT8, TensorType.INT16, TensorType.UINT8, TensorType.FLOAT32)


def labels_in(x: Samples) -> Any:
    """Returns the array `y` of a file or a dictionary of samples, or None."""
    if isinstance(x, str | os.PathLike):
        return labels_of(read_arrays(x))
    return labels_of(x) if isinstance(x, Mapping) else None


def evaluate(
    model: Model | bytes | str | os.PathLike[str],
    x: Samples,
    y: Labels | None = None,
    *,
    runtime: str = "litert",
    threads: int = 1,
    loss: Loss | None = None,
    loss_output: int | str | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """Measures the accuracy and the mean loss of a model on labelled samples, as ``tflm-zo evaluate`` does.

    Args:
        model: a plain int8 model or a ZO model, its bytes or its path.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results.
        loss: loss of a plain model, as `with_loss` takes it. None: as `loss_told` tells it.
        loss_output: output that the loss belongs to, as `with_loss` takes it.
        watch: function that passes on the batches' first samples, for a progress bar.

    Raises:
        ConversionError: the model cannot have the loss.
        DataError: the data do not fit the model, or have no label at all.
    """
    source = load_model(model)
    loaded = load(with_loss(source, loss_told(source, x, y, loss, loss_output), loss_output), runtime, threads=threads)
    return evaluate_loaded(loaded, prepare(loaded, x, y), watch)
