"""Helpers that read the graph of a model."""

from typing import Any

from numpy.typing import NDArray

from tflm_zo.converters import Model, load_model
from tflm_zo.converters.model import Buffer, Operator, Tensor
from tflm_zo.converters.model.schema import TensorType


def reload(model: Model) -> Model:
    return load_model(model.to_bytes())


def kinds(model: Model, k: int = 0) -> list[str]:
    return [op.code.name for op in model.subgraphs[k].operators]


def find(model: Model, name: str, k: int = 0) -> Tensor:
    found = [t for t in model.subgraphs[k].all_tensors() if t.name == name]
    assert len(found) == 1, name
    return found[0]


def operator(model: Model, kind: str, k: int = 0) -> Operator:
    return next(op for op in model.subgraphs[k].operators if op.code.name == kind)


def with_filters_as_inputs(model: Model) -> tuple[Model, list[NDArray[Any]]]:
    """Makes a copy with its int8 filters as inputs, behind the others. Returns also their values."""
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
