"""Sizes, window and clamps of a layer as the core takes them, see zo_node_layer.h."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..model import Operator, Quantization, Subgraph, Tensor
from ..model.schema import BuiltinOperator as B
from ..model.schema import TensorType

# Ranges, real values, of fused activations (ActivationFunctionType): NONE, RELU, RELU_N1_TO_1, RELU6.
RANGES: Final = {0: (-math.inf, math.inf), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}

# Low and high of an output that no activation clamps.
NO_CLAMPS: Final = (-129, 128)


def activation_range(output: Quantization, activation: int, whole: tuple[int, int] = NO_CLAMPS) -> tuple[int, int]:
    """Returns the lowest and highest int8 level of an output; those of `whole` where nothing clamps."""

    def level(real: float, unclamped: int) -> int:
        if math.isinf(real):
            return unclamped
        # As TFLite's kernels: a float32 quotient, half away from zero.
        steps = float(np.float32(real) / np.float32(output.scale))
        rounded = int(math.copysign(math.floor(abs(steps) + 0.5), steps))
        return min(127, max(-128, output.zero_point + rounded))

    low, high = RANGES[activation]
    return level(low, whole[0]), level(high, whole[1])


_SAME: Final = 0  # Padding.SAME
_CONVOLUTIONS: Final = (B.CONV_2D, B.DEPTHWISE_CONV_2D)


@dataclasses.dataclass(frozen=True)
class Window:
    """A window along one axis."""

    size: int  # number of values that it reads
    stride: int  # number of values from one position of the window to the next
    dilation: int  # distance of two values that the window reads one after the other
    same: bool  # True if the image is padded with zeros (``Padding.SAME``)

    @classmethod
    def of(cls, op: Operator, side: str, size: int) -> Window:
        """Returns the window of a convolution or pooling along axis "h" or "w"; `size` values are read."""
        return cls(
            size=size,
            stride=int(op.option(f"stride{side.upper()}", 1)),
            dilation=int(op.option(f"dilation{side.upper()}Factor", 1)) if op.builtin in _CONVOLUTIONS else 1,
            same=op.option("padding", _SAME) == _SAME,
        )

    @property
    def reach(self) -> int:
        """From the first value that it reads to the last one, both included."""
        return (self.size - 1) * self.dilation + 1

    def positions(self, length: int) -> int:
        """Returns the number of positions on an axis of this length."""
        return -(-(length if self.same else length - self.reach + 1) // self.stride)

    def zeros_before(self, length: int, positions: int) -> int:
        """Zeros of the padding before the first value of an axis."""
        if not self.same:
            return 0
        return max((positions - 1) * self.stride + self.reach - length, 0) // 2


# Operators that leave the bytes of a tensor as they are.
SAME_BYTES: Final = (B.RESHAPE, B.SQUEEZE, B.EXPAND_DIMS)

# Operators that make one value of all along some axes.
REDUCTIONS: Final = (B.MEAN, B.REDUCE_MAX)

# Sides of an image, and their axes.
_SIDES: Final = (("h", 1), ("w", 2))

# Bounds of zo_node_layer.c.
_LARGEST_SIDE: Final = 4096
_LARGEST_CHANNELS: Final = 65536
_LARGEST_IMAGE: Final = 2**30
_LARGEST_FILTER: Final = 2**20


class UnfitError(Exception):
    """The core does not support a layer. The message continues a sentence that begins with the layer's name."""


def layer_geometry(op: Operator) -> dict[str, int]:
    """Returns the fields of ``zo_node_layer`` that a layer's operator has: its own, without clamps and nodes."""
    if op.outputs[0].type != TensorType.INT8:
        raise UnfitError(f"has {op.outputs[0].type_name} activations, which weight perturbation alone trains")
    if op.builtin in _CONVOLUTIONS:
        geometry = _convolution(op)
    elif op.builtin == B.FULLY_CONNECTED:
        geometry = _dense(op)
    else:
        raise UnfitError(f"is a {op.code.name}")
    source, weights = op.inputs[0], op.inputs[1]
    assert source is not None and source.quantization is not None and weights is not None
    if weights.size > _LARGEST_FILTER:
        raise UnfitError(f"has {weights.size} weights, at most 2^20 are possible")
    return geometry | {"input_zero_point": source.quantization.zero_point}


def check_sizes(geometry: dict[str, int]) -> None:
    """Raises UnfitError where a size is beyond the core's."""
    for name, size in geometry.items():
        largest = _LARGEST_CHANNELS if name in ("in_c", "out_c") else _LARGEST_SIDE
        if size > largest:
            raise UnfitError(f"has {name} = {size}, at most {largest} are possible")
    for side in ("in", "out"):
        image = math.prod(geometry[f"{side}_{axis}"] for axis in "hwc")
        if image > _LARGEST_IMAGE:
            raise UnfitError(f"has {image} values in its {side}put, at most 2^30 are possible")


def same_bytes(graph: Subgraph, tensor: Tensor) -> Tensor:
    """Returns the tensor before reshapes, so that layers that follow each other share a cut."""
    producers = graph.producers()
    while (op := producers.get(tensor)) is not None and op.builtin in SAME_BYTES:
        source = op.inputs[0]
        if source is None or source.type != TensorType.INT8 or source.size != tensor.size:
            break
        if source.shape[:1] != tensor.shape[:1]:  # samples are merged
            break
        tensor = source
    return tensor


