"""The inputs of a ZO model, and the preparation of samples and labels for them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..converters import ConversionError, Model, ZoLoss, ZoMetadata, load_model, read_metadata
from ..converters.model import Subgraph, Tensor
from ..converters.model.schema import DTYPES
from ..converters.model.schema import BuiltinOperator as B
from ..io.arrays import (
    Gathered,
    as_array,
    as_labels,
    check_count,
    class_labels,
    gather,
    in_shape,
    in_steps,
    integer_labels,
    naming,
    read_labels,
)
from ..io.errors import DataError
from .levels import quantize, real_samples, warn_implausible
from .part_labels import part_labels

Details = tuple[tuple[int, ...], np.dtype[Any], float, int]
"""Shape, dtype, scale and zero point of a model's input or output."""


@dataclasses.dataclass(frozen=True)
class Data:
    """Prepared samples and labels. The length is the number of samples.

    Attributes:
        inputs: an array [samples, ...] for each input, of the input's shape and type; of sequences [samples, steps,
            ...].
        labels: int32 [samples] or [samples, places] (classes), int32 [samples, outputs] (0 and 1), in all -1 for a
            missing label, or int8 [samples, ...] (targets of the mean squared error); of sequences of each step.
        steps: number of steps of each sequence; 1 if the samples are no sequences.
    """

    inputs: Sequence[NDArray[Any]]
    labels: NDArray[Any]
    steps: int = 1

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Any) -> Data:
        """Returns the samples of a slice, of numbers, or of a bool for each sample."""
        return Data([x[rows] for x in self.inputs], self.labels[rows], self.steps)

    def __add__(self, other: Data) -> Data:
        if self.steps != other.steps:
            raise DataError(
                f"Sequences must have the same number of steps. Received: {self.steps} and {other.steps}. "
                "Pad the shorter ones, with labels -1 for the padding"
            )
        pairs = zip(self.inputs, other.inputs, strict=True)
        return Data([np.concatenate(pair) for pair in pairs], np.concatenate([self.labels, other.labels]), self.steps)


Samples = ArrayLike | Mapping[str, ArrayLike] | os.PathLike[str] | Data
"""Samples of a data set, [samples, ...].

A model with one input takes an array or a list of samples; one with several takes a list or tuple of them in
the order of its inputs, or a dictionary by their names. Either takes the path of an ``.npz`` or ``.npy``
file. Files and dictionaries may have the labels, too, as ``y``. Dimensions of size 1 may be missing or extra.

Floating-point samples are in the units that the model was trained on; int8 (or uint8) samples are the levels
of an input of that type; uint8 samples of another input are pixels, read as the range that the input covers,
0..1 or 0..255.
"""

Labels = ArrayLike | Mapping[str, ArrayLike] | os.PathLike[str]
"""Labels, [samples, ...]: an array, a list, or the path of an ``.npy`` file or of an ``.npz`` file with y; of a loss of
several parts, labels by part."""


def prepare(model: Inputs, x: Samples, y: Labels | None = None) -> Data:
    """Prepares samples and labels for a model.

    Args:
        model: a ZO model with a loss.
        x: samples; a `Data` is returned unchanged.
        y: labels; None takes the labels of the file or dictionary. Cross-entropy: class numbers [samples], or
            one-hot [samples, classes]; with a class at each place, [samples, ...] of the output. Binary
            cross-entropy: 0 and 1 [samples, outputs]. In all, -1 stands for no label. Loss of several parts: a
            dictionary of such labels, and of targets in real values (NaN: no target), by the part's key; in a file
            arrays `y.KEY`. Mean squared error: targets in
            the shape of the output and of the types of samples; without targets, the samples of a model with one
            input are the targets (an autoencoder). Of sequences, which a model with states takes, [samples, steps,
            ...], -1 for steps that do not count, as padding; or one label a sequence: of all steps if the loss is that
            of the largest output, else of the last step. A list of sequences of unequal length is padded, and padded
            steps have the label -1.

    Raises:
        DataError: the data cannot be used; the message names the array and the constraint.

    Warns:
        DataWarning: the range of the samples does not fit the model's.
    """
    if isinstance(x, Data):
        if y is not None:
            raise DataError("y: x has its labels already")
        return x
    loss = model.metadata.loss
    if loss is None:
        raise DataError("the model has no loss, so there is nothing to measure; inject it with one")
    y = read_labels(y)
    with naming(x):
        given = _gather(model, x)
        inputs = _inputs(model, given)
        targets = given.y if y is None else as_labels(y, of_steps=bool(model.metadata.states))
        if targets is None:
            targets = _reconstruction(model, given)
        steps = _steps(model, inputs)
        labels = prepare_labels(targets, loss, model.label_details(), steps, given.lengths)
        check_count(labels, len(inputs[0]), given.names[0])
        if not labelled(labels, loss.kind).any():
            raise DataError("y: no sample has a label (all are -1)")
    return Data(inputs, labels, steps)


