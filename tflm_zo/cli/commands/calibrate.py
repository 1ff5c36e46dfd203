"""``tflm-zo calibrate``."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from ...adaptation import calibrate as calibrate_model
from ..failures import warn
from ..options import Force, Json, ModelFile, OutputReport, RuntimeName, Threads, argument, optional
from ..output_file import check_outputs
from ..results import progress, show, write_report

EXAMPLE = "tflm-zo calibrate trained.tflite normal.npz --percentile 99 --test known.npz"


def calibrate(
    model: ModelFile,
    data: Annotated[Path, argument("DATA", "An .npz file with x, or an .npy file of x: normal samples.")],
    percentile: Annotated[
        float, optional(None, "Percentile of the normal samples' losses (default: 99), in steps of 0.01.", "Data")
    ] = 99.0,
    test: Annotated[
        Path | None,
        optional("FILE", "Known samples to check the threshold: x, and y with 0 for a normal one, 1 else.", "Data"),
    ] = None,
    log: Annotated[
        Path | None,
        optional("LOG", "Log of a run on MODEL, a ZO model: use its weights, and keep the threshold in it.", "Data"),
    ] = None,
    runtime: RuntimeName = "litert",
    threads: Threads = 1,
    output: OutputReport = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute the threshold above which a sample is an anomaly.

    MODEL is an autoencoder. The threshold is a percentile of the losses, mean squared errors, of normal samples. It is
    the integer that a device computes and compares. If DATA has y with 1 for each anomaly, anomalies do not count.
    """
    check_outputs({"MODEL": model, "DATA": data, "--test": test, "--log": log}, {"-o": output}, force=force)
    found = calibrate_model(
        *(model, data),
        percentile=percentile,
        test=test,
        log=log,
        runtime=runtime,
        threads=threads,
        watch=lambda starts: progress(starts, len(starts), "measuring"),
    )
    if found.samples < found.needed:
        warn(
            f"{found.samples:,} normal samples do not resolve the percentile {percentile:g}, which needs "
            f"{found.needed:,}: the threshold is the largest loss"
        )
    result: dict[str, Any] = {"model": str(model), "data": str(data), "runtime": runtime, **dataclasses.asdict(found)}
    write_report(output, result, force=force)
    told = (
        f"threshold {found.threshold:,} (mean squared error {found.loss:.5g}): percentile {percentile:g} of "
        f"{found.samples:,} normal samples, {found.above:,} above"
    )
    if (known := found.detection) is not None:
        auc = "" if known.auc is None else f", area under the curve {known.auc:.3f}"
        told += (
            f"\ndetected {known.detected:,} of {known.anomalies:,} anomalies, {known.false_alarms:,} false alarms in "
            f"{known.normal:,} normal samples{auc}"
        )
    show(result, as_json=as_json, render=told)
