"""Initial weights and step multipliers of a ZO model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import constants
from .constants import MULTIPLIER
from .errors import ConversionError, InjectError
from .metadata import ZoMetadata, read_metadata
from .model import Model, Subgraph

#: Weights of a filter, int8, or biases of a layer, int32.
WeightArray = npt.NDArray[Any]


def initial_weights(model: Model) -> dict[str, WeightArray]:
    """Returns copies of the initial weights of a ZO model's trainable tensors, by name, in the order of their streams:
    int8 in the filters' own shapes, and int32 [channels] of biases. Raises ConversionError if the model is no ZO model,
    or does not fit its metadata.
    """
    metadata = read_metadata(model)
    at = [0] * len(metadata.segments)
    data = [_initial(graph) for graph in model.subgraphs]
    weights: dict[str, WeightArray] = {}
    for t in metadata.trainable:
        values = data[t.segment][at[t.segment] : at[t.segment] + t.nbytes].copy()
        weights[t.name] = values.view(t.dtype).reshape(t.shape)
        at[t.segment] += t.nbytes
    return weights


def checked_weights(metadata: ZoMetadata, weights: Mapping[str, WeightArray], what: str) -> dict[str, WeightArray]:
    """Returns weights by tensor name. ConversionErrors about a name, shape or type begin with the argument `what`."""
    known = {t.name: t for t in metadata.trainable}
    result: dict[str, WeightArray] = {}
    for name, given in weights.items():
        if name not in known:
            raise InjectError(what, f"name trainable filter tensors ({', '.join(known)})", name)
        array: npt.NDArray[Any] = np.asarray(given)
        wanted = known[name].dtype, known[name].shape
        if (array.dtype, array.shape) != wanted:
            raise ConversionError(
                f"{what}: `{name}` needs {wanted[0]} {list(wanted[1])}, not {array.dtype} {list(array.shape)}"
            )
        result[name] = array
    return result


def _initial(graph: Subgraph) -> npt.NDArray[Any]:
    """Returns the constant initial weights of a segment, flat; empty where it has none."""
    tensors = [t for t in graph.tensors if t.name == constants.INITIAL and t.is_constant]
    return tensors[0].numpy().reshape(-1) if tensors else np.empty(0, np.int8)


def with_initial_weights(model: Model, weights: Mapping[str, WeightArray]) -> Model:
    """Returns a copy of a ZO model that starts from other weights. Logs of runs of the one do not belong to the other.

    Args:
        model: a ZO model; it is not changed.
        weights: new weights, int8 arrays in the filters' own shapes, or biases, int32 [channels], by tensor name.
            Tensors that are not named keep theirs.

    Raises:
        ConversionError: the model is no ZO model or does not fit its metadata, or a name, shape or type is wrong.
    """
    metadata, own = read_metadata(model), initial_weights(model)
    own.update(checked_weights(metadata, weights, "initial_weights"))
    result = model.copy()
    for k, graph in enumerate(result.subgraphs):
        parts = [own[t.name].reshape(-1).view(np.int8) for t in metadata.trainable if t.segment == k]
        for tensor in graph.tensors:
            if parts and tensor.name == constants.INITIAL and tensor.is_constant:
                tensor.set_data(np.concatenate(parts))
    return result


def step_multipliers(zo_model: Model) -> dict[str, npt.NDArray[np.int32]]:
    """Returns Q31 factors per output channel, int32 [channels], by filter tensor name; it may have none."""
    tensors = (t for graph in zo_model.subgraphs for t in graph.tensors)
    return {t.name.removesuffix(MULTIPLIER): t.numpy().copy() for t in tensors if t.name.endswith(MULTIPLIER)}
