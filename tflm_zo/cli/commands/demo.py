# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo demo``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...training import ProgressBar
from ..options import Force, Json
from ..results import show

EXAMPLE = "tflm-zo demo --dataset digits"


def demo(
    dataset: Annotated[
        str,
        typer.Option(
            help="digits; mnist (from the folder TFLM_ZO_DATA, or Keras' loader); "
            "or fsdd, spoken digits (from TFLM_ZO_DATA)."
        ),
    ] = "digits",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="For the files; made if need be.")
    ] = Path("demo_output"),
    seed: Annotated[int, typer.Option(help="Of pre-training and adaptation.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Of adaptation; default: the task's.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the main job on real data: pre-train, convert, adapt by forward passes, export, replay, verify."""
    from ...demo import run_demo
    from ...demo.report import print_report

    for name in ("tflite", "zo.tflite", "zolog", "adapted.tflite"):
        path = output / f"{dataset}.{name}"
        if path.exists() and not force:
            raise FileExistsError(f"{path} exists; choose another folder with -o or replace it with --force")

    told = Console(stderr=True)
    result = run_demo(
        output,
        dataset=dataset,
        seed=seed,
        steps=steps,
        say=lambda text: told.print(f"• {text}", markup=False),
        callbacks=(ProgressBar(told),),
    )
    show(dataclasses.asdict(result), as_json=as_json, render=lambda console: print_report(result, console))
    if not result.replayed or result.tflm_identical is False:
        raise typer.Exit(1)
