"""State machines of the C core: weight perturbation (``ops/core/run/zo_control.h``) and the choice of a block of
layers (``ops/core/run/zo_block_choice.h``). Firmware runs the same ones.
"""

from __future__ import annotations

import ctypes
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arguments import address
from .distribution import Distribution
from .loader import CSettings, Struct, call, constants, library, structs

MAX_QUERIES: Final[int] = constants.ZO_MAX_QUERIES
"""Largest number of queries in one step."""

MAX_CHAIN: Final[int] = constants.ZO_MAX_CHAIN
"""Largest number of seeds that make up one direction."""


class Request(NamedTuple):
    """A request for an invoke.

    Attributes:
        words: words of ``zo_command``, int32 [capacity]; the next request reuses the memory.
        step: number of the step.
        first_sample: position of the first sample, see `Control.samples`.
        start_segment: first segment to run.
    """

    words: NDArray[np.int32]
    step: int
    first_sample: int
    start_segment: int


class StepReport(NamedTuple):
    """A finished step: its number, mean loss in nats or `ZoLoss.unit`, and rate."""

    step: int
    loss: float
    rate: float


def command_words(settings: CSettings) -> int:
    """Returns the largest number of words in a command of a run."""
    return int(library().zo_control_words(settings))


def samples_in_order(seed: int, samples: int, count: int) -> NDArray[np.uint32]:
    """Returns the numbers of the first samples of a run's first epoch (``zo_sample_at``).

    Args:
        seed: seed of the run.
        samples: number of samples in the training set, >= 1.
        count: number of samples to return.

    Returns:
        uint32 [count].
    """
    numbers = np.empty(count, np.uint32)
    settings = CSettings(run_seed=seed, samples=samples)
    library().zo_samples_at(settings, 0, count, numbers.ctypes.data)
    return numbers


def distribution_at(settings: CSettings, step: int) -> Distribution:
    """Returns the distribution of the perturbation in a step of a run."""
    return Distribution.of(library().zo_control_distribution(settings, step))


def write_items(settings: CSettings, step: int, coefficients: NDArray[np.int32], items: NDArray[np.void]) -> int:
    """Writes a step's (seed, coefficient) pairs: one for each query, or, with momentum, one for each seed of
    a query's direction.

    Args:
        settings: settings of the run.
        step: number of the step.
        coefficients: int32 [queries], as recorded.
        items: output, `QUERY_DTYPE` [MAX_QUERIES].

    Returns:
        The number of pairs.
    """
    count = library().zo_control_items(settings, step, coefficients.ctypes.data, items.ctypes.data)
    return int(count)


