"""The pass of samples through a model that is recalibrated, in one place or in several."""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import runtime as runtimes
from ..converters import ConversionError, InjectSettings, Model
from ..converters.model import Operator, Subgraph, Tensor
from ..converters.passes.layer_names import layers_of
from ..converters.rescale_channels import layers_with_filters, rescale_channels, why_fixed
from ..converters.states import is_streaming
from ..data import Inputs, Samples, prepare_samples
from ..training.evaluation import every_output
from ..training.injection import inject_plain
from .moments import Moments, cell_sums, moments_of


def _untrained(model: Model) -> Model:
    """Injects a plain model without trainable tensors, so that a runtime can run it."""
    return inject_plain(model, InjectSettings(trainable="none", loss="none"))


def prepared(model: Model, x: Samples) -> list[NDArray[Any]]:
    """Returns samples in the form of a plain model's inputs, [samples, ...] for each; raises DataError for others."""
    return prepare_samples(Inputs(_untrained(model)), x)


def outputs_of(part: Subgraph, inputs: list[NDArray[Any]], runtime: str, threads: int = 1) -> list[NDArray[Any]]:
    """Returns the outputs of a part of a plain model, a model of its own, for every sample, [samples, ...] each.

    Raises:
        ConversionError: an output mixes samples.
    """
    for tensor in part.outputs:
        if tensor.shape[:1] != part.inputs[0].shape[:1]:
            raise ConversionError(
                f"`{tensor.name}` of shape {list(tensor.shape)} does not have the batch as its first "
                "dimension, so samples cannot be told apart there"
            )
    loaded = runtimes.load(_untrained(Model(subgraphs=[part])), runtime, threads=threads)
    return every_output(loaded, inputs)


def corrected_layers(model: Model) -> list[Operator]:
    """Returns the layers that recalibration corrects, in execution order. ConversionError: there is none."""
    if is_streaming(model):
        raise ConversionError("a streaming model cannot be recalibrated: its activations depend on earlier steps")
    layers = layers_with_filters(model)
    graph = model.subgraphs[0]
    found = [op for op in layers if why_fixed(graph, op) is None]
    if not found:
        reasons = dict.fromkeys(f"{op.label}: {why_fixed(graph, op)}" for op in layers)
        raise ConversionError(
            "the model has no layer that could be recalibrated"
            + (f" ({'; '.join(reasons)})" if reasons else ", for none has a filter")
        )
    return found


def corrected_names(model: Model) -> list[str]:
    """Returns the names of the layers that recalibration corrects, in the order of `corrected_layers`."""
    names = layers_of(model.subgraphs[0].operators)
    return [names[op] for op in corrected_layers(model)]


def layer_outputs(
    model: Model, layers: Sequence[Operator], x: Samples, runtime: str, threads: int = 1
) -> list[NDArray[Any]]:
    """Returns outputs of layers of a model, int8 [samples, ...] each. Operators after the last layer do not run."""
    graph = model.subgraphs[0]
    until = max(graph.operators.index(op) for op in layers) + 1
    outputs = [op.outputs[0] for op in layers]
    part = Subgraph("layers", [], list(graph.inputs), outputs, graph.operators[:until])
    return outputs_of(part, prepared(model, x), runtime, threads)


Cells = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Sums over the cells of images and each cell's pixels, as `moments.cell_sums` has them, of all samples."""

Call = tuple[str, tuple[Any, ...]]
"""A method of a `SampleWalk`, by its name, and its arguments."""

Ask = Callable[[list[Call]], list[Any]]
"""Does all calls of a walk so far in every place, those that it has done already not again, and returns what
the last one has given in each place."""


