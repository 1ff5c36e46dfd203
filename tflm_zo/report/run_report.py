"""A report of runs: losses, changes, results on data, memory and the replay command."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .. import runtime as runtimes
from ..converters import export_model
from ..core import Distribution
from ..data import Labels, Samples, prepare
from ..firmware.sizes import device_memory
from ..logs import fingerprint
from ..training.algorithms import algorithm_of
from ..training.rules import WEIGHT_RULES
from ..training.schedules import SCHEDULES
from ..training.settings import ESTIMATORS
from .document import Curve, Evaluation, Fact, Landscape, Measured, Memory, MemoryPart, Replayed, RunReport, RunsReport
from .evaluation import OFFSETS, evaluation_of, landscape_of, layer_changes, rounded, ways_of
from .recorded_run import RecordedRun

# Of a picture that is some 400 pixels wide: more would lie upon each other, and make the page large.
_RANGES: Final = 200


def curve_of(losses: NDArray[np.float64], cost: Callable[[int], float]) -> Curve:
    """Returns mean and extremes of losses in at most 200 ranges of steps; `cost` gives forward equivalents."""
    if not len(losses):
        return Curve((), (), (), (), ())
    ends = np.unique(np.linspace(0, len(losses), min(_RANGES, len(losses)) + 1).round().astype(int))
    total, least, most = (f.reduceat(losses, ends[:-1]) for f in (np.add, np.minimum, np.maximum))
    steps = ends[1:].tolist()
    return Curve(tuple(steps), rounded(map(cost, steps)), rounded(total / np.diff(ends)), rounded(least), rounded(most))


def memory_of(run: RecordedRun) -> Memory:
    """Returns the parts of the firmware's RAM, on the core that needs more."""
    found = device_memory(run.zo.model, run.log)
    ram = found.ram
    arena = max(ram.arena.bytes, ram.arena.bytes_mve)
    parts = (
        MemoryPart("trained weights", found.trained, "weights that are trained, with their fractions"),
        MemoryPart("rest of the arena", arena - found.trained, "what inference takes, and what the loss adds"),
        MemoryPart("workspace", ram.workspace, "what is kept of a minibatch until the update"),
        MemoryPart("objects", ram.objects, "trainer, interpreters and resolver"),
        MemoryPart("stack", ram.stack, "while a step is done"),
        MemoryPart("libraries", ram.libraries, "the C library and TFLM"),
    )
    return Memory(parts, ram.bytes, ram.arena.measured, found.flash, found.batch, found.minibatch)


#: Runs of a page at most: people tell no more lines apart.
MOST_RUNS: Final = 8


@dataclass(frozen=True)
class TestData:
    """Data to evaluate models on."""

    x: Samples  #: samples, as for `Trainer.fit`
    y: Labels | None = None  #: labels, as for `Trainer.fit`
    runtime: str = "litert"  #: name of the runtime that runs the models
    landscape: bool = False  #: True to also measure the loss around the kept weights
    watch: Callable[[Sequence[int]], Iterable[int]] = iter  #: function that passes on a landscape's rows

    __test__ = False  # pytest takes classes of such a name for tests

    @property
    def name(self) -> str:
        """Name of the data in a report."""
        return os.fspath(self.x) if isinstance(self.x, str | os.PathLike) else "the data given"


