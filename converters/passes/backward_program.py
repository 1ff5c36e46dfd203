"""Makes the backward program of an exact tail, see ops/core/backward/zo_backward.h."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from ..mend import parts_of
from ..metadata import ZoBackwardStep, ZoField
from ..model import Operator, Subgraph, Tensor
from ..model.schema import BuiltinOperator as B
from ..model.schema import TensorType
from .layer_geometry import (
    NO_CLAMPS,
    REDUCTIONS,
    SAME_BYTES,
    UnfitError,
    activation_range,
    clamps_of,
    pool_geometry,
    same_bytes,
)

# Activations that are operators, by their number as a fused activation.
_ACTIVATIONS: Final = {B.RELU: 1, B.RELU_N1_TO_1: 2, B.RELU6: 3}

# Operators that have one fused, beside layers.
_FUSED: Final = (B.ADD, B.SUB, B.MUL, B.CONCATENATION, B.AVERAGE_POOL_2D, B.MAX_POOL_2D)

# Operators whose inputs have the real values of their outputs, or are summed in them.
_AS_THEY_ARE: Final = (*SAME_BYTES, *_ACTIVATIONS, B.QUANTIZE, B.ADD, B.SUB)

_PADS: Final = (B.PAD, B.PADV2)

# Begin and length of a part along axes, by axis.
_Parts = Mapping[int, tuple[int, int]]

# Functions of single values: whether errors look at the input's levels or the output's, and the derivative at
# the level's real value x.
_SLOPES: Final[dict[int, tuple[str, Callable[[Operator, float], float]]]] = {
    B.LOGISTIC: ("output", lambda op, x: x * (1 - x)),
    B.TANH: ("output", lambda op, x: 1 - x * x),
    B.ELU: ("output", lambda op, x: 1.0 if x > 0 else 1 + x),
    B.HARD_SWISH: ("input", lambda op, x: 0.0 if x <= -3 else x / 3 + 0.5 if x < 3 else 1.0),
    B.LEAKY_RELU: ("input", lambda op, x: 1.0 if x > 0 else float(op.option("alpha", 0.0))),
    B.ABS: ("input", lambda op, x: math.copysign(1.0, x) if x else 0.0),
}

# ZO_CONV_BACKPROP_WEIGHTS_MAX.
_MOST_WEIGHTS: Final = 2**17


@dataclasses.dataclass(eq=False)
class BackwardProgram:
    """The steps that lead errors from the logits back to layers."""

    fields: list[ZoField]  # fields of errors; number 0 has the errors of the logits
    # steps in the order of execution, without the segments of their activations
    steps: list[ZoBackwardStep]
    looks_at: list[Tensor | None]  # activation that each step looks at, a tensor of the uncut graph, or None
    of_layers: list[int]  # number of the field of each layer's outputs


def _windows(whole: Sequence[int], parts: _Parts) -> list[tuple[dict[str, int], int]]:
    """Returns the consecutive slices from a sample of shape `whole` to a part of it, with their sizes."""
    sizes, axes, found = list(whole), sorted(parts), []
    while axes:
        axis = axes.pop()
        begin, length = parts[axis]
        inner, blocks = math.prod(sizes[axis + 1 :]), math.prod(sizes[:axis])
        pitch, offset = sizes[axis] * inner, begin * inner
        sizes[axis] = length
        if axes and sizes[axes[-1]] == blocks:  # rows of an image, too
            rows = axes.pop()
            offset += parts[rows][0] * pitch
            blocks = sizes[rows] = parts[rows][1]
        numbers = {"blocks": blocks, "pitch": pitch, "offset": offset, "length": length * inner}
        found.append((numbers, math.prod(sizes)))
    return found


def _real(constant: Tensor) -> tuple[float, ...]:
    """Returns the real values of an int8 constant."""
    q = constant.quantization
    assert q is not None
    return tuple(float(v) for v in (constant.numpy().reshape(-1).astype(np.int64) - q.zero_point) * q.scale)


class ProgramBuilder:
    """Builds the program that leads errors back from `logits`, the input of a softmax loss, to the outputs of `layers`,
    in execution order; errors pass through no other layer. `geometries` are their fields of ``zo_node_layer``. It
    passes the operators from the last one back; each tensor's errors are a field once all that read it have been
    passed.
    """

    def __init__(
        self, graph: Subgraph, logits: Tensor, layers: Sequence[Operator], geometries: Sequence[Mapping[str, int]]
    ) -> None:
        self._graph, self._layers, self._geometries = graph, list(layers), geometries
        self._logits = same_bytes(graph, logits)
        self._batch = graph.inputs[0].shape[0]
        self._counts: list[int] = []
        self._steps: list[ZoBackwardStep] = []
        self._looks_at: list[Tensor | None] = []
        # Fields of tensors whose producers are still to be passed.
        self._pending: dict[Tensor, int] = {}
        self._of_layers: dict[Operator, int] = {}
        # Tensors that depend on a layer: the others need no errors.
        self._behind: set[Tensor] = set()
        for op in graph.operators:
            if op in self._layers or any(t in self._behind for t in op.inputs):
                self._behind.update(op.outputs)

    def build(self) -> BackwardProgram:
        """Returns the program, or raises UnfitError, with the operator through which errors cannot pass back."""
        if self._graph.producers().get(self._logits) not in self._layers[-1:]:
            raise UnfitError(f"the loss reads `{self._logits.name}`, which is no trainable layer's output")
        self._pending[self._logits] = self._field(self._logits)
        for op in reversed(self._graph.operators):
            if any(t in self._pending for t in op.outputs):
                self._pass(op)
        missing = [op for op in self._layers if op not in self._of_layers]
        if missing:
            raise UnfitError(f"the loss does not depend on `{missing[0].outputs[0].name}`")
        of_layers = [self._of_layers[op] for op in self._layers]
        return BackwardProgram([ZoField(count) for count in self._counts], self._steps, self._looks_at, of_layers)

    # --- fields ---------------------------------------------------------------------------------------------

    def _field(self, tensor: Tensor) -> int:
        if tensor.type != TensorType.INT8 or not tensor.shape or tensor.shape[0] % self._batch:
            raise UnfitError(f"`{tensor.name}` is {tensor.type_name} {list(tensor.shape)}")
        return self._field_of(tensor.size // self._batch)

    def _field_of(self, count: int) -> int:
        self._counts.append(count)
        return len(self._counts) - 1

    def _add_step(self, step: ZoBackwardStep, looks_at: Tensor | None = None) -> int:
        self._steps.append(step)
        self._looks_at.append(looks_at)
        return step.target

    def _is_free(self, field: int, held_by: Tensor | None = None) -> bool:
        """Returns whether a field can be changed in place: nobody else's errors are in it."""
        others = [t for t, number in self._pending.items() if number == field and t is not held_by]
        return not others and field not in self._of_layers.values()

    def _copy(self, field: int, tensor: Tensor) -> int:
        """Returns a field of its own with the same errors."""
        return self._add_step(ZoBackwardStep("factors", field, self._field(tensor), factors=(1.0,)))

    def _give(self, tensor: Tensor, field: int) -> None:
        """Gives a tensor the errors that come back from one of its readers."""
        if tensor not in self._pending:
            self._pending[tensor] = field
            return
        so_far = self._pending[tensor]
        if field == so_far or not (self._is_free(field) or self._is_free(so_far, tensor)):
            field = self._copy(field, tensor)
        if self._is_free(field):
            so_far, field = field, so_far
        self._pending[tensor] = self._add_step(ZoBackwardStep("add", field, so_far))

    # --- operators ------------------------------------------------------------------------------------------

    def _pass(self, op: Operator) -> None:
        if len(op.outputs) != 1:
            self._pass_parts(op)
            return
        output = op.outputs[0]
        field = self._pending.pop(output)
        low, high = self._clamps(op)
        if (low, high) != NO_CLAMPS:
            target = field if self._is_free(field) else self._field(output)
            numbers = {"low": low, "high": high}
            field = self._add_step(ZoBackwardStep("mask", field, target, numbers=numbers), output)
        if op in self._layers:
            self._of_layers[op] = field
        read = [(i, t) for i, t in enumerate(op.inputs) if t is not None and t in self._behind]
        if (rectified := self._rectified(op)) is not None:
            self._pass_rectified(field, *rectified)
            return
        for number, tensor in read:
            given = self._through(op, number, tensor, field)
            if number != read[-1][0]:
                self._pending[output] = field  # the inputs that follow still need it as it is
            self._give(tensor, given)
            self._pending.pop(output, None)

    def _pass_rectified(self, field: int, x: Tensor, positive: tuple[float, ...], others: tuple[float, ...]) -> None:
        """Gives x, see `_rectified`, the errors times its slopes."""
        q = x.quantization
        assert q is not None
        for is_positive, slopes in ((True, positive), (False, others)):
            kept = tuple(float((level > q.zero_point) == is_positive) for level in range(-128, 128))
            signed = self._to(x, ZoBackwardStep("levels", field, 0, factors=kept), x)
            self._give(x, self._to(x, ZoBackwardStep("factors", signed, 0, factors=slopes)))

    def _pass_parts(self, op: Operator) -> None:
        """An operator whose outputs are parts of its input."""
        found = parts_of(op)
        if found is None or found[1] == 0:
            raise self._unfit(op, "has several outputs" if found is None else "parts samples")
        source, axis, parts = found
        for output, part in zip(op.outputs, parts, strict=True):
            if output in self._pending:
                self._give(source, self._placed_back(source, {axis: part}, self._pending.pop(output)))

    def _through(self, op: Operator, number: int, tensor: Tensor, field: int) -> int:
        """Returns the field of the errors that pass back to an input."""
        kind = op.builtin
        if kind in (B.ADD, B.SUB) and tensor.size != op.outputs[0].size:
            sign = -1.0 if kind == B.SUB and number == 1 else 1.0
            repeat, length = self._spread(op, tensor)
            numbers = {"repeat": repeat, "length": length}
            return self._to(tensor, ZoBackwardStep("sum", field, 0, numbers=numbers, factors=(sign,)))
        if kind in _AS_THEY_ARE:
            if kind == B.SUB and number == 1:
                return self._to(tensor, ZoBackwardStep("factors", field, 0, factors=(-1.0,)))
            return field
        if kind == B.MUL:
            return self._multiplied(op, number, tensor, field)
        if kind in _SLOPES:
            reads, slope = _SLOPES[kind]
            levels = op.outputs[0] if reads == "output" else tensor
            q = levels.quantization
            assert q is not None
            slopes = (slope(op, (level - q.zero_point) * q.scale) for level in range(-128, 128))
            return self._to(tensor, ZoBackwardStep("levels", field, 0, factors=tuple(slopes)), levels)
        if kind in (*REDUCTIONS, B.AVERAGE_POOL_2D, B.MAX_POOL_2D):
            name = "max_pool" if kind in (B.MAX_POOL_2D, B.REDUCE_MAX) else "average_pool"
            try:
                step = ZoBackwardStep(name, field, 0, numbers=pool_geometry(op, tensor))
            except UnfitError as unfit:
                raise self._unfit(op, str(unfit)) from None
            return self._to(tensor, step, tensor if name == "max_pool" else None)
        if kind in (B.CONCATENATION, B.PACK, B.PAD, B.PADV2) and (number == 0 or kind not in _PADS):
            whole = op.outputs[0].shape[1:]
            part = self._cropped(op) if kind in _PADS else self._joined(op, number)
            for numbers, size in _windows(whole, part):
                target = self._field_of(size)
                field = self._add_step(ZoBackwardStep("slice", field, target, numbers=numbers))
            return field
        if kind in (B.SLICE, B.STRIDED_SLICE) and number == 0:
            return self._placed_back(tensor, self._taken(op), field)
        if op in self._layers and number == 0:
            layer = self._layers.index(op)
            g = self._geometries[layer]
            if g["k_h"] * g["k_w"] * g["out_c"] // (g["in_c"] if g.get("depthwise") else 1) > _MOST_WEIGHTS:
                raise self._unfit(op, "has more than 2^17 weights that read one input channel")
            return self._to(tensor, ZoBackwardStep("layer", field, 0, layer=layer))
        is_layer = number == 0 and op.builtin in (B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED)
        raise self._unfit(op, "is not trainable" if is_layer else "")

    def _to(self, tensor: Tensor, step: ZoBackwardStep, looks_at: Tensor | None = None) -> int:
        return self._add_step(dataclasses.replace(step, target=self._field(tensor)), looks_at)

    def _rectified(self, op: Operator) -> tuple[Tensor, tuple[float, ...], tuple[float, ...]] | None:
        """Returns x of an operator that multiplies x by one of two slopes, and these slopes, of positive x and of other
        x: a PRELU, or a MAXIMUM of x and a x, as which converters write it. None: it is none of these.
        """
        if op.builtin not in (B.PRELU, B.MAXIMUM):
            return None
        producers = self._graph.producers()

        def origin(tensor: Tensor | None) -> Tensor | None:
            while tensor is not None and tensor in producers and producers[tensor].builtin == B.QUANTIZE:
                tensor = producers[tensor].inputs[0]
            return tensor

        for plain, scaled in (op.inputs, op.inputs[::-1]):
            if plain is None:
                continue
            factors: Tensor | None = scaled
            if op.builtin == B.MAXIMUM:
                source = origin(scaled)
                product = None if source is None else producers.get(source)
                if product is None or product.builtin != B.MUL or origin(plain) not in map(origin, product.inputs):
                    continue
                factors = next((t for t in product.inputs if t is not None and t.is_constant), None)
            if factors is not None and factors.is_constant and factors.size in (1, plain.shape[-1]):
                slopes = _real(factors)
                if op.builtin == B.PRELU:
                    return plain, (1.0,), slopes
                return plain, tuple(max(1.0, v) for v in slopes), tuple(min(1.0, v) for v in slopes)
        return None

    def _unfit(self, op: Operator, why: str) -> UnfitError:
        reason = f", which {why}" if why else ""
        return UnfitError(f"errors do not pass back through the {op.code.name} of `{op.outputs[0].name}`{reason}")

    def _clamps(self, op: Operator) -> tuple[int, int]:
        if op in self._layers or op.builtin in _FUSED:
            return clamps_of(op, op.outputs[0])
        q = op.outputs[0].quantization
        return activation_range(q, _ACTIVATIONS[op.builtin]) if q and op.builtin in _ACTIVATIONS else NO_CLAMPS

    def _multiplied(self, op: Operator, number: int, tensor: Tensor, field: int) -> int:
        """Returns the errors of a factor: errors times the other factor, summed over the axes of a broadcast."""
        (other,) = (t for i, t in enumerate(op.inputs) if i != number)
        if other is None or other.quantization is None or other.type != TensorType.INT8:
            raise self._unfit(op, "has a factor that is not int8")
        q = other.quantization
        if other.is_constant:
            if tensor.size != op.outputs[0].size:
                raise self._unfit(op, "spreads an activation over a larger constant")
            if other.size not in (1, tensor.shape[-1]) or other.size != max(other.shape or (1,)):
                raise self._unfit(op, "has factors that are not those of channels")
            step = ZoBackwardStep("factors", field, 0, factors=_real(other))
            return self._to(tensor, step)
        if other in self._graph.inputs:
            raise self._unfit(op, f"multiplies by the input `{other.name}`")
        (repeat, length), (others, other_length) = self._spread(op, tensor), self._spread(op, other)
        numbers = {"repeat": repeat, "length": length, "other_repeat": others, "other_length": other_length}
        numbers["zero_point"] = q.zero_point
        return self._to(tensor, ZoBackwardStep("product", field, 0, numbers=numbers, factors=(q.scale,)), other)

    def _spread(self, op: Operator, tensor: Tensor) -> tuple[int, int]:
        """Returns (repeat, length): an operator computes output i of value i / repeat % length of this input."""
        whole = op.outputs[0].shape
        if len(tensor.shape) < len(whole) and self._batch > 1:
            raise self._unfit(op, f"spreads `{tensor.name}` over samples")
        own = (*[1] * (len(whole) - len(tensor.shape)), *tensor.shape)
        kept = [i for i in range(1, len(whole)) if own[i] > 1]
        last = kept[-1] if kept else len(whole) - 1
        if kept and any(own[i] != whole[i] for i in range(kept[0], last + 1)):
            raise self._unfit(op, f"spreads `{tensor.name}` along an axis between others")
        return math.prod(whole[last + 1 :] if kept else whole[1:]), math.prod(own[1:])

    # --- parts of tensors -----------------------------------------------------------------------------------

    def _placed_back(self, source: Tensor, parts: _Parts, field: int) -> int:
        """Returns the field of an operator's input, of which the errors are those of a part."""
        whole = source.shape[1:]
        steps = _windows(whole, {axis - 1: part for axis, part in parts.items()})
        sizes = [math.prod(whole), *(size for _, size in steps)]
        for (numbers, _), size in zip(reversed(steps), sizes[-2::-1], strict=True):
            target = self._field_of(size)
            field = self._add_step(ZoBackwardStep("place", field, target, numbers=numbers))
        return field

    def _joined(self, op: Operator, number: int) -> _Parts:
        """An input's part of the output of a CONCATENATION or PACK."""
        axis = int(op.option("axis", 0)) % len(op.outputs[0].shape)
        if axis == 0:
            raise self._unfit(op, "joins samples")
        lengths = [1 if op.builtin == B.PACK else t.shape[axis] for t in op.inputs if t is not None]
        return {axis - 1: (sum(lengths[:number]), lengths[number])}

    def _cropped(self, op: Operator) -> _Parts:
        """The input's part of the output of a PAD."""
        source, sizes = op.inputs[0], op.input(1)
        assert source is not None
        if sizes is None or not sizes.is_constant:
            raise self._unfit(op, "pads by sizes that are not constant")
        rows = [[int(n) for n in row] for row in sizes.numpy()]
        if any(rows[0]):
            raise self._unfit(op, "adds samples")
        padded = [axis for axis, row in enumerate(rows) if any(row)]
        return {axis - 1: (rows[axis][0], source.shape[axis]) for axis in padded}

    def _taken(self, op: Operator) -> _Parts:
        """The part of its input that a SLICE or STRIDED_SLICE takes, by axis."""
        source, given = op.inputs[0], op.inputs[1:]
        assert source is not None
        if any(t is None or not t.is_constant for t in given):
            raise self._unfit(op, "takes a part that is not constant")
        begins, ends, *strides = ([int(n) for n in t.numpy().reshape(-1)] for t in given if t is not None)
        found = dict[int, tuple[int, int]]()
        if op.builtin == B.STRIDED_SLICE:
            if op.option("ellipsisMask", 0) or op.option("newAxisMask", 0) or set(strides[0]) != {1}:
                raise self._unfit(op, "takes each nth value, or adds axes")
        for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            size, bit = source.shape[axis], 1 << axis
            if op.builtin == B.STRIDED_SLICE:
                begin = 0 if op.option("beginMask", 0) & bit else begin
                end = size if op.option("endMask", 0) & bit else end
                begin, end = (max(0, n + size if n < 0 else min(n, size)) for n in (begin, end))
                length = 1 if op.option("shrinkAxisMask", 0) & bit else end - begin
            else:
                length = size - begin if end == -1 else end
            if length != size:
                found[axis] = begin, length
        if 0 in found:
            raise self._unfit(op, "takes some of the samples")
        return found
