"""The loss: its kind, the int8 tensor that it reads, and its operator."""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np

from .. import constants
from ..errors import ConversionError, InjectError
from ..kernels import CONVERSIONS, depends_on_build
from ..metadata import SOFTMAX_KINDS, ZoLoss
from ..model import Model, Operator, OperatorCode, Quantization, Subgraph, Tensor
from ..model.schema import BuiltinOperator, TensorType
from ..settings import InjectSettings
from ..states import states_of
from .plan import Plan, Port

_OUTPUTS: Final = (TensorType.INT8, TensorType.INT16, TensorType.FLOAT32)
# Range of the logits' scale that zo_logit_scale takes.
_SMALLEST_SCALE: Final = 2.0**-20
_LARGEST_SCALE: Final = 64.0
# Range of zo_mean_squared_error_s8.
_LARGEST_ELEMENTS: Final = 2**20
# Places that the options hold.
_MOST_PLACES: Final = 2**16 - 1

# Levels of the output that make a mean squared error of 1: losses are then about as large as those in nats,
# 255 levels stay far below the end of 32 bits, and one level of one of 1,000 outputs can be seen.
_UNIT_LEVELS: Final = 8

# The kinds that fit, the natural one first.
_SQUASHING: Final = {
    BuiltinOperator.SOFTMAX: SOFTMAX_KINDS,
    BuiltinOperator.LOG_SOFTMAX: SOFTMAX_KINDS,
    BuiltinOperator.LOGISTIC: ("binary_cross_entropy",),
}


