"""Functions of the C core on arrays, those of a graph's ops; `limit` is 127 minus the headroom."""

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.core import Distribution, library, logit_scale, make_tensor
from tflm_zo.core.arguments import Queries, address, pairs
from tflm_zo.core.command import make_terms, restoration
from tflm_zo.core.loader import call


def direction(distribution: Distribution, seed: int, stream: int, count: int, begin: int = 0) -> NDArray[np.int8]:
    """Computes int8 [count]: z of a seed for the weights from `begin` on, a multiple of `STREAM_BLOCK`."""
    z = np.zeros(count, np.int8)
    call("zo_direction", distribution.struct, seed, stream, begin, count, z.ctypes.data)
    return z


def perturb(
    weights: NDArray[np.int8],
    seed_k_pairs: Queries,
    distribution: Distribution,
    stream: int = 0,
) -> None:
    """Adds perturbations in place."""
    tensor = make_tensor(weights, None, None, 1, 1, stream, 127)
    table = pairs("seed_k_pairs", seed_k_pairs, "k")
    terms = make_terms(table)
    call("zo_perturb_s8", tensor, distribution.struct, terms)


def update(
    weights: NDArray[np.int8],
    fraction: NDArray[np.int8] | None,
    multiplier: NDArray[np.int32] | None,
    channels: int,
    inner: int,
    stream: int,
    limit: int,
    distribution: Distribution,
    queries: Queries,
    restore_k: int = 0,
    *,
    restore: Queries = (),
) -> int:
    """Applies a step, in place, after `restore_k` and `restore`. Returns the number of clipped weights."""
    tensor = make_tensor(weights, fraction, multiplier, channels, inner, stream, limit)
    table = pairs("queries", queries, "coefficient")
    before = restoration(table, restore_k, restore)
    terms = make_terms(before)
    saturated = ctypes.c_uint32(0)
    own = (tensor, distribution.struct, terms, table.ctypes.data, len(table))
    call("zo_update_s8", *own, ctypes.byref(saturated))
    return saturated.value


def update_bits(
    weights: NDArray[np.int8], stream: int, limit: int, distribution: Distribution, seed: int, direction: int, bits: int
) -> int:
    """Calls ``zo_update_bits_s8``. Returns the number of clipped weights."""
    tensor = make_tensor(weights, None, None, 1, 1, stream, limit)
    saturated = ctypes.c_uint32(0)
    call("zo_update_bits_s8", tensor, distribution.struct, seed, direction, bits, ctypes.byref(saturated))
    return saturated.value


def _losses(
    name: str, inputs: NDArray[Any], labels: NDArray[np.int32], scale: float, *own: int, errors: bool
) -> NDArray[Any]:
    """Calls a function of a cross-entropy on int8 [samples, n] and their labels."""
    samples, n = inputs.shape
    found = np.zeros((samples, n), np.int16) if errors else np.zeros(samples, np.int32)
    read, labels_at = address("inputs", inputs, np.int8), address("labels", labels, np.int32)
    call(name, read, samples, n, *own, logit_scale(scale), labels_at, found.ctypes.data)
    return found


def cross_entropy(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.int32]:
    """Computes int32 [samples], unit 2^-16 nat, of logits [samples, classes] or [samples, places, classes]; 0 if the
    label is -1.
    """
    samples, places, classes = logits.reshape(len(logits), -1, logits.shape[-1]).shape
    losses = np.zeros(samples, np.int32)
    read, labels_at = address("inputs", logits, np.int8), address("labels", labels, np.int32)
    call("zo_cross_entropy_s8", read, samples, places, classes, logit_scale(scale), labels_at, losses.ctypes.data)
    return losses


def cross_entropy_error(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.int16]:
    """Computes int16 [samples, classes], unit 2^-15: softmax minus one-hot label."""
    return _losses("zo_cross_entropy_error_s8", logits, labels, scale, errors=True)


def binary_cross_entropy(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float, zero_point: int = 0
) -> NDArray[np.int32]:
    """Computes int32 [samples], unit 2^-16 nat, summed over outputs."""
    return _losses("zo_binary_cross_entropy_s8", logits, labels, scale, zero_point, errors=False)


def binary_cross_entropy_error(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float, zero_point: int
) -> NDArray[np.int16]:
    """Computes the derivative of `binary_cross_entropy` by the scaled logits, int16 [samples, outputs], unit 2^-15."""
    return _losses("zo_binary_cross_entropy_error_s8", logits, labels, scale, zero_point, errors=True)


def floor_log2_loss(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.int32]:
    """Computes int32 [samples], unit 2^-16."""
    return _losses("zo_floor_log2_loss_s8", logits, labels, scale, errors=False)


def mean_squared_error(outputs: NDArray[np.int8], targets: NDArray[np.int8], scale: float) -> NDArray[np.int32]:
    """Computes int32 [samples], unit 2^-16, saturated to 2^31-1."""
    samples, elements = outputs.shape
    # scale^2 / elements * 2^16 = multiplier * 2^-shift
    mantissa, exponent = math.frexp(scale**2 / elements * 2**16)
    multiplier, losses = round(mantissa * 2**31), np.zeros(samples, np.int32)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    read, wanted = address("outputs", outputs, np.int8), address("targets", targets, np.int8)
    call(*("zo_mean_squared_error_s8", read, wanted, samples, elements, multiplier, 31 - exponent), losses.ctypes.data)
    return losses


def command_steps(words: NDArray[np.int32]) -> int:
    """Counts the steps that a checked command applies: one per update, and those of its replays."""
    return sum(library().zo_command_steps(address("words", words, np.int32), opcode) for opcode in (2, 3))
