"""Losses in float64 (zo_loss.h). Logits are int8, labels may be -1."""

import numpy as np
from numpy.typing import NDArray


def cross_entropy(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.float64]:
    x = scale * logits.astype(np.float64)
    largest = x.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(x - largest).sum(axis=1)) + largest[:, 0]
    loss = log_sum - np.take_along_axis(x, np.maximum(labels, 0)[:, None], axis=1)[:, 0]
    return np.where(labels < 0, 0.0, loss)


def cross_entropy_error(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.float64]:
    x = scale * logits.astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    error = e / e.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), np.maximum(labels, 0)] -= 1.0
    error[labels < 0] = 0.0
    return error


def binary_cross_entropy(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float, zero_point: int
) -> NDArray[np.float64]:
    x = scale * (logits.astype(np.float64) - zero_point)
    # -log sigmoid(x) for label 1, -log(1 - sigmoid(x)) for label 0
    loss = np.logaddexp(0.0, np.where(labels == 1, -x, x))
    return np.where(labels < 0, 0.0, loss).sum(axis=1)


def binary_cross_entropy_error(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float, zero_point: int
) -> NDArray[np.float64]:
    x = scale * (logits.astype(np.float64) - zero_point)
    return np.where(labels < 0, 0.0, (1 + np.tanh(x / 2)) / 2 - labels)


def mean_squared_error(outputs: NDArray[np.int8], targets: NDArray[np.int8], scale: float) -> NDArray[np.float64]:
    difference = scale * (outputs.astype(np.float64) - targets)
    return (difference**2).mean(axis=1)


def floor_log2_of_exponents(exponents: list[int], offset: int) -> int:
    """Computes floor(log2 of the sum of 2^a), each a at least the offset; in whole numbers of any size."""
    total = sum(1 << max(a - offset, 0) for a in exponents)
    return total.bit_length() - 1 + offset


def floor_log2(logits: list[int], label: int, scale_log2e: int) -> int:
    """Computes zo_floor_log2_loss.h in powers of two; 0 without a label."""
    if label < 0:
        return 0
    exponents = [(z - logits[label]) * scale_log2e // 2**24 for z in logits]
    return floor_log2_of_exponents(exponents, max(exponents) - 10)
