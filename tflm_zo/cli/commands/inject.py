"""``tflm-zo inject``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from ...converters import ConversionError, Model, ZoMetadata, load_model, read_metadata
from ...converters import inject as inject_model
from ...converters.settings import LOSS_KINDS, LOSS_OVERS, PARAMETERS, QUANTIZATION_AWARE
from ...converters.summary import trained_by
from ...io.table import table
from ...training import ALGORITHMS, algorithm_for, inject_settings, trained_layers
from ...training import algorithm as algorithm_of_name
from ...training.algorithms import DEFAULT
from ...training.costs import SampleCosts
from ...training.plan import node_layer, plan_tasks
from ...training.setting_texts import parse_tail
from ..options import Force, Json, LossOutput, ModelFile, OutputModel, choice, option, optional
from ..output_file import check_outputs, write_output
from ..results import show
from ..set_option import (
    ALGORITHM_HELP,
    parse_loss,
    parse_loss_output,
    parse_selection,
    say_loss_output,
    split_names,
)

EXAMPLE = "tflm-zo inject model.tflite -o model.zo.tflite --algorithm node --batch 32"

_RUN, _LAYERS, _MEMORY, _DATA = "Run", "Layers", "Memory", "Data"
_LOSSES = tuple(kind.replace("_", "-") for kind in LOSS_KINDS)


def inject(
    model: ModelFile,
    output: OutputModel,
    algorithm: Annotated[
        str, option(f"Training algorithm: {ALGORITHM_HELP}.", _RUN, **choice(ALGORITHMS, listed=False))
    ] = DEFAULT,
    nodes: Annotated[
        list[str] | None,
        optional(
            "LAYER,…",
            "Layers that carry nodes: names or glob patterns, or auto, the layers with fewer nodes than "
            "weights (default of node); repeatable. inspect --nodes lists them.",
            _LAYERS,
        ),
    ] = None,
    tail: Annotated[
        str | None,
        optional(
            "N|BLOCKS",
            "Layers with exact gradients: a number of last layers, block (the last residual block and the layers "
            "after it), a number of blocks, as in '2 blocks', or all (all layers that errors reach).",
            _LAYERS,
        ),
    ] = None,
    parameters: Annotated[
        str | None,
        optional(
            None,
            "Trainable parameters of the layers: weights, biases or all.",
            _LAYERS,
            **choice(PARAMETERS, listed=False),
        ),
    ] = None,
    trainable: Annotated[
        list[str] | None,
        optional(
            "WHICH",
            "Trainable layers: all (default of weight), nodes (layers that carry nodes; default of node), last:N,"
            " none, or names or glob patterns; repeatable.",
            _LAYERS,
            "--trainable",
        ),
    ] = None,
    block: Annotated[
        list[str] | None,
        optional("NAME=PATTERN,…", "Layers that form one block of perturbations and updates; repeatable.", _LAYERS),
    ] = None,
    headroom: Annotated[
        int | None, optional(None, "Largest perturbation of a weight, LSB (default: node 0, weight 2).", _MEMORY)
    ] = None,
    update_bits: Annotated[
        int | None, optional(None, "Bits of a weight: 16 (with a fraction byte) or 8 (default: 16).", _MEMORY)
    ] = None,
    max_queries: Annotated[int | None, optional(None, "Seeds in one update (default: 8).", _MEMORY)] = None,
    batch: Annotated[int, option("Samples per invoke.", _RUN)] = 1,
    signature: Annotated[
        str | None, optional("NAME", "Signature or subgraph to train, of a model with several.", _LAYERS)
    ] = None,
    loss: Annotated[
        str,
        option(
            f"Loss that training minimizes: {', '.join(_LOSSES)}; or a sum, OUTPUT=LOSS*WEIGHT,… (OUTPUT[0:4] for"
            " channels 0 to 3).",
            _DATA,
            **choice(_LOSSES, listed=False, others="="),
        ),
    ] = "auto",
    loss_output: LossOutput = None,
    loss_over: Annotated[
        str,
        option(
            "Loss of a sequence: the sum of its steps with a label, or that of the step with the largest output.",
            _DATA,
            **choice(LOSS_OVERS),
        ),
    ] = "auto",
    cut: Annotated[
        list[str] | None,
        optional(
            "TENSOR",
            "Tensor where the graph is cut (inspect --cuts lists them), or layers to cut before each layer; "
            "repeatable.",
            _LAYERS,
        ),
    ] = None,
    command_words: Annotated[
        int | None, optional(None, "Capacity of a command, int32 words; more for long replays.", _MEMORY)
    ] = None,
    replay: Annotated[
        bool | None, optional(None, "Include the operator that replays a seed log (default: not for node).", _MEMORY)
    ] = None,
    multipliers: Annotated[
        str | None,
        optional(
            "KIND",
            f"Factors of steps: {QUANTIZATION_AWARE}, 1/s² per channel with its quantization scale s.",
            _LAYERS,
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make an int8 model trainable: from a plain .tflite to a ZO model.

    Node perturbation needs the model cut around the layers that carry nodes, and no headroom: before
    training its outputs are exactly the original's. The other layers stay as they are.
    """
    check_outputs({"MODEL": model}, {"-o": output}, force=force)
    run = algorithm_of_name(algorithm)
    given: dict[str, Any] = {
        "trainable": parse_selection("trainable", trainable, "all", "nodes", "none"),
        "nodes": parse_selection("nodes", split_names(nodes), "auto"),
        "tail": None if tail is None else parse_tail("tail", tail),
        "parameters": parameters,
        "headroom": headroom,
        "replay": replay,
        "update_bits": update_bits,
        "cuts": tuple(cut) if cut else None,
        "max_queries": max_queries,
        "blocks": _blocks(block or []),
        "batch": batch,
        "signature": signature,
        "loss": parse_loss(loss),
        "loss_output": parse_loss_output(loss_output),
        "loss_over": loss_over,
        "command_words": command_words,
        "multipliers": multipliers,
    }
    settings = inject_settings(run, **{name: value for name, value in given.items() if value is not None})
    zo = inject_model(load_model(model), settings)
    data, metadata = zo.to_bytes(), read_metadata(zo)
    result = {
        "output": str(output),
        "bytes": len(data),
        "original_bytes": model.stat().st_size,
        "algorithm": run.algorithm,
        "batch": metadata.batch,
        "loss": None if metadata.loss is None else dataclasses.asdict(metadata.loss),
        "trainable_weights": sum(t.size for t in metadata.trainable if not t.bias),
        "trains": dataclasses.asdict(trained_layers(zo, run)),
        "trainable": [dataclasses.asdict(t) for t in metadata.trainable],
        "blocks": list(metadata.blocks),
        "segments": len(metadata.segments),
        "nodes": node_rows(zo),
    }
    # A refused model leaves no file, because all steps that can fail were done before.
    write_output(output, data, force=force)
    say_loss_output(zo, given["loss_output"])
    show(result, as_json=as_json, render=lambda console: _render(console, metadata, result))


