# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a ZO model reads, known from its file: no runtime is asked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import ConversionError, Model, ZoMetadata, load_model, read_metadata
from ..converters.model import Subgraph, Tensor
from ..converters.model.schema import DTYPES
from ..converters.model.schema import BuiltinOperator as B
from ..data import to_levels
from .errors import ModelError

__all__ = ["Inputs"]

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


class Inputs:
    """A ZO model's inputs and labels: their shapes, types and quantization, and samples as they take them.

    Args:
        model: what `tflm_zo.inject` returned, or its bytes, or the path of its file.

    Raises:
        ModelError: not a ZO model.
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
        """What the rewriter recorded: trainable tensors, blocks, head-room, loss, segments."""
        return self._metadata

    @property
    def batch(self) -> int:
        """Samples per invoke."""
        return self._metadata.batch

    def input_details(self, index: int = 0) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Shape, dtype, scale and zero point of an original input; of a floating-point one the scale and zero
        point of what the model quantizes it to (scale 0: it does not).
        """
        if index not in self._input_details:
            raise ValueError(f"the model has no input {index}")
        return self._input_details[index]

    def label_details(self) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        """Shape, dtype, scale and zero point of ``zo_label``."""
        if self._label_details is None:
            raise ValueError("the model has no loss")
        return self._label_details

    def prepare_input(self, array: NDArray[Any], index: int = 0, name: str | None = None) -> NDArray[Any]:
        """Any number of samples for an input, as the model takes them; see `set_inputs`.

        Args:
            array: [samples, ...].
            index: of the input.
            name: what messages call it.

        Raises:
            ValueError: wrong shape or dtype, NaN or infinity, no samples.
        """
        shape, dtype, scale, zero_point = self._input_details[index]
        name, value = name or f"input {index}", np.asarray(array)
        if value.shape[1:] != shape[1:] or value.ndim != len(shape):
            expected = ", ".join(map(str, shape[1:]))
            raise ValueError(f"{name}: expected shape [samples, {expected}], got {list(value.shape)}")
        if len(value) == 0:
            raise ValueError(f"{name}: no samples")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{name}: contains NaN or infinity")
        if value.dtype == dtype:
            return np.ascontiguousarray(value)
        if value.dtype.kind == "f" and dtype in (np.int8, np.uint8) and scale > 0:
            return to_levels(value, scale, zero_point, dtype)
        if value.dtype.kind == "f" and dtype.kind == "f":
            return np.ascontiguousarray(value, dtype)
        raise ValueError(f"{name}: expected {dtype} (or floating point), got {value.dtype}")

    def prepare_labels(self, labels: NDArray[Any], name: str = "labels") -> NDArray[Any]:
        """Labels of any number of samples, as the model takes them; see `set_labels`.

        Args:
            labels: [samples, ...].
            name: what messages call them.

        Raises:
            ValueError: wrong shape, dtype or range, or a model without a loss.
        """
        loss = self._metadata.loss
        if self._label_details is None or loss is None:
            raise ValueError(f"{name}: the model has no loss")
        shape, dtype, scale, zero_point = self._label_details
        value = np.asarray(labels)
        wanted = f"[{', '.join(['samples', *map(str, shape[1:])])}]"
        single = loss.kind == "binary_cross_entropy" and loss.elements == 1 and value.ndim == 1
        if not single and (value.ndim != len(shape) or value.shape[1:] != shape[1:]):
            raise ValueError(f"{name}: expected shape {wanted}, got {list(value.shape)}")
        if dtype == np.int8:
            if value.dtype == np.int8:
                return np.ascontiguousarray(value)
            if value.dtype.kind != "f" or not np.isfinite(value).all():
                raise ValueError(f"{name}: expected int8 or finite floating point, got {value.dtype}")
            return to_levels(value, scale, zero_point)
        if value.dtype.kind not in "iu":
            raise ValueError(f"{name}: expected integers, got {value.dtype}")
        classes = loss.elements if loss.of_classes else 2
        wrong = value[(value < -1) | (value >= classes)]
        if wrong.size:
            raise ValueError(
                f"{name}: expected labels 0..{classes - 1} (-1: unlabelled), got {wrong.flat[0]}"
            )
        return np.ascontiguousarray(value.reshape(len(value), *shape[1:]), np.int32)
