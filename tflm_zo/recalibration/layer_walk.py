# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Samples that pass through a model operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import runtime as runtimes
from ..converters import ConversionError, InjectSettings, Model
from ..converters.model import Operator, Subgraph, Tensor
from ..data import Inputs, Samples, prepare_samples
from ..training.evaluation import every_output
from ..training.injection import inject_plain

__all__ = ["LayerWalk", "outputs_of", "prepared"]


def _untrained(model: Model) -> Model:
    """Returns a ZO model that computes what a plain one does, and trains nothing."""
    return inject_plain(model, InjectSettings(trainable="none", loss="none"))


def prepared(model: Model, x: Samples) -> list[NDArray[Any]]:
    """Returns samples as a plain model takes them, [samples, ...] for each input.

    Raises:
        DataError: the samples cannot be used.
    """
    return prepare_samples(Inputs(_untrained(model)), x)


def outputs_of(
    part: Subgraph, inputs: list[NDArray[Any]], runtime: str, threads: int = 1
) -> list[NDArray[Any]]:
    """Returns the outputs of a part of a plain model for every sample, [samples, ...] each.

    Args:
        part: operators of the model, with the tensors that they read as inputs.
        inputs: values of these tensors, [samples, ...] each.
        runtime: name of the runtime that runs the part.
        threads: number of threads.

    Raises:
        ConversionError: samples cannot be told apart in an output.
    """
    for tensor in part.outputs:
        if tensor.shape[:1] != part.inputs[0].shape[:1]:
            raise ConversionError(
                f"`{tensor.name}` of shape {list(tensor.shape)} does not have the batch as its first "
                "dimension, so samples cannot be told apart there"
            )
    loaded = runtimes.load(_untrained(Model(subgraphs=[part])), runtime, threads=threads)
    return every_output(loaded, inputs)


class LayerWalk:
    """All samples at one place of a model: the tensors that the rest of it reads.

    Each operator runs once for each sample, however many layers are looked at on the way. The memory is that
    of these tensors for all samples.

    Args:
        graph: graph of a plain int8 model. Operators that have not run may be changed on the way.
        inputs: samples, as `tflm_zo.data.prepare_samples` returns them, [samples, ...] for each input.
        runtime: name of the runtime that runs the operators.
        threads: number of threads.
    """

    def __init__(
        self, graph: Subgraph, inputs: Sequence[NDArray[Any]], runtime: str, threads: int = 1
    ) -> None:
        self._graph, self._runtime, self._threads = graph, runtime, threads
        self._live = dict(zip(graph.inputs, inputs, strict=True))
        self._next = 0

    def before(self, layer: Operator) -> None:
        """Runs all operators before a layer."""
        position = self._graph.operators.index(layer)
        todo = self._graph.operators[self._next : position]
        self._next = position
        if todo:
            made = {t: None for op in todo for t in op.outputs}
            kept = [t for t in made if self._is_read_later(t)]
            if kept:
                self._live.update(zip(kept, self._run(todo, kept), strict=True))
        self._live = {t: values for t, values in self._live.items() if self._is_read_later(t)}

    def output(self, layer: Operator) -> NDArray[np.int8]:
        """Runs the layer that `before` has led to, and returns its output, int8 [samples, ...]."""
        return self._run([layer], layer.outputs[:1])[0]

    def after(self, layer: Operator, values: NDArray[np.int8]) -> None:
        """Goes past the layer, whose output has these values."""
        self._next += 1
        self._live[layer.outputs[0]] = values

    def _is_read_later(self, tensor: Tensor) -> bool:
        return any(tensor in op.inputs for op in self._graph.operators[self._next :])

    def _run(self, operators: list[Operator], outputs: Sequence[Tensor]) -> list[NDArray[Any]]:
        inputs = [t for t in self._live if any(t in op.inputs for op in operators)]
        part = Subgraph("part", [], inputs, list(outputs), operators)
        return outputs_of(part, [self._live[t] for t in inputs], self._runtime, self._threads)
