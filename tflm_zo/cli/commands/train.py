# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...converters import load_model
from ...training import Callback, CSVLogger, ProgressBar, Trainer, TrainSettings
from ..options import Force, Json, OutputModel, RuntimeName, ZoModelFile
from ..output_file import check_output, write_output
from ..results import show
from ..training_data import load_samples

EXAMPLE = "tflm-zo train model.zo.tflite adapt.npz -o adapted.tflite --epochs 20 --validation test.npz"

_DEFAULT = TrainSettings()


def train(
    model: ZoModelFile,
    data: Annotated[Path, typer.Argument(metavar="DATA", help=".npz file with x and y.", show_default=False)],
    output: OutputModel,
    runtime: RuntimeName = "litert",
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 10,
    steps: Annotated[int | None, typer.Option(help="Number of steps instead of epochs.")] = None,
    batch_size: Annotated[int, typer.Option(help="Minibatch: a multiple of the model's batch.")] = (
        _DEFAULT.batch_size
    ),
    queries: Annotated[int, typer.Option(help="Directions per step.")] = _DEFAULT.queries,
    rate: Annotated[float, typer.Option(help="First step size; LSB for rule normalized.")] = _DEFAULT.rate,
    final_rate: Annotated[float, typer.Option(help="Step size at the end.")] = _DEFAULT.final_rate,
    schedule: Annotated[str, typer.Option(help="constant, linear, cosine or step.")] = _DEFAULT.schedule,
    warmup_steps: Annotated[int, typer.Option(help="Steps of rising rate.")] = _DEFAULT.warmup_steps,
    estimator: Annotated[str, typer.Option(help="antithetic or one-sided.")] = _DEFAULT.estimator,
    rule: Annotated[str, typer.Option(help="normalized, gradient or sign.")] = _DEFAULT.rule,
    scope: Annotated[str, typer.Option(help="model, or blocks: one block a step.")] = _DEFAULT.scope,
    seed: Annotated[int, typer.Option(help="Of directions, rounding and order.")] = _DEFAULT.seed,
    validation: Annotated[Path | None, typer.Option(metavar="FILE", help=".npz, after each epoch.")] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seed log; default: the output with .zolog.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the seed log.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="One line per epoch.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a ZO model with forward passes and write the trained plain int8 model.

    Ctrl-C ends the run after the last whole step: log and model are written, and --resume goes on to the same
    bits as a run that was never interrupted.
    """
    log = log or output.with_suffix(".zolog")
    check_output(output, force=force or resume)
    if not resume:
        check_output(log, force=force)
    settings = TrainSettings(
        estimator=estimator,
        rule=rule,
        queries=queries,
        batch_size=batch_size,
        rate=rate,
        final_rate=final_rate,
        schedule=schedule,
        warmup_steps=warmup_steps,
        scope=scope,
        seed=seed,
    )
    trainer = Trainer(load_model(model), settings, runtime=runtime)
    x, y = load_samples(trainer.runtime, data)
    held_out = None if validation is None else load_samples(trainer.runtime, validation)
    if not resume:
        log.unlink(missing_ok=True)
    callbacks: list[Callback] = [] if csv is None else [CSVLogger(csv)]
    history = trainer.fit(
        x,
        y,
        epochs=epochs,
        steps=steps,
        validation_data=held_out,
        callbacks=[*callbacks, ProgressBar()],
        log=log,
        resume=resume,
    )
    write_output(output, trainer.export().to_bytes(), force=force or resume)
    final = trainer.evaluate(*(held_out or (x, y)))
    result: dict[str, Any] = {
        "output": str(output),
        "log": str(log),
        "runtime": runtime,
        "steps": trainer.step,
        "forwards": history.forwards,
        "evaluated_on": str(validation or data),
        **final,
        "history": history.history,
    }
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _render(console: Console, result: dict[str, Any]) -> None:
    accuracy = f"accuracy {result['accuracy']:.2%}, " if "accuracy" in result else ""
    console.print(
        f"{accuracy}loss {result['loss']:.4f} on {result['evaluated_on']} "
        f"after {result['steps']:,} steps ({result['forwards']:,} forward passes in this run)",
        markup=False,
    )
    console.print(f"{result['output']}: trained model\n{result['log']}: seed log", markup=False)
