# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Moments of a whole model's layers that are summed up as samples arrive, here or on a device."""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import ConversionError, Model, load_model
from ..converters.files import write_output
from ..converters.model import Operator, Subgraph
from ..converters.rescale_channels import layers_with_filters, why_fixed
from ..data import DataError, Samples, prepare_samples, read_arrays
from ..training.evaluation import every_output
from .layer_walk import as_runtime
from .moments import Moments, moments_of

__all__ = ["RunningMoments", "corrected_layers", "layer_outputs"]


def corrected_layers(model: Model) -> list[Operator]:
    """Returns the layers of a plain model that recalibration corrects, in execution order.

    Raises:
        ConversionError: there is none.
    """
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


def layer_outputs(model: Model, x: Samples, runtime: str) -> list[NDArray[Any]]:
    """Returns the outputs of the layers that recalibration corrects, int8 [samples, ...] each."""
    layers = corrected_layers(model)
    graph = model.subgraphs[0]
    until = graph.operators.index(layers[-1]) + 1
    outputs = [op.outputs[0] for op in layers]
    part = Subgraph("layers", [], list(graph.inputs), outputs, graph.operators[:until])
    loaded = as_runtime(Model(subgraphs=[part]), runtime)
    for tensor in outputs:
        if tensor.shape[:1] != graph.inputs[0].shape[:1]:
            raise ConversionError(f"«{tensor.name}» has no batch dimension in front: {list(tensor.shape)}")
    return every_output(loaded, prepare_samples(loaded, x))


class RunningMoments:
    """Two exact integers for each channel of a model, summed up over samples.

    Sums of different samples, from different devices too, are added up in any order and give the same bits,
    in every runtime that gives the same bits. `tflm_zo.recalibrate` takes them in the place of samples.

    Args:
        model: a plain int8 model, its path or its bytes.
        samples: number of samples that ``sums`` and ``squares`` are of, where a device has summed them up.
        sums: of each layer that recalibration corrects, in execution order, the sums of its output's int8
            values over samples and positions, [channels].
        squares: likewise the sums of their squares.

    Attributes:
        samples: number of samples so far.
        layers: `Moments` of each layer.

    Raises:
        ConversionError: the model cannot be recalibrated.
        DataError: the sums do not fit the model, or no int8 values have such sums.

    Example:
        >>> moments = RunningMoments("model.tflite")  # doctest: +SKIP
        >>> moments.add(x)  # doctest: +SKIP
        >>> tflm_zo.recalibrate("model.tflite", moments).save("recalibrated.tflite")  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | bytes,
        samples: int = 0,
        sums: Any = None,
        squares: Any = None,
    ) -> None:
        self._model = model.copy() if isinstance(model, Model) else load_model(model)
        self.samples = int(samples)
        self._checksum = zlib.crc32(self._model.to_bytes())
        shapes = [op.outputs[0].shape for op in corrected_layers(self._model)]
        zeros = [np.zeros(shape[-1], np.int64) for shape in shapes]
        given = [zeros if part is None else list(part) for part in (sums, squares)]
        self.layers = []
        batch = self._model.subgraphs[0].inputs[0].shape[0]
        for number, shape in enumerate(shapes):
            positions = self.samples * (int(np.prod(shape[:-1])) // batch)
            if any(len(part) != len(shapes) for part in given):
                raise DataError(f"sums and squares: the model has {len(shapes)} layers that are corrected")
            own_sums, own_squares = (part[number] for part in given)
            self.layers.append(_checked(own_sums, own_squares, positions, shape[-1], number))

    def add(self, x: Samples, *, runtime: str = "litert") -> None:
        """Adds samples.

        Args:
            x: samples without labels, as `tflm_zo.data.prepare_samples` takes them.
            runtime: name of the runtime that runs the model.

        Raises:
            DataError: the samples cannot be used.
        """
        outputs = layer_outputs(self._model, x, runtime)
        self.layers = [old + moments_of(y) for old, y in zip(self.layers, outputs, strict=True)]
        self.samples += len(outputs[0])

    def __add__(self, other: RunningMoments) -> RunningMoments:
        self.check_model(other._checksum)
        result = RunningMoments(self._model)
        result.samples = self.samples + other.samples
        result.layers = [a + b for a, b in zip(self.layers, other.layers, strict=True)]
        return result

    def check_model(self, model: Model | int) -> None:
        """Raises DataError where the moments are of another model, or of another state of this one."""
        checksum = model if isinstance(model, int) else zlib.crc32(model.to_bytes())
        if checksum != self._checksum:
            raise DataError("the moments are of another model; they hold for the very file that was measured")

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes an ``.npz`` file: ``samples``, ``model`` (CRC-32 of its file), ``sums0``, ``squares0`` ….

        Raises:
            OSError: the file exists and ``force`` is not set, or it cannot be written.
        """
        arrays: dict[str, Any] = {"samples": np.int64(self.samples), "model": np.int64(self._checksum)}
        for i, layer in enumerate(self.layers):
            arrays |= {f"sums{i}": layer.sums, f"squares{i}": layer.squares}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return write_output(Path(path), buffer.getvalue(), force=force)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], model: Model | str | os.PathLike[str] | bytes
    ) -> RunningMoments:
        """Returns the moments of a file that `save` has written.

        Args:
            path: path of the file.
            model: the model that they are of.

        Raises:
            DataError: the file is none of moments, is damaged, or is of another model.
        """
        arrays = read_arrays(path)
        count = sum(name.startswith("sums") for name in arrays)
        wanted = {"samples", "model", *(f"{kind}{i}" for kind in ("sums", "squares") for i in range(count))}
        if arrays.keys() != wanted or any(arrays[n].dtype != np.int64 for n in wanted):
            raise DataError(
                f"{os.fspath(path)}: no file of moments; there are: {', '.join(arrays) or 'none'}"
            )
        kinds = ([arrays[f"{kind}{i}"] for i in range(count)] for kind in ("sums", "squares"))
        samples, checksum = arrays["samples"], arrays["model"]
        if samples.shape != () or checksum.shape != ():
            raise DataError(f"{os.fspath(path)}: samples and model are no single numbers")
        result = cls(model, int(samples), *kinds)
        result.check_model(int(checksum))
        return result


def _checked(sums: Any, squares: Any, positions: int, channels: int, layer: int) -> Moments:
    s, q = (np.asarray(a) for a in (sums, squares))
    if any(a.shape != (channels,) or a.dtype.kind not in "iu" for a in (s, q)) or positions < 0:
        raise DataError(f"sums and squares of layer {layer}: expected {channels} integers each")
    s, q = s.astype(np.int64), q.astype(np.int64)
    for total, square in zip(s.tolist(), q.tolist(), strict=True):
        if not (-128 * positions <= total <= 127 * positions and total * total <= positions * square):
            raise DataError(f"sums and squares of layer {layer}: {positions} int8 values do not have them")
        if square > 16384 * positions:
            raise DataError(f"squares of layer {layer}: {positions} int8 values do not have them")
    return Moments(positions, s, q)
