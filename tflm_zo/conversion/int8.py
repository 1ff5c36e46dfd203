"""The common part of `convert` and `quantize`: data, checks, accuracies, report."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ..converters.channel_statistics import Statistics, with_statistics
from ..converters.errors import ConversionError
from ..converters.grow_classes import grow_classes
from ..converters.mend import part_in_int8, requantize_recurrent
from ..converters.model import Model, Tensor, load_model
from ..converters.model.schema import BuiltinOperator, TensorType
from ..converters.passes.batch import set_batch
from ..converters.passes.check_supported import check_supported
from ..converters.passes.plan import Plan
from ..converters.rescale_channels import widen_activations
from ..converters.settings import InjectSettings
from ..io.arrays import Array, as_array, check_count, class_labels, gather, in_shape, keys_of, naming, sizes, unmasked
from ..io.errors import DataError
from ..runtime.litert import exact_delegate


def representative_samples(source: Any, inputs: Mapping[str, tuple[int, ...]]) -> tuple[list[Array], Array | None]:
    """Returns a float32 array [samples, ...] for each input, and the labels of a file or dictionary; ``inputs`` has the
    shapes of the inputs, [1, ...], by name.
    """
    shapes = {name: shape[1:] for name, shape in inputs.items()}
    whole = isinstance(source, str | os.PathLike | Mapping | np.ndarray) or (
        isinstance(source, list | tuple)
        and 1 < len(source) == len(inputs)
        and all(isinstance(a, np.ndarray) for a in source)
    )
    with naming(source if isinstance(source, str | os.PathLike) else "representative data"):
        if not whole and not isinstance(source, Iterable):
            raise DataError(f"cannot use {type(source).__name__}")
        found = gather(source if whole else _collect(source, shapes), shapes)
        with np.errstate(over="ignore"):
            floats = [array.astype(np.float32) for array in found.inputs]
        for name, array in zip(found.names, floats, strict=True):
            as_array(array, name)  # a large float64 is infinity now
    return floats, None if isinstance(found.y, Mapping) else found.y  # an accuracy is of one output


def _collect(source: Iterable[Any], shapes: Mapping[str, tuple[int, ...]]) -> list[Array]:
    """Joins samples and batches into an array for each input."""
    columns: list[list[Array]] = [[] for _ in shapes]
    for item in source:
        if isinstance(item, Mapping):
            item = [item[key] for key in keys_of(item, list(shapes))]
        elif len(shapes) == 1 and not (isinstance(item, list | tuple) and len(item) == 1):
            # (input, label), as data sets have it.
            item = [item[0]] if isinstance(item, tuple) and len(item) == 2 else [item]
        if len(item) != len(shapes):
            raise DataError(f"the model has {len(shapes)} inputs, a sample {len(item)}")
        for column, value, (name, shape) in zip(columns, item, shapes.items(), strict=True):
            array = unmasked(value, name)
            # A sample without its batch axis.
            alone = sizes(array.shape) == sizes(shape)
            column.append(array.reshape(1, *shape) if alone else in_shape(array, shape, name))
    if not columns[0]:
        raise DataError("there are no samples")
    return [np.concatenate(column) for column in columns]


def _representative_labels(given: Any, data: list[Array], shape: Sequence[int | None]) -> Array:
    """Returns labels for an output of this shape. An output of one number has two classes."""
    y = as_array(given, "y")
    check_count(y, len(data[0]), "x")
    found = class_labels(y, max(2, int(np.prod([n for n in shape[1:] if n is not None]))))
    if (found < 0).all():
        raise DataError("y: no sample has a label (all are -1)")
    return found


_FEW: Final = 50
# A hash that is another one where TensorFlow's converter has numbered operators otherwise on its way.
_NOTE: Final = "CONVERSION_METADATA"
_EDGES: Final = (BuiltinOperator.QUANTIZE, BuiltinOperator.DEQUANTIZE)


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output: real value = scale * (int8 value - zero_point)."""

    name: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int


