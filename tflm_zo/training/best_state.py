"""The best state of a run, found by measurements between its steps."""

from __future__ import annotations

from typing import Final

from ..core import Measurement, best_of
from ..data import Data
from ..logs import data_checksum
from ..logs.replay import Arrays
from ..runtime import Runtime
from .evaluation import Evaluation
from .run import Run
from .run_data import covered

# Measurements of a run, besides the one before its first step, at most.
_MOST: Final = 20

# A run that a budget ends is over when so many of them in a row have brought nothing better. Noise falls with
# the rate, so a run may well find its best state late: three quarters of it are waited for.
_PATIENCE: Final = 15


def measuring_interval(total: int, per_epoch: int) -> int:
    """Returns the number of steps between measurements: a multiple of an epoch, for at most 20 measurements."""
    return per_epoch * -(-total // (_MOST * per_epoch))


class BestState:
    """Best weights of a run, by measurements on fixed data; `may_end` ends runs that do not improve."""

    def __init__(self, runtime: Runtime, run: Run, data: Data, *, may_end: bool) -> None:
        self._runtime, self._run, self._data, self._may_end = runtime, run, data, may_end
        self._data_checksum = data_checksum([*data.inputs, data.labels])
        run.check_measured_data(self._data_checksum)
        # Measurement and weights of the best state whose weights are at hand.
        self._kept: tuple[Measurement, Arrays, Arrays] | None = run.best_state()
        self._last: tuple[int, Evaluation] | None = None

    def measure_where_due(self) -> None:
        """Measures the weights if a measurement is due, and keeps them if they are better."""
        run = self._run
        if not run.measures_now:
            return
        run.settle()
        found = run.evaluate(self._data)
        self._last = run.step, found
        # A device counts right answers of samples alone: it has no memory for labels of many places or outputs.
        right = found.correct if self._counts_right else 0
        measurement = Measurement(run.step, found.labelled, found.loss_sum, right, self._data_checksum)
        run.add_measurement(measurement)
        if best_of(run.measurements) is measurement:
            self._kept = measurement, self._runtime.read_weights(), self._runtime.read_fractions()

    @property
    def _counts_right(self) -> bool:
        return self._runtime.metadata.known_loss.of_samples and self._data.labels.ndim == 1

    @property
    def is_over(self) -> bool:
        """Returns whether the run should end because measurements no longer improve."""
        if not self._may_end:
            return False
        found = self._run.measurements
        best = best_of(found)
        return best is not None and len(found) - 1 - found.index(best) >= _PATIENCE

    @property
    def last(self) -> Evaluation | None:
        """Returns the measurement of the present weights, or None."""
        if self._last is None or self._last[0] != self._run.step:
            return None
        return self._last[1]

    def restore(self) -> int | None:
        """Restores the best measured weights after a run. Returns their step; None if nothing was measured."""
        best, kept = best_of(self._run.measurements), self._kept
        if best is not None and best.step == self._run.step:
            return best.step  # also where an interruption came before it was kept
        if kept is None:
            return None
        self._runtime.write_weights(kept[1], kept[2])
        return kept[0].step

    def values(self) -> list[dict[str, float]]:
        """Returns "step", "loss" and, for classifiers, "accuracy" of each measurement, for a history."""
        counts = 0
        loss = self._runtime.metadata.known_loss
        if self._counts_right and not covered(self._data, loss).constant:
            counts = int((self._data.labels >= 0).sum())
        return [
            {"step": m.step, "loss": m.loss * loss.unit} | ({"accuracy": m.correct / counts} if counts else {})
            for m in self._run.measurements
        ]
