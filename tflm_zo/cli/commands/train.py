# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...converters import load_model
from ...training import Callback, Checkpoint, CSVLogger, ProgressBar, Trainer, TrainSettings
from ...training.settings import ESTIMATORS, RULES, SCHEDULES, SCOPES
from ..distribution import DISTRIBUTIONS, parse_distribution
from ..failures import warn
from ..options import Force, Json, OutputModel, RuntimeName, ZoModelFile
from ..output_file import check_different, check_output, write_output
from ..results import show
from ..training_data import load_samples

EXAMPLE = "tflm-zo train model.zo.tflite adapt.npz -o adapted.tflite --epochs 20 --validation test.npz"

_DEFAULT = TrainSettings()


def _one_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}."


def train(
    model: ZoModelFile,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help=".npz file with x and y, or .npy.", show_default=False)
    ],
    output: OutputModel,
    runtime: RuntimeName = "litert",
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 10,
    steps: Annotated[int | None, typer.Option(help="Number of steps instead of epochs.")] = None,
    batch_size: Annotated[int, typer.Option(help="Minibatch: a multiple of the model's batch.")] = (
        _DEFAULT.batch_size
    ),
    queries: Annotated[int, typer.Option(help="Directions per step.")] = _DEFAULT.queries,
    distribution: Annotated[
        str, typer.Option(metavar="NAME:SIZE", help=f"Of the perturbation: {DISTRIBUTIONS}.")
    ] = "rademacher:2",
    rate: Annotated[float, typer.Option(help="First step size; LSB for rule normalized.")] = _DEFAULT.rate,
    final_rate: Annotated[float, typer.Option(help="Step size at the end.")] = _DEFAULT.final_rate,
    schedule: Annotated[str, typer.Option(help=_one_of(SCHEDULES))] = _DEFAULT.schedule,
    warmup_steps: Annotated[int, typer.Option(help="Steps of rising rate.")] = _DEFAULT.warmup_steps,
    decay: Annotated[float, typer.Option(help="Schedule step: factor of the rate.")] = _DEFAULT.decay,
    decay_steps: Annotated[
        int, typer.Option(help="Schedule step: every so many steps.")
    ] = _DEFAULT.decay_steps,
    clip: Annotated[float, typer.Option(help="Of a query's loss difference; 0: none.")] = _DEFAULT.clip,
    estimator: Annotated[str, typer.Option(help=_one_of(ESTIMATORS))] = _DEFAULT.estimator,
    rule: Annotated[str, typer.Option(help=_one_of(RULES))] = _DEFAULT.rule,
    scope: Annotated[str, typer.Option(help=f"{_one_of(SCOPES)} Blocks: one a step.")] = _DEFAULT.scope,
    seed: Annotated[int, typer.Option(help="Of directions, rounding and order.")] = _DEFAULT.seed,
    validation: Annotated[Path | None, typer.Option(metavar="FILE", help=".npz, after each epoch.")] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seed log; default: the output with .zolog.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the seed log, or begin where there is none.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Copy the seed log here after each epoch.")
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="Checkpoint only epochs that are better on the validation data.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="One line per epoch.")] = None,
    sync_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Bring the log to the disk so often; 0: each step.")
    ] = 1.0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a ZO model with forward passes and write the trained plain int8 model.

    Ctrl-C ends the run after the last whole step: log and model are written, the exit code is 130, and
    --resume goes on to the same bits as a run that was never interrupted. So it does after a kill, which
    loses no whole step, and after a power failure, which loses the last second (--sync-every).

    A checkpoint is a seed log, too: replay makes a model of it.
    """
    log = log or output.with_suffix(".zolog")
    reads = {"MODEL": model, "DATA": data, "--validation": validation}
    check_different(reads, {"-o": output, "--log": log, "--checkpoint": checkpoint, "--csv": csv})
    for path in (output, log, checkpoint, csv):
        check_output(path, force=force or resume)
    if best and (checkpoint is None or validation is None):
        raise ValueError("--best needs --checkpoint, where it goes, and --validation, what it is measured on")
    settings = TrainSettings(
        estimator=estimator,
        rule=rule,
        distribution=parse_distribution(distribution),
        queries=queries,
        batch_size=batch_size,
        rate=rate,
        final_rate=final_rate,
        schedule=schedule,
        warmup_steps=warmup_steps,
        decay=decay,
        decay_steps=decay_steps,
        clip=clip,
        scope=scope,
        seed=seed,
    )
    trainer = Trainer(load_model(model), settings, runtime=runtime)
    loss = trainer.runtime.metadata.loss
    assert loss is not None  # the trainer has refused such a model
    x, y = load_samples(trainer.runtime, data)
    held_out = None if validation is None else load_samples(trainer.runtime, validation)
    callbacks: list[Callback] = [ProgressBar()]
    if csv is not None:
        callbacks.append(CSVLogger(csv))
    if checkpoint is not None:
        monitor = "val_loss" if loss.kind == "mse" else "val_accuracy"
        callbacks.append(Checkpoint(checkpoint, best=monitor if best else None, replace=force))
    history = trainer.fit(
        x,
        y,
        epochs=epochs,
        steps=steps,
        validation_data=held_out,
        callbacks=callbacks,
        log=log,
        resume=resume,
        replace=force,
        sync_every=sync_every,
    )
    _write_model(trainer, output, log, force=force or resume)
    # Who has pressed Ctrl-C wants the prompt back.
    final = {} if trainer.interrupted else trainer.evaluate(*(held_out or (x, y)))
    result: dict[str, Any] = {
        "output": str(output),
        "log": str(log),
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "runtime": runtime,
        "samples": len(y),
        "trainable_weights": sum(t.size for t in trainer.runtime.metadata.trainable),
        "steps": trainer.step,
        "interrupted": trainer.interrupted,
        "forwards": history.forwards,
        "seconds": round(history.seconds, 3),
        "forwards_per_second": round(history.forwards / max(history.seconds, 1e-9), 1),
        "evaluated_on": str(validation or data),
        **final,
        "history": history.history,
    }
    show(result, as_json=as_json, render=lambda console: _render(console, result))
    if trainer.interrupted:
        warn(
            f"interrupted: {output} and {log} are those of the last whole step ({trainer.step}); "
            "the same command with --resume goes on"
        )
        raise typer.Exit(130)


def _write_model(trainer: Trainer, output: Path, log: Path, *, force: bool) -> None:
    try:
        write_output(output, trainer.export().to_bytes(), force=force)
    except OSError as error:
        what = error.strerror or str(error)
        raise OSError(
            error.errno, f"{what}; nothing is lost: tflm-zo replay makes the model of {log}", str(output)
        ) from error


def _render(console: Console, result: dict[str, Any]) -> None:
    if "loss" in result:
        accuracy = f"accuracy {result['accuracy']:.2%}, " if "accuracy" in result else ""
        console.print(f"{accuracy}loss {result['loss']:.4f} on {result['evaluated_on']}", markup=False)
    console.print(
        f"{result['steps']:,} steps; in this run {result['forwards']:,} forward passes in "
        f"{result['seconds']:.1f} s ({result['forwards_per_second']:,.0f}/s)",
        markup=False,
    )
    console.print(f"{result['output']}: trained model\n{result['log']}: seed log", markup=False)
