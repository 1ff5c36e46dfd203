"""The loss: its kind, the int8 tensor that it reads, and its operator."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from .. import constants
from ..errors import ConversionError, InjectError
from ..kernels import CONVERSIONS, depends_on_build
from ..loss_parts import ERRORS, WantedPart, parse_parts
from ..metadata import SOFTMAX_KINDS, ZoLoss, ZoLossPart
from ..model import Model, Operator, OperatorCode, Quantization, Subgraph, Tensor
from ..model.schema import BuiltinOperator, TensorType, schema
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

# The loss's input of int16 logits.
_UPPER_BYTES: Final = f"{constants.OUTPUTS}_upper"

# A cross-entropy of int8 logits is rarely larger, nats.
_LARGEST_LOSS: Final = 16.0

# The quantization of tensors whose values have several scales.
_NO_SCALE: Final = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))

# The kinds that fit, the natural one first.
_SQUASHING: Final = {
    BuiltinOperator.SOFTMAX: SOFTMAX_KINDS,
    BuiltinOperator.LOG_SOFTMAX: SOFTMAX_KINDS,
    BuiltinOperator.LOGISTIC: ("binary_cross_entropy",),
}


def find_loss(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.loss`` unless the settings want no loss. Cross-entropies read the logits: the walk goes back from
    the output over QUANTIZE, DEQUANTIZE and a SOFTMAX (whose beta goes into the scale), LOG_SOFTMAX or LOGISTIC. Errors
    of regressions read the output itself as int8.
    """
    if settings.loss == "none":
        return
    graph = model.subgraphs[0]
    asked = str(settings.loss)  # the settings have made a text of a dictionary
    if wanted := parse_parts(asked):
        _find_parts(graph, settings, plan, wanted)
        return
    index = output_number(graph, settings.loss_output)
    output = graph.outputs[index]
    if asked in ERRORS[1:]:
        _find_parts(graph, settings, plan, [WantedPart(output.name, asked)])
        return
    kind, tensor, scale, squashed = _read(graph, settings, plan, output, asked)
    assert tensor.quantization is not None
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
        squashed=squashed,
        unit=(_UNIT_LEVELS * scale) ** 2 if kind == "mse" else 1.0,
        places=elements // classes if kind == "cross_entropy" else 1,
        over=over,
    )
    _check(plan.loss, tensor, output)


def _read(
    graph: Subgraph, settings: InjectSettings, plan: Plan, output: Tensor, kind: str
) -> tuple[str, Tensor, float, bool]:
    """Returns the kind of an output's loss, the tensor that it reads, its scale, and whether a SOFTMAX or LOGISTIC lies
    between this tensor and the output.
    """
    logits, squashing = logits_of(graph, output)
    if kind == "auto":
        kind = "cross_entropy" if logits in plan.without_softmax else _kind(graph, output, squashing)
    is_error = kind in ERRORS
    if squashing is not None and not is_error and kind not in _SQUASHING[squashing.builtin]:
        fitting = ", ".join(f"`{name}`" for name in _SQUASHING[squashing.builtin])
        raise InjectError("loss", f"be {fitting} or `mse` behind {squashing.label}", kind)
    tensor = _over_conversions(graph, output) if is_error else logits
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
    return kind, tensor, scale, squashing is not None and not is_error


