# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Models whose filters may change between invokes, with the same outputs as models with constant ones."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tflm_zo.converters import Model
from tflm_zo.converters.model import Buffer
from tflm_zo.converters.model.schema import TensorType


def with_filters_as_inputs(model: Model) -> tuple[Model, list[NDArray[Any]]]:
    """A copy that takes its int8 filters as inputs, behind the others, and what it has to be given there."""
    result = model.copy()
    graph, filters = result.subgraphs[0], []
    for op in graph.operators:
        if op.code.name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            tensor = op.inputs[1]
            if tensor.is_constant and tensor.type == TensorType.INT8:
                filters.append(tensor.numpy())
                tensor.buffer = Buffer()
                graph.inputs.append(tensor)
    return result, filters
