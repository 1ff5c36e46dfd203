# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The control unit of the C core (``ops/core/run/zo_control.h``), from Python.

Nothing is decided here: the state machine is the one that firmware runs.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import native
from .native import MAX_QUERIES, NativeError

__all__ = ["CSettings", "Control", "Request", "StepReport", "command_words", "samples_in_order"]

_u32, _i64 = ctypes.c_uint32, ctypes.c_int64


class CSettings(ctypes.Structure):
    """``zo_control_settings``: every field an integer."""

    _fields_ = [
        ("run_seed", _u32),
        ("steps", _u32),
        ("samples", _u32),
        ("batch", _u32),
        ("parts", _u32),
        ("queries", _u32),
        ("estimator", _u32),
        ("rule", _u32),
        ("distribution", native._Distribution),
        ("rate", _u32),
        ("final_rate", _u32),
        ("schedule", _u32),
        ("warmup_steps", _u32),
        ("decay", _u32),
        ("decay_steps", _u32),
        ("clip", _u32),
        ("gradient_norm", _u32),
        ("blocks", _u32),
        ("stage_steps", _u32 * 2),
        ("stage_p_zero", _u32),
        ("momentum", _u32),
        ("sharpness", _u32),
    ]

    def as_bytes(self) -> bytes:
        """For comparison."""
        return bytes(self)


class _Query(ctypes.Structure):
    _fields_ = [("seed", _u32), ("coefficient", ctypes.c_int32)]


class CControl(ctypes.Structure):
    """``zo_control``."""

    _fields_ = [
        ("settings", ctypes.POINTER(CSettings)),
        ("block_segments", ctypes.c_void_p),
        ("step", _u32),
        ("query", _u32),
        ("phase", _u32),
        ("part", _u32),
        ("pending", _u32),
        ("based", _u32),
        ("ascent", ctypes.c_int32),
        ("base", _i64),
        ("plus", _i64),
        ("minus", _i64),
        ("total", _i64),
        ("mean_square", _i64),
        ("difference", _i64 * MAX_QUERIES),
        ("queries", _Query * MAX_QUERIES),
    ]


class _Request(ctypes.Structure):
    _fields_ = [("action", _u32), ("step", _u32), ("first_sample", _u32), ("start_segment", _u32)]


class _Report(ctypes.Structure):
    _fields_ = [("step_done", _u32), ("step", _u32), ("mean_loss", ctypes.c_int32), ("rate", _u32)]


@dataclass(frozen=True)
class Request:
    """An invoke to make.

    Attributes:
        words: int32 [capacity], for ``zo_command``; reused by the next request.
        step: number of the step.
        first_sample: position of the first sample, see `Control.samples`.
        start_segment: first segment to run.
    """

    words: NDArray[np.int32]
    step: int
    first_sample: int
    start_segment: int


@dataclass(frozen=True)
class StepReport:
    """A finished step: its number, mean loss in nats, and rate."""

    step: int
    loss: float
    rate: float


@lru_cache(maxsize=1)
def _library() -> Any:
    library = native.library()
    control, settings, pointer = ctypes.POINTER(CControl), ctypes.POINTER(CSettings), ctypes.c_void_p
    prototypes: dict[str, tuple[Any, list[Any]]] = {
        "zo_control_init": (ctypes.c_int, [control, settings, pointer]),
        "zo_control_resume": (ctypes.c_int, [control, _u32, _i64]),
        "zo_control_next": (ctypes.c_int, [control, pointer, _u32, ctypes.POINTER(_Request)]),
        "zo_control_report": (ctypes.c_int, [control, pointer, _u32, ctypes.POINTER(_Report)]),
        "zo_control_settle": (ctypes.c_int, [control, pointer, _u32, ctypes.POINTER(_u32)]),
        "zo_control_abandon": (ctypes.c_int, [control, _u32, pointer, _u32]),
        "zo_samples_at": (None, [settings, _u32, _u32, pointer]),
        "zo_control_words": (_u32, [settings]),
        "zo_control_rate": (_u32, [settings, _u32]),
    }
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _call(name: str, *arguments: object) -> None:
    status = getattr(_library(), name)(*arguments)
    if status != 0:
        raise NativeError(name, status)


def command_words(settings: CSettings) -> int:
    """Words that a command of a run takes at most."""
    return int(_library().zo_control_words(ctypes.byref(settings)))