def find_loss(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.loss`` unless the settings want no loss. Cross-entropies read the logits: the walk goes back from
    the output over QUANTIZE, DEQUANTIZE and a SOFTMAX (whose beta goes into the scale), LOG_SOFTMAX or LOGISTIC. The
    mean squared error reads the output itself as int8.
    """
    if settings.loss == "none":
        return
    graph = model.subgraphs[0]
    index = output_number(graph, settings.loss_output)
    output = graph.outputs[index]
    logits, squashing = logits_of(graph, output)
    kind: str = settings.loss
    if kind == "auto":
        kind = "cross_entropy" if logits in plan.without_softmax else _kind(graph, output, squashing)
    if squashing is not None and kind != "mse" and kind not in _SQUASHING[squashing.builtin]:
        fitting = ", ".join(f"`{name}`" for name in _SQUASHING[squashing.builtin])
        raise InjectError("loss", f"be {fitting} or `mse` behind {squashing.label}", kind)
    tensor = _over_conversions(graph, output) if kind == "mse" else logits
    made_by = graph.producers().get(tensor)
    if made_by is not None and depends_on_build(made_by):
        why = f"because builds of TFLM differ by a level in {made_by.label}, a SOFTMAX of int16"
        raise InjectError("loss", f"be `cross_entropy`, {why}", kind)
    if tensor.type == TensorType.INT16 and tensor.quantization is not None:
        tensor = _upper_bytes(graph, tensor)
    if tensor.type != TensorType.INT8 or tensor.quantization is None or tensor.is_constant:
        wanted = f"be an output of an int8 tensor (`{tensor.name}` is {tensor.type_name})"
        raise InjectError("loss_output", wanted, output.name)
    if not tensor.shape or tensor.shape[0] != settings.batch or not tensor.size:
        shape = f"`{tensor.name}` of shape {list(tensor.shape)}"
        raise ConversionError(f"output `{output.name}`: {shape} does not begin with the batch size {settings.batch}")
    scale = tensor.quantization.scale
    if kind in SOFTMAX_KINDS and squashing is not None:
        scale *= float(squashing.option("beta", 0.0)) if squashing.builtin == BuiltinOperator.SOFTMAX else 1.0
    classes = tensor.shape[-1] if kind in SOFTMAX_KINDS else 1
    plan.loss_input = tensor
    elements = tensor.size // settings.batch
    over = settings.loss_over
    if over == "auto":
        over = "largest" if kind == "binary_cross_entropy" and elements == 1 and states_of(graph) else "sum"
    if over == "largest" and (kind != "binary_cross_entropy" or elements > 1 or not states_of(graph)):
        raise InjectError("loss_over", "be `sum`, but for a model with states and one output of a LOGISTIC", over)
    plan.loss = ZoLoss(
        kind=kind,
        elements=elements,
        scale=scale,
        zero_point=tensor.quantization.zero_point,
        output=index,
        squashed=squashing is not None and kind != "mse",
        unit=(_UNIT_LEVELS * scale) ** 2 if kind == "mse" else 1.0,
        places=elements // classes if kind == "cross_entropy" else 1,
        over=over,
    )
    _check(plan.loss, tensor, output)


def output_number(graph: Subgraph, wanted: int | str | None) -> int:
    """Returns the number of the loss's output: the wanted one, else that of a SOFTMAX or LOGISTIC, else the first."""
    names = ", ".join(f"{i} `{t.name}`" for i, t in enumerate(graph.outputs))
    if isinstance(wanted, str):
        found = [i for i, t in enumerate(graph.outputs) if t.name == wanted]
        if len(found) != 1:
            raise InjectError("loss_output", f"name one output, not {len(found)}, of {names}", wanted)
        return found[0]
    if wanted is None:
        squashed = (i for i, t in enumerate(graph.outputs) if logits_of(graph, t)[1] is not None)
        numbers = (i for i, t in enumerate(graph.outputs) if t.type in _OUTPUTS)
        return next(squashed, next(numbers, 0))
    if wanted >= len(graph.outputs):
        raise InjectError("loss_output", f"be one of {names}", wanted)
    return wanted


def logits_of(graph: Subgraph, output: Tensor) -> tuple[Tensor, Operator | None]:
    """Returns the tensor before an output's SOFTMAX, LOG_SOFTMAX or LOGISTIC, and that operator, or None."""
    tensor = _over_conversions(graph, output)
    op = graph.producers().get(tensor)
    squashed = op.input(0) if op is not None and op.builtin in _SQUASHING else None
    if squashed is None:
        return _over_conversions(graph, output, through_int8=True), None
    return _over_conversions(graph, squashed, through_int8=True), op


def _over_conversions(graph: Subgraph, tensor: Tensor, through_int8: bool = False) -> Tensor:
    """Walks back over QUANTIZE and DEQUANTIZE to the int8 tensor nearest to ``tensor``; with ``through_int8`` over
    requantizations as well, to what a layer computed.
    """
    producers = graph.producers()
    while (op := producers.get(tensor)) is not None and op.builtin in CONVERSIONS:
        source = op.input(0)
        if source is None or (tensor.type == TensorType.INT8 and source.type == TensorType.FLOAT32):
            break
        if tensor.type == TensorType.INT8 and not through_int8 and not _squashed(producers, source):
            break
        tensor = source
    return tensor


def _squashed(producers: dict[Tensor, Operator], tensor: Tensor) -> bool:
    """Returns whether a SOFTMAX or LOGISTIC computes the tensor, perhaps with requantizations after it."""
    while (op := producers.get(tensor)) is not None:
        if op.builtin in _SQUASHING:
            return True
        source = op.input(0)
        if op.builtin not in CONVERSIONS or source is None:
            return False
        tensor = source
    return False


def _upper_bytes(graph: Subgraph, tensor: Tensor) -> Tensor:
    """Appends a QUANTIZE of an int16 tensor to int8 with its range, for the loss reads int8."""
    given = tensor.quantization
    assert given is not None
    quantization = Quantization(given.scales * np.float32(256), np.zeros(1, np.int64))
    made = Tensor(constants.LOGITS, tensor.shape, TensorType.INT8, tensor.buffer, quantization)
    graph.tensors.append(made)
    graph.operators.append(Operator(OperatorCode(BuiltinOperator.QUANTIZE, 2), [tensor], [made]))
    return made


def _kind(graph: Subgraph, output: Tensor, squashing: Operator | None) -> str:
    if squashing is not None:
        return _SQUASHING[squashing.builtin][0]
    like = [t for t in graph.inputs if t.shape == output.shape]
    # A vector beside another input has known properties of a sample, not its image.
    is_vector = len(output.shape) == 2 and output.shape[1] >= 2
    if like and not (is_vector and len(graph.inputs) > 1):
        return "mse"
    if is_vector:
        return "cross_entropy"
    classes = "`cross_entropy`, " if len(output.shape) > 1 and output.shape[-1] > 1 else ""
    why = f"because output `{output.name}` of shape {list(output.shape)} fits several"
    raise InjectError("loss", f"be {classes}`binary_cross_entropy` or `mse`, {why}", "auto")


def _check(loss: ZoLoss, tensor: Tensor, output: Tensor) -> None:
    if loss.of_classes and (tensor.shape[-1] < 2 or loss.classes != tensor.shape[-1]):
        places = "" if loss.kind == "cross_entropy" else ", once"
        vector = f"have two logits at least in its last dimension{places}, not the shape {list(tensor.shape)}"
        raise InjectError("loss_output", vector, output.name, "Choose another one, or", give={"loss": "mse"})
    if loss.places > _MOST_PLACES:
        raise ConversionError(f"output `{output.name}` has {loss.places} places, at most {_MOST_PLACES} are possible")
    if loss.elements > _LARGEST_ELEMENTS:
        raise ConversionError(f"output `{output.name}` has {loss.elements} values, at most 2^20 are possible")
    if loss.kind != "mse" and not _SMALLEST_SCALE <= loss.scale <= _LARGEST_SCALE:
        raise ConversionError(f"logits `{tensor.name}` have scale {loss.scale:g}, possible are 2^-20 to 64")


_OPTIONS_VERSION: Final = 1
_KINDS: Final = {"cross_entropy": 0, "binary_cross_entropy": 1, "mse": 2, "floor_log2": 3}

# Fraction bits: of the scale operands, and of a loss (ZO_LOSS_BITS).
_SCALE_BITS: Final = 24
_LOSS_BITS: Final = 16


def insert_loss(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Adds TFLM_ZO_LOSS to the end of the last segment, with ``zo_label`` and ``zo_loss``, after the weight operators:
    the loss's third input is their status, if there is one.
    """
    if plan.loss is None or plan.loss_input is None:
        return
    loss, read, segment = plan.loss, plan.loss_input, plan.segments[-1]
    graph = segment.subgraph
    batch = settings.batch
    if loss.kind == "mse":
        quantization = read.quantization.copy() if read.quantization else None
        label = Tensor(constants.LABEL, read.shape, TensorType.INT8, model.empty_buffer, quantization)
    else:
        shape = (batch,) if loss.of_samples else (batch, loss.labels)
        label = Tensor(constants.LABEL, shape, TensorType.INT32, model.empty_buffer)
    result = Tensor(constants.LOSS_OUTPUT, (batch,), TensorType.INT32, model.empty_buffer)
    switch = segment.port("status") or segment.port("command")
    assert switch is not None  # the last segment has a command
    code = OperatorCode.of_custom(constants.LOSS)
    graph.operators.append(Operator(code, [read, label, switch], [result], custom_options=loss_options(loss)))
    graph.tensors += [label, result]
    # The order of converters/README.md: label before command, loss before status.
    at = next((i for i, p in enumerate(segment.inputs) if p.role == "command"), len(segment.inputs))
    segment.inputs.insert(at, Port("label", label, constants.LABEL))
    at = next((i for i, p in enumerate(segment.outputs) if p.role == "status"), len(segment.outputs))
    segment.outputs.insert(at, Port("loss", result, constants.LOSS_OUTPUT))


def loss_options(loss: ZoLoss) -> bytes:
    """Returns the options of TFLM_ZO_LOSS, byte by byte as in ops/core/graph/zo_op.h."""
    if loss.kind == "mse":
        first, second = _mean_squared_error(loss)
    else:
        first = round(loss.scale * math.log2(math.e) * 2**_SCALE_BITS)
        second = round(loss.scale * 2**_SCALE_BITS)
    zero_point = loss.zero_point if loss.kind == "binary_cross_entropy" else 0
    kind, places = _KINDS[loss.kind], loss.places if loss.places > 1 else 0
    return struct.pack("<BBHIiII", _OPTIONS_VERSION, kind, places, loss.elements, zero_point, first, second)


def _mean_squared_error(loss: ZoLoss) -> tuple[int, int]:
    """Returns multiplier, 2^30..2^31-1, and shift, 0..62: s^2 / elements / unit * 2^16 = multiplier * 2^-shift."""
    # At most 2^20 elements: 2^-10 to 2^10.
    mantissa, exponent = math.frexp(2.0**_LOSS_BITS / _UNIT_LEVELS**2 / loss.elements)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return multiplier, 31 - exponent
