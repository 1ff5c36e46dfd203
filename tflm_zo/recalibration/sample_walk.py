# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Samples on their way through a model that is recalibrated, in one place or in several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..converters import Model
from ..converters.rescale_channels import rescale_channels
from .layer_walk import LayerWalk
from .moments import Moments, cell_sums, moments_of
from .running_moments import corrected_layers

__all__ = ["Ask", "JointWalk", "PartOfWalk", "SampleWalk", "Walk"]

Cells = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Sums over the cells of images and each cell's pixels, as `moments.cell_sums` has them, of all samples."""

Call = tuple[str, tuple[Any, ...]]
"""A method of a `SampleWalk`, by its name, and its arguments."""

Ask = Callable[[list[Call]], list[Any]]
"""Does all calls of a walk so far in every place, those that it has done already not again, and returns what
the last one has given in each place."""


class Walk(Protocol):
    """What a recalibration asks of samples. Layers are numbered as `corrected_layers` has them, and are taken
    in this order.
    """

    @property
    def samples(self) -> int:
        """Number of samples."""

    def moments(self, number: int) -> Moments:
        """Moments of a layer's output, with the corrections so far."""

    def cells(self) -> Cells | None:
        """Sums over cells of the output of the layer at hand; None where it is no image."""

    def correct(
        self, number: int, factors: NDArray[np.float64], shifts: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Rescales a layer's channels as `rescale_channels` does, and returns what that returns."""

    def leave(self, number: int) -> None:
        """Goes past a layer, whose moments were asked for last."""


class SampleWalk:
    """Samples in one place.

    Args:
        model: plain model, whose layers are corrected.
        inputs: samples, as `prepared` returns them.
        runtime: name of the runtime that runs it.
        threads: number of threads of the runtime.
    """

    def __init__(self, model: Model, inputs: list[NDArray[Any]], runtime: str, threads: int = 1) -> None:
        self._graph, self._layers = model.subgraphs[0], corrected_layers(model)
        self._walk = LayerWalk(self._graph, inputs, runtime, threads)
        self._values: NDArray[np.int8] = np.zeros((0, 1), np.int8)
        self.samples = len(inputs[0])

    def count(self) -> int:
        """Number of samples, for a walk in several places."""
        return self.samples

    def moments(self, number: int) -> Moments:
        """See `Walk`."""
        layer = self._layers[number]
        self._walk.before(layer)
        self._values = self._walk.output(layer)
        return moments_of(self._values)

    def cells(self) -> Cells | None:
        """See `Walk`."""
        found = cell_sums(self._values)
        return None if found is None else (found[0].sum(axis=0), found[1])

    def correct(
        self, number: int, factors: NDArray[np.float64], shifts: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """See `Walk`."""
        return rescale_channels(self._graph, self._layers[number], factors, shifts)

    def leave(self, number: int) -> None:
        """See `Walk`."""
        self._walk.after(self._layers[number], self._values)


class PartOfWalk:
    """Some of the samples of a walk, in one of several places.

    Args:
        model: as for `SampleWalk`, like the other arguments.
        inputs: the samples.
        runtime: as for `SampleWalk`.
    """

    def __init__(self, model: Model, inputs: list[NDArray[Any]], runtime: str) -> None:
        self._walk, self._done, self._last = SampleWalk(model, inputs, runtime), 0, None

    def go(self, calls: list[Call]) -> Any:
        """Does the calls of a walk that it has not done yet, and returns what the last one gives."""
        for method, arguments in calls[self._done :]:
            self._last = getattr(self._walk, method)(*arguments)
            self._done += 1
        return self._last


class JointWalk:
    """Samples in several places, which send sums of channels: integers, so that the result is that of all
    samples in one place.

    Args:
        model: plain model, whose layers are corrected here, too.
        samples: number of samples in all places.
        ask: asks all places.
    """

    def __init__(self, model: Model, samples: int, ask: Ask) -> None:
        self._graph, self._layers = model.subgraphs[0], corrected_layers(model)
        self._ask, self._calls = ask, list[Call]()
        self.samples = samples

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        self._calls.append((method, arguments))
        return self._ask(self._calls)

    def moments(self, number: int) -> Moments:
        """See `Walk`."""
        total: Moments | None = None
        for moments in self._all("moments", number):
            total = moments if total is None else total + moments
        assert total is not None
        return total

    def cells(self) -> Cells | None:
        """See `Walk`."""
        found: Sequence[Cells | None] = self._all("cells")
        parts = [cells for cells in found if cells is not None]
        return (np.sum([sums for sums, _ in parts], axis=0), parts[0][1]) if parts else None

    def correct(
        self, number: int, factors: NDArray[np.float64], shifts: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """See `Walk`."""
        self._calls.append(("correct", (number, factors, shifts)))  # before the next moments are asked for
        return rescale_channels(self._graph, self._layers[number], factors, shifts)

    def leave(self, number: int) -> None:
        """See `Walk`."""
        self._calls.append(("leave", (number,)))
