# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A report of runs: losses, changes, results on data, memory and the command that makes the model again."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .. import runtime as runtimes
from .._version import __version__
from ..converters import export_model
from ..data import Labels, Samples, prepare
from ..firmware.sizes import device_memory
from ..logs import fingerprint
from .document import (
    Curve,
    Evaluation,
    Landscape,
    Measured,
    Memory,
    MemoryPart,
    Replayed,
    RunReport,
    RunsReport,
)
from .evaluation import evaluation_of, landscape_of, layer_changes, offsets, rounded
from .facts import facts_of, notes_of
from .recorded_run import RecordedRun

__all__ = ["MOST_RUNS", "TestData", "curve_of", "made_by", "memory_of", "report_runs"]


# Of a picture that is some 400 pixels wide: more would lie upon each other, and make the page large.
_RANGES: Final = 200


def curve_of(losses: NDArray[np.float64], cost: Callable[[int], float]) -> Curve:
    """Returns mean and extremes of the losses in at most 200 ranges, which differ by one step at most.

    Args:
        losses: mean loss of each step, nats, float64 [steps].
        cost: function from a number of steps to their forward equivalents.
    """
    if not len(losses):
        return Curve((), (), (), (), ())
    ends = np.unique(np.linspace(0, len(losses), min(_RANGES, len(losses)) + 1).round().astype(int))
    begins = ends[:-1]
    sums = np.add.reduceat(losses, begins)
    return Curve(
        tuple(ends[1:].tolist()),
        rounded(cost(int(step)) for step in ends[1:]),
        rounded(sums / np.diff(ends)),
        rounded(np.minimum.reduceat(losses, begins)),
        rounded(np.maximum.reduceat(losses, begins)),
    )


def memory_of(run: RecordedRun) -> Memory:
    """Returns the parts of the RAM that firmware of the run takes, on the core that takes more."""
    found = device_memory(run.zo.model, run.log)
    ram = found.ram
    arena = max(ram.arena.bytes, ram.arena.bytes_mve)
    parts = (
        MemoryPart("trained weights", found.trained, "weights that are trained, with their fractions"),
        MemoryPart(
            "rest of the arena", arena - found.trained, "what inference takes, and what the loss adds"
        ),
        MemoryPart("workspace", ram.workspace, "what is kept of a minibatch until the update"),
        MemoryPart("objects", ram.objects, "trainer, interpreters and resolver"),
        MemoryPart("stack", ram.stack, "while a step is done"),
        MemoryPart("libraries", ram.libraries, "the C library and TFLM"),
    )
    return Memory(parts, ram.bytes, ram.arena.measured, found.flash, found.batch, found.minibatch)


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