def report_runs(runs: Sequence[RecordedRun], data: TestData | None = None) -> RunsReport:
    """Returns the report of 1 to 8 runs, with the models' evaluation on data, if given, before and after. DataError:
    the data do not fit a model. ValueError: there are too many runs.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise ValueError(f"a report has room for 1 to {MOST_RUNS} runs, got {len(runs)}")
    return RunsReport(tuple(_report(run, data) for run in runs))


def _report(run: RecordedRun, data: TestData | None) -> RunReport:
    cost, loss = run.cost, run.metadata.loss
    evaluation, landscape = (None, None) if data is None else _on_data(run, data)
    return RunReport(
        name=run.name,
        log=str(run.path),
        model=str(run.zo.path),
        fingerprint=fingerprint(run.zo.model).hex(),
        kind=run.log.kind,
        steps=run.steps,
        planned_steps=int(run.log.settings.steps),
        kept_step=run.kept_step,
        equivalents=float(f"{cost(run.steps):.9g}"),
        notes=notes_of(run),
        facts=tuple(Fact(*fact) for fact in _facts(run)),
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
            for m in run.log.measurements
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
    return evaluation, landscape_of(run, runtime, prepared, data.watch(OFFSETS)) if data.landscape else None


def _replayed(run: RecordedRun) -> Replayed:
    exported = export_model(run.zo.model, run.weights).to_bytes()
    words = ["tflm-zo", "replay", str(run.zo.path), str(run.path), "-o", f"{run.name}.replayed.tflite"]
    return Replayed(shlex.join(words), hashlib.sha256(exported).hexdigest())


_NAMED: Final = 4  # layers that a line names


def _facts(run: RecordedRun) -> Iterator[tuple[str, str]]:
    settings, log = run.log.settings, run.log
    minibatch, samples = int(settings.batch) * int(settings.parts), int(settings.samples)
    yield "Trained by", "; ".join(_ways(run))
    yield "Model made for", f"algorithm {algorithm_of(run.metadata)}"
    yield "Steps", f"{run.steps:,} of {int(settings.steps):,} planned"
    epochs = run.steps * minibatch / samples
    yield "Data", f"{samples:,} samples, {minibatch:,} a step: {epochs:,.1f} passes over them"
    total = run.cost(run.steps)
    each = f", {total / run.steps:,.1f} a step" if run.steps else ""
    yield "Cost", f"{total:,.0f} forward equivalents{each}"
    yield "Learning rate", _rate(run)
    if asked := sorted({entry.queries for entry in log.tasks if entry.queries}):
        span = str(asked[0]) if len(asked) == 1 else f"{asked[0]} to {asked[-1]}"
        yield "Perturbation", f"{span} queries for a sample and layer"
    elif not log.tasks:
        queries = _count(int(settings.queries), "query", "queries")
        yield "Perturbation", f"{Distribution.of(settings.distribution)!r}, {queries} a step"
    yield "Estimator", ESTIMATORS[int(settings.estimator)]
    yield "Seed", f"{int(settings.run_seed)}"
    yield "Weights kept", _kept(run)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _ways(run: RecordedRun) -> list[str]:
    """Returns the trained layers by method; only their number if there are many."""
    layers: dict[str, list[str]] = {}
    for t, way in zip(run.metadata.trainable, ways_of(run), strict=True):
        own = layers.setdefault(way, [])
        if t.layer not in own:
            own.append(t.layer)
    return [
        f"{way} of {', '.join(names) if len(names) <= _NAMED else f'{len(names)} layers'}"
        for way, names in layers.items()
        if way
    ]


def _rate(run: RecordedRun) -> str:
    settings = run.log.settings
    gradient = not run.log.tasks and list(WEIGHT_RULES)[int(settings.rule)] == "gradient"
    unit = "LSB² per nat" if gradient else "LSB"
    rate, final = int(settings.rate) / 65536, int(settings.final_rate) / 65536
    schedule, warmup = list(SCHEDULES)[int(settings.schedule)], int(settings.warmup_steps)
    begins = f"{rate:.4g} {unit} " + (f"after {warmup} steps of warm-up" if warmup else "at the first step")
    return f"{begins}, then {schedule}" + ("" if schedule == "constant" else f" to {final:.4g}")


def _kept(run: RecordedRun) -> str:
    if run.log.measurements:
        count = _count(len(run.log.measurements), "measurement", "measurements")
        if not run.kept_step:
            return f"those before the first step: none of {count} was better"
        return f"those after step {run.kept_step:,}, the best of {count}"
    return f"those after step {run.kept_step:,}, the last in the log"


def notes_of(run: RecordedRun) -> tuple[str, ...]:
    """Returns remarks on missing parts of the log."""
    notes, planned, log = [], int(run.log.settings.steps), run.log
    if log.torn_bytes:
        notes.append(
            "The log ends within a record, because a write was interrupted. It is read up to its last "
            f"complete step, {run.steps:,} of {planned:,}."
        )
    elif run.steps < planned:
        notes.append(
            f"The log ends after step {run.steps:,} of {planned:,}: the run was interrupted, is going on, or "
            "ended where nothing got better any more."
        )
    if not run.log.measurements and run.steps > log.whole_steps:
        notes.append(
            f"Weights are those of the last snapshot, after step {log.whole_steps:,}: the log has the losses of "
            "later steps, but not their weights."
        )
    return tuple(notes)
