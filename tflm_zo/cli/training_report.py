"""A training run's messages to people: its decisions before it begins, and its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.table import Table

from ..adaptation import Adaptation, Observer
from ..adaptation.choice import Candidate, Choice
from ..adaptation.parts import Parts
from ..converters import Model, read_metadata
from ..converters.model import Operator
from ..io.table import table
from ..planner import Cost
from ..recalibration import Recalibration
from ..training import RunProgress, Settings, TrainedLayers
from ..training.length import affordable_steps, most_budget_steps
from ..training.run_data import RunData
from .failures import note, waiting_for, warn
from .output_file import write_output
from .results import progress
from .set_option import say_loss_output


@dataclass(frozen=True)
class Files:
    """Paths of a run."""

    model: Path
    data: Path
    output: Path
    log: Path
    zo_model: Path | None
    rehearsal: Path | None
    validation: Path | None

    def measured_on(self, found: Adaptation) -> str:
        """Returns the name of the data that the result's loss is of."""
        used, count = len(found.data.measured), len(found.data.train)
        what = f"{self.data} and {self.rehearsal}" if self.rehearsal is not None else str(self.data)
        if self.validation is not None:
            return str(self.validation)
        if found.parts is not None:
            return f"{found.parts.held_out:,} samples of {what}, {found.parts.sentence}"
        if found.data.validation is not None:
            return f"{used:,} samples of {what}, held out"
        return what if used == count else f"{used:,} of the {count:,} samples of {what}"


def _values_of(measured: dict[str, Any]) -> str:
    """Returns measured values as people read them: the accuracy, if there is one, and the loss."""
    accuracy = f"accuracy {measured['accuracy']:.2%}, " if "accuracy" in measured else ""
    return f"{accuracy}loss {measured['loss']:.5g}"


def passed_over(measurements: Sequence[dict[str, float]], kept: float) -> str:
    """Returns why measurements with a smaller loss than the kept one's do not count, if there are any."""
    least = measurements[0].get("accuracy", 0.0)
    if not any(m["loss"] < kept and m.get("accuracy", 0.0) < least for m in measurements):
        return ""
    return " (a smaller loss came with fewer right outputs than before the first step)"


def _said_of_sequences(steps: int) -> str:
    return f"samples are sequences of {steps} steps, which begin with the initial state" if steps > 1 else ""


def _said_of_parts(data: RunData) -> str:
    """Returns the sentence on samples whose validation split is automatic, if it is."""
    samples = len(data.train) + data.held_out
    if data.too_few:
        few = "too few to hold some of every class out"
        return f"{samples:,} samples are {few}: the best weights are told by those that are trained on"
    if not data.held_out:
        return ""
    told = f"{data.held_out:,} of {samples:,} samples are held out and tell the best weights"
    return f"{told}; --held-out 0 trains on all"


def render(console: Console, result: dict[str, Any]) -> None:
    """Prints the result of a run: the loss before and after, the kept weights, costs and files."""
    if "loss" in result:
        before = "" if result["before"] is None else f"before: {_values_of(result['before'])}; after: "
        console.print(f"{before}{_values_of(result)} on {result['evaluated_on']}")
    if measurements := result["measurements"]:
        console.print(
            f"kept: the weights after {result['kept_step']:,} of {result['steps']:,} steps, the best of "
            f"{len(measurements)} measurements{passed_over(measurements, result['loss'])}"
        )
    if result["choice"] is not None:
        console.print(_choice_table(result["choice"]))
    row = {
        "algorithm": result["algorithm"],
        "steps": result["steps"],
        "forward equivalents": round(result["equivalents"]),
        "weights": result["trainable_weights"],
        "seconds": round(result["seconds"], 1),
        "equivalents/s": round(result["equivalents_per_second"]),
    }
    console.print(table("Training", list(row), [list(row.values())]))
    files = {"output": "trained model", "log": "log", "zo_model": "ZO model, which log and replay belong to"}
    for name, what in files.items():
        if result[name] is not None:
            console.print(f"{result[name]}: {what}")


