"""``tflm-zo train``."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, cast

import typer

from ...adaptation import adapt
from ...converters import load_model
from ...training import ALGORITHMS, ProgressBar, SettingsError, Workers
from ...training.injection import is_zo
from ...training.trainer import KEEPS, Keep
from ..failures import interruption_code
from ..options import (
    BoardName,
    DataFile,
    Epochs,
    Force,
    ForwardOnly,
    Json,
    LabelsFile,
    LossOutput,
    ModelFile,
    OutputModel,
    Ram,
    RuntimeName,
    Steps,
    Threads,
    WorkerCount,
    choice,
    option,
    optional,
    parse_bytes,
)
from ..output_file import check_outputs, claim_outputs
from ..results import show
from ..set_option import ALGORITHM_HELP, SetOption, run_options
from ..training_report import Files, ToldRun, described, render, say_what_is_doubtful

EXAMPLE = "tflm-zo train model.tflite adapt.npz -o adapted.tflite"

_RUN, _ALGORITHM, _DATA, _FILES = "Run", "Algorithm", "Data", "Files"


def train(
    context: typer.Context,
    model: ModelFile,
    data: DataFile,
    output: OutputModel,
    labels: LabelsFile = None,
    runtime: RuntimeName = "litert",
    threads: Threads = 1,
    worker_count: WorkerCount = None,
    epochs: Epochs = None,
    steps: Steps = None,
    budget: Annotated[float | None, optional("N", "Largest cost of the run, in forward equivalents.", _RUN)] = None,
    keep: Annotated[
        str,
        option(
            "Weights of the output: the best on --validation or held-out samples, or the last.", _RUN, **choice(KEEPS)
        ),
    ] = "best",
    resume: Annotated[bool, option("Resume the run of the log, if it exists.", _RUN, "--resume")] = False,
    algorithm: Annotated[
        str | None,
        optional(
            None,
            f"Algorithm of the run: {ALGORITHM_HELP} (default: the best of several on held-out samples, or the one that"
            " a ZO model was made for).",
            _ALGORITHM,
            **choice(ALGORITHMS, listed=False),
        ),
    ] = None,
    batch_size: Annotated[
        int | None, optional(None, "Samples of a minibatch (default: exact 1, node 8, weight 64).", _ALGORITHM)
    ] = None,
    learning_rate: Annotated[
        float | None,
        optional(None, "Learning rate at the first step, LSB (default: measured on model and data).", _ALGORITHM),
    ] = None,
    settings: SetOption = None,
    validation: Annotated[
        Path | None, optional("FILE", "An .npz file with validation samples, evaluated after each epoch.", _DATA)
    ] = None,
    held_out: Annotated[
        float | None,
        optional(
            "SHARE",
            "Share of the samples for validation (default: without a given algorithm parts in turn, before all are"
            " trained on; else 0.2, but 0 with --validation or --keep last).",
            _DATA,
        ),
    ] = None,
    recalibrate: Annotated[
        bool | None,
        optional(
            None,
            "Recalibrate a plain MODEL first, or not (default: the better start on held-out samples; with a given"
            " algorithm, a classifier with statistics is recalibrated).",
            _DATA,
            "--recalibrate/--as-is",
        ),
    ] = None,
    board: BoardName = None,
    ram: Ram = None,
    forward_only: ForwardOnly = False,
    rehearsal: Annotated[
        Path | None, optional("FILE", "An .npz file of the model's original data, mixed in against forgetting.", _DATA)
    ] = None,
    loss_output: LossOutput = None,
    log: Annotated[Path | None, optional("FILE", "Log of the run (default: the output with .zolog).", _FILES)] = None,
    zo_model: Annotated[
        Path | None, optional("FILE", "ZO model of a plain MODEL (default: the output with .zo.tflite).", _FILES)
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a model and write the trained plain int8 model.

    MODEL is a plain int8 model, or a ZO model, which inject makes of a plain one. For a plain model train
    also writes the ZO model, which replay needs.

    Without --algorithm and --set, train compares ways to train a plain model by samples that are held out in turn
    (whole groups, if DATA has an array `groups`), and the best one trains on all samples. With --board or --ram it
    compares those that fit the device. If all of them are worse than MODEL, the output is MODEL.

    Ctrl-C ends the run after the last complete step: log and model are written, the exit code is 130, and
    --resume gives the same bits as a run without an interruption. SIGTERM and SIGHUP end a run the same
    way, with exit codes 143 and 129. --resume also works after a kill or a power failure.
    """
    source = load_model(model)
    zo_model = zo_model or (None if is_zo(source) else output.with_suffix(".zo.tflite"))
    log = log or output.with_suffix(".zolog")
    reads = {"MODEL": model, "DATA": data, "LABELS": labels, "--rehearsal": rehearsal, "--validation": validation}
    writes = {"-o": output, "--log": log, "--zo-model": zo_model}
    check_outputs(reads, writes, force=force or resume)
    claim_outputs(context, writes.values())
    if held_out and validation is not None:
        raise SettingsError("--held-out", "be left out with --validation")
    changes, injection = run_options(settings, {"batch_size": batch_size, "learning_rate": learning_rate}, loss_output)
    files = Files(model, data, output, log, zo_model, rehearsal, validation)
    told = ToldRun(files, loss_output, held_out, force=force or resume)
    with closing(told), Workers(worker_count) if worker_count else nullcontext(0) as workers:
        found = adapt(
            source,
            data,
            labels,
            algorithm,
            changes=changes,
            inject=injection,
            runtime=runtime,
            threads=threads,
            workers=workers,
            recalibrate=recalibrate,
            epochs=epochs,
            steps=steps,
            budget=budget,
            validation_data=validation,
            validation_split=held_out,
            rehearsal=rehearsal,
            board=board,
            ram=parse_bytes("--ram", ram),
            forward_only=forward_only,
            keep=cast(Keep, keep),
            observer=told,
            callbacks=[ProgressBar()],
            log=log,
            zo_model=zo_model,
            resume=resume,
            replace=force,
        )
    result = described(found, files, runtime, keep)
    show(result, as_json=as_json, render=lambda console: render(console, result))
    say_what_is_doubtful(found, files)
    if found.trainer.interrupted:
        raise typer.Exit(interruption_code())
