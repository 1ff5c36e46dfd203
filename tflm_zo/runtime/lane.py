"""The interface that each runtime implements, and lanes: the segments of a model for a number of samples.

An invoke takes the lane that has as many samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import Directory, without_instructions

Reader: TypeAlias = Callable[[], NDArray[Any]]
"""Returns a copy of an output that an engine has computed."""


class Fed(NamedTuple):
    """What an invoke reads.

    Attributes:
        words: words of the command.
        inputs: original inputs by their numbers, [samples, ...].
        labels: labels, [samples, ...], or None.
        entering: activations by the segments that they enter, [samples, ...].
    """

    words: NDArray[np.int32]
    inputs: Mapping[int, NDArray[Any]]
    labels: NDArray[Any] | None
    entering: Mapping[int, NDArray[Any]]


@dataclass
class Found:
    """What an invoke has computed, each [samples, ...].

    Attributes:
        entering: activations by the segments that they enter.
        outputs: readers of the original outputs, by their numbers: training needs none of them.
        losses: losses, int32 [samples], unit 2^-16, or None if the last segment was not run or has no loss.
    """

    entering: dict[int, NDArray[Any]] = field(default_factory=dict)
    outputs: dict[int, Reader] = field(default_factory=dict)
    losses: NDArray[np.int32] | None = None

    def kept(self) -> Found:
        """The same, where the engines go on to other samples."""
        return Found(self.entering, {i: read().copy for i, read in self.outputs.items()}, self.losses)

    @classmethod
    def of_all(cls, parts: Sequence[Found]) -> Found:
        """What parts of the samples, in their order, have led to."""
        first = parts[0]
        losses = [part.losses for part in parts if part.losses is not None]
        return cls(
            {k: np.concatenate([part.entering[k] for part in parts]) for k in first.entering},
            {i: np.concatenate([part.outputs[i]() for part in parts]).copy for i in first.outputs},
            np.concatenate(losses) if losses else None,
        )


def _rows(values: NDArray[Any], first: int, count: int) -> NDArray[Any]:
    """Rows from `first` on; where there are too few, they begin again with row 0."""
    if first + count <= len(values):
        return values if count == len(values) else values[first : first + count]
    return values[np.arange(first, first + count) % len(values)]


class Lane:
    """Segments for a fixed number of samples.

    Args:
        samples: number of samples.
        count: number of segments.
        open_segment: loads a segment by its number; called once for each that is run.
    """

    def __init__(self, samples: int, count: int, open_segment: Callable[[int], Segment]) -> None:
        self.samples = samples
        self._held: dict[tuple[int, int], object] = {}  # what an input of an engine was set to
        self._segments: list[Segment | None] = [None] * count
        self._open = open_segment

    def segments(self, start: int, stop: int) -> list[Segment]:
        """Returns the segments from `start` to before `stop`."""
        return [self.segment(k) for k in range(start, stop)]

    def segment(self, k: int) -> Segment:
        """Returns a segment, and loads it before it is used first."""
        found = self._segments[k]
        if found is None:
            found = self._segments[k] = self._open(k)
        return found

    def run(self, start: int, stop: int, fed: Fed, first: int = 0) -> Found:
        """Passes samples `first`, `first` + 1, … through the segments from `start` to before `stop`.

        Of what was fed for fewer samples than an invoke has, the rows are repeated: queries share the inputs
        and labels of a minibatch.
        """
        found = Found()
        for k in range(start, stop):
            segment = self.segment(k)
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
            # What was fed once is still there, in engines that keep it, for the other side of a query.
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
    """Passes any number of samples through a model's segments.

    Args:
        own: lane of the segments that have the weights.
        make: makes a lane for so many samples whose segments read the weights of `own`, or returns None where
            the model cannot pass so many; None where the runtime has no such lanes.
    """

    def __init__(self, own: Lane, make: Callable[[int], Lane | None] | None) -> None:
        self._own, self._make = own, make
        self._made: dict[int, Lane | None] = {own.samples: own}

    def of(self, samples: int) -> Lane:
        """Returns the lane that passes so many samples on: in one run, or else whole batches one after the
        other.

        Raises:
            ValueError: the model can be run with whole batches alone, and these are none.
        """
        if samples not in self._made:
            self._made[samples] = None if self._make is None else self._make(samples)
        found = self._made[samples]
        if found is None and samples % self._own.samples:
            raise ValueError(f"expected a multiple of the model's {self._own.samples} samples, got {samples}")
        return found or self._own

    @staticmethod
    def run(lane: Lane, samples: int, start: int, stop: int, fed: Fed) -> Found:
        """Runs the segments from `start` to before `stop`; the command is executed once."""
        if samples == lane.samples:
            return lane.run(start, stop, fed)
        parts = [lane.run(start, stop, fed).kept()]
        fed = fed._replace(words=without_instructions(fed.words))
        parts += [
            lane.run(start, stop, fed, first).kept() for first in range(lane.samples, samples, lane.samples)
        ]
        return Found.of_all(parts)


def begin_with(
    start: int,
    boundary: NDArray[Any] | Mapping[int, NDArray[Any]] | None,
    needed: Mapping[int, tuple[tuple[int, ...], np.dtype[Any]]],
    kept: Collection[int],
) -> dict[int, NDArray[Any]]:
    """Returns the activations that were given, checked, by the segments that they enter.

    Args:
        start: number of the first segment of the run.
        boundary: activation that enters it, or activations by the segments that they enter.
        needed: shape, for a batch, and dtype of each activation that the run reads and does not compute.
            Those that are given may be of any number of samples.
        kept: segments whose entering activation was kept by an earlier run.

    Raises:
        ValueError: an activation is missing, is not read, or has another shape or dtype.
    """
    if start == 0 and boundary is not None:
        raise ValueError("boundary: segment 0 has none; it reads the inputs")
    given: Mapping[int, NDArray[Any]] = {}
    if boundary is not None:
        given = boundary if isinstance(boundary, Mapping) else {start: boundary}
    for k in needed:
        if k not in given and k not in kept:
            raise ValueError(f"boundary: segment {k - 1} has not run yet, so it must be given")
    values = {}
    for k, activation in given.items():
        if k not in needed:
            raise ValueError(f"boundary: a run from segment {start} on reads {list(needed)}, not {k}")
        shape, dtype = needed[k]
        value = np.asarray(activation)
        if value.shape[1:] != shape[1:] or value.dtype != dtype or not value.size:
            raise ValueError(
                f"boundary: expected {dtype} [samples, {', '.join(map(str, shape[1:]))}], "
                f"got {value.dtype} {list(value.shape)}"
            )
        values[k] = np.ascontiguousarray(value)
    return values


class RuntimeUnavailableError(ImportError):
    """The runtime asked for is not installed; the message says what installs it."""


class InvokeError(RuntimeError):
    """The interpreter stopped with an error; the message carries its own words."""


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
        """Runs the model once.

        Raises:
            InvokeError: an operator failed.
        """

    @abstractmethod
    def input_details(self, index: int) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Returns shape, dtype, scale and zero point of input `index` (0.0 and 0 if not quantized)."""

    @abstractmethod
    def output_details(self, index: int) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Returns shape, dtype, scale and zero point of output `index` (0.0 and 0 if not quantized)."""


@dataclass(frozen=True)
class Segment:
    """One segment in its interpreter; numbers index its inputs and outputs, None where it has none."""

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
    """Diagnostics of the last invoke (``zo_status``).

    Attributes:
        steps: steps applied since the weights were initialized or all restored, replayed ones included.
        saturated: number of weights that the last invoke clipped to the headroom.
        checksum: checksum of all trainable weights and fractions after the last invoke's weight ops, where
            the command asked for it, else 0; it does not depend on the model's cuts.
    """

    steps: int
    saturated: int
    checksum: int

    @classmethod
    def of(cls, words: NDArray[np.int64]) -> Status:
        """Sums the ``zo_status`` of segments up, [segments, 4]."""
        steps = int(words[:, 1].max(initial=0))
        return cls(steps, int(words[:, 2].sum()), int(words[:, 3].sum()) & 0xFFFFFFFF)