def _steps(model: Inputs, inputs: Sequence[NDArray[Any]]) -> int:
    """Returns the number of steps of prepared samples, 1 unless they are sequences."""
    found = {x.shape[1] if x.ndim > len(model.input_details(i)[0]) else 1 for i, x in enumerate(inputs)}
    if len(found) > 1:
        raise DataError(f"`x` must have as many steps for each input. Received: {', '.join(map(str, sorted(found)))}.")
    return int(found.pop())


def _of_steps(
    y: NDArray[Any], loss: ZoLoss, details: Details, steps: int, lengths: NDArray[Any] | None
) -> NDArray[Any]:
    """Prepares the labels of sequences, for each step or for each sequence. Steps from a length on are padding."""
    if lengths is not None and loss.kind == "mse":
        raise DataError("`x` must have sequences of one length for a mean squared error. Received: unequal lengths.")
    lengths = np.full(len(y), steps) if lengths is None else lengths
    one = y.ndim == 1 or y.shape[1] != steps
    if one and loss.kind == "mse":
        raise DataError(f"`y` must have targets for each of {steps} steps. Received: shape {list(y.shape)}.")
    flat = y if one else y.reshape(-1, *y.shape[2:])
    labels = prepare_labels(flat, loss, details)
    labels = np.repeat(labels[:, None], steps, 1) if one else labels.reshape(len(y), steps, *labels.shape[1:])
    step = np.arange(steps)
    labels[step >= lengths[:, None]] = -1
    if one and loss.over == "sum":
        labels[step < lengths[:, None] - 1] = -1
    if loss.over == "largest" and ((labels >= 0) & (labels != labels.max(1, keepdims=True))).any():
        raise DataError(
            "`y` must have one label a sequence, since the loss is that of the step with the largest output. "
            "Received: sequences with both 0 and 1. Inject the model with loss_over `sum` for labels of each step"
        )
    return labels


def prepare_samples(model: Inputs, x: Samples) -> list[NDArray[Any]]:
    """Prepares samples without labels: an array for each input, see `prepare`."""
    if isinstance(x, Data):
        return list(x.inputs)
    with naming(x):
        return _inputs(model, _gather(model, x))


def _gather(model: Inputs, x: Samples) -> Gathered:
    names = model.metadata.original.inputs
    shapes = {name: model.input_details(i)[0][1:] for i, name in enumerate(names)}
    return gather(x, shapes, of_steps=bool(model.metadata.states))


def _inputs(model: Inputs, given: Gathered) -> list[NDArray[Any]]:
    prepared = []
    for i, (name, x) in enumerate(zip(given.names, given.inputs, strict=True)):
        _, dtype, scale, zero_point = model.input_details(i)
        prepared.append(np.ascontiguousarray(quantize(x, scale, zero_point, dtype, name)))
        warn_implausible(x, scale, zero_point, dtype, name)
    return prepared


def _reconstruction(model: Inputs, given: Gathered) -> NDArray[Any]:
    """Returns the targets of an autoencoder: its samples in real values."""
    loss, (x, *more), shape = model.metadata.loss, given.inputs, model.label_details()[0][1:]
    assert loss is not None  # prepare has refused such a model
    there = f"; there are: {', '.join(given.there)}" if given.there else ""
    if loss.kind != "mse" or more:
        raise DataError(f"the model's loss ({loss.kind}) needs labels: give y, or a file that has an array `y`{there}")
    if x.size != len(x) * loss.elements:
        raise DataError(
            f"y: no targets, and {given.names[0]} of shape {list(x.shape)} cannot be the target: expected "
            f"[samples, {', '.join(map(str, shape))}]{there}"
        )
    _, dtype, scale, zero_point = model.input_details()
    return real_samples(x, scale, zero_point, dtype, given.names[0])


def prepare_input(x: ArrayLike, details: Details, name: str, *, of_steps: bool = False) -> NDArray[Any]:
    """Prepares samples of an input with these details, or with `of_steps` also sequences; see `prepare`. Messages have
    the name.
    """
    shape, dtype, scale, zero_point = details
    given = (in_steps if of_steps else in_shape)(as_array(x, name), shape[1:], name)
    return np.ascontiguousarray(quantize(given, scale, zero_point, dtype, name))


