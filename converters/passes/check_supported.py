"""Refuses models that cannot become ZO models, and prepares the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...io.errors import printable
from .. import constants
from ..check_graph import check_graph
from ..constants import COMPRESSED, COMPRESSION, METADATA_NAME, OP_PREFIX, free_name
from ..errors import ConversionError
from ..kernels import CONTROL_FLOW
from ..mend import mend
from ..model import Model, Subgraph, Tensor
from ..settings import InjectSettings
from ..states import open_states
from .plan import Plan


def check_supported(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Refuses models that cannot be trained, repairs the others, and fills ``plan.without_softmax``."""
    names = (op.code.name for graph in model.subgraphs for op in graph.operators)
    if model.find_metadata(METADATA_NAME) is not None or any(n.startswith(OP_PREFIX) for n in names):
        raise ConversionError("the model is a ZO model already; inject the int8 model it was made from")
    if model.find_metadata(COMPRESSION) is not None:
        raise ConversionError(f"{COMPRESSED}; take the model before compression")
    if not model.subgraphs:
        raise ConversionError("the model has no subgraph")
    own = next((t.name for g in model.subgraphs for t in g.all_tensors() if t.name.startswith(constants.OUTPUTS)), None)
    if own is not None:
        raise ConversionError(f"tensor `{own}` must have another name, since `inject` uses names like it. Rename it")
    open_states(model)
    _check_control_flow(model.subgraphs if settings.signature is None else ())
    plan.without_softmax = mend(model, settings.signature, reads_output=settings.loss == "mse")
    _check_control_flow(model.subgraphs)
    check_graph(model.subgraphs[0])


def _check_control_flow(graphs: Iterable[Subgraph]) -> None:
    for op in (op for graph in graphs for op in graph.operators):
        if op.builtin in CONTROL_FLOW:
            raise ConversionError(f"{op.label}: control flow is not supported; convert the model without it")


def set_quantized_dimension(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Sets ``quantized_dimension`` to 0 on tensors of one dimension. Some converters leave the filter's number there on
    biases, and LiteRT refuses one that is not below the tensor's rank.
    """
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.quantization is not None and len(tensor.shape) == 1:
                tensor.quantization.axis = 0


_RESERVED: Final = (constants.BOUNDARY, constants.LABEL, constants.COMMAND, constants.LOSS_OUTPUT, constants.STATUS)


def name_ports(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.inputs`` and ``plan.outputs`` with the tensors' names. A name that is empty, reserved, or used twice
    gets a number. Tensor names go into JSON, so bytes that are no UTF-8 are replaced in all of them.
    """
    graph = model.subgraphs[0]
    for tensor in graph.all_tensors():
        tensor.name = printable(tensor.name)
    plan.inputs = _unique(graph.inputs, "input")
    plan.outputs = _unique(graph.outputs, "output")


def _unique(tensors: Iterable[Tensor], fallback: str) -> list[str]:
    names: list[str] = []
    for tensor in tensors:
        names.append(free_name(tensor.name or fallback, [*_RESERVED, *names]))
    return names
