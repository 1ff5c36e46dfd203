"""``tflm-zo verify``."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from ... import runtime as runtimes
from ...converters import load_model, read_metadata
from ...data import prepare
from ...io.table import table
from ...training import algorithm_for, algorithm_of, compare_runtimes
from ..options import DataFile, Force, Json, LabelsFile, OutputReport, ZoModelFile
from ..output_file import check_outputs
from ..results import progress, show, write_report

EXAMPLE = "tflm-zo verify model.zo.tflite data.npz --steps 20"


def verify(
    model: ZoModelFile,
    data: DataFile,
    labels: LabelsFile = None,
    steps: Annotated[int, typer.Option(help="Number of training steps in each runtime.")] = 20,
    runtime: Annotated[
        list[str] | None,
        typer.Option(help="Runtime to compare; repeatable (default: all installed runtimes).", show_default=False),
    ] = None,
    output: OutputReport = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train the same steps in several runtimes and compare losses, logs, weights and models bit by bit.

    The algorithm is the one that the model was injected for. The exit code is 1 if a runtime differs from
    the first one.
    """
    check_outputs({"MODEL": model, "DATA": data}, {"-o": output}, force=force)
    zo = load_model(model)
    metadata = read_metadata(zo)
    names = runtime or runtimes.available()
    given = prepare(runtimes.load(zo, names[0]), data, labels)
    settings = dataclasses.replace(algorithm_for(metadata), batch_size=metadata.batch)
    runs = []
    for name in progress(names, len(names), "training"):
        runs += compare_runtimes(zo, given, runtimes=[name], settings=settings, steps=steps)
    rows: list[dict[str, Any]] = [
        {
            "runtime": run.runtime,
            "checksum": f"{run.checksum:#010x}",
            "final_loss": run.losses[-1],
            "identical": run.equals(runs[0]),
            "first_difference": run.first_difference(runs[0]),
        }
        for run in runs
    ]
    result = {
        "model": str(model),
        "algorithm": algorithm_of(metadata),
        "steps": steps,
        "runs": rows,
        "identical": all(r["identical"] for r in rows),
    }
    write_report(output, result, force=force)
    columns = ("runtime", "weight checksum", "last loss", f"as in {runs[0].runtime}")
    said = {True: "identical", False: "DIFFERENT"}
    cells = [(r["runtime"], r["checksum"], f"{r['final_loss']:.6f}", said[r["identical"]]) for r in rows]
    title = f"{steps} training steps, algorithm {result['algorithm']}"
    show(result, as_json=as_json, render=lambda console: console.print(table(title, columns, cells)))
    if not result["identical"]:
        raise typer.Exit(1)
