"""A run of weight perturbation: it executes the requests of the core's control unit in a runtime."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from ..converters import Model
from ..core import Control, Measurement, SeedLogHeader, StepRecord, StepReport, best_of
from ..data import Data
from ..logs import Log, LogError
from ..logs.replay import Arrays, Replay, replay_log
from ..runtime import Runtime
from .evaluation import Evaluation
from .executors import LocalExecutor, Steps, WorkerExecutor
from .lowering import LoweredRun
from .run import Run
from .workers import Workers

# Number of steps whose coefficients a run keeps, for a replay after an interruption.
_KEPT_STEPS: Final = 4096


class WeightRun(Run):
    """A run of weight perturbation, see `Run`, whose invokes `workers` run; None: this process. Raises SettingsError if
    workers cannot share these steps, see `WorkerExecutor`.
    """

    _control: Control

    def __init__(
        self, runtime: Runtime, model: Model, lowered: LoweredRun, data: Data, workers: Workers | None = None
    ) -> None:
        super().__init__(runtime, model, lowered)
        self._control = Control(lowered.settings, runtime.metadata.command_words, list(lowered.block_segments))
        # Weights and fractions after some step (None: the model's own), its number, and the coefficients of
        # the whole steps since: replaced in one assignment, so that no interruption comes between.
        self._base: tuple[tuple[Arrays, Arrays] | None, int, list[list[int]]] = (None, 0, [])
        self.executor: LocalExecutor | WorkerExecutor
        if workers is None:
            self.executor = LocalExecutor(runtime, self._control, data)
        else:
            self.executor = WorkerExecutor(workers, runtime, model, self._control, data, self._steps_since)

    @property
    def step(self) -> int:
        """Number of complete steps."""
        _, first, done = self._base
        return first + len(done)  # the control unit may be ahead: an interruption before the record counts

    def begin(self) -> None:
        """Restores the model's initial weights."""
        self._base, self.measurements = (None, 0, []), []
        self._runtime.execute(self._runtime.command(loss=False).restore())
        self.executor.settled()

    def resume(self, log: Path) -> int:
        """Restores the weights and the state that a log records."""
        replay, mean_square = Replay(self._model), 0
        measurements: list[Measurement] = []
        for part in Log.parts(log, layerwise=False):
            if not part.first_step:
                self._check_log(part, True)
            replay.add(part)
            measurements.extend(part.measurements)
            steps, mean_square = part.first_step + len(part.steps), int([mean_square, *part.mean_squares][-1])
        self.begin()
        self._runtime.write_weights(replay.weights, replay.fractions)
        self._base, self._resumed_log = ((replay.weights, replay.fractions), steps, []), log
        self.measurements = measurements
        if steps:
            self._control.resume(steps, mean_square)
        self.executor.settled()
        return part.whole_bytes

    def _header(self) -> SeedLogHeader:
        return SeedLogHeader(self._control.settings, self._mark, self.measure_every)

    def advance(self) -> StepReport:
        """Runs one step and appends it to the log."""
        if self.step == self.total:
            raise ValueError("the run is over")
        for losses in self.executor.invokes():
            self.forwards += self.executor.samples
            report = self._control.report(losses)
            if report is not None:
                break
        assert report is not None  # of the step's last invoke
        self._keep_step()
        return report

    def _keep_step(self) -> None:
        """Records the step that the control unit has finished."""
        self.executor.end_step()
        if self._writer is not None:
            self._writer.append(partial(StepRecord.write, self._control))
        self._base[2].append(self._control.coefficients)
        if len(self._base[2]) == _KEPT_STEPS:
            self.settle()
            weights = self._runtime.read_weights(), self._runtime.read_fractions()
            self._base = weights, self.step, []

    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last complete step. Call `settle` first."""
        return self.executor.evaluate(data)

    def best_state(self) -> tuple[Measurement, Arrays, Arrays] | None:
        """Returns the best measurement in the log of a resumed run, with its weights and fractions, or None."""
        best = best_of(self.measurements)
        if best is None or self._resumed_log is None:
            return None
        return best, *replay_log(self._model, self._resumed_log, best.step)

    def settle(self) -> None:
        """Updates the runtime's weights to those after the last complete step."""
        self.executor.settle()

    def roll_back(self) -> None:
        """Restores the weights and the log of the last complete step after an interruption."""
        self.executor.end_step()
        if self._writer is not None:  # the interruption may have come between the log's record and ours
            self._writer.keep(self.step, len(self.measurements))
        self._runtime.write_weights(*self._replayed())
        self.executor.settled()

    def _steps_since(self, seen: int | None) -> Steps:
        """Returns the steps after number `seen` up to the last one."""
        begin, first, done = self._base
        mean_square = int(self._control.struct.mean_square)
        if seen is not None and seen >= first:
            return Steps(seen, done[seen - first :], mean_square)
        return Steps(first, done, mean_square, begin)

    def _replayed(self) -> tuple[Arrays, Arrays]:
        """Returns the weights and fractions after the last complete step, replayed from the records in memory."""
        begin, first, done = self._base
        if begin is not None:
            begin = {n: w.copy() for n, w in begin[0].items()}, {n: f.copy() for n, f in begin[1].items()}
        replay = Replay(self._model, begin)
        replay.add(Log.from_steps(self._control.settings, self._mark, done, first))
        return replay.weights, replay.fractions

    def steps_of_copy(self, log: Path) -> int:
        """Returns the number of steps in an earlier copy of this run's log."""
        measured = 0
        for last in Log.parts(log, layerwise=False):
            steps = last.first_step + len(last.steps)
            measured += len(last.measurements)
        # The same bytes are the same model, settings and steps.
        whole = self._own_log().whole(steps, measured)
        with open(log, "rb") as file:
            if steps > self.step or file.read(len(whole)) != whole:
                raise LogError("the log is not of this run")
        return steps
