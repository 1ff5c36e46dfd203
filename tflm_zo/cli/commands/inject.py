# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo inject``."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from ...converters import ConversionError, ZoMetadata, load_model, read_metadata
from ...converters import inject as inject_model
from ...converters.settings import KERNEL_NORM, LAST, LOSS_KINDS, QUANTIZATION_AWARE, LossKind
from ...converters.table import table
from ...training import ALGORITHMS, inject_settings, trained_layers
from ...training import algorithm as algorithm_of_name
from ...training.algorithms import DEFAULT
from ..injection import parse_loss_output, parse_nodes, say_loss_output
from ..node_table import node_rows, node_table
from ..options import Force, Json, LossOutput, ModelFile, OutputModel, choice
from ..output_file import check_output, write_output
from ..results import show
from ..set_option import ALGORITHM_HELP

EXAMPLE = "tflm-zo inject model.tflite -o model.zo.tflite --algorithm node --batch 32"

_KEYWORDS = ("all", "nodes", "none")
_RUN, _LAYERS, _MEMORY, _DATA = "Run", "Layers", "Memory", "Data"
_LOSSES = tuple(kind.replace("_", "-") for kind in LOSS_KINDS)


def inject(
    model: ModelFile,
    output: OutputModel,
    algorithm: Annotated[
        str,
        typer.Option(
            **choice(ALGORITHMS, listed=False),
            help=f"How the model is to be trained: {ALGORITHM_HELP}.",
            rich_help_panel=_RUN,
        ),
    ] = DEFAULT,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER,…",
            help="Layers that carry nodes, names or glob patterns; repeatable. auto: those with fewer nodes "
            "than weights (default of node). inspect --nodes lists the choice.",
            rich_help_panel=_LAYERS,
        ),
    ] = None,
    trainable: Annotated[
        list[str] | None,
        typer.Option(
            "--trainable",
            metavar="WHICH",
            help="all (default of weight), nodes (those that carry nodes; default of node), last:N, none, or "
            "names or glob patterns of layers; may be repeated.",
            rich_help_panel=_LAYERS,
        ),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATTERN,…",
            help="Layers that a command addresses as one; repeatable.",
            rich_help_panel=_LAYERS,
        ),
    ] = None,
    headroom: Annotated[
        int | None,
        typer.Option(
            help="Largest perturbation of a weight, LSB (default: node 0, weight 2).", rich_help_panel=_MEMORY
        ),
    ] = None,
    update_bits: Annotated[
        int | None,
        typer.Option(help="16: a fraction byte per weight; 8: none (default: 16).", rich_help_panel=_MEMORY),
    ] = None,
    max_queries: Annotated[
        int | None, typer.Option(help="Seeds in one update (default: 8).", rich_help_panel=_MEMORY)
    ] = None,
    batch: Annotated[int, typer.Option(help="Samples per invoke.", rich_help_panel=_RUN)] = 1,
    loss: Annotated[
        str,
        typer.Option(
            help=f"Loss that training minimizes: {', '.join(_LOSSES)}.",
            rich_help_panel=_DATA,
            **choice(_LOSSES, listed=False),
        ),
    ] = "auto",
    loss_output: LossOutput = None,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENSOR",
            help="Cut here; repeatable. inspect --cuts lists the choice; layers: before each.",
            rich_help_panel=_LAYERS,
        ),
    ] = None,
    command_words: Annotated[
        int | None,
        typer.Option(
            help="Capacity of a command, int32 words; more for long replays.", rich_help_panel=_MEMORY
        ),
    ] = None,
    replay: Annotated[
        bool | None,
        typer.Option(
            help="Include the op that replays a seed log (default: not for node).", rich_help_panel=_MEMORY
        ),
    ] = None,
    multipliers: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help=f"{QUANTIZATION_AWARE}: steps scaled by 1/s² per channel, s its quantization scale. "
            f"{KERNEL_NORM}: by the root mean square of the layer's weights.",
            rich_help_panel=_LAYERS,
        ),
    ] = None,
    sparse: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="Train only some weights of each layer: top-k:0.1 (the largest tenth; top-k:100 the largest "
            "hundred), random:0.1, threshold:20 (all of 20 LSB or more).",
            rich_help_panel=_LAYERS,
        ),
    ] = None,
    sparse_seed: Annotated[int, typer.Option(help="Seed of --sparse random.", rich_help_panel=_LAYERS)] = 0,
    int16: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER,…",
            help="Dense layers whose weights have 16 bits in the forward pass: names or glob patterns, or "
            "last; repeatable (default of qzo-ff-probe: last).",
            rich_help_panel=_LAYERS,
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make an int8 model trainable: from a plain .tflite to a ZO model.

    Node perturbation needs the model cut around the layers that carry nodes, and no headroom: before
    training its outputs are exactly the original's. The other layers stay as they are.
    """
    check_output(output, force=force)
    run = algorithm_of_name(algorithm)
    which: str | list[str] | None = trainable[0] if trainable and len(trainable) == 1 else trainable
    if isinstance(which, list) and any(w in _KEYWORDS or w.startswith("last:") for w in which):
        raise ConversionError("--trainable all, nodes, none and last:N cannot be combined with others")
    source = load_model(model)
    given: dict[str, Any] = {
        "trainable": which,
        "nodes": parse_nodes(nodes or []),
        "headroom": headroom,
        "replay": replay,
        "update_bits": update_bits,
        "cuts": tuple(cut) if cut else None,
        "max_queries": max_queries,
        "int16": _int16(int16 or []),
    }
    settings = inject_settings(
        run,
        blocks=_blocks(block or []),
        batch=batch,
        loss=cast(LossKind, loss.replace("-", "_")),
        loss_output=parse_loss_output(loss_output),
        command_words=command_words,
        multipliers=multipliers,
        sparse=sparse,
        sparse_seed=sparse_seed,
        **{name: value for name, value in given.items() if value is not None},
    )
    zo = inject_model(source, settings)
    data, metadata = zo.to_bytes(), read_metadata(zo)
    result: dict[str, Any] = {
        "output": str(output),
        "bytes": len(data),
        "original_bytes": model.stat().st_size,
        "algorithm": algorithm,
        "batch": metadata.batch,
        "loss": None if metadata.loss is None else dataclasses.asdict(metadata.loss),
        "trainable_weights": sum(t.trained for t in metadata.trainable),
        "trains": dataclasses.asdict(trained_layers(zo, run)),
        "trainable": [dataclasses.asdict(t) for t in metadata.trainable],
        "blocks": list(metadata.blocks),
        "segments": len(metadata.segments),
        "nodes": node_rows(zo),
    }
    # Whatever can fail has been done: a refused model leaves no file.
    write_output(output, data, force=force)
    if loss_output is None:
        say_loss_output(zo)
    show(result, as_json=as_json, render=lambda console: _render(console, metadata, result))


def _int16(given: list[str]) -> str | list[str] | None:
    names = [name.strip() for item in given for name in item.split(",")]
    if not all(names) or (LAST in names and len(names) > 1):
        raise ConversionError(
            f"--int16 takes names of layers, or last alone, not {', '.join(map(repr, given))}"
        )
    return LAST if names == [LAST] else names or None


def _blocks(given: list[str]) -> dict[str, list[str]] | None:
    blocks: dict[str, list[str]] = {}
    for item in given:
        name, equals, patterns = item.partition("=")
        parts = [part.strip() for part in patterns.split(",")]
        if not equals or not name or not all(parts):
            raise ConversionError(f"--block takes NAME=PATTERN,…, not {item!r}")
        if name in blocks:
            raise ConversionError(f"--block: «{name}» is given twice")
        blocks[name] = parts
    return blocks or None


def _render(console: Console, metadata: ZoMetadata, result: dict[str, Any]) -> None:
    rows = [
        [
            t.layer,
            f"{t.operator}, 16 bit" if t.int16 else t.operator,
            "x".join(map(str, t.shape)),
            t.trained,
            metadata.blocks[t.block],
            t.segment,
        ]
        for t in metadata.trainable
    ]
    console.print(
        table("Trainable filters", ["layer", "operator", "shape", "weights", "block", "segment"], rows)
    )
    if result["nodes"]:
        console.print(node_table(result["nodes"]))
    loss = "no loss" if metadata.loss is None else f"{metadata.loss.kind} over {metadata.loss.elements}"
    console.print(
        f"{result['trainable_weights']:,} weights, {len(metadata.blocks)} block(s), "
        f"{result['segments']} segment(s), batch {metadata.batch}, {loss}"
    )
    console.print(result["trains"]["sentence"], markup=False)
    console.print(
        f"{result['output']}: {result['bytes']:,} bytes (was {result['original_bytes']:,})", markup=False
    )
