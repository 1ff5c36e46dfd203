# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What was run, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..core import Distribution
from ..training.algorithms import algorithm_of
from ..training.schedules import SCHEDULES
from ..training.settings import ESTIMATORS
from ..training.tasks import WEIGHT_RULES
from .document import Fact
from .evaluation import ways_of
from .recorded_run import RecordedRun

__all__ = ["facts_of", "notes_of"]

_NAMED: Final = 4  # layers that a line names
_UNITS: Final = {"gradient": "LSB² per nat"}


def facts_of(run: RecordedRun) -> tuple[Fact, ...]:
    """Returns the lines of a run."""
    return tuple(Fact(name, value) for name, value in _lines(run))


def _lines(run: RecordedRun) -> Iterator[tuple[str, str]]:
    settings, log = run.settings, run.log
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
    if not log.is_layerwise:
        queries = int(settings.queries)
        yield (
            "Perturbation",
            f"{Distribution.of(settings.distribution)!r}, {_count(queries, 'query', 'queries')} a step",
        )
    elif asked := sorted({entry.queries for entry in log.tasks if entry.queries}):
        span = str(asked[0]) if len(asked) == 1 else f"{asked[0]} to {asked[-1]}"
        yield "Perturbation", f"{span} queries for a sample and layer"
    yield "Estimator", ESTIMATORS[int(settings.estimator)]
    yield "Seed", f"{int(settings.run_seed)}"
    yield "Weights kept", _kept(run)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _ways(run: RecordedRun) -> list[str]:
    """What the run trained, by way: the layers, where they are few."""
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
    settings = run.settings
    unit = "LSB" if run.log.is_layerwise else _UNITS.get(WEIGHT_RULES[int(settings.rule)], "LSB")
    rate, final = int(settings.rate) / 65536, int(settings.final_rate) / 65536
    schedule = list(SCHEDULES)[int(settings.schedule)]
    if schedule == "constant":
        return f"{rate:.4g} {unit}, constant"
    return f"{rate:.4g} {unit} at the first step, then {schedule} to {final:.4g}"


def _kept(run: RecordedRun) -> str:
    if run.measurements:
        count = _count(len(run.measurements), "measurement", "measurements")
        if not run.kept_step:
            return f"those before the first step: none of {count} was better"
        return f"those after step {run.kept_step:,}, the best of {count}"
    return f"those after step {run.kept_step:,}, the last in the log"


def notes_of(run: RecordedRun) -> tuple[str, ...]:
    """Returns sentences about what the log lacks."""
    notes, planned, log = [], int(run.settings.steps), run.log
    if log.torn_bytes:
        notes.append(
            "The log ends within a record, as a write that was interrupted leaves it: it is read up to its "
            f"last whole step, {run.steps:,} of {planned:,}."
        )
    elif run.steps < planned:
        notes.append(
            f"The log ends after step {run.steps:,} of {planned:,}: the run was interrupted, is going on, or "
            "ended where nothing got better any more."
        )
    if log.is_layerwise:
        last = log.whole_steps
        if not run.measurements and run.steps > last:
            notes.append(
                f"Weights are those of the last snapshot, after step {last:,}: the log has the losses of "
                "later steps, but not their weights."
            )
    return tuple(notes)