def prepare_labels(
    y: ArrayLike | Mapping[str, ArrayLike],
    loss: ZoLoss,
    details: Details,
    steps: int = 1,
    lengths: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Prepares labels or targets of a loss for an input with these details, as `prepare` does, of sequences of so many
    steps, or of these lengths and padded; see `Data`.
    """
    if loss.kind == "sum":
        if steps > 1:
            raise DataError("`loss` must be of one kind for sequences. Received: a sum of several parts.")
        return part_labels(y, loss)
    given = as_array(y, "y")
    if steps > 1:
        return _of_steps(given, loss, details, steps, lengths)
    if loss.of_classes:
        return class_labels(given, loss.classes, loss.places)
    shape, dtype, scale, zero_point = details
    if loss.kind != "mse":
        return integer_labels(given, shape[1:], 2)
    if given.size != len(given) * loss.elements:
        raise DataError(f"`y` must have {loss.elements} values per sample. Received: shape {list(given.shape)}.")
    levels = quantize(given.reshape(len(given), *shape[1:]), scale, zero_point, dtype, "y")
    return np.ascontiguousarray(levels)


def labelled(labels: NDArray[Any], kind: str) -> NDArray[np.bool_]:
    """Returns whether each sample has a label, bool [samples], of labels of `Data` and a kind of loss."""
    if kind == "mse":
        return np.ones(len(labels), bool)
    return np.asarray((labels.reshape(len(labels), -1) >= 0).any(1))


def _details(tensor: Tensor, graph: Subgraph | None = None) -> Details:
    dtype, quantization = np.dtype(DTYPES[tensor.type]), tensor.quantization
    if dtype.kind == "f" and graph is not None:
        readers = (op for op in graph.operators if op.builtin == B.QUANTIZE and op.input(0) is tensor and op.outputs)
        quantization = next((op.outputs[0].quantization for op in readers), None)
    if quantization is None or not len(quantization.scales):
        return tensor.shape, dtype, 0.0, 0
    return tensor.shape, dtype, quantization.scale, quantization.zero_point


class ModelError(ValueError):
    """The model is not a ZO model, or one that this version cannot run."""


class Inputs:
    """A ZO model's inputs and labels: their shapes, types and quantization; see `tflm_zo.data.prepare`.

    Args:
        model: a ZO model, its bytes, or the path of its file.

    Raises:
        ModelError: the model is not a ZO model.
    """

    def __init__(self, model: Model | bytes | str | os.PathLike[str]) -> None:
        try:
            self._model = load_model(model)
            self._metadata = read_metadata(self._model)
        except ConversionError as error:
            raise ModelError(str(error)) from error
        self._input_details, self._output_details = dict[int, Details](), dict[int, Details]()
        self._label_details: Details | None = None
        for segment, graph in zip(self._metadata.segments, self._model.subgraphs, strict=True):
            for port, tensor in zip(segment.inputs, graph.inputs, strict=True):
                if port.role == "input" and port.index is not None:
                    self._input_details[port.index] = _details(tensor, graph)
                elif port.role == "label":
                    self._label_details = _details(tensor, graph)
            for port, tensor in zip(segment.outputs, graph.outputs, strict=True):
                if port.role == "output" and port.index is not None:
                    self._output_details[port.index] = _details(tensor)

    @property
    def metadata(self) -> ZoMetadata:
        """The model's metadata: trainable tensors, blocks, headroom, loss, segments."""
        return self._metadata

    @property
    def batch(self) -> int:
        """Samples per invoke."""
        return self._metadata.batch

    def input_details(self, index: int = 0) -> Details:
        """Returns shape, dtype, scale and zero point of an original input. For a floating-point input, scale
        and zero point are those of the model's own quantization (scale 0: none).
        """
        if index not in self._input_details:
            raise ValueError(f"the model has no input {index}")
        return self._input_details[index]

    def output_details(self, index: int = 0) -> Details:
        """Returns shape, dtype, scale and zero point of an original output."""
        if index not in self._output_details:
            raise ValueError(f"the model has no output {index}")
        return self._output_details[index]

    def label_details(self) -> Details:
        """Returns shape, dtype, scale and zero point of ``zo_label``."""
        if self._label_details is None:
            raise ValueError("the model has no loss")
        return self._label_details
