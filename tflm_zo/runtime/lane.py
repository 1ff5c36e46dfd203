"""The interface that each runtime implements, and lanes: the segments of a model for a fixed number of samples. An
invoke uses the lane of its number samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import OVER_SUM, Directory, continued, join_losses, without_instructions

Reader: TypeAlias = Callable[[], NDArray[Any]]
"""Returns a copy of an output that an engine has computed."""


class Fed(NamedTuple):
    """The inputs of an invoke; arrays are [samples, ...]."""

    words: NDArray[np.int32]  # words of the command
    inputs: Mapping[int, NDArray[Any]]  # original inputs by their numbers
    labels: NDArray[Any] | None
    entering: Mapping[int, NDArray[Any]]  # activations by the segment that they enter
    #: steps of a sequence: inputs and labels are [samples, steps, ...] if there are several
    steps: int = 1
    over: int = OVER_SUM  # how losses of steps are joined

    def at(self, step: int) -> Fed:
        """Returns the inputs of a step; each step but the first continues from the state of the one before."""
        if self.steps == 1:
            return self
        labels = None if self.labels is None else self.labels[:, step]
        inputs = {i: x[:, step] for i, x in self.inputs.items()}
        return Fed(continued(self.words) if step else self.words, inputs, labels, self.entering)


@dataclass
class Found:
    """The results of an invoke, each [samples, ...]."""

    # activations by the segment that they enter
    entering: dict[int, NDArray[Any]] = field(default_factory=dict)
    # functions that read the original outputs, by number; training reads none
    outputs: dict[int, Reader] = field(default_factory=dict)
    # losses, int32 [samples], unit 2^-16; None if the last segment was not run or has no loss
    losses: NDArray[np.int32] | None = None

    def kept(self) -> Found:
        """Returns a copy that stays valid when the engines run other samples."""
        return Found(self.entering, {i: read().copy for i, read in self.outputs.items()}, self.losses)

    @classmethod
    def of_all(cls, parts: Sequence[Found]) -> Found:
        """Joins the results of consecutive parts of the samples."""
        first = parts[0]
        losses = [part.losses for part in parts if part.losses is not None]
        return cls(
            {k: np.concatenate([part.entering[k] for part in parts]) for k in first.entering},
            {i: np.concatenate([part.outputs[i]() for part in parts]).copy for i in first.outputs},
            np.concatenate(losses) if losses else None,
        )


def _rows(values: NDArray[Any], first: int, count: int) -> NDArray[Any]:
    """Returns `count` rows from `first` on; after the last row it starts again with row 0."""
    if first + count <= len(values):
        return values if count == len(values) else values[first : first + count]
    return values[np.arange(first, first + count) % len(values)]


class Lane:
    """Segments for a fixed number of samples. `open_segment` loads one by its number, when it runs first."""

    def __init__(self, samples: int, open_segment: Callable[[int], Segment]) -> None:
        self.samples = samples
        self._held: dict[tuple[int, int], object] = {}  # the present value of an engine's input
        self._segments: dict[int, Segment] = {}
        self._open = open_segment

    def segments(self, start: int, stop: int) -> list[Segment]:
        """Returns the segments `start` to `stop - 1`; each one is loaded before the first use."""
        for k in range(start, stop):
            if k not in self._segments:
                self._segments[k] = self._open(k)
        return [self._segments[k] for k in range(start, stop)]

    def run(self, start: int, stop: int, fed: Fed, first: int = 0) -> Found:
        """Runs the segments `start` to `stop - 1` on samples `first`, `first` + 1, …; sequences step by step.

        Rows of inputs and labels repeat if there are fewer than samples, because queries share those of a minibatch.
        """
        if fed.steps == 1:
            return self._run_step(start, stop, fed, first)
        losses: NDArray[np.int32] | None = None
        outputs: dict[int, list[NDArray[Any]]] = {}
        for step in range(fed.steps):
            now = fed.at(step)
            found = self._run_step(start, stop, now, first)
            for i, read in found.outputs.items():
                outputs.setdefault(i, []).append(read())
            if found.losses is not None:
                labels = None if now.labels is None else _rows(now.labels, first, self.samples)
                losses = join_losses(fed.over, labels, found.losses, losses)
        if losses is not None:
            np.maximum(losses, 0, out=losses)  # -1: no step has a label
        return Found({}, {i: partial(np.stack, steps, 1) for i, steps in outputs.items()}, losses)

    def _run_step(self, start: int, stop: int, fed: Fed, first: int) -> Found:
        found = Found()
        for k, segment in enumerate(self.segments(start, stop), start):
            self._feed(segment, k, fed, found, first)
            segment.engine.invoke()
            if segment.boundary_output is not None:
                found.entering[k + 1] = segment.engine.get_output(segment.boundary_output)
            for original, index in segment.outputs.items():
                found.outputs[original] = partial(segment.engine.get_output, index)
            if segment.loss is not None:
                found.losses = segment.engine.get_output(segment.loss)
        return found

    def _feed(self, segment: Segment, k: int, fed: Fed, found: Found, first: int) -> None:
        def original(index: int, source: object, values: NDArray[Any]) -> None:
            # Engines that keep their inputs still have them for the other side of a query.
            is_whole = segment.engine.keeps_inputs and len(values) == self.samples
            if is_whole and self._held.get((k, index)) is source:
                return
            self._held[k, index] = source if is_whole else None
            segment.engine.set_input(index, _rows(values, first, self.samples))

        def enter(index: int, entered: int) -> None:
            own = found.entering.get(entered)
            values = _rows(fed.entering[entered], first, self.samples) if own is None else own
            segment.engine.set_input(index, values)

        for number, index in segment.inputs.items():
            original(index, fed.inputs, fed.inputs[number])
        if segment.boundary_input is not None:
            enter(segment.boundary_input, k)
        for earlier, index in segment.skips.items():
            enter(index, earlier)
        if segment.label is not None and fed.labels is not None:
            original(segment.label, fed.labels, fed.labels)
        if segment.command is not None:
            segment.engine.set_input(segment.command, fed.words)


class Lanes:
    """Runs a model's segments on any number of samples. `own` is the lane of the segments that own the weights. `make`
    creates a lane for a number of samples, whose segments read the weights of `own`, or returns None if the model does
    not support that number; it is None if the runtime has no other lanes.
    """

    def __init__(self, own: Lane, make: Callable[[int], Lane | None] | None) -> None:
        self._own, self._make = own, make
        self._made: dict[int, Lane | None] = {own.samples: own}

    def of(self, samples: int) -> Lane:
        """Returns the lane for a number of samples: one run for all, or batches one after the other. Raises ValueError
        if the model supports only whole batches, and the number is no multiple of the batch.
        """
        if samples not in self._made:
            self._made[samples] = None if self._make is None else self._make(samples)
        found = self._made[samples]
        if found is None and samples % self._own.samples:
            raise ValueError(
                f"The number of samples must be a multiple of {self._own.samples}, the batch. Received: {samples}."
            )
        return found or self._own

    @staticmethod
    def run(lane: Lane, samples: int, start: int, stop: int, fed: Fed) -> Found:
        """Runs the segments `start` to `stop - 1`. The command is executed once."""
        if samples == lane.samples:
            return lane.run(start, stop, fed)
        parts = [lane.run(start, stop, fed).kept()]
        fed = fed._replace(words=without_instructions(fed.words))
        parts += [lane.run(start, stop, fed, first).kept() for first in range(lane.samples, samples, lane.samples)]
        return Found.of_all(parts)


class RuntimeUnavailableError(ImportError):
    """The runtime is not installed; the message has the command that installs it."""


class InvokeError(RuntimeError):
    """The interpreter stopped with an error; the message quotes it."""


class Engine(ABC):
    """One standalone, single-subgraph model in one interpreter."""

    keeps_inputs: ClassVar[bool] = False
    """True if inputs are after an invoke what they were before it."""

    @abstractmethod
    def set_input(self, index: int, value: NDArray[Any]) -> None:
        """Copies `value`, of the input's shape and dtype, into input `index`."""

    @abstractmethod
    def get_output(self, index: int) -> NDArray[Any]:
        """Returns a copy of output `index`."""

    @abstractmethod
    def invoke(self) -> None:
        """Runs the model once. Raises InvokeError if an operator failed."""


@dataclass(frozen=True)
class Segment:
    """One segment in its interpreter. Numbers index its inputs and outputs; None if it has none."""

    engine: Engine
    directory: Directory
    inputs: dict[int, int]  # original input -> input of the segment
    outputs: dict[int, int]  # original output -> output of the segment
    boundary_input: int | None
    skips: dict[int, int]  # segment that a boundary entered -> input of this segment
    boundary_output: int | None
    label: int | None
    command: int | None
    loss: int | None
    status: int | None


@dataclass(frozen=True)
class Status:
    """Diagnostics of the last invoke (``zo_status``)."""

    steps: int  #: number of steps, replayed ones included, since the weights were initialized or all restored.
    saturated: int  #: number of weights that the last invoke clamped to the headroom.
    #: checksum of all trainable weights and fractions after the last invoke's weight ops if the command requested it,
    #: else 0. It does not depend on the model's cuts.
    checksum: int

    @classmethod
    def of(cls, words: NDArray[np.int64]) -> Status:
        """Adds up the ``zo_status`` of all segments, [segments, 4]."""
        steps = int(words[:, 1].max(initial=0))
        return cls(steps, int(words[:, 2].sum()), int(words[:, 3].sum()) & 0xFFFFFFFF)