class ToldRun(Observer):
    """Tells people about a run on stderr, by notes and, while they wait, a bar or a line; writes its model.

    `loss_output` and `held_out` are the options of these names; `force` is True if the model may replace a file.
    """

    def __init__(self, files: Files, loss_output: str | None, held_out: float | None, *, force: bool) -> None:
        self._files, self._loss_output, self._held_out, self._force = files, loss_output, held_out, force
        self._shown: Status | None = None
        self._begun = False  # whether a run has begun, which another one may repeat

    def close(self) -> None:
        """Stops the waiting line."""
        self._show(None)

    def _show(self, shown: Status | None) -> None:
        if self._shown is not None:
            self._shown.stop()
        self._shown = shown
        if shown is not None:
            shown.start()

    def recalibrating(self, layers: Sequence[Operator]) -> Iterable[Operator]:
        """Draws a bar."""
        return progress(layers, len(layers), "recalibrating")

    def on_recalibrated(self, found: Recalibration | None) -> None:
        """Prints a line about the recalibration."""
        if found is None:
            note(
                "nothing is recalibrated: the model learns to reproduce its input, which recalibration makes no "
                "easier; --recalibrate asks for it"
            )
        else:
            (warn if found.uneven else note)(found.sentence)

    def on_trial(self, candidate: Candidate) -> None:
        """Shows the candidate that is tried."""
        self._show(waiting_for(f"trying {_named(candidate)}"))

    def on_chosen(self, choice: Choice, parts: Parts | None, cost: Cost | None) -> None:
        """Prints the winner and its RAM."""
        self._show(None)
        if choice.trains:
            chosen = f"{_named(choice.best.candidate)} is the best of {len(choice.trials)} trials"
            held_out = f", {parts.sentence}" if parts else ""
            ram = "--board and --ram limit its RAM" if cost is None else f"it takes {cost.ram:,} bytes of RAM"
            note(f"{chosen}{held_out}; {ram}; --algorithm chooses another way to train")

    def on_diverged(self, rate: float) -> None:
        """Prints the rate."""
        note(f"the run diverged at {rate:.2g} LSB, and is repeated at a quarter of it")

    def on_decided(self, settings: Settings, trained: TrainedLayers, data: RunData, budget: float | None) -> None:
        """Keeps the sentences until nothing is left to be refused, and shows that the rate is measured."""
        told = "" if self._held_out is not None else _said_of_parts(data)
        self._sentences = [text for text in (trained.sentence, told, _said_of_sequences(data.train.steps)) if text]
        self._budget, self._samples = budget, len(data.train)
        self._show(waiting_for("measuring the learning rate") if settings.measures_rate else None)

    def on_train_begin(self, progress: RunProgress) -> None:
        """Stops the waiting line, and prints the trained layers, the rate and the remaining budget."""
        self._show(None)
        if self._begun:
            return
        self._begun = True
        if self._files.zo_model is not None:
            say_loss_output(progress.model, self._loss_output)
        for sentence in self._sentences:
            note(sentence)
        if (rate := progress.measured_rate) is not None:
            note(f"learning rate: {rate:g} LSB at the first step, measured; --learning-rate gives another")
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

    def on_trained(self, model: Model) -> None:
        """Writes the trained model; an error says that replay makes it of the log."""
        files = self._files
        again = f"tflm-zo replay makes the model of {files.zo_model or files.model} and {files.log}"
        try:
            write_output(files.output, model.to_bytes(), force=self._force)
        except OSError as error:
            what = error.strerror or str(error)
            raise OSError(error.errno, f"{what}; nothing is lost: {again}", str(files.output)) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{files.output} is not written; nothing is lost: {again}") from None