@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """A report of a conversion.

    Attributes:
        inputs: inputs in the order of the Keras model.
        outputs: outputs in the order of the Keras model.
        operators: kinds of the operators in execution order, e.g. "CONV_2D".
        float_accuracy: accuracy of the first output of the Keras model on the labelled representative data; None
            without labels.
        int8_accuracy: accuracy of the int8 model on these data (LiteRT's kernels, without delegates).
        warnings: warnings, of one line each.
        notes: the form of each recurrent layer, of one line each.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: tuple[str, ...]
    float_accuracy: float | None
    int8_accuracy: float | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ConversionResult:
    """A converted model and the report of its conversion."""

    model: Model
    report: ConversionReport

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the model; see ``Model.save``."""
        return self.model.save(path, force)


class FloatModel(Protocol):
    """A float model and the converter that quantizes it."""

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs, [1, ...], by name and in order."""

    @property
    def output_shape(self) -> Sequence[int | None]:
        """Shape of the first output."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines about layers that have another form in the int8 model."""

    def quantized(self, data: list[Array], per_channel_dense: bool) -> bytes:
        """Returns the int8 `.tflite`, calibrated on data, [samples, ...] for each input."""

    def layer_of(self, tensor: str) -> str:
        """Returns the name of the layer that computes a tensor."""

    def name_tensors(self, model: Model) -> None:
        """Names the tensors of the int8 model, and orders inputs and outputs."""

    def statistics(self, model: Model, data: list[Array]) -> Statistics:
        """Returns the statistics of the int8 model's channels."""

    def outputs(self, data: list[Array]) -> Array:
        """Returns the first output for each sample."""

    def warnings(self, model: Model) -> Iterator[str]:
        """Yields warnings about the int8 model."""


def to_int8(
    source: FloatModel,
    representative: Any,
    *,
    batch: int,
    per_channel_dense: bool,
    activation_headroom: float,
    classes: int | None,
    labels: npt.ArrayLike | None,
) -> ConversionResult:
    """Converts a float model to int8; `convert` and `quantize` describe arguments and errors."""
    data, found = representative_samples(representative, source.inputs)
    known, warnings = None, list(_warnings(list(source.inputs), data))
    unmeasured: list[str] = []
    try:
        if labels is not None or found is not None:
            known = _representative_labels(found if labels is None else labels, data, source.output_shape)
    except DataError as error:
        if labels is not None:
            raise
        unmeasured = [f"accuracy not measured: {error}"]  # a file's y may be the targets of a regression
    model = load_model(source.quantized(data, per_channel_dense))
    part_in_int8(model.subgraphs[0])
    requantize_recurrent(model.subgraphs[0])
    _check_int8(model, source.layer_of)
    source.name_tensors(model)
    _check_ports(model)
    widen_activations(model, activation_headroom)
    _leave_out_unused(model)
    int8_accuracy = None if known is None else accuracy(model, data, known)
    with contextlib.suppress(ConversionError, DataError):  # a warning below gives the reason
        model = with_statistics(model, source.statistics(model, data))
    if classes is not None:
        model = grow_classes(model, classes)
    if batch != 1:
        model = set_batch(model, batch)
    float_accuracy = None if known is None else _score(source.outputs(data), known, model)
    warnings += source.warnings(model)
    try:
        check_supported(model.copy(), InjectSettings(), Plan())
    except ConversionError as error:
        warnings.append(f"the model cannot be trained with tflm_zo: {error}")
    graph = model.subgraphs[0]
    inputs, outputs = (tuple(_port(t) for t in tensors) for tensors in (graph.inputs, graph.outputs))
    report = ConversionReport(
        inputs=inputs,
        outputs=outputs,
        operators=tuple(op.code.name for op in graph.operators),
        float_accuracy=float_accuracy,
        int8_accuracy=int8_accuracy,
        warnings=(*warnings, *unmeasured),
        notes=source.notes,
    )
    return ConversionResult(model, report)