def _blocks(given: list[str]) -> dict[str, list[str]] | None:
    blocks: dict[str, list[str]] = {}
    for item in given:
        name, equals, patterns = item.partition("=")
        parts = [part.strip() for part in patterns.split(",")]
        if not equals or not name or not all(parts):
            raise ConversionError(f"--block takes NAME=PATTERN,…, not {item!r}")
        if name in blocks:
            raise ConversionError(f"--block: `{name}` is given twice")
        blocks[name] = parts
    return blocks or None


def _render(console: Console, metadata: ZoMetadata, result: dict[str, Any]) -> None:
    kinds = [", bias" if t.bias else "" for t in metadata.trainable]
    rows = [
        [t.layer, t.operator + kind, "x".join(map(str, t.shape)), t.size, metadata.blocks[t.block], t.segment, way]
        for t, kind, way in zip(metadata.trainable, kinds, trained_by(metadata), strict=True)
    ]
    title = "Trainable tensors" if any(t.bias for t in metadata.trainable) else "Trainable filters"
    console.print(table(title, ["layer", "operator", "shape", "weights", "block", "segment", "trained by"], rows))
    if result["nodes"]:
        console.print(node_table(result["nodes"]))
    loss = "no loss" if metadata.loss is None else f"{metadata.loss.kind} over {metadata.loss.elements}"
    console.print(
        f"{result['trainable_weights']:,} weights, {len(metadata.blocks)} block(s), "
        f"{result['segments']} segment(s), batch {metadata.batch}, {loss}"
    )
    console.print(result["trains"]["sentence"])
    console.print(f"{result['output']}: {result['bytes']:,} bytes (was {result['original_bytes']:,})")


def node_rows(zo: Model) -> list[dict[str, Any]]:
    """Returns a row for each layer of a ZO model that carries nodes, in execution order.

    Each row has layer, form, nodes and weights (numbers, per sample), segment (the first one that queries
    re-run), suffix (the cost of that, in forward equivalents), queries (per sample and step, by default),
    pair_bytes (bytes that are kept of a sample until the update) and head (True if the loss reads it).
    """
    metadata = read_metadata(zo)
    if not metadata.nodes:
        return []
    costs = SampleCosts(zo, metadata)
    tasks = plan_tasks(algorithm_for(metadata, "node"), metadata, costs.suffix)
    trained = [(n, metadata.trainable[n.trainable], node_layer(n)) for n in metadata.nodes]
    return [
        {
            "layer": trainable.layer,
            "form": n.form,
            "nodes": n.count,
            "weights": trainable.size,
            "segment": n.node_segment,
            "suffix": round(costs.suffix(n.node_segment), 6),
            "queries": next(t.queries for t in tasks if t.nodes == n),
            "pair_bytes": (0 if trainable.bias else layer.input_bytes) + layer.route_bytes,
            "head": n.head,
        }
        for n, trainable, layer in trained
    ]


def node_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns the rows of `node_rows` as a table."""
    columns = ["layer", "form", "nodes", "weights", "segment", "suffix", "queries", "pair bytes"]
    written = [{**r, "layer": r["layer"] + " (head)" * r["head"], "suffix": f"{r['suffix']:.2%}"} for r in rows]
    cells = [[row[column.replace(" ", "_")] for column in columns] for row in written]
    return table("Layers that carry nodes", columns, cells)
