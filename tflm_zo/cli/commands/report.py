"""``tflm-zo report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..failures import warn
from ..options import Force, Json, ModelExplorer, RuntimeName, argument, optional
from ..output_file import check_outputs, write_files, write_output
from ..results import progress, show

EXAMPLE = "tflm-zo report run.zolog -o report.html --data test.npz"


def report(
    logs: Annotated[list[Path], argument("LOG", "Logs of up to 8 runs, which are laid over each other.")],
    output: Annotated[Path, optional("FILE", "Output file of the page.", "Output", "-o", "--output")],
    model: Annotated[
        list[Path] | None,
        optional(
            "FILE",
            "ZO model of a log; repeatable, in any order (default: beside each log, RUN.zo.tflite for RUN.zolog).",
            None,
            "--model",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        optional("FILE", "An .npz file with x and y, to evaluate the model before and after.", None, "--data"),
    ] = None,
    landscape: Annotated[
        bool,
        typer.Option("--landscape", help="Add the loss around the trained weights, measured on --data at 169 points."),
    ] = False,
    model_explorer: ModelExplorer = None,
    runtime: RuntimeName = "litert",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write an HTML page about training runs.

    The page shows settings, losses over forward equivalents, changes of each layer, accuracy before and after (with
    --data), and the command that reproduces the model. It is one file without scripts and needs no network.
    """
    # Not at the top: templates take as long to import as other commands to run.
    from ...report import (
        TestData,
        ZoFile,
        as_data,
        node_data_of_run,
        page,
        read_run,
        report_runs,
        require_matplotlib,
    )

    require_matplotlib()
    reads = {str(path): path for path in (*logs, *(model or ()), *([data] if data else ()))}
    check_outputs(reads, {"-o": output}, force=force)
    if landscape and data is None:
        raise ValueError("--landscape: losses are measured on data; give --data, too")

    given = [ZoFile.read(path) for path in model or ()]
    runs = [read_run(path, given) for path in logs]
    on = None
    if data is not None:
        on = TestData(data, None, runtime, landscape, lambda rows: progress(rows, len(rows), "landscape"))
    found = report_runs(runs, on)
    html = page(found).encode()
    if model_explorer is not None:
        nodes = {f"{r.name}.{name}.json": text for r in runs for name, text in node_data_of_run(r).items()}
        write_files(model_explorer, nodes, force=force)
    write_output(output, html, force=force)
    for run in found.runs:
        for note in run.notes:
            warn(f"{run.log}: {note[0].lower()}{note[1:]}")
    names = ", ".join(run.name for run in found.runs)
    result = {"output": str(output), "bytes": len(html), **as_data(found)}
    show(result, as_json=as_json, render=f"{output}: report of {names}, {len(html):,} bytes")
