# SPDX-License-Identifier: Apache-2.0
"""Refuses models that cannot become ZO models, before anything is done to them."""

from __future__ import annotations

from collections.abc import Iterable

from ..check_graph import check_graph
from ..constants import METADATA_NAME, OP_PREFIX
from ..errors import ConversionError
from ..kernels import CONTROL_FLOW, STATEFUL
from ..mend import mend
from ..model import Model, Subgraph
from ..settings import InjectSettings
from .plan import Plan


def check_supported(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Raises ConversionError, naming the operator or tensor, unless every operator is an int8 one that TFLM
    has a kernel for (QUANTIZE and DEQUANTIZE at the edges) and the graph is sound. Mends what can be mended
    (`mend`), and fills ``plan.without_softmax``.
    """
    _check_not_injected(model)
    if not model.subgraphs:
        raise ConversionError("the model has no subgraph")
    _check_stateless(model.subgraphs if settings.signature is None else ())
    plan.without_softmax = mend(model, settings.signature, reads_output=settings.loss == "mse")
    _check_stateless(model.subgraphs)
    check_graph(model.subgraphs[0])


def _check_stateless(graphs: Iterable[Subgraph]) -> None:
    for op in (op for graph in graphs for op in graph.operators):
        if op.builtin in CONTROL_FLOW:
            raise ConversionError(f"{op.label}: control flow is not supported; convert the model without it")
        if op.builtin in STATEFUL:
            raise ConversionError(
                f"{op.label}: it carries a state from one invoke to the next, but training compares invokes "
                f"that begin alike; {STATEFUL[op.builtin]}"
            )


def _check_not_injected(model: Model) -> None:
    names = (op.code.name for graph in model.subgraphs for op in graph.operators)
    if model.find_metadata(METADATA_NAME) is not None or any(n.startswith(OP_PREFIX) for n in names):
        raise ConversionError("the model is a ZO model already; inject the int8 model it was made from")
