# SPDX-License-Identifier: Apache-2.0
"""Makes the backward program of an exact tail, see ops/core/backward/zo_backward.h."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ..layer_metadata import ZoBackwardStep, ZoField
from ..model import Operator, Subgraph, Tensor
from ..model.schema import BuiltinOperator as B
from ..model.schema import TensorType
from .layer_geometry import (
    NO_CLAMPS,
    SAME_BYTES,
    UnfitError,
    clamps_by,
    clamps_of,
    is_image_mean,
    pool_geometry,
    same_bytes,
)

# Activations that are operators, by their number as a fused activation.
_ACTIVATIONS: Final = {B.RELU: 1, B.RELU_N1_TO_1: 2, B.RELU6: 3}

# Operators that have one fused, beside layers.
_FUSED: Final = (B.ADD, B.SUB, B.MUL, B.CONCATENATION, B.AVERAGE_POOL_2D, B.MAX_POOL_2D)

# Operators whose inputs have the real values of their outputs, or are summed in them.
_AS_THEY_ARE: Final = (*SAME_BYTES, *_ACTIVATIONS, B.QUANTIZE, B.ADD, B.SUB)

# ZO_CONV_BACKPROP_WEIGHTS_MAX.
_MOST_WEIGHTS: Final = 2**17


@dataclasses.dataclass(eq=False)
class BackwardProgram:
    """The steps that lead errors from the logits back to layers.

    Attributes:
        fields: fields of errors; number 0 is that of the logits.
        steps: steps in the order in which they are done, without the segments of what they look at.
        looks_at: activation that each step looks at, a tensor of the uncut graph, or None.
        of_layers: number of the field of each layer's outputs.
    """

    fields: list[ZoField]
    steps: list[ZoBackwardStep]
    looks_at: list[Tensor | None]
    of_layers: list[int]


def backward_program(
    graph: Subgraph, logits: Tensor, layers: Sequence[Operator], geometries: Sequence[Mapping[str, int]]
) -> BackwardProgram:
    """Returns the program that leads errors back to the outputs of layers.

    Args:
        graph: the uncut graph.
        logits: what a softmax loss reads.
        layers: operators of the layers, in execution order; errors pass through no other layer.
        geometries: their fields of ``zo_node_layer``.

    Raises:
        UnfitError: errors cannot pass back through an operator; the message names it and says why.
    """
    return _Builder(graph, logits, layers, geometries).build()


class _Builder:
    """The graph's operators, from the last one back; each tensor's errors are a field once all operators
    that read the tensor have been passed.
    """

    def __init__(
        self,
        graph: Subgraph,
        logits: Tensor,
        layers: Sequence[Operator],
        geometries: Sequence[Mapping[str, int]],
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
        if self._graph.producers().get(self._logits) not in self._layers[-1:]:
            raise UnfitError(f"the loss reads «{self._logits.name}», which is no trainable layer's output")
        self._pending[self._logits] = self._field(self._logits)
        for op in reversed(self._graph.operators):
            if any(t in self._pending for t in op.outputs):
                self._pass(op)
        missing = [op for op in self._layers if op not in self._of_layers]
        if missing:
            raise UnfitError(f"the loss does not depend on «{missing[0].outputs[0].name}»")
        of_layers = [self._of_layers[op] for op in self._layers]
        return BackwardProgram(self._placed(set(of_layers)), self._steps, self._looks_at, of_layers)

    # --- fields ---------------------------------------------------------------------------------------------

    def _field(self, tensor: Tensor) -> int:
        if tensor.type != TensorType.INT8 or not tensor.shape or tensor.shape[0] % self._batch:
            raise UnfitError(f"«{tensor.name}» is {tensor.type_name} {list(tensor.shape)}")
        self._counts.append(tensor.size // self._batch)
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
        output = op.outputs[0]
        if len(op.outputs) != 1:
            raise self._unfit(op, "has several outputs")
        field = self._pending.pop(output)
        low, high = self._clamps(op)
        if (low, high) != NO_CLAMPS:
            target = field if self._is_free(field) else self._field(output)
            numbers = {"low": low, "high": high}
            field = self._add_step(ZoBackwardStep("mask", field, target, numbers=numbers), output)
        if op in self._layers:
            self._of_layers[op] = field
        read = [(i, t) for i, t in enumerate(op.inputs) if t is not None and t in self._behind]
        for number, tensor in read:
            given = self._through(op, number, tensor, field)
            if number != read[-1][0]:
                self._pending[output] = field  # the inputs that follow still need it as it is
            self._give(tensor, given)
            self._pending.pop(output, None)

    def _through(self, op: Operator, number: int, tensor: Tensor, field: int) -> int:
        """Returns the field of what passes back to an input."""
        kind = op.builtin
        if kind in _AS_THEY_ARE:
            if tensor.size != op.outputs[0].size:
                raise self._unfit(op, f"spreads «{tensor.name}» over a larger tensor")
            if kind == B.SUB and number == 1:
                return self._to(tensor, ZoBackwardStep("factors", field, 0, factors=(-1.0,)))
            return field
        if kind == B.MUL:
            return self._to(tensor, ZoBackwardStep("factors", field, 0, factors=self._factors(op, number)))
        if kind in (B.MEAN, B.AVERAGE_POOL_2D, B.MAX_POOL_2D):
            name = "max_pool" if kind == B.MAX_POOL_2D else "average_pool"
            step = ZoBackwardStep(name, field, 0, numbers=self._pool(op))
            return self._to(tensor, step, tensor if name == "max_pool" else None)
        if kind in (B.CONCATENATION, B.PAD, B.PADV2):
            numbers = self._slice_of(op, number) if kind == B.CONCATENATION else self._cropped(op)
            return self._to(tensor, ZoBackwardStep("slice", field, 0, numbers=numbers))
        if op in self._layers and number == 0:
            layer = self._layers.index(op)
            g = self._geometries[layer]
            if g["k_h"] * g["k_w"] * g["out_c"] // (g["in_c"] if g.get("depthwise") else 1) > _MOST_WEIGHTS:
                raise self._unfit(op, "has more than 2^17 weights that read one input channel")
            return self._to(tensor, ZoBackwardStep("layer", field, 0, layer=layer))
        raise self._unfit(op, "is not trainable" if number == 0 and op.input(1) is not None else "")

    def _to(self, tensor: Tensor, step: ZoBackwardStep, looks_at: Tensor | None = None) -> int:
        return self._add_step(dataclasses.replace(step, target=self._field(tensor)), looks_at)

    def _unfit(self, op: Operator, why: str) -> UnfitError:
        reason = f", which {why}" if why else ""
        return UnfitError(
            f"errors do not pass back through the {op.code.name} of «{op.outputs[0].name}»{reason}"
        )

    def _clamps(self, op: Operator) -> tuple[int, int]:
        if op in self._layers or op.builtin in _FUSED:
            return clamps_of(op, op.outputs[0])
        if op.builtin not in _ACTIVATIONS:
            return NO_CLAMPS
        return clamps_by(_ACTIVATIONS[op.builtin], op.outputs[0])

    def _factors(self, op: Operator, number: int) -> tuple[float, ...]:
        """Returns the real factors of a MUL's channels."""
        (other,) = (t for i, t in enumerate(op.inputs) if i != number)
        tensor = op.inputs[number]
        assert other is not None and tensor is not None
        if not other.is_constant or other.quantization is None or tensor.size != op.outputs[0].size:
            raise self._unfit(op, "multiplies two activations, or spreads one over a larger tensor")
        if other.size not in (1, tensor.shape[-1]) or other.size != max(other.shape or (1,)):
            raise self._unfit(op, "has factors that are not those of channels")
        q = other.quantization
        factors = (other.numpy().reshape(-1).astype(np.int64) - q.zero_point) * q.scale
        return tuple(float(f) for f in factors)

    def _pool(self, op: Operator) -> dict[str, int]:
        source = op.inputs[0]
        assert source is not None
        if len(source.shape) != 4:
            raise self._unfit(op, "is no pooling of images")
        if op.builtin == B.MEAN and not is_image_mean(op):
            raise self._unfit(op, "is no mean over height and width")
        try:
            return pool_geometry(op, source)
        except UnfitError:
            raise self._unfit(op, "has an output that its window does not give") from None

    def _slice_of(self, op: Operator, number: int) -> dict[str, int]:
        """An input's part of a CONCATENATION."""
        output = op.outputs[0]
        axis = int(op.option("axis", 0)) % len(output.shape)
        if axis == 0:
            raise self._unfit(op, "joins samples")
        lengths = [math.prod(t.shape[axis:]) for t in op.inputs if t is not None]
        return {
            "blocks": math.prod(output.shape[1:axis]),
            "pitch": math.prod(output.shape[axis:]),
            "offset": sum(lengths[:number]),
            "length": lengths[number],
        }

    def _cropped(self, op: Operator) -> dict[str, int]:
        source, sizes, output = op.inputs[0], op.input(1), op.outputs[0]
        assert source is not None
        if sizes is None or not sizes.is_constant or len(source.shape) != 4:
            raise self._unfit(op, "is no padding of images by constants")
        before = [[int(n) for n in row] for row in sizes.numpy()]
        if any(before[0]) or any(before[3]):
            raise self._unfit(op, "pads more than height and width")
        _, height, width, channels = source.shape
        row = output.shape[2] * channels
        offset = before[1][0] * row + before[2][0] * channels
        return {"blocks": height, "pitch": row, "offset": offset, "length": width * channels}

    # --- memory ---------------------------------------------------------------------------------------------

    def _placed(self, kept: set[int]) -> list[ZoField]:
        """Returns the fields; those that are not kept share memory, the largest first at the lowest place
        that nothing takes while they last.
        """
        kept = kept | {0}
        lives: dict[int, tuple[int, int]] = {}
        for i, step in enumerate(self._steps):
            for field in (step.source, step.target):
                lives[field] = lives.get(field, (i, i))[0], i
        places: dict[int, int] = {}
        temporary = [f for f in range(len(self._counts)) if f not in kept]
        for field in sorted(temporary, key=lambda f: (-self._counts[f], f)):
            first, last = lives[field]
            taken = sorted(
                (at, at + self._counts[other])
                for other, at in places.items()
                if lives[other][0] <= last and first <= lives[other][1]
            )
            place = 0
            for start, end in taken:
                if place + self._counts[field] <= start:
                    break
                place = max(place, end)
            places[field] = place
        return [ZoField(count, places.get(i)) for i, count in enumerate(self._counts)]