def _convolution(op: Operator) -> dict[str, int]:
    source, weights, output = op.inputs[0], op.inputs[1], op.outputs[0]
    assert source is not None and weights is not None
    if len(source.shape) != 4 or len(weights.shape) != 4 or len(output.shape) != 4:
        raise UnfitError("is no convolution of images")
    depthwise = op.builtin == B.DEPTHWISE_CONV_2D
    if not depthwise and weights.shape[3] != source.shape[3]:
        raise UnfitError("is a grouped convolution")
    channels = weights.shape[3 if depthwise else 0]
    if output.shape[3] != channels or (depthwise and channels % source.shape[3]):
        raise _contradiction(output)
    result = {"in_c": source.shape[3], "out_c": output.shape[3]}
    windows = [Window.of(op, side, weights.shape[axis]) for side, axis in _SIDES]
    return result | _windowed(op, source, windows) | ({"depthwise": 1} if depthwise else {})


def pool_geometry(op: Operator, source: Tensor) -> dict[str, int]:
    """Returns the fields of ``zo_pool`` of a pooling, or of a mean or maximum over neighbouring axes."""
    if op.builtin in REDUCTIONS:
        return _reduction(op, source)
    if len(source.shape) != 4:
        raise UnfitError("is no pooling of images")
    names = {"h": "filterHeight", "w": "filterWidth"}
    windows = [Window.of(op, side, int(op.option(names[side], 1))) for side, _ in _SIDES]
    return {"channels": source.shape[3], **_windowed(op, source, windows)}


def _reduction(op: Operator, source: Tensor) -> dict[str, int]:
    """Returns a MEAN or REDUCE_MAX as a pooling of an image, over both sides or over its width."""
    given, sizes = op.input(1), source.shape
    if given is None or not given.is_constant:
        raise UnfitError("has axes that are not constant")
    named = {int(a) % len(sizes) for a in given.numpy().reshape(-1)}
    axes = sorted(axis for axis in named if sizes[axis] > 1)
    between = [axis for axis in range(axes[0], axes[-1]) if sizes[axis] > 1] if axes else []
    rows = math.prod(sizes[1 : axes[0]]) if axes else 1
    if 0 in named or between != axes[:-1] or len(axes) > 2 or (len(axes) == 2 and rows > 1):
        raise UnfitError(f"has the axes {axes}, and not one or two side by side behind the batch")
    first, last = (sizes[axes[0]], sizes[axes[-1]]) if len(axes) == 2 else (1, sizes[axes[0]] if axes else 1)
    channels = math.prod(sizes[axes[-1] + 1 :]) if axes else math.prod(sizes[1:])
    sides = {"in_h": first * rows, "in_w": last, "out_h": rows, "out_w": 1, "k_h": first, "k_w": last}
    rest = dict.fromkeys(("stride_h", "stride_w"), 1) | dict.fromkeys(("pad_top", "pad_left"), 0)
    return {"channels": channels, **sides, **rest}


def _windowed(op: Operator, source: Tensor, windows: Sequence[Window]) -> dict[str, int]:
    """Returns sizes, windows, strides and padding of both sides of an image, dilations of a convolution."""
    output, result = op.outputs[0], dict[str, int]()
    for (side, axis), window in zip(_SIDES, windows, strict=True):
        size = source.shape[axis]
        out = output.shape[axis]
        if out != window.positions(size):
            raise _contradiction(output)
        result |= {f"in_{side}": size, f"out_{side}": out, f"k_{side}": window.size, f"stride_{side}": window.stride}
        if op.builtin in _CONVOLUTIONS:
            result[f"dilation_{side}"] = window.dilation
        result["pad_top" if side == "h" else "pad_left"] = window.zeros_before(size, out)
    return result


def _dense(op: Operator) -> dict[str, int]:
    source, weights, output = op.inputs[0], op.inputs[1], op.outputs[0]
    assert source is not None and weights is not None
    units, depth = weights.shape
    positions = math.prod(output.shape[1:]) // units
    read, wanted = math.prod(source.shape[1:]), positions * depth
    if read != wanted:
        raise UnfitError(f"reads {read} values of a sample where its filter and output need {wanted}")
    sizes = {"in_h": 1, "in_w": positions, "in_c": depth, "out_h": 1, "out_w": positions, "out_c": units}
    ones = dict.fromkeys(("k_h", "k_w", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
    return {**sizes, **ones, "pad_top": 0, "pad_left": 0}


def _contradiction(output: Tensor) -> UnfitError:
    shape = list(output.shape)
    return UnfitError(f"has the output `{output.name}` of shape {shape}, which its window does not give")


def clamps_of(op: Operator, output: Tensor) -> tuple[int, int]:
    """Returns (low, high): the fused activation has clamped outputs that are <= low or >= high."""
    activation = int(op.option("fusedActivationFunction", 0))
    if activation not in RANGES:
        raise UnfitError(f"has the fused activation {activation}, whose clamps are not known")
    assert output.quantization is not None
    return activation_range(output.quantization, activation)
