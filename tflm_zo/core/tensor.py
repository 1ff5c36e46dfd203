"""Trainable tensors in the C core: replay, checksum, and their addresses in the memory of a runtime.

Weights are an int8 array of any shape in TFLite's order; the biases of a layer are a tensor as well, int32 [channels].
`stream` is the number of the tensor in the model, `limit` is 127 minus the headroom.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import Queries, address, signed, step_pairs, unsigned
from .distribution import Distribution
from .loader import Tensor, call, constants, library, structs


def make_tensor(
    weights: NDArray[np.int8] | NDArray[np.int32],
    fraction: NDArray[np.int8] | None,
    multiplier: NDArray[np.int32] | None,
    channels: int,
    inner: int,
    stream: int,
    limit: int,
    writable: bool = True,
) -> Tensor:
    """Creates a tensor after a check of its arrays, which the caller must keep alive.

    Args:
        weights: weights of the tensor, int8, or biases, int32 [channels].
        fraction: fractions of the weights, int8 in units of 2^-8 LSB, shaped like `weights`; None for the 8-bit update.
        multiplier: factor of the update for each output channel, Q31, int32 [channels]; None: 1.
        channels: number of output channels. Only used with `multiplier`, like `inner`.
        inner: number of consecutive weights of a channel: weight i belongs to channel (i // inner) % channels.
        stream: number of the tensor.
        limit: 127 minus the headroom.
        writable: True if the weights are changed in place; read-only arrays are then refused.

    Raises:
        TypeError, ValueError: an array has another type, layout or size.
    """
    tensor = Tensor()
    are_biases = getattr(weights, "dtype", None) == np.int32
    own_type = np.int32 if are_biases else np.int8
    tensor.weights = address("weights", weights, own_type, writable=writable)
    tensor.size = unsigned("weights.size", weights.nbytes)
    if fraction is not None:
        tensor.fraction = address("fraction", fraction, np.int8, writable=writable)
        if fraction.size != weights.size:
            raise ValueError(
                f"`fraction` must have {weights.size} elements, like `weights`. Received: {fraction.size}."
            )
    tensor.channels = unsigned("channels", channels)
    tensor.inner = unsigned("inner", inner)
    if multiplier is not None:
        tensor.multiplier = address("multiplier", multiplier, np.int32)
        if multiplier.size != channels:
            raise ValueError(
                f"`multiplier` must have one element for each of {channels} channels. Received: {multiplier.size}."
            )
        if multiplier.size and multiplier.min() < 0:
            raise ValueError("`multiplier` must have Q31 factors in 0..2^31-1.")
        if inner < 1 or channels < 1 or weights.size % (channels * inner):
            raise ValueError(
                f"`channels * inner` must divide the number of weights, {weights.size}. Received: {channels} * {inner}."
            )
    tensor.stream = unsigned("stream", stream)
    tensor.limit = signed("limit", limit)
    tensor.type = constants.ZO_TENSOR_INT32 if are_biases else constants.ZO_TENSOR_INT8
    return tensor


def replay(
    weights: NDArray[np.int8] | NDArray[np.int32],
    fraction: NDArray[np.int8] | None,
    multiplier: NDArray[np.int32] | None,
    channels: int,
    inner: int,
    stream: int,
    limit: int,
    distribution: Distribution,
    steps: Sequence[Queries] | NDArray[Any],
) -> int:
    """Applies recorded steps in one pass over the weights, whose values are within ±limit, and fractions, in place. The
    result equals ``zo_update_s8`` for each step. Returns the number of clamped weights, added up over the steps.

    Steps are pairs (seed, coefficient) of each step, with equal numbers; or an array [steps, queries] of `QUERY_DTYPE`.
    `make_tensor` describes the other arguments. Raises NativeError if an argument, a distribution, a number of queries
    or a coefficient is out of range; see the status.
    """
    tensor = make_tensor(weights, fraction, multiplier, channels, inner, stream, limit)
    table, queries, count = step_pairs(steps)
    saturated = ctypes.c_uint32(0)
    call("zo_replay_s8", tensor, distribution.struct, table.ctypes.data, queries, count, ctypes.byref(saturated))
    return saturated.value


def checksum(
    weights: NDArray[np.int8] | NDArray[np.int32], fraction: NDArray[np.int8] | None = None, stream: int = 0
) -> int:
    """Returns the checksum of one tensor, 0..2^32-1. A model's checksum is the sum modulo 2^32."""
    tensor = make_tensor(weights, fraction, None, 1, 1, stream, 127, writable=False)
    return int(library().zo_checksum(tensor))


def fnv1a(data: bytes) -> int:
    """Returns the FNV-1a checksum of bytes, 0..2^32-1."""
    return int(library().zo_fnv1a(constants.ZO_FNV1A_BEGIN, data, len(data)))


def weight_tensors(tensors: Sequence[Tensor]) -> ctypes.Array[Tensor]:
    """Returns the tensors of a task for the control unit."""
    return (Tensor * len(tensors))(*tensors)


def _view(address: int, size: int) -> NDArray[np.int8]:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int8)), (size,))


class Directory:
    """Addresses of up to `capacity` tensors. Views alias the runtime's memory until it is reallocated."""

    def __init__(self, capacity: int) -> None:
        self._entries = (structs.zo_directory_entry * capacity)()
        self._directory = structs.zo_directory(
            constants.ZO_DIRECTORY_MAGIC, capacity, 0, ctypes.addressof(self._entries)
        )

    @property
    def address(self) -> int:
        """Address of the ``zo_directory``, for the op pack."""
        return ctypes.addressof(self._directory)

    def find(self, stream: int) -> tuple[NDArray[np.int8], NDArray[np.int8] | None]:
        """Returns views of the weights and, for 16-bit updates, the fractions of tensor `stream`, int8 [size]. Raises
        KeyError where the tensor is not in this segment, or before the first invoke.
        """
        for entry in self._entries[: self._directory.count]:
            if entry.stream == stream and entry.weights:
                fraction = _view(entry.fraction, entry.size) if entry.fraction else None
                return _view(entry.weights, entry.size), fraction
        raise KeyError(stream)
