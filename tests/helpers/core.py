# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Functions of the C core on arrays that the package itself has no use for: what the ops of a graph do.

The weights of a tensor are an int8 array of any shape in the order in which TFLite stores them. `stream` is
the number of the tensor in the model, `limit` is 127 minus the headroom.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tflm_zo.core import Distribution, LogitScale, library, make_tensor
from tflm_zo.core.arguments import Queries, address, integer, pairs, signed, unsigned
from tflm_zo.core.command import make_terms, restoration
from tflm_zo.core.loader import call

__all__ = [
    "binary_cross_entropy",
    "command_steps",
    "cross_entropy",
    "binary_cross_entropy_error",
    "cross_entropy_error",
    "direction",
    "mean_squared_error",
    "perturb",
    "update",
    "update_bits",
]


def direction(
    distribution: Distribution, seed: int, stream: int, count: int, begin: int = 0
) -> NDArray[np.int8]:
    """The direction z of a seed for the weights begin..begin+count-1 of a tensor.

    Args:
        distribution: its mu matters to the sparse uniform alone.
        seed: 0..2^32-1.
        stream: number of the tensor.
        count: number of weights, at least 1.
        begin: first weight, a multiple of `STREAM_BLOCK`; coordinate: 0, and `count` is the tensor's size.

    Returns:
        int8 [count].
    """
    z = np.zeros(unsigned("count", count), np.int8)
    call(
        "zo_direction",
        distribution.struct,
        unsigned("seed", seed),
        unsigned("stream", stream),
        unsigned("begin", begin),
        count,
        z.ctypes.data,
    )
    return z


def perturb(
    weights: NDArray[np.int8],
    seed_k_pairs: Queries,
    distribution: Distribution,
    stream: int = 0,
    *,
    momentum: int = 0,
    mask: NDArray[np.uint8] | None = None,
    fraction: NDArray[np.int8] | None = None,
    limit: int = 127,
) -> None:
    """Adds perturbations to the weights, modulo 256: after +1, -2, +1 of a seed they are what they were.

    Args:
        weights: int8, changed in place.
        seed_k_pairs: 1 to 32 pairs (seed, k), k one of -2, -1, +1; all are added in one pass. Pairs (seed, 0)
            that follow one are earlier seeds of its direction, see ``zo_chain.h``; up to 7, Gaussian only.
        distribution: of the perturbation.
        stream: number of the tensor.
        momentum: of directions of several seeds, unit 2^-16, below 2^16.
        mask: uint8 [(weights + 7) // 8], bit i % 8 of byte i // 8 says whether weight i is perturbed; None:
            all are.
        fraction: int8 like `weights`, units of 2^-8 LSB: the tensor is int16, and Gaussian perturbations move
            256 weight + fraction, modulo 2^16. Changed in place. None: it is not.
        limit: 127 minus the headroom, 0..127, which perturbations of an int16 tensor are kept to.
    """
    tensor = make_tensor(weights, fraction, None, 1, 1, stream, limit, mask=mask, int16=fraction is not None)
    table = pairs("seed_k_pairs", seed_k_pairs, "k")
    terms = make_terms(table, momentum)
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
    momentum: int = 0,
    mask: NDArray[np.uint8] | None = None,
    int16: bool = False,
) -> int:
    """One optimization step: every weight moves by the sum of coefficient * z(seed), see ``zo_update.h``.

    Args:
        weights: int8, every value within ±limit (before what `restore_k` undoes); changed in place.
        fraction: int8 like `weights`, units of 2^-8 LSB, changed in place: selects the 16-bit update. None
            selects the 8-bit one with stochastic rounding.
        multiplier: int32 [channels], Q31 factor of the step per output channel, or None for 1.
        channels: number of output channels; with `inner` read only where there is a multiplier.
        inner: weight i belongs to channel (i // inner) % channels.
        stream: number of the tensor.
        limit: 127 minus the headroom; the step is clipped to ±limit.
        distribution: of the direction.
        queries: 1 to 32 pairs (seed, coefficient); unit of the coefficient: 2^-16 LSB per unit of z.
        restore_k: adds this many perturbations (-1, 0, +1) of the last query's seed before the step.
        restore: the same in general: pairs (seed, k), see `perturb`, up to 32, added before the step.
        momentum: of these, see `perturb`.
        mask: of what is perturbed and moved, see `perturb`.
        int16: whether what precedes the step is a perturbation of 16 bits, see `perturb`.

    Returns:
        How many weights were clipped.
    """
    tensor = make_tensor(
        weights, fraction, multiplier, channels, inner, stream, limit, mask=mask, int16=int16
    )
    table = pairs("queries", queries, "coefficient")
    before = restoration(table, restore_k, restore)
    terms = make_terms(before, momentum)
    saturated = ctypes.c_uint32(0)
    call(
        "zo_update_s8",
        tensor,
        distribution.struct,
        terms,
        table.ctypes.data,
        len(table),
        ctypes.byref(saturated),
    )
    return saturated.value


