# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The report of runs: what their logs, their models and, where they are given, data say."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .. import runtime as runtimes
from .._version import __version__
from ..converters import export_model
from ..data import Labels, Samples, prepare
from ..logs import fingerprint
from .accuracy import evaluation_of
from .curve import curve_of
from .document import Evaluation, Landscape, Measured, Replayed, RunReport, RunsReport
from .facts import facts_of, notes_of
from .landscape import landscape_of, offsets
from .layers import layer_changes
from .memory import memory_of
from .recorded_run import RecordedRun

__all__ = ["MOST_RUNS", "TestData", "made_by", "report_runs"]

#: Runs of a page at most: people tell no more lines apart.
MOST_RUNS: Final = 8

Watch = Callable[[Sequence[int]], Iterable[int]]


@dataclass(frozen=True)
class TestData:
    """Data on which models are compared.

    Attributes:
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        runtime: name of the runtime that runs the models.
        landscape: True if the loss around the kept weights is measured, too.
        watch: function that passes on the rows of a landscape, for a progress bar.
    """

    x: Samples
    y: Labels | None = None
    runtime: str = "litert"
    landscape: bool = False
    watch: Watch = iter

    __test__ = False  # pytest takes classes of such a name for tests

    @property
    def name(self) -> str:
        """What a report calls the data."""
        return os.fspath(self.x) if isinstance(self.x, str | os.PathLike) else "the data given"


def made_by() -> str:
    """Returns the program that makes a report."""
    return f"tflm-zo {__version__}"


def report_runs(runs: Sequence[RecordedRun], data: TestData | None = None) -> RunsReport:
    """Returns the report of runs.

    Args:
        runs: the runs, 1 to 8.
        data: data on which the models are compared before and after, or None.

    Raises:
        DataError: the data do not fit a model.
        ValueError: there are too many runs.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise ValueError(f"a report has room for 1 to {MOST_RUNS} runs, got {len(runs)}")
    return RunsReport(tuple(_report(run, data) for run in runs), made_by())


def _report(run: RecordedRun, data: TestData | None) -> RunReport:
    cost, loss = run.cost, run.metadata.loss
    evaluation, landscape = (None, None) if data is None else _on_data(run, data)
    return RunReport(
        name=run.name,
        log=str(run.path),
        model=str(run.zo.path),
        fingerprint=fingerprint(run.zo.model).hex(),
        kind="snapshot log" if run.log.is_layerwise else "seed log",
        steps=run.steps,
        planned_steps=int(run.settings.steps),
        kept_step=run.kept_step,
        equivalents=float(f"{cost(run.steps):.9g}"),
        notes=notes_of(run),
        facts=facts_of(run),
        curve=curve_of(run.losses, cost),
        loss_unit="squared output" if loss is not None and loss.kind == "mse" else "nats",
        measurements=tuple(
            Measured(
                step=m.step,
                equivalents=float(f"{cost(m.step):.6g}"),
                loss=float(f"{m.loss * run.metadata.loss_unit:.6g}"),
                accuracy=float(f"{m.correct / m.samples:.6g}") if run.is_of_classes and m.samples else None,
                samples=m.samples,
                kept=m.step == run.kept_step,
            )
            for m in run.measurements
        ),
        layers=layer_changes(run),
        evaluation=evaluation,
        landscape=landscape,
        memory=memory_of(run),
        replay=_replayed(run),
    )


def _on_data(run: RecordedRun, data: TestData) -> tuple[Evaluation, Landscape | None]:
    runtime = runtimes.load(run.zo.model, data.runtime)
    prepared = prepare(runtime, data.x, data.y)
    evaluation = evaluation_of(run, runtime, prepared, data.name)
    if not data.landscape:
        return evaluation, None
    return evaluation, landscape_of(run, runtime, prepared, data.watch(offsets()))


def _replayed(run: RecordedRun) -> Replayed:
    exported = export_model(run.zo.model, run.weights).to_bytes()
    words = ["tflm-zo", "replay", str(run.zo.path), str(run.path), "-o", f"{run.name}.replayed.tflite"]
    return Replayed(shlex.join(words), hashlib.sha256(exported).hexdigest())
