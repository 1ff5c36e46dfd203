# SPDX-License-Identifier: Apache-2.0
"""From a Keras model to a full-int8 model. The only module that needs TensorFlow, once it is used."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .data import Array, as_array, check_count, class_labels, gather, in_shape, keys_of, naming, sizes
from .errors import ConversionError, DataError
from .grow_classes import grow_classes
from .model import Model, Operator, Tensor, load_model
from .model.schema import BuiltinOperator, TensorType
from .passes.check_supported import check_supported
from .passes.plan import Plan
from .rebatch import set_batch
from .settings import InjectSettings
from .widen_activations import widen_activations

_FEW: Final = 50
_SAVED_MODEL: Final = "saved_model.pb"
_ENDPOINT: Final = "serving_default"
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
    """What came out.

    Attributes:
        inputs: in the order of the Keras model.
        outputs: likewise.
        operators: kinds of the operators in execution order, e.g. "CONV_2D".
        float_accuracy: of the first output of the Keras model on the labelled representative data; None
            without labels.
        int8_accuracy: the same of the int8 model (LiteRT's kernels, without delegates).
        warnings: one line each.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: tuple[str, ...]
    float_accuracy: float | None
    int8_accuracy: float | None
    warnings: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ConversionResult:
    """A converted model and what is to be said about it."""

    model: Model
    report: ConversionReport

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the model; see ``Model.save``."""
        return self.model.save(path, force)


def convert(
    model: Any,
    representative: Any,
    *,
    batch: int = 1,
    per_channel_dense: bool = True,
    activation_headroom: float = 0.0,
    classes: int | None = None,
    labels: npt.ArrayLike | None = None,
) -> ConversionResult:
    """Converts a Keras model to int8: weights, activations, inputs and outputs.

    The result is deterministic. A softmax at the end stays an operator of its own, so that a loss can read
    the logits before it.

    Args:
        model: a Keras 3 model, or the path of a ``.keras`` or ``.h5`` file or of a SavedModel folder (its
            signature ``serving_default``, inputs and outputs in the order of their names). It is not changed.
        representative: typical inputs, which calibrate the ranges of activations: an array [samples, ...]
            (for several inputs a list or tuple of arrays in the model's order, or a dictionary by their
            names), the path of a ``.npy`` file or of an ``.npz`` file (``x``, or the names of the inputs;
            ``y``: labels), or an iterable of samples or batches, arrays (for several inputs: lists or
            dictionaries of arrays). A few hundred samples do. Dimensions of size 1 may be missing or too
            many.
        batch: samples per invoke.
        per_channel_dense: quantize Dense layers per output channel; False: per tensor.
        activation_headroom: fraction by which the calibrated ranges of activations are widened, so that a
            model that drifts in training does not saturate; see ``widen_activations``.
        classes: number of classes that the first output is to have, more than in Keras: room for new ones, to
            be learned later; see ``grow_classes``. The report's accuracies are those of the old classes.
        labels: integers [samples], class indices of the representative data, -1 for a sample without one, or
            one-hot [samples, classes]; for the report's accuracies. In a model with several outputs they are
            labels of the first one.

    Raises:
        ConversionError: TensorFlow is not installed; the model cannot be read or converted, or an operator
            has no int8 kernel (the message names it).
        DataError: the data or the labels do not fit the model.
        OSError: a file cannot be read.

    Example:
        >>> convert("model.keras", x_train[:300]).save("model.tflite")  # doctest: +SKIP
    """
    with quiet():
        tf, keras = _tensorflow()
        fixed = _with_fixed_batch(keras, _load(keras, model))
    data, found = _samples(representative, fixed.inputs)
    wrong, known = None, None
    try:
        if labels is not None or found is not None:
            known = _labels(found if labels is None else labels, data, fixed.model.outputs[0].shape)
    except DataError as error:
        if labels is not None:
            raise
        wrong = error  # a file's y may be the targets of a regression
    result = load_model(_run_converter(tf, fixed, data, per_channel_dense))
    layers = _layer_names(fixed.source)
    _check_int8(result, layers)
    _order_and_name(result, [t.name for t in fixed.inputs], fixed.outputs, layers)
    _check_ports(result)
    widen_activations(result, activation_headroom)
    # Whatever the editor left over is not worth flash.
    used = result.referenced_buffers()
    result.buffers = [b for i, b in enumerate(result.buffers) if i == 0 or b in used]
    int8 = None if known is None else accuracy(result, data, known)
    if classes is not None:
        result = grow_classes(result, classes)
    if batch != 1:
        result = set_batch(result, batch)
    graph = result.subgraphs[0]
    report = ConversionReport(
        inputs=tuple(_port(t) for t in graph.inputs),
        outputs=tuple(_port(t) for t in graph.outputs),
        operators=tuple(op.code.name for op in graph.operators),
        float_accuracy=None if known is None else _float_accuracy(tf, fixed, data, known, result),
        int8_accuracy=int8,
        warnings=(
            *_warnings(fixed, result, data),
            *([f"accuracy not measured: {wrong}"] if wrong else ()),
        ),
    )
    return ConversionResult(result, report)


def accuracy(model: Model, inputs: Array | Sequence[Array], labels: npt.ArrayLike) -> float:
    """Accuracy of the first output of an int8 model on real-valued inputs, in LiteRT without delegates.

    Args:
        model: an int8 model of batch size 1.
        inputs: [samples, ...], one array per input.
        labels: integers [samples]; those below 0 do not count.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    if any(t.shape[:1] != (1,) for t in model.subgraphs[0].inputs):
        raise ConversionError("accuracy takes a model of batch size 1")
    interpreter = Interpreter(
        model_content=model.to_bytes(),
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    ports = interpreter.get_input_details()
    output = interpreter.get_output_details()[0]
    scale, zero_point = output["quantization"]
    values = []
    for i in range(len(arrays[0])):
        for details, array in zip(ports, arrays, strict=True):
            s, z = details["quantization"]
            levels = np.clip(np.rint(array[i : i + 1] / s) + z, -128, 127)
            interpreter.set_tensor(details["index"], levels.astype(np.int8))
        interpreter.invoke()
        values.append((interpreter.get_tensor(output["index"])[0].astype(np.float64) - zero_point) * scale)
    return _score(np.array(values), np.asarray(labels), model)


def _score(values: Array, labels: Array, model: Model) -> float:
    """Share of right answers; a single output is a probability after LOGISTIC, else a logit."""
    known = labels >= 0
    rows, labels = values.reshape(len(labels), -1)[known], labels[known]
    if rows.shape[1] > 1:
        return float(np.mean(rows.argmax(1) == labels))
    graph = model.subgraphs[0]
    producer = graph.producers().get(graph.outputs[0])
    threshold = 0.5 if producer is not None and producer.builtin == BuiltinOperator.LOGISTIC else 0.0
    return float(np.mean((rows[:, 0] > threshold) == labels))


# --- TensorFlow ---------------------------------------------------------------------------------------------


def _tensorflow() -> tuple[Any, Any]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import keras
        import tensorflow as tf
    except ImportError as e:
        raise ConversionError(
            f"converting Keras models needs TensorFlow ({e}): pip install 'tflm_zo[keras]'"
        ) from e
    if keras.backend.backend() != "tensorflow":
        raise ConversionError(
            f"Keras runs on {keras.backend.backend()}; set KERAS_BACKEND=tensorflow before it is imported"
        )
    return tf, keras


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallows what TensorFlow's C++ and Python code print, on the file descriptors themselves.

    Warnings are ignored likewise; exceptions pass.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with tempfile.TemporaryFile() as sink:
        saved = {}
        for number in (1, 2):
            with contextlib.suppress(OSError):
                saved[number] = os.dup(number)
                os.dup2(sink.fileno(), number)
        try:
            import warnings

            with (
                warnings.catch_warnings(),
                open(os.devnull, "w") as null,
                contextlib.redirect_stdout(null),
                contextlib.redirect_stderr(null),
            ):
                warnings.simplefilter("ignore")
                yield
        finally:
            for number, copy in saved.items():
                os.dup2(copy, number)
                os.close(copy)


@dataclasses.dataclass(frozen=True)
class _FixedModel:
    """A functional model of batch size 1 around the user's."""

    source: Any
    model: Any
    inputs: list[Any]
    outputs: list[str]  # names for the signature


def _load(keras: Any, model: Any) -> Any:
    if not isinstance(model, str | os.PathLike):
        if not isinstance(model, keras.Model):
            raise ConversionError(f"expected a Keras model or a path, got {type(model).__name__}")
        return model
    path = Path(model)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}")
    try:
        if path.is_dir() and (path / _SAVED_MODEL).exists():
            return _saved_model_layer(keras, path)
        if path.is_dir() or path.suffix not in (".keras", ".h5", ".hdf5"):
            raise ConversionError(
                f"{path}: expected a .keras or .h5 file or a SavedModel folder, with {_SAVED_MODEL} in it"
            )
        return keras.models.load_model(path, compile=False)
    except ConversionError:
        raise
    except Exception as e:
        raise ConversionError(f"{path} cannot be read as a Keras model: {_why_unreadable(e)}") from e


def _why_unreadable(error: Exception) -> str:
    text = str(error)
    if unknown := re.search(r"Could not locate class '(\w+)'", text):
        return f"its class «{unknown.group(1)}» is not registered here; convert the model object instead"
    if there := re.search(r"Available endpoints for this SavedModel: \[(.*?)\]", text):
        return f"it has no signature {_ENDPOINT}, but {there.group(1) or 'none'}"
    if "Lambda" in text and "safe_mode" in text:
        return "its Lambda layer holds Python code, which is not run; convert the model object instead"
    return _first_line(error)


def _saved_model_layer(keras: Any, path: Path) -> Any:
    class SavedModel(keras.layers.TFSMLayer):  # type: ignore[misc]
        """Calls the signature by the names of its inputs, in the order of the alphabet."""

        def call(self, inputs: Any) -> Any:
            values = inputs if isinstance(inputs, list) else [inputs]
            names = sorted(self.call_endpoint_fn.structured_input_signature[1])
            outputs = self.call_endpoint_fn(**dict(zip(names, values, strict=True)))
            return [outputs[name] for name in sorted(outputs)]

    return SavedModel(str(path), call_endpoint=_ENDPOINT)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _with_fixed_batch(keras: Any, model: Any) -> _FixedModel:
    if isinstance(model, keras.Model):
        specs = [(t.name, tuple(t.shape), str(t.dtype)) for t in getattr(model, "inputs", None) or ()]
        name = model.name
    else:
        # A SavedModel: its inputs are named by the signature.
        _, by_name = model.call_endpoint_fn.structured_input_signature
        specs = [(n, tuple(s.shape), s.dtype.name) for n, s in sorted(by_name.items())]
        name = "saved_model"
    if not specs:
        raise ConversionError(
            "the model does not know its inputs; build it from keras.Input, or put x = keras.Input(shape) "
            "before it: keras.Model(x, model(x))"
        )
    for input_name, shape, dtype in specs:
        if dtype != "float32":
            raise ConversionError(f"input «{input_name}» is {dtype}; only float32 inputs become int8")
        if len(shape) < 1 or any(n is None for n in shape[1:]):
            raise ConversionError(
                f"input «{input_name}» has shape {list(shape)}; all sizes but the batch must be fixed"
            )
        if shape[0] not in (None, 1):
            raise ConversionError(f"input «{input_name}» has a fixed batch size of {shape[0]}, not 1")
    for layer in _layers(model):
        is_input = isinstance(layer, keras.layers.InputLayer)
        if not is_input and getattr(layer, "compute_dtype", None) in ("float16", "bfloat16", "float64"):
            raise ConversionError(
                f"layer «{layer.name}» computes in {layer.compute_dtype}; build the model with the dtype "
                "policy float32 and load the weights into it"
            )
        # The converter crashes on some of these.
        if isinstance(layer, keras.layers.RNN) and not layer.unroll:
            raise ConversionError(
                f"layer «{layer.name}»: recurrent layers become loops, which have no int8 form; "
                "use unroll=True"
            )
    try:
        return _rebuilt(keras, model, specs, name)
    except Exception as e:
        raise ConversionError(f"the model cannot be called with one sample: {_first_line(e)}") from e


def _rebuilt(keras: Any, model: Any, specs: list[tuple[str, tuple[Any, ...], str]], name: str) -> _FixedModel:
    inputs = [keras.Input(batch_shape=(1, *shape[1:]), name=name) for name, shape, _ in specs]
    named: list[str] | None = None
    if isinstance(model, keras.Model):
        # What the model takes: one tensor, a list, or a dictionary.
        structure = getattr(model, "_inputs_struct", None)
        if isinstance(structure, dict):
            by_tensor = {id(t): x for t, x in zip(model.inputs, inputs, strict=True)}
            outputs = model({k: by_tensor[id(t)] for k, t in structure.items()}, training=False)
        else:
            outputs = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    else:
        outputs = model(inputs if len(inputs) > 1 else inputs[0])
        named = sorted(model.call_endpoint_fn.structured_outputs)
    if isinstance(outputs, dict):
        named, outputs = list(outputs), list(outputs.values())
    fixed = keras.Model(inputs, outputs, name=f"fixed_{name}")
    if named is None or len(named) != len(fixed.outputs):
        named = [f"output_{i}" for i in range(len(fixed.outputs))]
    return _FixedModel(model, fixed, inputs, named)


def _run_converter(tf: Any, fixed: _FixedModel, data: list[Array], per_channel_dense: bool) -> bytes:
    names = [t.name for t in fixed.inputs]
    try:
        with quiet():
            converter = tf.lite.TFLiteConverter.from_keras_model(fixed.model)
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: (
                {n: x[i : i + 1] for n, x in zip(names, data, strict=True)} for i in range(len(data[0]))
            )
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
            converter._experimental_disable_per_channel_quantization_for_dense_layers = not per_channel_dense
            return bytes(converter.convert())
    except Exception as e:
        raise ConversionError(_explain(str(e), _layer_names(fixed.source)) or _first_line(e)) from e


def _explain(message: str, layers: Sequence[str]) -> str | None:
    """One line from the converter's exception: which operators of which layers TFLite does not have."""
    operators = re.search(r"^(?:TF Select|Custom) ops: (.+)$", message, re.MULTILINE)
    if operators is None:
        return None
    names = operators.group(1).strip()
    first = names.split(",")[0]
    place = re.search(rf'fused\["{re.escape(first)}:", "([^"@]+)', message)
    layer = _layer_of(place.group(1), layers) if place else None
    where = f"layer «{layer}»: " if layer else ""
    return f"{where}TFLite has no int8 kernel for {names}; replace it by operators that it has"


# --- names --------------------------------------------------------------------------------------------------


def _layers(model: Any) -> list[Any]:
    """All layers, those of nested models included."""
    flatten = getattr(model, "_flatten_layers", None)
    return [] if flatten is None else list(flatten(include_self=False, recursive=True))


def _layer_names(model: Any) -> list[str]:
    return [layer.name for layer in _layers(model)]


def _layer_at(path: Sequence[str], layers: Sequence[str]) -> tuple[int, str] | None:
    """Where in a path the innermost layer stands, and its name; Keras numbers scopes to make them unique."""
    for i in range(len(path) - 1, -1, -1):
        if path[i] in layers:
            return i, path[i]
        shortened = re.sub(r"_\d+$", "", path[i])
        if shortened != path[i] and shortened in layers:
            return i, shortened
    return None


def _layer_of(name: str, layers: Sequence[str]) -> str | None:
    for part in name.split(";"):
        found = _layer_at(part.split("/"), layers)
        if found:
            return found[1]
    return None


def _shorten(name: str, layers: Sequence[str]) -> str:
    """«m_1/functional_1_1/conv_1/convolution» becomes «conv/convolution»."""
    parts = []
    for part in name.split(";"):
        path = part.split("/")
        found = _layer_at(path, layers)
        parts.append("/".join([found[1], *path[found[0] + 1 :]]) if found else part)
    return ";".join(parts)


def _order_and_name(model: Model, inputs: list[str], outputs: list[str], layers: Sequence[str]) -> None:
    """Inputs and outputs in the order of the Keras model; names without the converter's scopes."""
    graph = model.subgraphs[0]
    signature = next((s for s in model.signatures or () if s.subgraph is graph), None)
    names: dict[Tensor, str] = {}
    if signature is not None:
        fed = dict(signature.inputs)
        if set(fed) == set(inputs) and len(fed) == len(graph.inputs):
            graph.inputs = [fed[name] for name in inputs]
            signature.inputs = [(name, fed[name]) for name in inputs]
        # The converter calls them output_0, output_1, … and sorts by the alphabet.
        signature.outputs = sorted(signature.outputs, key=lambda item: (len(item[0]), item[0]))
        read = [t for _, t in signature.outputs]
        if len(outputs) == len(read):
            signature.outputs = list(zip(outputs, read, strict=True))
        if set(read) == set(graph.outputs) and len(read) == len(graph.outputs):
            graph.outputs = read
        names.update({t: n for n, t in [*signature.outputs, *signature.inputs]})
    taken: set[str] = set()
    # Inputs and outputs choose first.
    for tensor in [*names, *(t for t in graph.all_tensors() if t not in names)]:
        base = names.get(tensor) or _shorten(tensor.name, layers)
        name, number = base, 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        tensor.name = name


def _check_int8(model: Model, layers: Sequence[str]) -> None:
    graph = model.subgraphs[0]
    floats = (TensorType.FLOAT16, TensorType.FLOAT32, TensorType.FLOAT64, TensorType.COMPLEX64)

    def is_float(op: Operator) -> bool:
        return any(t is not None and t.type in floats for t in [*op.inputs, *op.outputs])

    culprits = [op for op in graph.operators if is_float(op) and op.builtin not in _EDGES]
    culprits += [op for op in graph.operators if is_float(op)]
    if not culprits:
        return
    op = culprits[0]
    name = op.outputs[0].name if op.outputs else ""
    layer = _layer_of(name, layers)
    raise ConversionError(
        f"layer «{layer or name}»: {op.code.name} stays float, TFLite's converter has no int8 form for it "
        "here; replace it by operators that have one"
    )


def _check_ports(model: Model) -> None:
    """Every input and output is int8 and has a scale."""
    graph = model.subgraphs[0]
    read = {t for op in graph.operators for t in op.inputs}
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            if kind == "input" and tensor not in read:
                raise ConversionError(f"input «{tensor.name}»: no output depends on it; leave it out")
            if tensor.type != TensorType.INT8:
                raise ConversionError(f"{kind} «{tensor.name}» is {tensor.type_name}; only int8 can be one")
            if tensor.quantization is None or not len(tensor.quantization.scales):
                raise ConversionError(f"{kind} «{tensor.name}» has no scale; leave it out")


# --- data ---------------------------------------------------------------------------------------------------


def _samples(source: Any, inputs: list[Any]) -> tuple[list[Array], Array | None]:
    """One float32 array [samples, ...] per input, checked; and labels where a file or dictionary has some."""
    shapes = {t.name: tuple(t.shape[1:]) for t in inputs}
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
    return floats, found.y


def _collect(source: Iterable[Any], shapes: Mapping[str, tuple[int, ...]]) -> list[Array]:
    """Samples and batches one behind the other, for each input."""
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
            array = np.asarray(value)
            # A sample without its batch axis.
            alone = sizes(array.shape) == sizes(shape)
            column.append(array.reshape(1, *shape) if alone else in_shape(array, shape, name))
    if not columns[0]:
        raise DataError("there are no samples")
    return [np.concatenate(column) for column in columns]


def _labels(given: Any, data: list[Array], shape: Sequence[int | None]) -> Array:
    """Labels for an output of this shape, which tells two classes where it is one number."""
    y = as_array(given, "y")
    check_count(y, len(data[0]), "x")
    found = class_labels(y, max(2, int(np.prod([n for n in shape[1:] if n is not None]))))
    if (found < 0).all():
        raise DataError("y: no sample has a label (all are -1)")
    return found


# --- report -------------------------------------------------------------------------------------------------


def _port(tensor: Tensor) -> Port:
    quantization = tensor.quantization
    assert quantization is not None  # _check_int8 found no float
    return Port(tensor.name, tensor.shape, quantization.scale, quantization.zero_point)


def _float_accuracy(tf: Any, fixed: _FixedModel, data: list[Array], labels: Array, model: Model) -> float:
    with quiet():
        run = tf.function(lambda *x: fixed.model(list(x) if len(x) > 1 else x[0], training=False))
        values = []
        for i in range(len(data[0])):
            result = run(*(tf.constant(x[i : i + 1]) for x in data))
            values.append(np.asarray(result[0] if isinstance(result, list | tuple) else result)[0])
    return _score(np.array(values), labels, model)


def _warnings(fixed: _FixedModel, model: Model, data: list[Array]) -> Iterator[str]:
    samples = len(data[0])
    if samples < _FEW:
        plural = "" if samples == 1 else "s"
        yield f"only {samples} representative sample{plural}: the ranges of activations may be too narrow"
    for tensor, values in zip(fixed.inputs, data, strict=True):
        if values.size and values.min() == values.max():
            yield (
                f"representative data of input «{tensor.name}»: every value is {values.flat[0]:g}, "
                "which tells no range"
            )
    graph = model.subgraphs[0]
    last = (getattr(fixed.source, "layers", None) or [None])[-1]
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    producer = graph.producers().get(graph.outputs[-1])
    if activation == "softmax" and (producer is None or producer.builtin != BuiltinOperator.SOFTMAX):
        yield "the softmax at the end is no operator of its own: a loss cannot read the logits"
    try:
        check_supported(model, InjectSettings(), Plan())
    except ConversionError as e:
        yield f"the model cannot be trained with tflm_zo: {e}"
