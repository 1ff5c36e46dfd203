"""``tflm-zo replay``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from ...converters import export_model, load_model
from ...core import PERCENTILE_MAX, Measurement
from ...io.errors import SettingsError
from ...logs import Log, replay_log
from ..failures import warn
from ..options import ExportBatch, Force, Json, OutputModel, ReRange, ZoModelFile, argument, optional
from ..output_file import check_outputs, write_output
from ..results import show

EXAMPLE = "tflm-zo replay model.zo.tflite run.zolog -o trained.tflite"


def replay(
    model: ZoModelFile,
    log: Annotated[Path, argument("LOG", "A log, as train writes it.")],
    output: OutputModel,
    steps: Annotated[
        int | None,
        optional(
            None,
            "Number of the run's steps to replay (default: up to the best measured state, which train keeps, or all).",
            None,
        ),
    ] = None,
    batch: ExportBatch = None,
    re_range: ReRange = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Rebuild the trained model from the ZO model and its log, without data or forward passes.

    The log of a run by weight perturbation has every step. The log of a run by node perturbation has
    snapshots of the weights, from which replay takes the best or the last; train --resume repeats the steps
    after the last snapshot, with the data.
    """
    check_outputs({"MODEL": model, "LOG": log}, {"-o": output}, force=force)
    base, result = load_model(model), _steps_of(Log.parts(log), steps)
    weights, fractions = replay_log(base, log, result["steps"])
    rest = fractions if re_range else None
    data = export_model(base, weights, batch=batch, fractions=rest, re_range=re_range).to_bytes()
    write_output(output, data, force=force)
    result = {"output": str(output), **result}
    if result["torn_bytes"]:
        warn(f"{log}: ends within a record. It is read up to its last complete step, {result['whole_steps']}")
    if result["steps_beyond"]:
        warn(
            f"{log}: {result['steps_beyond']:,} steps after its last snapshot ({result['whole_steps']}) are "
            "not in the model: they need the data; train --resume repeats them"
        )
    told = f"{output}: after {result['steps']:,} of the run's {result['steps_of_run']:,} steps"
    if (kept := result["threshold"]) is not None:
        told += f"; threshold {kept['threshold']:,}, percentile {kept['percentile']:g} of {kept['samples']:,} samples"
    show(result, as_json=as_json, render=told)


def _steps_of(parts: Iterator[Log], steps: int | None) -> dict[str, Any]:
    """Returns the steps after which weights are wanted, and the steps that the log has."""
    measurements: list[Measurement] = []
    for last in parts:
        measurements += last.measurements
    whole = last.whole_steps
    if steps is not None and not last.tasks and not 0 <= steps <= whole:
        raise SettingsError("steps", f"be in 0..{whole}, the whole steps of the log", steps)
    best = replace(last, measurements=tuple(measurements)).best
    return {
        "steps": steps if steps is not None else whole if best is None else best.step,
        "whole_steps": whole,
        "steps_of_run": int(last.settings.steps),
        "steps_beyond": 0 if steps is not None else max(last.first_step + len(last.losses) - whole, 0),
        "torn_bytes": last.torn_bytes if steps is None else 0,
        "threshold": None if steps is not None or last.threshold is None else _threshold(last.threshold),
    }


def _threshold(kept: Measurement) -> dict[str, Any]:
    return {"threshold": kept.loss_sum, "percentile": kept.correct * 100 / PERCENTILE_MAX, "samples": kept.samples}
