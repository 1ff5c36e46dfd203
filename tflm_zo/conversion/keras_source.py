"""Keras models for the converter: reading, batch size 1, names."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..converters.constants import free_name
from ..converters.errors import ConversionError
from ..converters.model import Model, Tensor
from .recurrent import recurrent_layers, with_int8_forms

# Names of layers during TensorFlow's conversion. TensorFlow adds numbers to equal scopes, and enters the scope of a
# layer twice: Keras' dense, dense_1 and dense_2 become dense_1, dense_1_2 and dense_2_1, which are ambiguous.
_SCOPE: Final = "zo.{}.layer"
_IN_SCOPE: Final = re.compile(r"zo\.(\d+)\.layer(?:_\d+)*")


def all_layers(model: Any) -> list[Any]:
    """Returns all layers, including those of nested models."""
    flatten = getattr(model, "_flatten_layers", None)
    return [] if flatten is None else list(flatten(include_self=False, recursive=True))


def _paths(model: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields the identity and the path of each layer: its name after those of the models and layers around it."""
    flatten = getattr(model, "_flatten_layers", None)
    for layer in () if flatten is None else flatten(include_self=False, recursive=False):
        yield id(layer), (*above, layer.name)
        yield from _paths(layer, (*above, layer.name))


class KerasNames:
    """Maps the tensors that TensorFlow creates to the names of Keras layers (a SavedModel is a single layer). A layer's
    name is prefixed with those of the models around it if another layer has the same name.
    """

    def __init__(self, model: Any) -> None:
        self._layers = all_layers(model)
        paths: dict[int, tuple[str, ...]] = {}
        for layer, path in _paths(model):
            paths.setdefault(layer, path)
        found = [paths[id(layer)] for layer in self._layers]
        counts = Counter(path[-1] for path in found)
        self._names = ["/".join(path) if counts[path[-1]] > 1 else path[-1] for path in found]

    def name_of(self, layer: Any) -> str:
        """Returns the name of a layer."""
        return next(name for own, name in zip(self._layers, self._names, strict=True) if own is layer)

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Gives each layer its own scope while TensorFlow converts the model."""
        own = [layer.name for layer in self._layers]
        try:
            for i, layer in enumerate(self._layers):
                layer.name = _SCOPE.format(i)
            yield
        finally:
            for layer, name in zip(self._layers, own, strict=True):
                layer.name = name

    def layer_of(self, tensor: str) -> str | None:
        """Returns the innermost layer that computes a tensor; None if its name does not tell."""
        for part in tensor.split(";"):
            if found := _IN_SCOPE.findall(part):
                return self._names[int(found[-1])]
        return None

    def own(self, text: str) -> str:
        """Replaces scopes in a message of TensorFlow by the layers' names."""
        return _IN_SCOPE.sub(lambda found: self._names[int(found[1])], text)

    def shorten(self, tensor: str) -> str:
        """Returns a tensor's name without the scopes outside its layer."""
        parts = [re.sub(rf"^.*(?={_IN_SCOPE.pattern})", "", part) for part in tensor.split(";")]
        return self.own(";".join(parts))


def order_and_name(model: Model, inputs: list[str], outputs: list[str], layers: KerasNames) -> None:
    """Orders inputs and outputs as in the Keras model, and removes the converter's scopes from names."""
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
    # Each part of an UNPACK has the joined names of all parts, thousands of bytes together.
    parts = [t for op in graph.operators if len(op.outputs) > 1 for t in op.outputs]
    names.update({t: layers.shorten(t.name.split(";")[0]) for t in parts if t not in names})
    taken: set[str] = set()
    # Inputs and outputs choose first.
    for tensor in [*names, *(t for t in graph.all_tensors() if t not in names)]:
        tensor.name = free_name(names.get(tensor) or layers.shorten(tensor.name), taken)
        taken.add(tensor.name)


_SAVED_MODEL: Final = "saved_model.pb"
_ENDPOINT: Final = "serving_default"


