"""The state machine of weight perturbation in the C core (``ops/core/run/zo_control.h``), which firmware runs, too."""

from __future__ import annotations

import ctypes
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arguments import address
from .distribution import Distribution
from .loader import CSettings, Struct, call, constants, library, structs

#: Largest number of queries in one step.
MAX_QUERIES: Final[int] = constants.ZO_MAX_QUERIES


class Request(NamedTuple):
    """A request for an invoke."""

    words: NDArray[np.int32]  #: words of ``zo_command``, int32 [capacity]; the next request reuses the memory.
    step: int  #: number of the step.
    first_sample: int  #: position of the first sample, see `Control.samples`.
    start_segment: int  #: first segment to run.


class StepReport(NamedTuple):
    """A finished step: its number, mean loss in nats or `ZoLoss.unit`, and rate."""

    step: int
    loss: float
    rate: float

    @classmethod
    def of(cls, struct: Struct) -> StepReport:
        """Returns the report of a ``zo_report``."""
        return cls(struct.step, struct.mean_loss / 65536, struct.rate / 65536)


def command_words(settings: CSettings) -> int:
    """Returns the largest number of words in a command of a run."""
    return int(library().zo_control_words(settings))


def samples_in_order(seed: int, samples: int, count: int) -> NDArray[np.uint32]:
    """Returns the first sample numbers of a run's first epoch, uint32 [count]; `samples`, >= 1, are in the set."""
    return samples_at(CSettings(run_seed=seed, samples=samples), 0, count)


def samples_at(settings: CSettings, first: int, count: int) -> NDArray[np.uint32]:
    """Returns the numbers of the training samples of an invoke, uint32 [count] (``zo_sample_at``)."""
    numbers = np.empty(count, np.uint32)
    library().zo_samples_at(settings, first, count, numbers.ctypes.data)
    return numbers


def distribution_at(settings: CSettings, step: int) -> Distribution:
    """Returns the distribution of the perturbation in a step of a run."""
    return Distribution.of(library().zo_control_distribution(settings, step))


class Control:
    """A run's state machine.

    Args:
        settings: settings in integers, of `TrainSettings.as_integers` or of a seed log. Others raise NativeError.
        capacity: words of the model's ``zo_command``.
        block_segments: segment of each block.
    """

    def __init__(self, settings: CSettings, capacity: int, block_segments: list[int]) -> None:
        self._segments = (ctypes.c_uint8 * max(1, len(block_segments)))(*block_segments)
        self.struct: Struct = structs.zo_control()  #: ``zo_control``.
        self.settings = CSettings.from_buffer_copy(settings)  #: the run's settings; the struct points to them.
        call("zo_control_init", self.struct, self.settings, ctypes.addressof(self._segments))
        needed = command_words(settings)
        if capacity < needed:
            raise ValueError(f"The model's commands must hold {needed} words for this run. Received: {capacity}.")
        self._words = np.zeros(capacity, np.int32)
        self._room = address("words", self._words, np.int32), self._words.size
        self._request, self._report = structs.zo_request(), structs.zo_report()

    @property
    def step(self) -> int:
        """Number of finished steps."""
        return int(self.struct.step)

    @property
    def coefficients(self) -> list[int]:
        """Coefficients of the last finished step."""
        return [query.coefficient for query in self.struct.queries[: self.settings.queries]]

    def resume(self, step: int, mean_square: int) -> None:
        """Resumes after a number of complete steps."""
        call("zo_control_resume", self.struct, step, mean_square)

    def next(self) -> Request | None:
        """Returns the next request, or None after the last step."""
        request = self._request
        call("zo_control_next", self.struct, *self._room, request)
        if request.action == constants.ZO_ACTION_DONE:
            return None
        return Request(self._words, request.step, request.first_sample, request.start_segment)

    def report(self, losses: NDArray[np.int32]) -> StepReport | None:
        """Reports losses, int32 [batch] or [parts * batch]. Returns the report of a step that ends, else None."""
        data, report = address("losses", losses, np.int32), self._report
        parts, rest = divmod(losses.size, self.settings.batch)
        if parts > 1 and not rest:
            call("zo_control_report_all", self.struct, parts, data, report)
        else:
            call("zo_control_report", self.struct, data, losses.size, report)
        return StepReport.of(report) if report.step_done else None

    @property
    def mean_loss(self) -> int:
        """Mean loss of the last finished step, unit 2^-16."""
        return int(self._report.mean_loss)

    def settle(self) -> NDArray[np.int32] | None:
        """Returns the command that applies the pending update between steps, or None without one."""
        pending = ctypes.c_uint32()
        call("zo_control_settle", self.struct, *self._room, ctypes.byref(pending))
        return self._words if pending.value else None

    def abandon(self, *, executed: bool) -> NDArray[np.int32]:
        """Aborts the step in progress, which starts again with the next request. Returns the command that restores the
        weights of the last complete step. `executed`: the last request's command was, without a report of its losses.
        """
        call("zo_control_abandon", self.struct, int(executed), *self._room)
        return self._words

    @property
    def differences(self) -> NDArray[np.int64]:
        """Loss differences of each query of the last finished or withdrawn step, int64 [queries], unit 2^-16."""
        return np.array(self.struct.difference[: self.settings.queries], np.int64)

    def withdraw(self, mean_square: int) -> NDArray[np.int32]:
        """Reverts the step that has just been finished, because a fleet computes it from several answers. `differences`
        and `mean_loss` remain. Returns the command that restores the weights before the step, when `mean_square` was
        the running mean of d^2, unit 2^-32.
        """
        call("zo_control_withdraw", self.struct, mean_square, *self._room)
        return self._words

    def decide(self, d: NDArray[np.int64], mean_loss: int) -> StepReport:
        """Computes the next step from differences of other devices; its record is `coefficients`. The mean difference
        of each query over all samples, int64 [queries], is -2^30..2^30, unit 2^-16, as that of the loss. Others, and a
        run that has ended, raise NativeError.
        """
        call("zo_control_decide", self.struct, address("d", d, np.int64), mean_loss, self._report)
        return StepReport.of(self._report)

    def samples(self, first: int, count: int) -> NDArray[np.uint32]:
        """Returns the numbers of the training samples of an invoke, uint32 [count]."""
        return samples_at(self.settings, first, count)

    def rate(self, step: int) -> float:
        """Returns the learning rate of a step."""
        return int(library().zo_control_rate(self.settings, step, None)) / 65536
