"""The memory of CMSIS-NN's kernels, computed like its ``…_get_buffer_size`` functions and TFLM's wrappers.

The kernels differ between cores with vectors (MVE) and other cores. For the others, the sizes are those
with the DSP extension, which are at least as large as those without.
"""

from __future__ import annotations

import dataclasses

from ..converters.kernels import filter_of
from ..converters.model import Operator
from ..converters.model.schema import BuiltinOperator, TensorType
from ..converters.passes.layer_geometry import Window

_CHANNELS = 124  # CH_IN_BLOCK_MVE: of a depthwise convolution, at a time
_LSTM_GATES = 320  # cmsis_nn_lstm_params, an upper bound


@dataclasses.dataclass(frozen=True)
class Extra:
    """Memory of a kernel in addition to its tensors, bytes."""

    scratch: int = 0  # bytes that it needs while it runs
    persistent: int = 0  # bytes that it needs as long as the interpreter lives


def _pads(op: Operator, source: tuple[int, ...], out: tuple[int, ...], height: int, width: int) -> tuple[int, int]:
    """Returns the rows and columns of zeros before the image."""
    return (
        Window.of(op, "h", height).zeros_before(source[1], out[1]),
        Window.of(op, "w", width).zeros_before(source[2], out[2]),
    )


def _columns_mve(channels: int, height: int, width: int) -> int:
    return 64 * -(-channels * height * width // 16)


def _one_row_mve(op: Operator, source: tuple[int, ...], kernel: int, out: int, pad: int) -> int:
    """``arm_convolve_1_x_n_s8_get_buffer_size_mve``."""
    width, channels, stride = source[2], source[3], op.option("strideW", 1)
    odd = ((out - 1) * stride + kernel - width) % 2
    right = max(1, (pad + odd + stride - 1) // stride) if pad + odd else 0
    left = max(1, (pad + stride - 1) // stride) if pad else 0
    if right + max(out - right - left, 0) + left != out:
        return _columns_mve(channels, 1, kernel)
    after = right * channels if odd else pad * channels
    return max((kernel + pad) * channels, (kernel - 1) * channels + after)


def _convolution(
    op: Operator, source: tuple[int, ...], out: tuple[int, ...], filter_: tuple[int, ...], *, mve: bool
) -> int:
    """``arm_convolve_wrapper_s8_get_buffer_size`` for a filter [out, height, width, in]."""
    _, height, width, channels = filter_
    pads = _pads(op, source, out, height, width)
    dilated = op.option("dilationHFactor", 1) != 1 or op.option("dilationWFactor", 1) != 1
    grouped = channels != source[3]
    if pads == (0, 0) and height == width == 1 and not dilated and not grouped:
        return 0
    if mve:
        row = source[1] == height == 1 and op.option("dilationWFactor", 1) == 1 and not grouped
        if row and op.option("strideW", 1) * source[3] % 4 == 0:
            return _one_row_mve(op, source, width, out[2], pads[1])
        return _columns_mve(source[3], height, width)
    columns = height * width * source[3]
    return 4 * (-(-columns // 4) * 4)


def _depthwise(
    op: Operator, source: tuple[int, ...], out: tuple[int, ...], filter_: tuple[int, ...], *, mve: bool
) -> int:
    """``arm_depthwise_conv_wrapper_s8_get_buffer_size`` for a filter [1, height, width, out]."""
    _, height, width, channels = filter_
    if mve and source[3] == 1 and channels > 1:
        # CMSIS-NN runs it as a convolution of one input channel, with a transposed filter.
        turned = (channels, height, width, 1)
        return _convolution(op, source, out, turned, mve=True) + channels * height * width
    dilated = op.option("dilationHFactor", 1) != 1 or op.option("dilationWFactor", 1) != 1
    if source[3] != channels or source[0] != 1 or dilated:
        return 0
    if mve:
        return 4 * _CHANNELS * height * width
    pads = _pads(op, source, out, height, width)
    return 0 if height == width == 3 and max(pads) <= 1 else 2 * source[3] * height * width


def extra_memory(op: Operator, *, mve: bool) -> Extra:
    """Returns the memory of an operator's kernel in addition to its tensors; `mve`: on a core with vectors."""
    data, weights = op.input(0), filter_of(op)
    if data is None or data.type not in (TensorType.INT8, TensorType.INT16) or not op.outputs:
        return Extra()
    source, out = data.shape, op.outputs[0].shape
    if op.builtin == BuiltinOperator.AVERAGE_POOL_2D:
        return Extra(0 if mve else 4 * source[-1])
    if op.builtin == BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM:
        # Sums of the rows of eight matrices, each a buffer, and the parameters of the gates.
        return Extra(0, 8 * -(-4 * out[-1] // 16) * 16 + _LSTM_GATES)
    if op.builtin == BuiltinOperator.SVDF and mve:
        features = op.input(1)
        return Extra(0, 4 * features.shape[0] if features is not None else 0)
    if weights is None:
        return Extra()
    shape = weights.shape
    if data.type == TensorType.INT16:
        # ``arm_convolve_s16_get_buffer_size``: other layers need none.
        columns = weights.size // shape[0]
        scratch = 64 * -(-columns // 8) if mve else 4 * columns
        return Extra(scratch if op.builtin == BuiltinOperator.CONV_2D else 0)
    if op.builtin == BuiltinOperator.CONV_2D:
        return Extra(_convolution(op, source, out, shape, mve=mve))
    if op.builtin == BuiltinOperator.DEPTHWISE_CONV_2D:
        return Extra(_depthwise(op, source, out, shape, mve=mve))
    if op.builtin == BuiltinOperator.FULLY_CONNECTED:
        if len(out) > 2 and shape[-1] % 4 == 0:
            per_channel = weights.quantization is not None and weights.quantization.is_per_channel
            return Extra(0 if per_channel else 8 * shape[0])
        sums = 4 * shape[0] if mve else 0
        # Sums of a constant filter and its bias are computed once.
        bias = op.input(2)
        once = weights.is_constant and (bias is None or bias.is_constant)
        return Extra(0, sums) if once else Extra(sums)
    if op.builtin == BuiltinOperator.TRANSPOSE_CONV:
        # A bound: sums of all outputs, a row of columns, and the filter turned.
        return Extra(4 * op.outputs[0].size + 2 * weights.size)
    return Extra()
