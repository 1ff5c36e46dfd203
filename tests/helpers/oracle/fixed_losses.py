"""Cross-entropy and its derivative bit by bit, in Python integers (zo_log2.h, zo_loss.h)."""

from decimal import ROUND_HALF_EVEN, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

POINTS = 64
DIGITS = 50


def rounded(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_EVEN))


def tables() -> tuple[list[int], list[int], int, Decimal]:
    """Computes powers of two, logarithms, ln 2 in units of 2^-32, and log2(e)."""
    with localcontext() as context:
        context.prec = DIGITS
        ln2 = Decimal(2).ln()
        powers = [rounded(2**30 * (-ln2 * i / POINTS).exp()) for i in range(POINTS + 1)]
        logarithms = [rounded(2**26 * (1 + Decimal(i) / POINTS).ln() / ln2) for i in range(POINTS + 1)]
        return powers, logarithms, rounded(2**32 * ln2), 1 / ln2


POWERS, LOGARITHMS, LN2, LOG2E = tables()


def exp2_negative(x: int) -> int:
    whole, x = divmod(x, 2**24)
    i, rest = divmod(x, 2**18)
    slope = (POWERS[i] - POWERS[i + 1]) // 2**8
    return (POWERS[i] - slope * (rest // 4) // 2**8) // 2**whole


def log2(x: int) -> int:
    whole = x.bit_length() - 31
    i, rest = divmod(x // 2**whole - 2**30, 2**24)
    slope = (LOGARITHMS[i + 1] - LOGARITHMS[i]) // 2**5
    return 2**26 * whole + LOGARITHMS[i] + slope * (rest // 2**8) // 2**11


def logit_scale(scale: float) -> tuple[int, int]:
    """Computes zo_logit_scale: scale_log2e, scale."""
    with localcontext() as context:
        context.prec = DIGITS
        exact = Decimal(scale) * 2**24
        return rounded(exact * LOG2E), rounded(exact)


def exponentials(logits: list[int], scale_log2e: int) -> list[int]:
    """Computes E_j."""
    arguments = [(max(logits) - z) * scale_log2e for z in logits]
    return [exp2_negative(x) if x < 31 * 2**24 else 0 for x in arguments]


def cross_entropy(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.int32]:
    """Computes int32 [samples], unit 2^-16."""
    scale_log2e, s = logit_scale(scale)
    losses = []
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        logarithm = log2(sum(exponentials(row, scale_log2e))) * LN2 // 2**34
        losses.append(0 if label < 0 else (logarithm + (max(row) - row[label]) * s + 2**7) // 2**8)
    return np.array(losses, np.int32)


def binary_cross_entropy_error(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float, zero_point: int
) -> NDArray[np.int16]:
    """Computes int16 [samples, outputs], unit 2^-15."""
    scale_log2e, _ = logit_scale(scale)
    errors = []
    for z, label in zip(logits.ravel().tolist(), labels.ravel().tolist(), strict=True):
        part = exponentials([0, -abs(z - zero_point)], scale_log2e)[1] // 2**15
        smaller = (part * 2**15 + (2**15 + part) // 2) // (2**15 + part)
        sigmoid = smaller if z < zero_point else 2**15 - smaller
        errors.append(0 if label < 0 else max(-32767, min(32767, sigmoid - 2**15 * label)))
    return np.array(errors, np.int16).reshape(logits.shape)


def cross_entropy_error(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.int16]:
    """Computes int16 [samples, classes], unit 2^-15."""
    scale_log2e, _ = logit_scale(scale)
    errors = np.zeros(logits.shape, np.int16)
    for i, (row, label) in enumerate(zip(logits.tolist(), labels.tolist(), strict=True)):
        if label < 0:
            continue
        terms = exponentials(row, scale_log2e)
        dropped = 2 ** max(0, sum(terms).bit_length() - 16)
        divisor = sum(terms) // dropped
        for j, term in enumerate(terms):
            softmax = (term // dropped * 2**15 + divisor // 2) // divisor
            errors[i, j] = max(-32767, min(32767, softmax - (2**15 if j == label else 0)))
    return errors
