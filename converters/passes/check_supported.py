# SPDX-License-Identifier: Apache-2.0
"""Refuses models that cannot become ZO models, before anything is done to them."""

from __future__ import annotations

from ..check_graph import check_graph
from ..constants import METADATA_NAME, OP_PREFIX
from ..errors import ConversionError
from ..kernels import CONTROL_FLOW, STATEFUL
from ..model import Model, Subgraph
from ..settings import InjectSettings
from .plan import Plan


def check_supported(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Raises ConversionError, naming the operator or tensor, unless every operator is an int8 one that TFLM
    has a kernel for (QUANTIZE and DEQUANTIZE at the edges) and the graph is sound. Changes nothing.
    """
    _check_not_injected(model)
    if not model.subgraphs:
        raise ConversionError("the model has no subgraph")
    for graph in model.subgraphs:
        for op in graph.operators:
            if op.builtin in CONTROL_FLOW:
                raise ConversionError(
                    f"{op.label}: control flow is not supported; convert the model without it"
                )
            if op.builtin in STATEFUL:
                raise ConversionError(
                    f"{op.label}: it carries a state from one invoke to the next, but training compares "
                    "invokes that begin alike; convert the model that is not streaming, which reads a whole "
                    "window"
                )
    if len(model.subgraphs) > 1:
        raise ConversionError(
            f"the model has {len(model.subgraphs)} subgraphs, only models with one can be trained"
        )
    graph = model.subgraphs[0]
    check_graph(graph)
    _check_signatures(model, graph)


def _check_signatures(model: Model, graph: Subgraph) -> None:
    for signature in model.signatures or ():
        for ports, tensors in ((signature.inputs, graph.inputs), (signature.outputs, graph.outputs)):
            for name, tensor in ports:
                if tensor not in tensors:
                    raise ConversionError(
                        f"signature «{signature.key}» gives the name «{name}» to tensor «{tensor.name}», "
                        "which is no input or output of the model; convert the model again"
                    )


def _check_not_injected(model: Model) -> None:
    names = (op.code.name for graph in model.subgraphs for op in graph.operators)
    if model.find_metadata(METADATA_NAME) is not None or any(n.startswith(OP_PREFIX) for n in names):
        raise ConversionError("the model is a ZO model already; inject the int8 model it was made from")