class Walk(ABC):
    """The pass of samples that a recalibration needs. Layers have the numbers and the order of `corrected_layers`.

    Attributes:
        samples: number of samples.
    """

    def __init__(self, model: Model, samples: int) -> None:
        self._graph, self._layers, self.samples = model.subgraphs[0], corrected_layers(model), samples

    @abstractmethod
    def moments(self, number: int) -> Moments:
        """Returns the moments of a layer's output after the corrections so far."""

    @abstractmethod
    def cells(self) -> Cells | None:
        """Returns sums over cells of the present layer's output; None if it is no image."""

    def correct(self, number: int, factors: NDArray[np.float64], shifts: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Rescales a layer's channels; see `rescale_channels`."""
        return rescale_channels(self._graph, self._layers[number], factors, shifts)

    @abstractmethod
    def leave(self, number: int) -> None:
        """Advances past the present layer."""


class SampleWalk(Walk):
    """The walk of samples, as `prepared` returns them, in one place.

    Each operator runs once for each sample. The memory holds, for all samples, the tensors that the rest of the model
    reads.
    """

    def __init__(self, model: Model, inputs: list[NDArray[Any]], runtime: str, threads: int = 1) -> None:
        super().__init__(model, len(inputs[0]))
        self._runtime, self._threads = runtime, threads
        self._live = dict(zip(self._graph.inputs, inputs, strict=True))
        self._next = 0  # operator
        self._values: NDArray[np.int8] = np.zeros((0, 1), np.int8)

    def count(self) -> int:
        """Returns the number of samples."""
        return self.samples

    def moments(self, number: int) -> Moments:
        """See `Walk`."""
        layer = self._layers[number]
        position = self._graph.operators.index(layer)
        todo = self._graph.operators[self._next : position]
        self._next = position
        made = {t: None for op in todo for t in op.outputs}
        kept = [t for t in made if self._is_read_later(t)]
        if kept:
            self._live.update(zip(kept, self._run(todo, kept), strict=True))
        self._live = {t: values for t, values in self._live.items() if self._is_read_later(t)}
        self._values = self._run([layer], layer.outputs[:1])[0]
        return moments_of(self._values)

    def cells(self) -> Cells | None:
        """See `Walk`."""
        found = cell_sums(self._values)
        return None if found is None else (found[0].sum(axis=0), found[1])

    def leave(self, number: int) -> None:
        """See `Walk`."""
        self._next += 1
        self._live[self._layers[number].outputs[0]] = self._values

    def _is_read_later(self, tensor: Tensor) -> bool:
        return any(tensor in op.inputs for op in self._graph.operators[self._next :])

    def _run(self, operators: list[Operator], outputs: Sequence[Tensor]) -> list[NDArray[Any]]:
        inputs = [t for t in self._live if any(t in op.inputs for op in operators)]
        part = Subgraph("part", [], inputs, list(outputs), operators)
        return outputs_of(part, [self._live[t] for t in inputs], self._runtime, self._threads)


class PartOfWalk:
    """The samples of one of several places of a walk."""

    def __init__(self, model: Model, inputs: list[NDArray[Any]], runtime: str) -> None:
        self._walk, self._done, self._last = SampleWalk(model, inputs, runtime), 0, None

    def go(self, calls: list[Call]) -> Any:
        """Executes the new calls of a walk, and returns the result of the last one."""
        for method, arguments in calls[self._done :]:
            self._last = getattr(self._walk, method)(*arguments)
            self._done += 1
        return self._last


class JointWalk(Walk):
    """The walk of samples in several places, which `ask` sends requests and which return integer sums of channels. The
    result is the same as with all samples in one place.
    """

    def __init__(self, model: Model, samples: int, ask: Ask) -> None:
        super().__init__(model, samples)
        self._ask, self._calls = ask, list[Call]()

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        self._calls.append((method, arguments))
        return self._ask(self._calls)

    def moments(self, number: int) -> Moments:
        """See `Walk`."""
        total: Moments = functools.reduce(operator.add, self._all("moments", number))
        return total

    def cells(self) -> Cells | None:
        """See `Walk`."""
        found: Sequence[Cells | None] = self._all("cells")
        parts = [cells for cells in found if cells is not None]
        return (np.sum([sums for sums, _ in parts], axis=0), parts[0][1]) if parts else None

    def correct(self, number: int, factors: NDArray[np.float64], shifts: NDArray[np.float64]) -> NDArray[np.bool_]:
        """See `Walk`."""
        self._calls.append(("correct", (number, factors, shifts)))  # before the next moments are asked for
        return super().correct(number, factors, shifts)

    def leave(self, number: int) -> None:
        """See `Walk`."""
        self._calls.append(("leave", (number,)))
