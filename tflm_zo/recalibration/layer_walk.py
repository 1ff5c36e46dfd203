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
from ..runtime import Runtime
from ..training.evaluation import every_output
from ..training.injection import inject_plain

__all__ = ["LayerWalk", "as_runtime"]


def as_runtime(model: Model, runtime: str) -> Runtime:
    """Returns a plain model in a runtime, which computes what the model does and trains nothing."""
    return runtimes.load(inject_plain(model, InjectSettings(trainable="none", loss="none")), runtime)


class LayerWalk:
    """All samples at one place of a model: the tensors that the rest of it reads.

    Each operator runs once for each sample, however many layers are looked at on the way. The memory is that
    of these tensors for all samples.

    Args:
        graph: graph of a plain int8 model. Operators that have not run may be changed on the way.
        inputs: samples, as `tflm_zo.data.prepare_samples` returns them, [samples, ...] for each input.
        runtime: name of the runtime that runs the operators.
    """

    def __init__(self, graph: Subgraph, inputs: Sequence[NDArray[Any]], runtime: str) -> None:
        self._graph, self._runtime = graph, runtime
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
        for tensor in outputs:
            if tensor.shape[:1] != self._graph.inputs[0].shape[:1]:
                raise ConversionError(
                    f"«{tensor.name}» of shape {list(tensor.shape)} does not have the batch as its first "
                    "dimension, so samples cannot be told apart there"
                )
        inputs = [t for t in self._live if any(t in op.inputs for op in operators)]
        part = Model(subgraphs=[Subgraph("part", [], inputs, list(outputs), operators)])
        return every_output(as_runtime(part, self._runtime), [self._live[t] for t in inputs])