class Control:
    """A run's state machine.

    Args:
        settings: settings in integers, of `TrainSettings.as_integers` or of a seed log.
        capacity: words of the model's ``zo_command``.
        block_segments: segment of each block.

    Raises:
        NativeError: the settings are out of range, or the capacity does not hold a command.
    """

    def __init__(self, settings: CSettings, capacity: int, block_segments: list[int]) -> None:
        self._segments = (ctypes.c_uint8 * max(1, len(block_segments)))(*block_segments)
        self._control = structs.zo_control()
        self._settings = CSettings.from_buffer_copy(settings)  # the control unit keeps where it is
        call("zo_control_init", self._control, self._settings, ctypes.addressof(self._segments))
        needed = command_words(settings)
        if capacity < needed:
            raise ValueError(f"The model's commands must hold {needed} words for this run. Received: {capacity}.")
        self._words = np.zeros(capacity, np.int32)
        self._words_at = address("words", self._words, np.int32)
        self._request, self._report = structs.zo_request(), structs.zo_report()

    @property
    def settings(self) -> CSettings:
        """The run's settings."""
        return self._settings

    @property
    def struct(self) -> Struct:
        """``zo_control``."""
        struct: Struct = self._control
        return struct

    @property
    def step(self) -> int:
        """Number of finished steps."""
        return int(self._control.step)

    @property
    def coefficients(self) -> list[int]:
        """Coefficients of the last finished step."""
        queries = self._control.queries
        return [queries[q].coefficient for q in range(self.settings.queries)]

    def resume(self, step: int, mean_square: int) -> None:
        """Resumes after a number of complete steps."""
        call("zo_control_resume", self._control, step, mean_square)

    def next(self) -> Request | None:
        """Returns the next request, or None after the last step."""
        request = self._request
        call("zo_control_next", self._control, self._words_at, self._words.size, request)
        if request.action == constants.ZO_ACTION_DONE:
            return None
        return Request(self._words, request.step, request.first_sample, request.start_segment)

    def report(self, losses: NDArray[np.int32]) -> StepReport | None:
        """Reports the losses of an invoke. Returns the step's report after its last invoke, else None.

        Args:
            losses: int32 [batch], or [parts * batch] for several parts of the minibatch.
        """
        report = self._report
        data = address("losses", losses, np.int32)
        parts, rest = divmod(losses.size, self._settings.batch)
        if parts > 1 and not rest:
            call("zo_control_report_all", self._control, parts, data, report)
        else:
            call("zo_control_report", self._control, data, losses.size, report)
        if not report.step_done:
            return None
        return StepReport(report.step, report.mean_loss / 65536, report.rate / 65536)

    @property
    def mean_loss(self) -> int:
        """Mean loss of the last finished step, unit 2^-16."""
        return int(self._report.mean_loss)

    def settle(self) -> NDArray[np.int32] | None:
        """Returns the command that applies the pending update between steps, or None without one."""
        pending = ctypes.c_uint32()
        call("zo_control_settle", self._control, self._words_at, self._words.size, ctypes.byref(pending))
        return self._words if pending.value else None

    def abandon(self, *, executed: bool) -> NDArray[np.int32]:
        """Aborts the step in progress. It starts again with the next request.

        Args:
            executed: True if the last request's command was executed without a report of its losses.

        Returns:
            The command that restores the weights of the last complete step.
        """
        call("zo_control_abandon", self._control, int(executed), self._words_at, self._words.size)
        return self._words

    @property
    def differences(self) -> NDArray[np.int64]:
        """Differences of the minibatch's losses for each query of the last finished or withdrawn step, int64
        [queries], unit 2^-16.
        """
        return np.array(self._control.difference[: self._settings.queries], np.int64)

    def withdraw(self, mean_square: int) -> NDArray[np.int32]:
        """Reverts the step that has just been finished, because a fleet computes it from several answers.
        `differences` and `mean_loss` remain.

        Args:
            mean_square: the running mean of d^2 before the step, unit 2^-32.

        Returns:
            The command that restores the weights before the step.
        """
        call("zo_control_withdraw", self._control, mean_square, self._words_at, self._words.size)
        return self._words

    def decide(self, d: NDArray[np.int64], mean_loss: int) -> StepReport:
        """Computes the next step from differences of other devices.

        Args:
            d: mean difference of each query over all samples, int64 [queries], unit 2^-16, -2^30..2^30.
            mean_loss: mean loss of the step, unit 2^-16.

        Returns:
            The step's report; its record is `coefficients`.

        Raises:
            NativeError: a difference is out of range, or the run has ended.
        """
        report = self._report
        call("zo_control_decide", self._control, address("d", d, np.int64), mean_loss, report)
        return StepReport(report.step, report.mean_loss / 65536, report.rate / 65536)

    def samples(self, first: int, count: int) -> NDArray[np.uint32]:
        """Returns the numbers of the training samples of an invoke, uint32 [count]."""
        numbers = np.empty(count, np.uint32)
        library().zo_samples_at(self._settings, first, numbers.size, numbers.ctypes.data)
        return numbers

    def rate(self, step: int) -> float:
        """Returns the learning rate of a step."""
        return int(library().zo_control_rate(self._settings, step, None)) / 65536


class BlockControl:
    """The state machine (``zo_block_choice``).

    Args:
        blocks: number of blocks, 1..2^32-1.

    Raises:
        NativeError: the number of blocks is 0.
    """

    def __init__(self, blocks: int) -> None:
        self._choice, self._request = structs.zo_block_choice(), structs.zo_block_request()
        call("zo_block_choice_init", self._choice, blocks)

    def next(self) -> int | None:
        """Returns the block to probe next; None after the last one, when `best` is final."""
        call("zo_block_choice_next", self._choice, self._request)
        probes = self._request.action == constants.ZO_BLOCK_PROBE
        return int(self._request.block) if probes else None

    def report(self, score: int) -> None:
        """Reports the score of the present probe, -2^63..2^63-1; larger is better.

        Raises:
            NativeError: every block has its score already.
        """
        call("zo_block_choice_report", self._choice, score)

    @property
    def best(self) -> int:
        """The best block so far."""
        return int(self._choice.best)
