# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The inputs of a ZO model, read from its file without a runtime."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..converters import ConversionError, Model, ZoMetadata, load_model, read_metadata
from ..converters.model import Subgraph, Tensor
from ..converters.model.schema import DTYPES
from ..converters.model.schema import BuiltinOperator as B

__all__ = ["Inputs", "ModelError"]

_Details = tuple[tuple[int, ...], np.dtype[Any], float, int]


def _details(graph: Subgraph, tensor: Tensor) -> _Details:
    dtype, quantization = np.dtype(DTYPES[tensor.type]), tensor.quantization
    if dtype.kind == "f":
        readers = (
            op for op in graph.operators if op.builtin == B.QUANTIZE and op.input(0) is tensor and op.outputs
        )
        quantization = next((op.outputs[0].quantization for op in readers), None)
    if quantization is None or not len(quantization.scales):
        return tensor.shape, dtype, 0.0, 0
    return tensor.shape, dtype, quantization.scale, quantization.zero_point


class ModelError(ValueError):
    """The model is not a ZO model, or one that this version cannot run."""


class Inputs:
    """A ZO model's inputs and labels: their shapes, types and quantization; see `tflm_zo.data.prepare`.

    Args:
        model: a ZO model, its bytes, or the path of its file.

    Raises:
        ModelError: the model is not a ZO model.
    """

    def __init__(self, model: Model | bytes | str | os.PathLike[str]) -> None:
        try:
            self._model = model if isinstance(model, Model) else load_model(model)
            self._metadata = read_metadata(self._model)
        except ConversionError as error:
            raise ModelError(str(error)) from error
        self._input_details: dict[int, _Details] = {}
        self._label_details: _Details | None = None
        for segment, graph in zip(self._metadata.segments, self._model.subgraphs, strict=True):
            for port, tensor in zip(segment.inputs, graph.inputs, strict=True):
                if port.role == "input" and port.index is not None:
                    self._input_details[port.index] = _details(graph, tensor)
                elif port.role == "label":
                    self._label_details = _details(graph, tensor)

    @property
    def metadata(self) -> ZoMetadata:
        """The model's metadata: trainable tensors, blocks, headroom, loss, segments."""
        return self._metadata

    @property
    def batch(self) -> int:
        """Samples per invoke."""
        return self._metadata.batch

    def input_details(self, index: int = 0) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Returns shape, dtype, scale and zero point of an original input. For a floating-point input, scale
        and zero point are those of the model's own quantization (scale 0: none).
        """
        if index not in self._input_details:
            raise ValueError(f"the model has no input {index}")
        return self._input_details[index]

    def label_details(self) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Returns shape, dtype, scale and zero point of ``zo_label``."""
        if self._label_details is None:
            raise ValueError("the model has no loss")
        return self._label_details
