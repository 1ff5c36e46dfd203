# SPDX-License-Identifier: Apache-2.0
"""Biases follow the scales of their filters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .errors import ConversionError
from .model import Operator, Subgraph

_INT32 = np.iinfo(np.int32)


def rescale_bias(
    graph: Subgraph,
    op: Operator,
    scales: npt.NDArray[np.float32],
    ratio: npt.NDArray[np.float64],
    changed: npt.NDArray[np.bool_],
) -> None:
    """Requantizes an operator's bias to input scale * filter scale, which kernels take as its unit.

    A bias that other operators read as well is copied first; a buffer is replaced, never edited. Values that
    int32 does not hold are clipped.

    Args:
        graph: graph of the operator.
        op: with a bias that is absent or constant.
        scales: scales of its filter from now on, [channels] or [1].
        ratio: factor of each channel's bias, old filter scale / new filter scale, [channels].
        changed: True for each channel whose scale has changed, bool [channels].

    Raises:
        ConversionError: the operator's input has no scale, which happens in a damaged model only.
    """
    data, bias = op.input(0), op.input(2)
    if bias is None:
        return
    if data is None or data.quantization is None or not len(data.quantization.scales):
        raise ConversionError(f"the input of `{op.outputs[0].name}` has no scale, so its bias has none")
    bias = graph.own_input(op, 2)  # another layer's bias keeps the scale of that layer
    # Kernels take the bias in units of input scale * filter scale, whatever its own table says.
    values = np.rint(bias.numpy().astype(np.float64) * ratio.reshape(bias.shape))
    bias.set_data(np.clip(values, _INT32.min, _INT32.max).astype(np.int32))
    if bias.quantization is None or not len(bias.quantization.scales):
        return
    product = (np.float32(data.quantization.scale) * scales).astype(np.float32)
    if len(bias.quantization.scales) == len(product):
        kept = bias.quantization.scales
        bias.quantization.scales = np.where(changed[: len(product)], product, kept).astype(np.float32)
    else:
        bias.quantization.scales = product
        bias.quantization.zero_points = np.zeros(len(product), np.int64)
        bias.quantization.axis = 0