def say_what_is_doubtful(found: Adaptation, files: Files) -> None:
    """Warns of a result that may not be worth using, and says why a run ended before its budget."""
    trainer, history, evaluated_on = found.trainer, found.history, files.measured_on(found)
    if found.choice is not None and not found.choice.trains:
        start = found.choice.best.candidate.start.name
        warn(
            f"all ways to train were worse than MODEL on {evaluated_on}, so {files.output} is MODEL without training, "
            f"{start}; --algorithm trains it"
        )
    elif found.is_unchanged:
        assert found.after is not None  # it was measured
        warn(
            f"nothing got better: of {len(history.measurements)} measurements on {evaluated_on} that before "
            f"the first step is the best{passed_over(history.measurements, found.after['loss'])}, so "
            f"{files.output} has the weights that the run began with; --keep last writes the last ones"
        )
    if found.is_worse:
        assert found.before is not None and found.after is not None
        warn(
            f"the result is worse than MODEL on {evaluated_on}: {_values_of(found.before)} before, "
            f"{_values_of(found.after)} after. Use --keep best, which keeps the best measured weights"
        )
    if found.data.constant:
        warn(
            f"one constant answer is right for all of {evaluated_on}, so nothing shows that {files.output} "
            f"is better than {files.model}. Measure both with tflm-zo evaluate on samples of all classes"
        )
    if found.budget is not None and not trainer.interrupted and trainer.step < trainer.planned:
        note(
            f"took {trainer.equivalents:,.0f} of the budget's {found.budget:,.0f} equivalents. It ended "
            f"after {trainer.step:,} of {trainer.planned:,} steps, since its last measurements brought "
            "nothing better; --steps does any number"
        )
    if trainer.interrupted:
        same = history.kept_step == trainer.step
        which = "this step" if same else f"the best measured step, {history.kept_step}"
        warn(
            f"interrupted: {files.log} ends with the last complete step, {trainer.step}. {files.output} has the "
            f"weights of {which}. To resume, repeat the command with --resume"
        )


def described(found: Adaptation, files: Files, runtime: str, keep: str) -> dict[str, Any]:
    """Returns a result as ``--json`` prints it."""
    trainer, history = found.trainer, found.history
    return {
        "output": str(files.output),
        "log": str(files.log) if found.is_trained else None,
        "zo_model": str(files.zo_model or files.model) if found.is_trained else None,
        "runtime": runtime,
        "algorithm": trainer.settings.algorithm,
        "samples": found.data.samples,
        "rehearsal_samples": len(found.data.train) - found.data.samples,
        "missing_classes": list(found.data.missing),
        "trains": dataclasses.asdict(found.trained),
        "trainable_weights": found.trained.weights,
        "steps": trainer.step,
        "measured_rate": trainer.measured_rate,
        "equivalents": round(trainer.equivalents, 3),
        "choice": None if found.choice is None else _described_choice(found),
        "ram_bytes": None if found.cost is None else found.cost.ram,
        "interrupted": trainer.interrupted,
        "forwards": history.forwards,
        "seconds": round(history.seconds, 3),
        "equivalents_per_second": round(history.equivalents / max(history.seconds, 1e-9), 1),
        "evaluated_on": files.measured_on(found),
        "keep": keep,
        "kept_step": history.kept_step,
        "before": found.before,
        "measurements": history.measurements,
        **(found.after or {}),
        "history": history.history,
    }


def _named(candidate: Candidate) -> str:
    return ", ".join(filter(None, (candidate.rung, candidate.start.name, _written_rate(candidate.rate))))


def _written_rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.2g} LSB"


def _described_choice(found: Adaptation) -> dict[str, Any]:
    """Returns the choice as ``--json`` prints it."""
    choice = found.choice
    assert choice is not None
    shown = ("loss",) if found.data.constant else ("loss", "accuracy")
    trials = [
        {
            "way": trial.candidate.rung,
            "start": trial.candidate.start.name,
            "rate": trial.candidate.rate,
            "steps": trial.steps,
            **{name: value for name, value in trial.values.items() if name in shown},
        }
        for trial in choice.trials
    ]
    best = next(i for i, trial in enumerate(choice.trials) if trial is choice.best)
    return {"trials": trials, "best": best, "equivalents": round(choice.equivalents, 3)}


def _choice_table(choice: dict[str, Any]) -> Table:
    """Returns a choice as `_described_choice` does, as a table."""
    rows = [
        [
            trial["way"],
            trial["start"],
            _written_rate(trial["rate"]),
            f"{trial['steps']:,}" if trial["steps"] else "",
            f"{trial['loss']:.4g}",
            f"{trial['accuracy']:.1%}" if "accuracy" in trial else "",
            "chosen" if number == choice["best"] else "",
        ]
        for number, trial in enumerate(choice["trials"])
    ]
    columns = ["way to train", "start", "rate", "steps", "held-out loss", "accuracy", ""]
    return table(f"Trials; {choice['equivalents']:,.0f} forward equivalents", columns, rows)
