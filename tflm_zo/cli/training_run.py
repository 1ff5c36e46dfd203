# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A training run on the command line: the model, the data, the run and the files that it leaves."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from ..converters import Model
from ..logs import MAGIC, LogError, is_snapshot_log
from ..training import (
    BlockProbes,
    Callback,
    CSVLogger,
    History,
    ProgressBar,
    Settings,
    SettingsError,
    Trainer,
    Workers,
    trained_layers,
)
from ..training.length import check_length, planned_steps, usual_epochs
from ..training.run_data import RunData, Split
from ..training.setting_texts import with_found, written
from .block_probes import choose
from .failures import interruption_code, note, waiting_for, warn
from .injection import KeepZoModel, of_resumed_run
from .options import parse_block_search
from .output_file import write_output
from .results import show
from .training_report import SayWhatIsTrained, passed_over, render, said_of_parts, values_of

__all__ = ["Files", "Length", "Measured", "TrainingRun"]

_HEAD_BYTES: Final = len(MAGIC) + 2  # of a log: the version after the magic tells the kind


@dataclass(frozen=True)
class Files:
    """Paths of a run."""

    model: Path
    data: Path
    labels: Path | None
    output: Path
    log: Path
    zo_model: Path | None
    csv: Path | None
    rehearsal: Path | None
    validation: Path | None

    @property
    def reads(self) -> dict[str, Path | None]:
        """Files that are read, by their option."""
        return {
            "MODEL": self.model,
            "DATA": self.data,
            "LABELS": self.labels,
            "--rehearsal": self.rehearsal,
            "--validation": self.validation,
        }

    @property
    def writes(self) -> dict[str, Path | None]:
        """Files that are written, by their option."""
        return {
            "-o": self.output,
            "--log": self.log,
            "--zo-model": self.zo_model,
            "--csv": self.csv,
        }


@dataclass(frozen=True)
class Length:
    """Length of a run, of which one is given at most."""

    epochs: int | None
    steps: int | None
    budget: float | None


@dataclass(frozen=True)
class Measured:
    """The samples that a run is measured on, and their purpose.

    Attributes:
        held_out: share of the samples that are not trained on; None: the usual one where samples are needed
            to tell the best state or block, and none are given.
        blocks: ``--choose-block`` as it was given.
        keep: weights that are handed over.
    """

    held_out: float | None
    blocks: str | None
    keep: str


def check_kind(log: Path, settings: Settings) -> None:
    """Raises LogError where a log, if there is a whole one, is of the other kind of run."""
    if not log.is_file():
        return
    with log.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES or not head.startswith(MAGIC):
        return  # the trainer says what it is instead
    if is_snapshot_log(log) != settings.is_layerwise:
        what = "weight perturbation" if settings.is_layerwise else "a layer-wise run"
        raise LogError(f"{log} is of {what}; algorithm {settings.algorithm} cannot go on from it")


