"""Room for new classes: a last layer with more outputs."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from .constants import METADATA_NAME
from .errors import ConversionError
from .model import Model, Operator, Subgraph, Tensor
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType
from .passes.loss import logits_of, output_number

#: Logit of a new class, as a share of the logits' int8 range above its lower end: so improbable that the old
#: classes keep their answers, yet not clamped.
QUIET: Final = 0.125
_INT32: Final = np.iinfo(np.int32)


def grow_classes(model: Model, classes: int, *, loss_output: int | str | None = None) -> Model:
    """Returns a copy of a classifier whose last FULLY_CONNECTED layer has outputs for more classes.

    The old classes' weights, biases and logits stay as they are, bit for bit. A new class has weights of zero, the
    median filter scale, and a bias that makes it improbable for every sample: the model answers as before, until
    training has shown it samples of the new class. The quantization of logits and probabilities stays; SOFTMAX spreads
    over more classes.

    Args:
        model: a plain int8 model with one subgraph; it is not changed.
        classes: number of classes afterwards, more than it has.
        loss_output: index or tensor name of the classifier's output; None: the first output.

    Raises:
        ConversionError: the model is a ZO model; the classes do not come from a FULLY_CONNECTED layer of its own with
            constant int8 weights, over nothing but SOFTMAX and conversions; or ``classes`` is not larger than its
            number of classes.
    """
    if model.find_metadata(METADATA_NAME) is not None:
        raise ConversionError("classes cannot be added to a ZO model; add them to the original and inject it")
    result = model.copy()
    graph = result.only_graph
    output = graph.outputs[output_number(graph, loss_output)]
    logits, _ = logits_of(graph, output)
    layer = class_layer(graph, logits)
    old = logits.shape[-1]
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or classes <= old:
        raise ConversionError(f"classes: the model has {old}; expected an integer above, got {classes!r}")
    classes = int(classes)
    weights, bias, data = layer.inputs[1], layer.input(2), layer.inputs[0]
    assert weights is not None and data is not None
    widened = [logits, *_followers(graph, logits)]
    own = graph.own_input(layer, 1)
    scales = _grow_weights(own, classes)
    layer.inputs[2] = _grow_bias(graph, layer, bias, data, scales, logits, classes)
    for tensor in widened:
        tensor.shape = (*tensor.shape[:-1], classes)
        if tensor.shape_signature is not None:
            tensor.shape_signature = (*tensor.shape_signature[:-1], classes)
    return result


def has_new_class(model: Model, loss_output: int | str | None = None) -> bool:
    """Returns whether a plain classifier has a class that `grow_classes` added, and that no training has changed."""
    graph = model.only_graph
    logits, _ = logits_of(graph, graph.outputs[output_number(graph, loss_output)])
    try:
        weights = class_layer(graph, logits).inputs[1]
    except ConversionError:
        return False
    assert weights is not None
    return not weights.numpy().reshape(weights.shape[0], -1).any(axis=1).all()


def class_layer(graph: Subgraph, logits: Tensor) -> Operator:
    """Returns the FULLY_CONNECTED layer that computes int8 logits from constant weights; ConversionError: none does."""
    layer = graph.producers().get(logits)
    if layer is None or layer.builtin != B.FULLY_CONNECTED:
        what = "nothing computes them" if layer is None else f"{layer.label} does"
        raise ConversionError(f"classes: the logits `{logits.name}` must come from a FULLY_CONNECTED layer, but {what}")
    weights, bias = layer.input(1), layer.input(2)
    if weights is None or not weights.is_constant or weights.type != TensorType.INT8:
        raise ConversionError(f"classes: {layer.label} has no constant int8 weights")
    if weights.quantization is None or not len(weights.quantization.scales):
        raise ConversionError(f"classes: the weights of {layer.label} have no quantization")
    if bias is not None and (not bias.is_constant or bias.type != TensorType.INT32):
        raise ConversionError(f"classes: {layer.label} has a bias that is no int32 constant")
    if logits.type != TensorType.INT8 or logits.shape[-1:] != weights.shape[:1]:
        raise ConversionError(f"classes: the outputs of {layer.label} are no int8 vector of classes")
    return layer


def _followers(graph: Subgraph, logits: Tensor) -> list[Tensor]:
    """Returns the tensors behind the logits, which have one value per class too."""
    found: list[Tensor] = []
    pending = [logits]
    while pending:
        for op in graph.consumers().get(pending.pop(), []):
            if op.builtin not in (B.SOFTMAX, B.QUANTIZE, B.DEQUANTIZE):
                raise ConversionError(
                    f"classes: {op.label} reads them; possible behind the logits are SOFTMAX, QUANTIZE and DEQUANTIZE"
                )
            found.append(op.outputs[0])
            pending.append(op.outputs[0])
    return found


def _grow_weights(weights: Tensor, classes: int) -> npt.NDArray[np.float64]:
    """Adds rows of zeros; returns the scale of every row."""
    quantization = weights.quantization
    assert quantization is not None
    old = weights.shape[0]
    values = np.zeros((classes, *weights.shape[1:]), np.int8)
    values[:old] = weights.numpy()
    weights.shape = values.shape
    if weights.shape_signature is not None:
        weights.shape_signature = values.shape
    weights.set_data(values)
    if quantization.is_per_channel or len(quantization.scales) == old:
        more = np.full(classes - old, np.median(quantization.scales), np.float32)
        quantization.scales = np.concatenate([quantization.scales, more])
        quantization.zero_points = np.concatenate([quantization.zero_points, np.zeros(len(more), np.int64)])
    return np.broadcast_to(quantization.scales, classes).astype(np.float64)


def _grow_bias(
    graph: Subgraph,
    layer: Operator,
    bias: Tensor | None,
    data: Tensor,
    scales: npt.NDArray[np.float64],
    logits: Tensor,
    classes: int,
) -> Tensor:
    assert data.quantization is not None and logits.quantization is not None
    products = data.quantization.scale * scales
    level = -128 + QUIET * 255
    quiet = logits.quantization.scale * (level - logits.quantization.zero_point)
    values = np.clip(np.rint(quiet / products), _INT32.min, _INT32.max)
    old = logits.shape[-1]
    values[:old] = 0 if bias is None else bias.numpy()
    if bias is None:
        own = Tensor(f"{logits.name}/bias", (classes,), TensorType.INT32, logits.buffer)
        graph.tensors.append(own)
        layer.inputs += [None] * (3 - len(layer.inputs))
    else:
        own = graph.own_input(layer, 2)
        own.shape = (classes,)
        own.shape_signature = None if own.shape_signature is None else own.shape
        if own.quantization is not None and len(own.quantization.scales) > 1:
            own.quantization.scales = np.concatenate([own.quantization.scales, products[old:].astype(np.float32)])
            own.quantization.zero_points = np.zeros(classes, np.int64)
    own.set_data(values.astype(np.int32))
    return own
