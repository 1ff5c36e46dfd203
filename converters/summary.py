"""A model's inputs, outputs, operators and, of a ZO model, trainable filters: as data and as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from ..io.table import table
from .channel_statistics import read_statistics
from .constants import ETHOS_U, METADATA_NAME
from .kernels import macs
from .kernels import weights_of as filters_of
from .metadata import ZoMetadata, read_metadata
from .model import Model, Operator, Tensor
from .passes.layer_names import operator_names, shown_name


def summarize(model: Model, size: int) -> dict[str, Any]:
    """Returns the summary of a model of `size` bytes, as numbers, strings, lists and dictionaries."""
    zo = model.find_metadata(METADATA_NAME) is not None
    statistics = None if zo else read_statistics(model)
    metadata = read_metadata(model) if zo else None
    names = operator_names(model, {t.name: t.layer for t in metadata.trainable} if metadata else {})
    operators = [_operator(k, op, names[op]) for k, graph in enumerate(model.subgraphs) for op in graph.operators]
    return {
        "bytes": size,
        "kind": "zo" if zo else "plain",
        "inputs": _ports(model, "inputs"),
        "outputs": _ports(model, "outputs"),
        "operators": operators,
        "weights": weights_of(model),
        "macs": sum(op["macs"] for op in operators),
        "statistics": None
        if statistics is None
        else {
            "samples": statistics.samples,
            "layers": len(statistics.layers),
            "channels": sum(len(layer.mean) for layer in statistics.layers),
        },
        "zo": None if metadata is None else json.loads(metadata.to_json()),
        "trained_by": None if metadata is None else trained_by(metadata),
    }


def render_summary(console: Console, result: Mapping[str, Any], name: str) -> None:
    """Prints the tables of `summarize`."""
    kind = "ZO model" if result["kind"] == "zo" else "plain model"
    console.print(
        f"{name}: {kind}, {result['bytes']:,} bytes, {result['weights']:,} weights, {result['macs']:,} MACs",
        markup=False,
    )
    rows = [
        [side, p["segment"], shown_name(p["name"]), p["type"], _shape(p["shape"]), *_quantization(p)]
        for side in ("inputs", "outputs")
        for p in result[side]
    ]
    columns = ["", "segment", "name", "type", "shape", "scale", "zero point", "range"]
    console.print(table("Inputs and outputs", columns, rows))
    rows = []
    for op in result["operators"]:
        kind = op["operator"] + (" (trainable)" if op["trainable"] else "")
        rows.append([op["segment"], kind, op["name"], _shape(op["shape"]), op["weights"], op["macs"]])
    console.print(table("Operators", ["segment", "operator", "name", "shape", "weights", "MACs"], rows))
    if any(op["operator"] == ETHOS_U for op in result["operators"]):
        console.print(
            "vela has compiled this model for an Ethos-U: layers and weights in its operator ethos-u are not "
            "counted, and cannot be trained"
        )
    if result["statistics"] is not None:
        kept = result["statistics"]
        console.print(
            f"keeps statistics of {kept['channels']:,} channels in {kept['layers']} layers, of "
            f"{kept['samples']:,} samples: recalibrate leads back to them"
        )
    if result["zo"] is not None:
        _render_training(console, result["zo"], result["trained_by"])


def trained_by(metadata: ZoMetadata) -> list[str]:
    """Returns the method of each trainable tensor: nodes, exact gradients, or weight perturbation."""
    ways = {"nodes": metadata.nodes, "exact gradients": metadata.tail.layers if metadata.tail else ()}
    of = {metadata.trainable[n.trainable].layer: way for way, found in ways.items() for n in found}
    return [of.get(t.layer, "weight perturbation") for t in metadata.trainable]


def _ports(model: Model, side: str) -> list[dict[str, Any]]:
    return [{"segment": k, **_port(t)} for k, graph in enumerate(model.subgraphs) for t in getattr(graph, side)]


def _port(tensor: Tensor) -> dict[str, Any]:
    q = tensor.quantization
    scale, zero_point = (q.scale, q.zero_point) if q is not None and len(q.scales) else (None, None)
    port = {"name": tensor.name, "type": tensor.type_name, "shape": list(tensor.shape)}
    return {**port, "scale": scale, "zero_point": zero_point}


def _operator(segment: int, op: Operator, name: str) -> dict[str, Any]:
    filters = filters_of(op)
    return {
        "segment": segment,
        "operator": op.code.name,
        "name": name,
        "output": op.outputs[0].name if op.outputs else None,
        "shape": list(op.outputs[0].shape) if op.outputs else None,
        "weights": sum(t.size for t in filters),
        "trainable": any(t.is_variable for t in filters),
        "macs": macs(op),
    }


def weights_of(model: Model) -> int:
    """Returns the number of weights of all filters; a shared filter counts once."""
    filters = {t for graph in model.subgraphs for op in graph.operators for t in filters_of(op)}
    return sum(tensor.size for tensor in filters)


def _shape(shape: list[int] | None) -> str:
    return "" if shape is None else "x".join(map(str, shape))


def _quantization(port: dict[str, Any]) -> list[str]:
    scale, zero_point = port["scale"], port["zero_point"]
    if scale is None:
        return ["", "", ""]
    bounds = ""
    lowest = {"INT8": -128, "UINT8": 0}.get(port["type"])
    if lowest is not None:
        bounds = f"{(lowest - zero_point) * scale:.4g} .. {(lowest + 255 - zero_point) * scale:.4g}"
    return [f"{scale:g}", str(zero_point), bounds]


def _render_training(console: Console, zo: Mapping[str, Any], trained_by: Sequence[str]) -> None:
    rows = []
    for t, way in zip(zo["trainable"], trained_by, strict=True):
        operator, block = t["operator"] + (", bias" if t.get("bias") else ""), zo["blocks"][t["block"]]
        rows.append([t["layer"], operator, _shape(t["shape"]), t["size"], block, t["segment"], way])
    columns = ["layer", "operator", "shape", "weights", "block", "segment", "trained by"]
    console.print(table("Trainable filters", columns, rows))
    loss = zo["loss"]
    console.print(
        f"batch {zo['batch']}, headroom {zo['head_room']} LSB, {zo['update_bits']}-bit update, "
        f"up to {zo['max_queries']} queries, commands of {zo['command_words']} words, "
        f"{'with' if zo['replay'] else 'without'} replay, "
        + ("no loss" if loss is None else f"{loss['kind']} over {loss['elements']}")
    )