def tensorflow_and_keras() -> tuple[Any, Any]:
    """Imports TensorFlow and Keras, or raises ConversionError without TensorFlow, or with Keras on another backend."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import keras
        import tensorflow as tf
    except ImportError as e:
        raise ConversionError(f"converting Keras models needs TensorFlow ({e}): pip install 'tflm_zo[keras]'") from e
    if keras.backend.backend() != "tensorflow":
        raise ConversionError(
            f"Keras runs on {keras.backend.backend()}; set KERAS_BACKEND=tensorflow before it is imported"
        )
    return tf, keras


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discards warnings and the output of TensorFlow's C++ and Python code, on the file descriptors."""
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
class FixedModel:
    """A functional model of batch size 1 around the user's."""

    source: Any
    model: Any
    inputs: list[Any]
    outputs: list[str]  # names for the signature
    names: KerasNames
    recurrent: list[Any]

    @contextlib.contextmanager
    def converting(self, tf: Any, keras: Any) -> Iterator[list[str]]:
        """Gives each layer its own scope, and recurrent layers an int8 form, while TensorFlow converts the model. The
        result tells the forms.
        """
        own = [self.names.name_of(layer) for layer in self.recurrent]
        with with_int8_forms(tf, keras, self.recurrent, own) as notes, self.names.apart():
            yield notes


def load_keras(keras: Any, model: Any) -> Any:
    """Reads a Keras model, or a SavedModel as a layer. Returns a model object unchanged. Raises FileNotFoundError, or
    ConversionError with the reason why the file cannot be read as a model.
    """
    if not isinstance(model, str | os.PathLike):
        if not isinstance(model, keras.Model):
            raise ConversionError(f"`model` must be a Keras model or a path. Received: {type(model).__name__}.")
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
        return f"its class `{unknown.group(1)}` is not registered here; convert the model object instead"
    if there := re.search(r"Available endpoints for this SavedModel: \[(.*?)\]", text):
        return f"it has no signature {_ENDPOINT}, but {there.group(1) or 'none'}"
    if "Lambda" in text and "safe_mode" in text:
        return "its Lambda layer holds Python code, which is not run; convert the model object instead"
    return first_line(error)


def _saved_model_layer(keras: Any, path: Path) -> Any:
    class SavedModel(keras.layers.TFSMLayer):  # type: ignore[misc]
        """Calls the signature with its inputs in alphabetical order."""

        def call(self, inputs: Any) -> Any:
            values = inputs if isinstance(inputs, list) else [inputs]
            names = sorted(self.call_endpoint_fn.structured_input_signature[1])
            outputs = self.call_endpoint_fn(**dict(zip(names, values, strict=True)))
            return [outputs[name] for name in sorted(outputs)]

    return SavedModel(str(path), call_endpoint=_ENDPOINT)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its type if it has no message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def with_fixed_batch(keras: Any, model: Any) -> FixedModel:
    """Builds a model of batch size 1 from that of `load_keras`. ConversionError: a layer has no int8 form."""
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
            raise ConversionError(f"input `{input_name}` is {dtype}; only float32 inputs become int8")
        if len(shape) < 1 or any(n is None for n in shape[1:]):
            raise ConversionError(
                f"input `{input_name}` has shape {list(shape)}; all sizes but the batch must be fixed; put "
                "x = keras.Input(shape) before the model: keras.Model(x, model(x))"
            )
        if shape[0] not in (None, 1):
            raise ConversionError(f"input `{input_name}` has a fixed batch size of {shape[0]}, not 1")
    for layer in all_layers(model):
        is_input = isinstance(layer, keras.layers.InputLayer)
        if not is_input and getattr(layer, "compute_dtype", None) in ("float16", "bfloat16", "float64"):
            raise ConversionError(
                f"layer `{layer.name}` computes in {layer.compute_dtype}; build the model with the dtype "
                "policy float32 and load the weights into it"
            )
    recurrent = recurrent_layers(keras, all_layers(model))
    try:
        return _rebuilt(keras, model, specs, name, recurrent)
    except Exception as e:
        raise ConversionError(f"the model cannot be called with one sample: {first_line(e)}") from e


def _rebuilt(
    keras: Any, model: Any, specs: list[tuple[str, tuple[Any, ...], str]], name: str, recurrent: list[Any]
) -> FixedModel:
    inputs = [keras.Input(batch_shape=(1, *shape[1:]), name=name) for name, shape, _ in specs]
    named: list[str] | None = None
    if isinstance(model, keras.Model):
        # The structure of the model's inputs: one tensor, a list, or a dictionary.
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
    return FixedModel(model, fixed, inputs, named, KerasNames(model), recurrent)
