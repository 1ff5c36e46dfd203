"""``tflm-zo demo``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...training import ProgressBar
from ..options import Force, Json, option, optional
from ..results import show

EXAMPLE = "tflm-zo demo --dataset digits"


def demo(
    dataset: Annotated[
        str,
        option(
            "Data set: digits; mnist, from the folder TFLM_ZO_DATA or Keras' loader; "
            "or fsdd, spoken digits, from TFLM_ZO_DATA.",
            "Data",
        ),
    ] = "digits",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Output folder.", rich_help_panel="Output")
    ] = Path("demo_output"),
    seed: Annotated[int, option("Seed of pre-training and adaptation.", "Run")] = 0,
    budget: Annotated[
        int | None, optional(None, "Forward equivalents of each adaptation (default: the data set's).", "Run", min=1)
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the main job on real data: pre-train, convert, adapt by forward passes, export, replay, verify.

    The model is adapted by node perturbation, the default, and for comparison by exact gradients and
    by weight perturbation.
    """
    from ...demo import run_demo
    from ...demo.story import file_names, print_report

    for name in file_names(dataset):
        path = output / name
        if path.exists() and not force:
            raise FileExistsError(f"{path} exists; choose another folder with -o or replace it with --force")

    told = Console(stderr=True)
    result = run_demo(
        output,
        dataset=dataset,
        seed=seed,
        budget=budget,
        say=lambda text: told.print(f"• {text}", markup=False),
        callbacks=(ProgressBar(told),),
    )
    show(dataclasses.asdict(result), as_json=as_json, render=lambda console: print_report(result, console))
    if any(not a.replayed or a.tflm_identical is False for a in result.adaptations.values()):
        raise typer.Exit(1)
