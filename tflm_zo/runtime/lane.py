# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A lane: the segments of a model that pass some samples of an invoke on, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .segment import Segment

__all__ = ["Fed", "Found", "Lane", "Reader"]

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