def accuracy(model: Model, inputs: Array | Sequence[Array], labels: npt.ArrayLike) -> float:
    """Measures the accuracy of the first output of an int8 model of batch size 1 on real-valued inputs, [samples, ...]
    each, in LiteRT. Labels are class numbers, integers [samples]; a sample with a label below 0 does not count.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    if any(t.shape[:1] != (1,) for t in model.subgraphs[0].inputs):
        raise ConversionError("accuracy takes a model of batch size 1")
    interpreter = Interpreter(
        model_content=model.to_bytes(),
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_delegates=[exact_delegate()],
    )
    levels = [
        np.clip(np.rint(array / scale) + zero_point, -128, 127).astype(np.int8)
        for array, (scale, zero_point) in zip(
            arrays, [details["quantization"] for details in interpreter.get_input_details()], strict=True
        )
    ]
    scale, zero_point = interpreter.get_output_details()[0]["quantization"]
    answers = np.array([values[0][0] for values in outputs_of(interpreter, levels)], np.float64)
    return _score((answers - zero_point) * scale, np.asarray(labels), model)


def outputs_of(interpreter: Any, data: Sequence[Array]) -> Iterator[list[Array]]:
    """Yields the outputs of LiteRT's interpreter for each sample, [1, ...] each. Inputs are [samples, ...] each."""
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    for i in range(len(data[0])):
        for details, array in zip(inputs, data, strict=True):
            interpreter.set_tensor(details["index"], array[i : i + 1])
        interpreter.reset_all_variables()  # an LSTM would continue with the states of the sample before
        interpreter.invoke()
        yield [interpreter.get_tensor(details["index"]) for details in outputs]


def _score(values: Array, labels: Array, model: Model) -> float:
    """Returns the share of correct answers. A single output is a probability after LOGISTIC, else a logit."""
    known = labels >= 0
    rows, labels = values.reshape(len(labels), -1)[known], labels[known]
    if rows.shape[1] > 1:
        return float(np.mean(rows.argmax(1) == labels))
    graph = model.subgraphs[0]
    producer = graph.producers().get(graph.outputs[0])
    threshold = 0.5 if producer is not None and producer.builtin == BuiltinOperator.LOGISTIC else 0.0
    return float(np.mean((rows[:, 0] > threshold) == labels))


def _check_int8(model: Model, place: Callable[[str], str]) -> None:
    """Raises ConversionError, with the layer's name, if an operator of a converted model stays float."""
    graph = model.subgraphs[0]
    floats = (TensorType.FLOAT16, TensorType.FLOAT32, TensorType.FLOAT64, TensorType.COMPLEX64)

    left = [op for op in graph.operators if any(t and t.type in floats for t in [*op.inputs, *op.outputs])]
    if left:
        op = min(left, key=lambda op: op.builtin in _EDGES)
        layer = place(op.outputs[0].name if op.outputs else "")
        why = f"{op.code.name} stays float, the converter has no int8 form for it here"
        raise ConversionError(f"layer `{layer}`: {why}; replace it by operators that have one")


def _check_ports(model: Model) -> None:
    """Raises ConversionError unless each input and output of a converted model is int8, scaled and used."""
    graph = model.subgraphs[0]
    read = {t for op in graph.operators for t in op.inputs}
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            if kind == "input" and tensor not in read:
                raise ConversionError(f"input `{tensor.name}`: no output depends on it; leave it out")
            if tensor.type != TensorType.INT8:
                raise ConversionError(f"{kind} `{tensor.name}` is {tensor.type_name}; only int8 can be one")
            if tensor.quantization is None or not len(tensor.quantization.scales):
                raise ConversionError(f"{kind} `{tensor.name}` has no scale; leave it out")


def _leave_out_unused(model: Model) -> None:
    """Removes unused buffers and the converter's metadata, which take flash and differ between two conversions."""
    model.metadata = [m for m in model.metadata or () if m.name != _NOTE] or None
    used = model.referenced_buffers()
    model.buffers = [b for i, b in enumerate(model.buffers) if i == 0 or b in used]
    codes = {(op.code.builtin, op.code.version) for graph in model.subgraphs for op in graph.operators}
    model.operator_codes = [c for c in model.operator_codes if (c.builtin, c.version) in codes]


def _port(tensor: Tensor) -> Port:
    quantization = tensor.quantization
    assert quantization is not None  # _check_ports
    return Port(tensor.name, tensor.shape, quantization.scale, quantization.zero_point)


def _warnings(names: Sequence[str], data: Sequence[Array]) -> Iterator[str]:
    """Yields warnings about representative data, [samples, ...] for each input."""
    samples = len(data[0])
    if samples < _FEW:
        plural = "" if samples == 1 else "s"
        yield f"only {samples} representative sample{plural}: the ranges of activations may be too narrow"
    for name, values in zip(names, data, strict=True):
        if values.size and values.min() == values.max():
            yield (f"representative data of input `{name}`: every value is {values.flat[0]:g}, which tells no range")
