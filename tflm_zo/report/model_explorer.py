"""Node data for Model Explorer, which draws numbers of a report onto the graph of a model.

A file has one number for some of the operators, by graph and by the operator's index in it (`ModelNodeData`
of the package model-explorer).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from ..converters import Model, export_model
from ..converters.kernels import FILTER_OPERATORS, macs
from ..converters.model import Operator, Subgraph
from .evaluation import layer_changes
from .recorded_run import RecordedRun

# From nothing to the most, of colours that a black label can be read on.
_GRADIENT: Final = [{"stop": 0, "bgColor": "#f7fbff"}, {"stop": 1, "bgColor": "#6baed6"}]

_Value = Callable[[Operator], "float | None"]


def node_data_of_model(model: Model) -> dict[str, str]:
    """Returns node data of a plain or ZO model by name: "macs", multiply-accumulates of an invoke, and "weights"."""
    return {
        "macs": _data(model, "multiply-accumulates", lambda op: macs(op) or None),
        "weights": _data(model, "weights", _weights),
    }


def node_data_of_run(run: RecordedRun) -> dict[str, str]:
    """Returns node data of a run by name, for the ZO model ("zo.macs", …) and for the exported plain model: "moved",
    the share of changed weights of a layer, percent; "mean_move", the mean magnitude of their changes, LSB; "training",
    the cost of training the layer in a step of one sample without the forward pass, forward equivalents (layer-wise
    runs only); "macs" and "weights" as in `node_data_of_model`.
    """
    found: dict[str, str] = {}
    changes = dict(zip((t.name for t in run.metadata.trainable), layer_changes(run), strict=True))
    for prefix, model in (("zo.", run.zo.model), ("", export_model(run.zo.model, run.weights))):
        own = {
            "moved": _data(model, "weights moved, %", _of(changes, lambda c: 100 * c.moved / c.size)),
            "mean_move": _data(model, "mean move, LSB", _of(changes, lambda c: c.mean_move)),
            **node_data_of_model(model),
        }
        if costs := run.costs_of_tensors:
            own["training"] = _data(model, "training, forward equivalents", _of(costs, float))
        found |= {f"{prefix}{name}": text for name, text in own.items()}
    return found


def _of(values: Mapping[str, object], number: Callable[..., float]) -> _Value:
    """Returns a function that finds the value of an operator's filter, or None."""

    def value(op: Operator) -> float | None:
        filters = op.input(1)
        own = None if filters is None else values.get(filters.name)
        return None if own is None else number(own)

    return value


def _weights(op: Operator) -> int | None:
    filters = op.input(1) if op.builtin in FILTER_OPERATORS else None
    return None if filters is None else filters.size


def _data(model: Model, name: str, value: _Value) -> str:
    found = {}
    for graph in model.subgraphs:
        values = {str(i): value(op) for i, op in enumerate(graph.operators)}
        results = {i: {"value": float(f"{v:.6g}")} for i, v in values.items() if v is not None}
        found[_graph_id(model, graph)] = {"results": results, "name": name, "gradient": _GRADIENT}
    return json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _graph_id(model: Model, graph: Subgraph) -> str:
    """Returns the name of a graph in Model Explorer: its own name, or that of its signature."""
    signatures = (s.key for s in model.signatures or () if s.subgraph is graph)
    return graph.name or next(signatures, "main")