class TrainingRun:
    """One ``tflm-zo train``.

    Args:
        zo: ZO model that is trained.
        settings: settings of the run.
        files: files of the run.
        runtime: name of the runtime.
        threads: number of threads of the runtime.
        workers: workers that share the run's invokes, or None.
        force: replace files that exist.
        resume: go on from the log.
    """

    def __init__(
        self,
        zo: Model,
        settings: Settings,
        files: Files,
        runtime: str,
        threads: int,
        workers: Workers | None,
        *,
        force: bool,
        resume: bool,
    ) -> None:
        if resume and files.zo_model is not None:
            zo = of_resumed_run(zo, files.zo_model)
        self._zo, self._files, self._runtime, self._threads = zo, files, runtime, threads
        self._force, self._resume = force, resume
        self._workers = workers
        self._trainer = Trainer(zo, settings, runtime=runtime, threads=threads, workers=workers or 0)
        if resume:
            check_kind(files.log, settings)

    def load_data(self, measured: Measured) -> None:
        """Reads the data and sets aside what the run is measured on."""
        files, runtime = self._files, self._trainer.runtime
        self._keep, held_out = measured.keep, measured.held_out
        self._search = None if measured.blocks is None else parse_block_search(measured.blocks, held_out)
        # Probes of blocks hold samples out themselves.
        judges = self._search is None
        split: Split = 0.0 if held_out is None or not judges else held_out
        if held_out is None and judges and files.validation is None and measured.keep == "best":
            split = "auto"
        self._data = found = RunData.of(
            runtime,
            files.data,
            files.labels,
            validation_data=files.validation,
            validation_split=split,
            rehearsal=files.rehearsal,
            seed=self._trainer.settings.seed,
        )
        self._said_of_data = said_of_parts(found) if split == "auto" else ""

    def train(self, length: Length) -> None:
        """Does the run."""
        files, count = self._files, len(self._data.train)
        check_length(length.epochs, length.steps, length.budget)
        if length == Length(None, None, None):
            length = Length(usual_epochs(count, self._trainer.settings.batch_size), None, None)
        kept_zo = None
        callbacks: list[Callback] = [ProgressBar()]
        if files.csv is not None:
            callbacks.append(CSVLogger(files.csv))
        if files.zo_model is not None:
            kept_zo = KeepZoModel(
                files.zo_model, self._zo.to_bytes(), files.log, force=self._force, resume=self._resume
            )
            callbacks.append(kept_zo)
        self._block_choice, budget = self._choose_block(length)
        self._budget = budget
        self._trained = trained_layers(self._zo, self._trainer.settings)
        waiting = waiting_for("measuring the learning rate")
        sentences = [text for text in (self._trained.sentence, self._said_of_data) if text]
        callbacks.insert(0, SayWhatIsTrained(sentences, waiting, budget, count))
        data = self._data
        self._on = data.validation or self._trainer.measured_samples(data.train)
        self._before = None if self._keep == "best" or self._resume else self._trainer.evaluate(self._on)
        if self._trainer.settings.measures_rate:
            waiting.start()
        try:
            self._history = self._trainer.fit(
                data.train,
                epochs=length.epochs,
                steps=length.steps,
                budget=budget,
                validation_data=data.validation,
                callbacks=callbacks,
                log=files.log,
                resume=self._resume,
                replace=self._force,
                keep=self._keep,  # type: ignore[arg-type]
            )
        except BaseException:
            if kept_zo is not None:
                kept_zo.withdraw()
            raise
        finally:
            waiting.stop()

    def _choose_block(self, length: Length) -> tuple[dict[str, Any] | None, float | None]:
        """The block that is trained, where one is chosen, and the budget that is left for the run."""
        budget = length.budget
        if self._search is None:
            return None, budget
        trainer = self._trainer
        if not trainer.settings.is_layerwise:
            raise SettingsError(
                "blocks",
                f"be left out: {trainer.settings.algorithm} moves all weights at once",
                fix="Choose a layer-wise algorithm",
            )
        count = len(self._data.train)
        # What is wrong with the run to come is said before the probes, not after.
        if budget is None:
            planned_steps(trainer.settings, count, length.epochs, length.steps)
        probes = BlockProbes(trainer, None, self._data.train, None, self._search)
        if budget is not None:
            budget = probes.rest_of(budget, count)
        found = choose(probes, self._files.log if self._resume else None)
        best = probes.settings_of(found["best"])
        self._zo = with_found(self._zo, "block", written(tuple(found["layers"])))
        self._trainer = Trainer(
            self._zo, best, runtime=self._runtime, threads=self._threads, workers=self._workers or 0
        )
        return found, budget

    def finish(self, *, as_json: bool) -> None:
        """Writes the model, says what the run has come to, and ends an interrupted command."""
        trainer, history, files = self._trainer, self._history, self._files
        self._write_model()
        if history.measurements:
            before, final = _measured_at(history, 0), _measured_at(history, history.kept_step)
        else:
            # Who has pressed Ctrl-C wants the prompt back.
            before, final = self._before or {}, {} if trainer.interrupted else trainer.evaluate(self._on)
            for values in (before, final) if self._data.constant else ():
                values.pop("accuracy", None)
        result = self._result(before or None, final)
        show(result, as_json=as_json, render=lambda console: render(console, result))
        if history.measurements and not history.kept_step:
            warn(
                f"nothing got better: of {len(history.measurements)} measurements on "
                f"{result['evaluated_on']} that before the first step is the best{passed_over(result)}, so "
                f"{files.output} has the weights that the run began with; --keep last writes the last ones"
            )
        if before and final and _is_worse(final, before):
            warn(
                f"the result is worse than MODEL on {result['evaluated_on']}: {values_of(before)} before, "
                f"{values_of(final)} after. Use --keep best, which keeps the best measured weights"
            )
        if self._data.constant:
            warn(
                f"one constant answer is right for all of {result['evaluated_on']}, so nothing shows that "
                f"{files.output} is better than {files.model}. Measure both with tflm-zo evaluate on samples "
                "of all classes"
            )
        if self._budget is not None and not trainer.interrupted and trainer.step < trainer.planned:
            note(
                f"took {trainer.equivalents:,.0f} of the budget's {self._budget:,.0f} equivalents. It "
                f"ended after {trainer.step:,} of {trainer.planned:,} steps, since its last measurements "
                "brought nothing better; --steps does any number"
            )
        if trainer.interrupted:
            same = history.kept_step == trainer.step
            what = "the same" if same else f"the best measured ({history.kept_step})"
            warn(
                f"interrupted: {files.log} is that of the last whole step ({trainer.step}), {files.output} "
                f"that of {what}; the same command with --resume goes on"
            )
            raise typer.Exit(interruption_code())

    def _write_model(self) -> None:
        files = self._files
        again = f"tflm-zo replay makes the model of {files.zo_model or files.model} and {files.log}"
        data = self._trainer.export().to_bytes()
        try:
            write_output(files.output, data, force=self._force or self._resume)
        except OSError as error:
            what = error.strerror or str(error)
            raise OSError(error.errno, f"{what}; nothing is lost: {again}", str(files.output)) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{files.output} is not written; nothing is lost: {again}") from None

    def _result(self, before: dict[str, float] | None, final: dict[str, float]) -> dict[str, Any]:
        trainer, history, files = self._trainer, self._history, self._files
        return {
            "output": str(files.output),
            "log": str(files.log),
            "zo_model": str(files.zo_model or files.model),
            "runtime": self._runtime,
            "algorithm": trainer.settings.algorithm,
            "samples": self._data.samples,
            "rehearsal_samples": len(self._data.train) - self._data.samples,
            "missing_classes": list(self._data.missing),
            "trains": dataclasses.asdict(self._trained),
            "trainable_weights": self._trained.weights,
            "buffer_bytes": trainer.buffer_bytes,
            "steps": trainer.step,
            "measured_rate": trainer.measured_rate,
            "equivalents": round(trainer.equivalents, 3),
            "block_choice": self._block_choice,
            "interrupted": trainer.interrupted,
            "forwards": history.forwards,
            "seconds": round(history.seconds, 3),
            "equivalents_per_second": round(history.equivalents / max(history.seconds, 1e-9), 1),
            "evaluated_on": self._measured_on(),
            "keep": self._keep,
            "kept_step": history.kept_step,
            "before": before,
            "measurements": history.measurements,
            **final,
            "history": history.history,
        }

    def _measured_on(self) -> str:
        """Name of the data that the result's loss is of."""
        files, used, count = self._files, len(self._on), len(self._data.train)
        what = f"{files.data} and {files.rehearsal}" if files.rehearsal is not None else str(files.data)
        if files.validation is not None:
            return str(files.validation)
        if self._data.validation is not None:
            return f"{used:,} samples of {what}, held out"
        return what if used == count else f"{used:,} of the {count:,} samples of {what}"


def _is_worse(after: dict[str, float], before: dict[str, float]) -> bool:
    if after.get("accuracy", 0.0) != before.get("accuracy", 0.0):
        return after.get("accuracy", 0.0) < before.get("accuracy", 0.0)
    return after["loss"] > before["loss"]


def _measured_at(history: History, step: int) -> dict[str, float]:
    found = next(m for m in history.measurements if m["step"] == step)
    return {name: value for name, value in found.items() if name != "step"}
