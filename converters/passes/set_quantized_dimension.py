# SPDX-License-Identifier: Apache-2.0
"""Names dimension 0 as the quantized one of tensors that have no other."""

from __future__ import annotations

from ..model import Model
from ..settings import InjectSettings
from .plan import Plan


def set_quantized_dimension(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Sets ``quantized_dimension`` to 0 on tensors of one dimension.

    Some converters leave the filter's number there on biases. TFLM does not look at it, but LiteRT refuses a
    model in which it is not below the tensor's rank.

    Args:
        model: model that is changed in place.
        settings: settings, which this pass does not read.
        plan: plan, which this pass does not read.
    """
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.quantization is not None and len(tensor.shape) == 1:
                tensor.quantization.axis = 0