def samples_in_order(seed: int, samples: int, count: int) -> NDArray[np.uint32]:
    """Numbers of the first samples of a run's first epoch (``zo_sample_at``).

    Args:
        seed: of the run.
        samples: in the training set, >= 1.
        count: of those wanted.

    Returns:
        uint32 [count].
    """
    numbers = np.empty(count, np.uint32)
    settings = CSettings(run_seed=seed, samples=samples)
    _library().zo_samples_at(ctypes.byref(settings), 0, count, numbers.ctypes.data)
    return numbers


class Control:
    """A run's state machine.

    Args:
        settings: from `TrainSettings.as_integers` or a seed log.
        capacity: words of the model's ``zo_command``.
        block_segments: segment of each block.

    Raises:
        NativeError: settings out of range, or a command that the capacity does not hold.
    """

    def __init__(self, settings: CSettings, capacity: int, block_segments: list[int]) -> None:
        self._segments = (ctypes.c_uint8 * max(1, len(block_segments)))(*block_segments)
        self._control = CControl()
        self._settings = CSettings.from_buffer_copy(settings)  # the control unit keeps where it is
        _call(
            "zo_control_init",
            ctypes.byref(self._control),
            ctypes.byref(self._settings),
            ctypes.addressof(self._segments),
        )
        needed = command_words(settings)
        if capacity < needed:
            raise ValueError(
                f"the model's zo_command holds {capacity} words and this run needs {needed}: inject with "
                f"command_words={needed}"
            )
        self._words = np.zeros(capacity, np.int32)
        self._request, self._report = _Request(), _Report()

    @property
    def settings(self) -> CSettings:
        """The run's settings."""
        return self._settings

    @property
    def address(self) -> int:
        """Address of the ``zo_control``."""
        return ctypes.addressof(self._control)

    @property
    def step(self) -> int:
        """Steps finished."""
        return int(self._control.step)

    @property
    def coefficients(self) -> list[int]:
        """Of the step that was finished last."""
        queries = self._control.queries
        return [queries[q].coefficient for q in range(self.settings.queries)]

    def resume(self, step: int, mean_square: int) -> None:
        """Goes on after so many whole steps."""
        _call("zo_control_resume", ctypes.byref(self._control), step, mean_square)

    def next(self) -> Request | None:
        """The next invoke, or None where the run is over."""
        words, request = self._words, self._request
        _call(
            "zo_control_next",
            ctypes.byref(self._control),
            words.ctypes.data,
            words.size,
            ctypes.byref(request),
        )
        if request.action == 0:
            return None
        return Request(words, request.step, request.first_sample, request.start_segment)

    def report(self, losses: NDArray[np.int32]) -> StepReport | None:
        """Takes the losses of the invoke; the step's report where it finished one."""
        report = self._report
        _call(
            "zo_control_report",
            ctypes.byref(self._control),
            losses.ctypes.data,
            losses.size,
            ctypes.byref(report),
        )
        if not report.step_done:
            return None
        return StepReport(report.step, report.mean_loss / 65536, report.rate / 65536)

    @property
    def mean_loss(self) -> int:
        """Of the step that was finished last, unit 2^-16."""
        return int(self._report.mean_loss)

    def settle(self) -> NDArray[np.int32] | None:
        """The command that applies what is pending between steps, or None where nothing is."""
        pending = _u32()
        _call(
            "zo_control_settle",
            ctypes.byref(self._control),
            self._words.ctypes.data,
            self._words.size,
            ctypes.byref(pending),
        )
        return self._words if pending.value else None

    def abandon(self, *, executed: bool) -> NDArray[np.int32]:
        """Gives up the step in progress, which begins anew with the next request.

        Args:
            executed: whether the last request's command has been, without its losses having been reported.

        Returns:
            The command that makes the weights those of the last whole step.
        """
        words = self._words
        _call("zo_control_abandon", ctypes.byref(self._control), int(executed), words.ctypes.data, words.size)
        return words

    def samples(self, first: int) -> NDArray[np.uint32]:
        """Numbers of the training samples of an invoke, uint32 [batch]."""
        numbers = np.empty(self.settings.batch, np.uint32)
        _library().zo_samples_at(ctypes.byref(self._settings), first, numbers.size, numbers.ctypes.data)
        return numbers

    def rate(self, step: int) -> float:
        """Rate of a step."""
        return int(_library().zo_control_rate(ctypes.byref(self._settings), step)) / 65536
