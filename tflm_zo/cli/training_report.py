# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a training run says to people: what is trained, before it begins, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.status import Status

from ..converters import read_metadata
from ..io.table import table
from ..training import Callback, RunProgress
from ..training.length import affordable_steps, most_budget_steps
from ..training.run_data import RunData
from .block_probes import choice_table
from .failures import note

__all__ = ["SayWhatIsTrained", "passed_over", "render", "said_of_parts", "values_of"]


def values_of(measured: dict[str, Any]) -> str:
    """Returns measured values as people read them: the accuracy, if there is one, and the loss."""
    accuracy = f"accuracy {measured['accuracy']:.2%}, " if "accuracy" in measured else ""
    return f"{accuracy}loss {measured['loss']:.5g}"


def passed_over(result: dict[str, Any]) -> str:
    """Returns why measurements with a smaller loss than the kept one's do not count, if there are any."""
    measurements = result["measurements"]
    least = measurements[0].get("accuracy", 0.0)
    if not any(m["loss"] < result["loss"] and m.get("accuracy", 0.0) < least for m in measurements):
        return ""
    return " (a smaller loss came with fewer right outputs than before the first step)"


def said_of_parts(data: RunData) -> str:
    """Returns the sentence on samples whose validation split is automatic."""
    samples = len(data.train) + data.held_out
    if data.too_few:
        few = "too few to hold some of every class out"
        return f"{samples:,} samples are {few}: the best weights are told by those that are trained on"
    told = f"{data.held_out:,} of {samples:,} samples are held out and tell the best weights"
    return f"{told}; --held-out 0 trains on all"


def render(console: Console, result: dict[str, Any]) -> None:
    """Prints what a run has come to: the loss before and after, the kept weights, costs and files."""
    if "loss" in result:
        before = "" if result["before"] is None else f"before: {values_of(result['before'])}; after: "
        console.print(f"{before}{values_of(result)} on {result['evaluated_on']}", markup=False)
    if result["measurements"]:
        console.print(
            f"kept: the weights after {result['kept_step']:,} of {result['steps']:,} steps, the best of "
            f"{len(result['measurements'])} measurements{passed_over(result)}",
            markup=False,
        )
    if result["block_choice"] is not None:
        console.print(choice_table(result["block_choice"]))
    row = {
        "algorithm": result["algorithm"],
        "steps": result["steps"],
        "forward equivalents": round(result["equivalents"]),
        "weights": result["trainable_weights"],
        "buffer bytes": result["buffer_bytes"],
        "seconds": round(result["seconds"], 1),
        "equivalents/s": round(result["equivalents_per_second"]),
    }
    console.print(table("Training", list(row), [list(row.values())]))
    files = {"output": "trained model", "log": "log", "zo_model": "ZO model, which log and replay belong to"}
    for name, what in files.items():
        console.print(f"{result[name]}: {what}", markup=False)


class SayWhatIsTrained(Callback):
    """Prints notes before the bar is drawn, when nothing is left to be refused.

    Args:
        sentences: sentences that say what is trained, and on what.
        waiting: what is shown until then.
        budget: forward equivalents that end the run, or None.
        samples: number of training samples.
    """

    def __init__(self, sentences: Sequence[str], waiting: Status, budget: float | None, samples: int) -> None:
        self._sentences, self._waiting = sentences, waiting
        self._budget, self._samples = budget, samples

    def on_train_begin(self, progress: RunProgress) -> None:
        """Ends the waiting, and says what is trained, at which rate, and what of a budget is left."""
        self._waiting.stop()
        for sentence in self._sentences:
            note(sentence)
        if progress.measured_rate is not None:
            note(
                f"learning rate: {progress.measured_rate:g} LSB at the first step, measured; --learning-rate "
                "gives another"
            )
        if self._budget is None:
            return
        settings, model, steps = progress.settings, progress.model, progress.total
        affordable = affordable_steps(settings, model, read_metadata(model), self._budget, self._samples)
        most = [most_budget_steps(settings, self._samples, careful) for careful in (False, True)]
        if affordable > steps and steps in most:
            note(
                f"--budget is a limit: it pays for {affordable:,} steps, of which the run does {steps:,} at "
                "most, since more passes over so few samples overfit; --steps does any number"
            )