def update_bits(
    weights: NDArray[np.int8],
    stream: int,
    limit: int,
    distribution: Distribution,
    seed: int,
    direction: int,
    bits: int,
) -> int:
    """Moves every weight against direction * z(seed), rounded to a few bits; see ``zo_update_bits_s8``.

    Args:
        weights: int8, every value within ±limit, changed in place.
        stream: number of the tensor.
        limit: 127 minus the headroom; weights are clipped to ±limit.
        distribution: by which the weights were perturbed.
        seed: of the direction, 0..2^32-1.
        direction: -1, 0 or +1, the sign of the loss difference L(w + z) - L(w - z).
        bits: of the largest update, 1..7.

    Returns:
        How many weights were clipped.
    """
    tensor = make_tensor(weights, None, None, 1, 1, stream, limit)
    saturated = ctypes.c_uint32(0)
    call(
        "zo_update_bits_s8",
        tensor,
        distribution.struct,
        unsigned("seed", seed),
        signed("direction", direction),
        unsigned("bits", bits),
        ctypes.byref(saturated),
    )
    return saturated.value


def _scale(scale: float | LogitScale) -> LogitScale:
    return scale if isinstance(scale, LogitScale) else LogitScale.of(float(scale))


def _matrix(name: str, array: NDArray[np.int8], minimum: int) -> tuple[int, int, int]:
    """Address, rows and columns of an int8 array [samples, ...]."""
    data = address(name, array, np.int8)
    if array.ndim < 2 or array.size == 0 or array.size // array.shape[0] < minimum:
        raise ValueError(
            f"{name}: expected shape [samples, n] with at least one sample and n >= {minimum}, "
            f"got {array.shape}"
        )
    return data, array.shape[0], array.size // array.shape[0]


def _labels(labels: NDArray[np.int32], count: int) -> int:
    data = address("labels", labels, np.int32)
    if labels.size != count:
        raise ValueError(f"labels: expected {count} elements, got {labels.size}")
    return data


def cross_entropy(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float | LogitScale
) -> NDArray[np.int32]:
    """Softmax cross-entropy of each sample.

    Args:
        logits: int8 [samples, classes], at least 2 classes.
        labels: int32 [samples], 0..classes-1, or -1 for an unlabelled sample (loss 0).
        scale: of the logits, 2^-20 to 64.

    Returns:
        int32 [samples], unit 2^-16 nat.
    """
    data, samples, classes = _matrix("logits", logits, 2)
    losses = np.zeros(samples, np.int32)
    call(
        "zo_cross_entropy_s8",
        data,
        samples,
        classes,
        _scale(scale).struct,
        _labels(labels, samples),
        losses.ctypes.data,
    )
    return losses


