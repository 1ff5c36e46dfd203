# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo inspect``."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ...converters import ConversionError, Model, load_model, possible_cuts, read_metadata
from ...converters.constants import METADATA_NAME
from ...converters.model import Operator, Tensor
from ...converters.model.schema import printable
from ...converters.node_choice import node_choices
from ...converters.operator_costs import filter_of, macs
from ...converters.passes.layer_names import shown_name
from ..injection import parse_loss_output
from ..node_table import node_rows, node_table
from ..options import Force, Json, LossOutput, ModelFile, OutputReport
from ..output_file import check_output
from ..results import show, table, write_report

EXAMPLE = "tflm-zo inspect model.tflite --cuts"


def inspect(
    model: ModelFile,
    cuts: Annotated[bool, typer.Option("--cuts", help="List the tensors at which inject can cut.")] = False,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Say which layers could carry nodes, and why the others cannot.")
    ] = False,
    loss_output: LossOutput = None,
    output: OutputReport = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show what a model reads, computes and writes; of a ZO model also how it trains."""
    check_output(output, force=force)
    loaded = load_model(model)
    zo = loaded.find_metadata(METADATA_NAME) is not None
    if cuts and zo:
        raise ConversionError("--cuts takes a plain model: the one that this ZO model was made from")
    if loss_output is not None and not cuts and not nodes:
        raise ConversionError("--loss-output is of --cuts and --nodes, which depend on what the loss reads")
    if nodes and zo:
        raise ConversionError("--nodes takes a plain model; the nodes of a ZO model are shown without it")
    wanted = parse_loss_output(loss_output)
    operators = [_operator(k, op) for k, graph in enumerate(loaded.subgraphs) for op in graph.operators]
    result: dict[str, Any] = {
        "model": str(model),
        "bytes": model.stat().st_size,
        "kind": "zo" if zo else "plain",
        "inputs": _ports(loaded, "inputs"),
        "outputs": _ports(loaded, "outputs"),
        "operators": operators,
        "weights": _distinct_weights(loaded),
        "macs": sum(op["macs"] for op in operators),
        "zo": json.loads(read_metadata(loaded).to_json()) if zo else None,
        "cuts": possible_cuts(loaded, wanted) if cuts else None,
        "nodes": node_rows(loaded) if zo else None,
        "node_choices": [dataclasses.asdict(c) for c in node_choices(loaded, wanted)] if nodes else None,
    }
    write_report(output, result, force=force)
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _ports(model: Model, side: str) -> list[dict[str, Any]]:
    return [
        {"segment": k, **_port(tensor)}
        for k, graph in enumerate(model.subgraphs)
        for tensor in getattr(graph, side)
    ]


def _port(tensor: Tensor) -> dict[str, Any]:
    quantization = tensor.quantization
    quantized = quantization is not None and len(quantization.scales) > 0
    return {
        "name": tensor.name,
        "type": tensor.type_name,
        "shape": list(tensor.shape),
        "scale": quantization.scale if quantization is not None and quantized else None,
        "zero_point": quantization.zero_point if quantization is not None and quantized else None,
    }


def _operator(segment: int, op: Operator) -> dict[str, Any]:
    tensor = filter_of(op)
    return {
        "segment": segment,
        "operator": op.code.name,
        "output": op.outputs[0].name if op.outputs else None,
        "shape": list(op.outputs[0].shape) if op.outputs else None,
        "weights": 0 if tensor is None else tensor.size,
        "trainable": tensor is not None and tensor.is_variable,
        "macs": macs(op),
    }


def _distinct_weights(model: Model) -> int:
    """Weights of all filters, those that several operators share counted once."""
    filters = {filter_of(op) for graph in model.subgraphs for op in graph.operators}
    return sum(tensor.size for tensor in filters if tensor is not None)


def _shape(shape: list[int] | None) -> str:
    return "" if shape is None else "x".join(map(str, shape))


def _render(console: Console, result: dict[str, Any]) -> None:
    kind = "ZO model" if result["kind"] == "zo" else "plain model"
    console.print(
        f"{result['model']}: {kind}, {result['bytes']:,} bytes, {result['weights']:,} weights, "
        f"{result['macs']:,} MACs",
        markup=False,
    )
    rows = [
        [side, p["segment"], shown_name(p["name"]), p["type"], _shape(p["shape"]), *_quantization(p)]
        for side in ("inputs", "outputs")
        for p in result[side]
    ]
    columns = ["", "segment", "name", "type", "shape", "scale", "zero point", "range"]
    console.print(table("Inputs and outputs", columns, rows))
    rows = [
        [
            op["segment"],
            op["operator"] + (" (trainable)" if op["trainable"] else ""),
            shown_name(op["output"] or ""),
            _shape(op["shape"]),
            op["weights"],
            op["macs"],
        ]
        for op in result["operators"]
    ]
    console.print(table("Operators", ["segment", "operator", "output", "shape", "weights", "MACs"], rows))
    if result["zo"] is not None:
        _render_training(console, result["zo"])
    if result["nodes"]:
        console.print(node_table(result["nodes"]))
    if result["node_choices"] is not None:
        console.print(_choices(result["node_choices"]))
    if result["cuts"] is not None:
        console.print("Possible cuts, in any combination:" if result["cuts"] else "No possible cuts.")
        for name in result["cuts"]:
            console.print(f"  {printable(name)}", markup=False)


def _choices(choices: list[dict[str, Any]]) -> Table:
    rows = [
        [
            c["layer"],
            c["operator"],
            c["weights"],
            c["form"] or "",
            "" if c["count"] is None else f"{c['count']:,}",
            "yes" if c["auto"] else "no" if c["form"] is None else "by name",
            c["reason"],
        ]
        for c in choices
    ]
    return table(
        "Nodes", ["layer", "operator", "weights", "form", "nodes", "carries them", "because it"], rows
    )


def _quantization(port: dict[str, Any]) -> list[str]:
    scale, zero_point = port["scale"], port["zero_point"]
    if scale is None:
        return ["", "", ""]
    bounds = ""
    lowest = {"INT8": -128, "UINT8": 0}.get(port["type"])
    if lowest is not None:
        bounds = f"{(lowest - zero_point) * scale:.4g} .. {(lowest + 255 - zero_point) * scale:.4g}"
    return [f"{scale:g}", str(zero_point), bounds]


def _render_training(console: Console, zo: dict[str, Any]) -> None:
    rows = [
        [t["layer"], t["operator"], _shape(t["shape"]), t["size"], zo["blocks"][t["block"]], t["segment"]]
        for t in zo["trainable"]
    ]
    columns = ["layer", "operator", "shape", "weights", "block", "segment"]
    console.print(table("Trainable filters", columns, rows))
    loss = zo["loss"]
    console.print(
        f"batch {zo['batch']}, headroom {zo['headroom']} LSB, {zo['update_bits']}-bit update, "
        f"up to {zo['max_queries']} queries, commands of {zo['command_words']} words, "
        f"{'with' if zo['replay'] else 'without'} replay, "
        + ("no loss" if loss is None else f"{loss['kind']} over {loss['elements']}")
    )
