# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The page of a run, from the trainer that made it or from its log."""

from __future__ import annotations

import os
from pathlib import Path

from ..data import Labels, Samples
from ..io.files import write_output
from ..training import Trainer
from .page import page
from .recorded_run import ZoFile, read_run
from .run_report import TestData, report_runs

__all__ = ["write_report"]


def write_report(
    path: str | os.PathLike[str],
    run: Trainer | str | os.PathLike[str],
    x: Samples | None = None,
    y: Labels | None = None,
    *,
    landscape: bool = False,
    force: bool = False,
) -> None:
    """Writes an HTML page about a run, as ``tflm-zo report`` does.

    Args:
        path: path of the page.
        run: trainer whose last run is shown; or path of a log, with the ZO model beside it.
        x: samples, as `Trainer.fit` takes them, on which the model before and after is compared; None
            compares nothing.
        y: labels, as `Trainer.fit` takes them.
        landscape: also shows the loss around the trained weights, on the samples.
        force: replaces a file that exists.

    Raises:
        ValueError: the run has no log, from which the page is made, or a landscape has no samples.
        LogError: the file is no log, or has no ZO model beside it.
        DataError: the samples do not fit the model.
        FileExistsError: the file exists and ``force`` is not set.
        OSError: the log cannot be read, or the page cannot be written.
    """
    if isinstance(run, Trainer):
        if run.log is None:
            raise ValueError("run: a page is made from the run's log; give fit a log")
        log, runtime = run.log, run.runtime.name
        models = [ZoFile(log.with_suffix(".zo.tflite"), run.model)]
    else:
        log, runtime, models = Path(run), "litert", []
    if x is None and landscape:
        raise ValueError("landscape: losses are measured on samples; give x, too")
    on = None if x is None else TestData(x, y, runtime=runtime, landscape=landscape)
    html = page(report_runs([read_run(log, models)], on))
    write_output(Path(path), html.encode(), force=force)