def cross_entropy_error(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float | LogitScale
) -> NDArray[np.int16]:
    """Derivative of `cross_entropy` by the scaled logits: softmax minus one-hot label.

    Args:
        logits: see `cross_entropy`.
        labels: see `cross_entropy`.
        scale: see `cross_entropy`.

    Returns:
        int16 [samples, classes], unit 2^-15, saturated to ±32767; 0 for an unlabelled sample.
    """
    data, samples, classes = _matrix("logits", logits, 2)
    errors = np.zeros((samples, classes), np.int16)
    call(
        "zo_cross_entropy_error_s8",
        data,
        samples,
        classes,
        _scale(scale).struct,
        _labels(labels, samples),
        errors.ctypes.data,
    )
    return errors


def binary_cross_entropy(
    logits: NDArray[np.int8],
    labels: NDArray[np.int32],
    scale: float | LogitScale,
    zero_point: int = 0,
) -> NDArray[np.int32]:
    """Sigmoid cross-entropy of each sample, summed over its outputs.

    Args:
        logits: int8 [samples, outputs].
        labels: int32 [samples, outputs], 0 or 1, or -1 for an unlabelled output.
        scale: of the logits, 2^-20 to 64.
        zero_point: of the logits, -128..127.

    Returns:
        int32 [samples], unit 2^-16 nat.
    """
    data, samples, outputs = _matrix("logits", logits, 1)
    losses = np.zeros(samples, np.int32)
    call(
        "zo_binary_cross_entropy_s8",
        data,
        samples,
        outputs,
        integer("zero_point", zero_point, -128, 127),
        _scale(scale).struct,
        _labels(labels, samples * outputs),
        losses.ctypes.data,
    )
    return losses


def binary_cross_entropy_error(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float, zero_point: int
) -> NDArray[np.int16]:
    """Derivative of `binary_cross_entropy` by the scaled logits, int16 [samples, outputs], unit 2^-15."""
    data, samples, outputs = _matrix("logits", logits, 1)
    errors, read = np.zeros((samples, outputs), np.int16), _labels(labels, samples * outputs)
    own = _scale(scale).struct
    call(
        "zo_binary_cross_entropy_error_s8", data, samples, outputs, zero_point, own, read, errors.ctypes.data
    )
    return errors


def mean_squared_error_factor(scale: float, elements: int) -> tuple[int, int]:
    """The factor scale^2 / elements * 2^16 as (multiplier, shift): multiplier * 2^-shift."""
    factor = float(scale) ** 2 / elements * 2**16
    if not (math.isfinite(factor) and factor > 0.0):
        raise ValueError(f"scale: expected a positive number, got {scale}")
    mantissa, exponent = math.frexp(factor)  # factor = mantissa * 2^exponent, mantissa in [0.5, 1)
    multiplier, shift = round(mantissa * 2**31), 31 - exponent
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift - 1
    if not 0 <= shift <= 62:
        raise ValueError(f"scale: scale^2 / elements is {factor / 2**16:g}, expected 2^-48 to 2^15")
    return multiplier, shift


def mean_squared_error(
    outputs: NDArray[np.int8], targets: NDArray[np.int8], scale: float
) -> NDArray[np.int32]:
    """Mean squared error of each sample; outputs and targets are quantized alike.

    Args:
        outputs: int8 [samples, ...], up to 2^20 elements per sample.
        targets: int8, like `outputs`.
        scale: of both.

    Returns:
        int32 [samples], unit 2^-16, saturated to 2^31-1.
    """
    data, samples, elements = _matrix("outputs", outputs, 1)
    target_address = address("targets", targets, np.int8)
    if targets.size != outputs.size:
        raise ValueError(f"targets: expected shape {outputs.shape} like outputs, got {targets.shape}")
    multiplier, shift = mean_squared_error_factor(scale, elements)
    losses = np.zeros(samples, np.int32)
    call(
        "zo_mean_squared_error_s8",
        data,
        target_address,
        samples,
        elements,
        multiplier,
        shift,
        losses.ctypes.data,
    )
    return losses


def command_steps(words: NDArray[np.int32]) -> int:
    """Number of steps that a checked command applies: one per update, and those of its replays."""
    data = address("words", words, np.int32)
    count: Iterable[int] = (library().zo_command_steps(data, opcode) for opcode in (2, 3))
    return sum(count)
