"""The C core's `ops/core/backward` on arrays. Errors: int16 values and an exponent, dL/dy = values * 2^exponent."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.core import NodeLayer
from tflm_zo.core.arguments import address, signed
from tflm_zo.core.loader import call, library, structs

Errors = tuple[NDArray[np.int16], int]


@dataclass(frozen=True)
class Pool:
    """``zo_pool``, sizes as pairs (height, width)."""

    inputs: tuple[int, int, int]
    outputs: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]

    @property
    def struct(self) -> Any:
        pairs = {"in": self.inputs, "out": self.outputs, "k": self.window, "stride": self.stride}
        sizes = {f"{name}_{side}": pair[i] for name, pair in pairs.items() for i, side in enumerate("hw")}
        return structs.zo_pool(channels=self.inputs[2], pad_top=self.pad[0], pad_left=self.pad[1], **sizes)


def _factors(mantissas: NDArray[np.int16], exponent: int) -> Any:
    data = address("mantissas", mantissas, np.int16)
    return structs.zo_error_factors(data, mantissas.size, signed("exponent", exponent))


def _passed(name: str, result: NDArray[np.int16], exponent: int, *arguments: Any, scratch: int | None = None) -> Errors:
    """Calls a function that writes errors and their exponent behind its arguments, then takes its scratch."""
    found, values = ctypes.c_int8(exponent), np.empty(scratch or 0, np.int32)
    last = [] if scratch is None else [values.ctypes.data]
    call(name, *arguments, result.ctypes.data, ctypes.byref(found), *last)
    return result, found.value


def _place(into: NDArray[np.int16] | None, shape: tuple[int, ...]) -> NDArray[np.int16]:
    return np.empty(shape, np.int16) if into is None else into


def mask(outputs: NDArray[np.int8], low: int, high: int, values: NDArray[np.int16]) -> NDArray[np.int16]:
    """Masks errors with 0 for clamped outputs."""
    masked = values.copy()
    call("zo_mask_errors", values.size, address("outputs", outputs, np.int8), low, high, masked.ctypes.data)
    return masked


def scale(mantissas: NDArray[np.int16], exponent: int, errors: Errors, into: NDArray[np.int16] | None = None) -> Errors:
    """Computes errors times mantissas[i % channels] * 2^(exponent - 15); with `into`, as below, writes them there."""
    values = errors[0]
    data = address("errors", values, np.int16)
    factors = _factors(mantissas, exponent)
    return _passed("zo_scale_errors", _place(into, values.shape), 0, factors, values.size, data, errors[1])


def add(errors: Errors, sum_so_far: Errors) -> Errors:
    """Adds another error tensor."""
    result, exponent_so_far = sum_so_far[0].copy(), sum_so_far[1]
    data = address("errors", errors[0], np.int16)
    return _passed("zo_add_errors", result, exponent_so_far, result.size, data, errors[1])


def slice_blocks(
    values: NDArray[np.int16], blocks: int, pitch: int, offset: int, length: int, into: NDArray[np.int16] | None = None
) -> NDArray[np.int16]:
    """Reads int16 [blocks, length] of flat errors."""
    result = _place(into, (blocks, length))
    data = address("errors", values, np.int16)
    call("zo_slice_errors", blocks, pitch, offset, length, data, result.ctypes.data)
    return result


def place_blocks(
    values: NDArray[np.int16], count: int, blocks: int, pitch: int, offset: int, length: int
) -> NDArray[np.int16]:
    """Places the errors as blocks of int16 [count]."""
    result = np.full(count, 77, np.int16)
    data = address("errors", values, np.int16)
    call("zo_place_errors", blocks, pitch, offset, length, data, count, result.ctypes.data)
    return result


def levels(
    mantissas: NDArray[np.int16],
    exponent: int,
    values: NDArray[np.int8],
    errors: Errors,
    into: NDArray[np.int16] | None = None,
) -> Errors:
    """Multiplies errors by the factor of each value's level."""
    factors, data = address("mantissas", mantissas, np.int16), address("errors", errors[0], np.int16)
    read = address("levels", values, np.int8)
    result = _place(into, errors[0].shape)
    return _passed("zo_level_errors", result, 0, factors, exponent, values.size, read, data, errors[1])


def product(sizes: dict[str, int], factor: tuple[int, int], other: NDArray[np.int8] | None, errors: Errors) -> Errors:
    """Computes errors [length] of a factor; ``sizes`` are the fields of ``zo_error_product``."""
    scale = _factors(np.array([factor[0]], np.int16), factor[1])
    read = None if other is None else address("other", other, np.int8)
    data, count = address("errors", errors[0], np.int16), errors[0].size
    result = np.empty(sizes["length"], np.int16)
    struct = structs.zo_error_product(**sizes)
    return _passed("zo_product_errors", result, 0, struct, scale, count, read, data, errors[1])


def max_pool(pool: Pool, inputs: NDArray[np.int8], errors: Errors) -> Errors:
    """Computes errors of a MAX_POOL_2D's inputs."""
    read = address("inputs", inputs, np.int8)
    data = address("errors", errors[0], np.int16)
    result = np.empty(pool.inputs, np.int16)
    return _passed("zo_max_pool_backprop", result, 0, pool.struct, read, data, errors[1])


def average_pool(pool: Pool, errors: Errors, into: NDArray[np.int16] | None = None) -> Errors:
    """Computes errors of an AVERAGE_POOL_2D's inputs."""
    scratch = library().zo_pool_scratch_values(pool.struct)
    data = address("errors", errors[0], np.int16)
    result = _place(into, pool.inputs)
    return _passed("zo_average_pool_backprop", result, 0, pool.struct, data, errors[1], scratch=scratch)


def conv_norm(layer: NodeLayer, weights: NDArray[np.int8]) -> int:
    """Computes the norm of a layer's weights, int8 in TFLite's layout."""
    scratch = np.empty(library().zo_conv_backprop_scratch_values(layer.struct), np.int32)
    norm = ctypes.c_uint32()
    data = address("weights", weights, np.int8)
    call("zo_conv_backprop_norm_s8", layer.struct, data, scratch.ctypes.data, ctypes.byref(norm))
    return norm.value


def conv(
    layer: NodeLayer,
    weights: NDArray[np.int8],
    scales: NDArray[np.int16] | None,
    errors: Errors,
    into: NDArray[np.int16] | None = None,
) -> Errors:
    """Computes errors of a convolution's inputs, [in_h, in_w, in_c]."""
    result, norm = _place(into, (layer.in_h, layer.in_w, layer.in_c)), conv_norm(layer, weights)
    factors = None if scales is None else address("scales", scales, np.int16)
    given = (weights.ctypes.data, norm, factors, address("errors", errors[0], np.int16), errors[1])
    scratch = library().zo_conv_backprop_scratch_values(layer.struct)
    return _passed("zo_conv_backprop_s8", result, 0, layer.struct, *given, scratch=scratch)