def _find_parts(graph: Subgraph, settings: InjectSettings, plan: Plan, wanted: Sequence[WantedPart]) -> None:
    """Fills ``plan.loss`` with a sum, whose input has the tensors of all parts one after the other."""
    found = []
    for part in wanted:
        index = part_output(graph, part)
        found.append((part, index, *_read(graph, settings, plan, graph.outputs[index], part.kind)))
    tensors = list(dict.fromkeys(tensor for _, _, _, tensor, _, _ in found))
    if len(tensors) > 1 and any(t.name == _UPPER_BYTES for t in tensors):
        raise InjectError("loss", "be of one output where activations are int16", settings.loss)
    sizes = [t.size // settings.batch for t in tensors]
    parts = []
    for part, index, kind, tensor, scale, squashed in found:
        assert tensor.quantization is not None
        channels = tensor.shape[-1] if len(tensor.shape) > 1 else 1
        end = channels if part.end is None else part.end
        if not part.begin < end <= channels:
            raise InjectError("loss", f"have channels in 0..{channels} of `{part.output}`", part.key)
        at, number = sum(sizes[: tensors.index(tensor)]), sizes[tensors.index(tensor)]
        own = ZoLossPart(
            part.key, kind, index, part.weight, scale, tensor.quantization.zero_point,
            at + part.begin, channels, number // channels, part.begin, end - part.begin, squashed
        )  # fmt: skip
        if kind == "cross_entropy" and (own.channels < 2 or (squashed and own.channels != channels)):
            raise InjectError("loss", f"have two classes at least, and all of a SOFTMAX, in `{part.key}`", kind)
        _check_scale(kind, scale, tensor)
        parts.append(own)
    if settings.loss_over == "largest":
        raise InjectError("loss_over", "be `sum` for a loss of several parts", "largest")
    plan.loss_input = tensors[0] if len(tensors) == 1 else _joined(graph, tensors, settings.batch)
    first = parts[0]
    plan.loss = ZoLoss(
        "sum", sum(sizes), first.scale, first.zero_point, first.output, first.squashed, _unit(parts), parts=tuple(parts)
    )
    if plan.loss.elements > _LARGEST_ELEMENTS or len(parts) > _MOST_PLACES:
        raise ConversionError(f"the outputs have {plan.loss.elements} values, at most 2^20 are possible")


def _unit(parts: Sequence[ZoLossPart]) -> float:
    """Returns the real value of a loss of 1: as small as the finest part's, if no loss passes the end of 32 bits."""
    finest = min(p.weight * p.unit for p in parts)
    most = sum(p.weight * p.places * (_LARGEST_LOSS if p.kind not in ERRORS else p.largest) for p in parts)
    return max(finest, most * 2.0 ** -(31 - _LOSS_BITS))


def _joined(graph: Subgraph, tensors: Sequence[Tensor], batch: int) -> Tensor:
    """Adds operators that put tensors one after the other, and returns the result, int8 [batch, values]. The values
    stay as they are, so the result has a scale of no meaning.
    """
    rows = []
    for number, tensor in enumerate(tensors):
        shape = (batch, tensor.size // batch)
        sizes = Tensor.constant(f"{constants.OUTPUTS}_{number}/shape", np.array(shape, np.int32))
        row = dataclasses.replace(
            tensor.copy(), name=f"{constants.OUTPUTS}_{number}", shape=shape, quantization=_NO_SCALE.copy()
        )
        graph.tensors += [sizes, row]
        # Beside its producer: an output of the model cannot be the boundary of a segment, but this can.
        at = graph.operators.index(graph.producers()[tensor]) + 1
        graph.operators.insert(at, Operator(OperatorCode(BuiltinOperator.RESHAPE), [tensor, sizes], [row]))
        rows.append(row)
    shape = (batch, sum(t.shape[1] for t in rows))
    whole = dataclasses.replace(rows[0].copy(), name=constants.OUTPUTS, shape=shape)
    graph.tensors.append(whole)
    join = Operator(OperatorCode(BuiltinOperator.CONCATENATION), [*rows], [whole])
    join.raw.builtinOptionsType = schema.BuiltinOptions.ConcatenationOptions
    join.raw.builtinOptions = schema.ConcatenationOptionsT()
    join.raw.builtinOptions.axis = 1
    graph.operators.append(join)
    return whole


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


def part_output(graph: Subgraph, part: WantedPart) -> int:
    """Returns the number of a part's output. Raises InjectError if the model does not have it."""
    try:
        return output_number(graph, int(part.output) if part.output.isdecimal() else part.output)
    except InjectError as error:
        there = ", ".join(f"{i} `{t.name}`" for i, t in enumerate(graph.outputs))
        raise InjectError("loss", f"have parts of outputs of the model, {there}", part.output) from error


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
    for op in graph.consumers().get(tensor, []):
        if op.outputs[0].name == _UPPER_BYTES:  # of another part of the loss
            return op.outputs[0]
    quantization = Quantization(given.scales * np.float32(256), np.zeros(1, np.int64))
    made = Tensor(_UPPER_BYTES, tensor.shape, TensorType.INT8, tensor.buffer, quantization)
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
    _check_scale(loss.kind, loss.scale, tensor)


def _check_scale(kind: str, scale: float, tensor: Tensor) -> None:
    if kind not in ERRORS and not _SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise ConversionError(f"logits `{tensor.name}` have scale {scale:g}, possible are 2^-20 to 64")


_OPTIONS_VERSION: Final = 1
_KINDS: Final = {"cross_entropy": 0, "binary_cross_entropy": 1, "mse": 2, "floor_log2": 3, "sum": 4}

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
    if loss.kind == "sum":
        head = struct.pack("<BBHIiII", _OPTIONS_VERSION, _KINDS["sum"], len(loss.parts), loss.elements, 0, 0, 0)
        return head + loss_parts(loss)
    first, second = _mean_squared_error(loss) if loss.kind == "mse" else _logit_scale(loss.scale)
    zero_point = loss.zero_point if loss.kind == "binary_cross_entropy" else 0
    kind, places = _KINDS[loss.kind], loss.places if loss.places > 1 else 0
    return struct.pack("<BBHIiII", _OPTIONS_VERSION, kind, places, loss.elements, zero_point, first, second)


def _logit_scale(scale: float) -> tuple[int, int]:
    return round(scale * math.log2(math.e) * 2**_SCALE_BITS), round(scale * 2**_SCALE_BITS)


def loss_parts(loss: ZoLoss) -> bytes:
    """Returns the parts of a sum, byte by byte as in ops/core/loss/zo_loss.h; b"" for other losses."""
    gains = [p.weight * p.gain for p in loss.parts]
    found = []
    for part, gain in zip(loss.parts, gains, strict=True):
        of_value = part.of_value if part.kind in ERRORS else 2.0**-_LOSS_BITS
        multiplier, shift = _fixed_point(part.weight * of_value / loss.unit * 2**_LOSS_BITS, 16)
        if not 0 <= shift <= 62:
            raise InjectError("loss", "have weights that differ less", part.key)
        kind = _KINDS["mse"] if part.kind in ERRORS else _KINDS[part.kind]
        scales = (0, 0) if part.kind in ERRORS else _logit_scale(part.scale)
        found.append(
            struct.pack(
                "<BbBBHH6I",
                kind,
                part.zero_point,
                part.delta,
                shift,
                max(multiplier, 1),
                max(1, round(65535 * gain / max(gains))),
                part.first,
                part.stride,
                part.places,
                part.channels,
                *scales,
            )
        )
    return b"".join(found)


def _mean_squared_error(loss: ZoLoss) -> tuple[int, int]:
    """Returns multiplier, 2^30..2^31-1, and shift, 0..62: s^2 / elements / unit * 2^16 = multiplier * 2^-shift."""
    # At most 2^20 elements: 2^-10 to 2^10.
    return _fixed_point(2.0**_LOSS_BITS / _UNIT_LEVELS**2 / loss.elements, 31)


def _fixed_point(value: float, bits: int) -> tuple[int, int]:
    """Returns a multiplier of so many bits and a shift: value = multiplier * 2^-shift."""
    mantissa, exponent = math.frexp(value)
    multiplier = round(mantissa * 2**bits)
    if multiplier == 2**bits:
        multiplier, exponent = multiplier // 2, exponent + 1
    return multiplier, bits - exponent
