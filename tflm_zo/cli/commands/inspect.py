"""``tflm-zo inspect``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...converters import ConversionError, Model, ZoMetadata, export_model, load_model, possible_cuts, read_metadata
from ...converters.constants import METADATA_NAME
from ...converters.inject import NodeChoice, node_choices
from ...converters.passes.select_trainable import UNREAD
from ...converters.summary import render_summary, summarize
from ...io.errors import printable
from ...io.table import table
from ..options import Force, Json, LossOutput, ModelExplorer, ModelFile, OutputReport, optional
from ..output_file import check_outputs, write_files, write_output
from ..results import show, write_report
from ..set_option import parse_loss_output
from .inject import node_rows, node_table

EXAMPLE = "tflm-zo inspect model.tflite --cuts"


def inspect(
    model: ModelFile,
    cuts: Annotated[bool, typer.Option("--cuts", help="List the tensors where inject can cut the graph.")] = False,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="List the layers that can carry nodes, and the reasons why others cannot.")
    ] = False,
    loss_output: LossOutput = None,
    output: OutputReport = None,
    report: Annotated[Path | None, optional("FILE", "Output file of the result as an HTML page.", "Output")] = None,
    model_explorer: ModelExplorer = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show a model's inputs, operators and outputs, and the training of a ZO model."""
    check_outputs({"MODEL": model}, {"-o": output, "--report": report}, force=force)
    if report is not None:
        # Not at the top: templates take as long to import as the rest of the command.
        from ...report import page, report_model, require_matplotlib

        require_matplotlib()
    loaded = load_model(model)
    zo = loaded.find_metadata(METADATA_NAME) is not None
    if cuts and zo:
        raise ConversionError("--cuts takes a plain model: the one that this ZO model was made from")
    if loss_output is not None and not cuts and not nodes:
        raise ConversionError("--loss-output needs --cuts or --nodes")
    if nodes and zo:
        raise ConversionError("--nodes takes a plain model; the nodes of a ZO model are shown without it")
    wanted = parse_loss_output(loss_output)
    result: dict[str, Any] = {
        "model": str(model),
        **summarize(loaded, model.stat().st_size),
        "cuts": possible_cuts(loaded, wanted) if cuts else None,
        "nodes": node_rows(loaded) if zo else None,
        "node_choices": [dataclasses.asdict(c) for c in node_choices(loaded, wanted)] if nodes else None,
        "untrained": untrained_layers(loaded) if zo else None,
    }
    write_report(output, result, force=force)
    if report is not None:
        write_output(report, page(report_model(result)).encode(), force=force)
    if model_explorer is not None:
        from ...report import node_data_of_model

        drawn = {f"{model.stem}.{name}.json": text for name, text in node_data_of_model(loaded).items()}
        write_files(model_explorer, drawn, force=force)
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _render(console: Console, result: dict[str, Any]) -> None:
    render_summary(console, result, result["model"])
    if result["untrained"]:
        rows = [[row[name] for name in ("layer", "operator", "weights", "reason")] for row in result["untrained"]]
        console.print(table("Layers that are not trained", ["layer", "operator", "weights", "reason"], rows))
    if result["nodes"]:
        console.print(node_table(result["nodes"]))
    if result["node_choices"] is not None:
        rows = [
            [
                *(c[name] for name in ("layer", "operator", "weights")),
                c["form"] or "",
                "" if c["count"] is None else f"{c['count']:,}",
                "yes" if c["auto"] else "no" if c["form"] is None else "by name",
                c["reason"],
            ]
            for c in result["node_choices"]
        ]
        columns = ["layer", "operator", "weights", "form", "nodes", "carries them", "because it"]
        console.print(table("Nodes", columns, rows))
        for reason in dict.fromkeys(c["unreached"] for c in result["node_choices"] if c["unreached"]):
            layers = ", ".join(c["layer"] for c in result["node_choices"] if c["unreached"] == reason)
            console.print(f"No exact gradient: {layers}, because {reason}")
    if result["cuts"] is not None:
        console.print("Possible cuts, in any combination:" if result["cuts"] else "No possible cuts.")
        for name in result["cuts"]:
            console.print(f"  {printable(name)}")


def _reason(layer: NodeChoice, metadata: ZoMetadata) -> str:
    by_errors = metadata.tail is not None and not metadata.nodes
    own = layer.unreached if by_errors else layer.reason if metadata.nodes or layer.reason == UNREAD else ""
    return own or "was not asked for"


def untrained_layers(zo: Model) -> list[dict[str, Any]]:
    """Returns the layers that a ZO model with a loss does not train, and the reasons."""
    metadata = read_metadata(zo)
    if metadata.loss is None:
        return []
    trained = {t.layer for t in metadata.trainable}
    others = [c for c in node_choices(export_model(zo), metadata.loss.output) if c.layer not in trained]
    return [
        {
            "layer": c.layer,
            "operator": c.operator,
            "weights": c.weights,
            "reason": _reason(c, metadata),
        }
        for c in others
    ]
