"""Moments of a layer, accumulated as samples arrive, here or on a device."""

from __future__ import annotations

import io
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..converters import ConversionError, Model, load_model
from ..data import DataError, Samples, read_arrays
from ..io.files import write_output
from .moments import Moments, moments_of
from .walk import corrected_layers, corrected_names, layer_outputs


class RunningMoments:
    """Two exact integer sums for each channel of a layer.

    Sums of different samples, also of different devices, can be added in any order; the result is exact.
    `tflm_zo.recalibrate` accepts them instead of samples and corrects that layer only. Correct the layers in
    execution order, each with the model that the last correction returned.

    Args:
        model: a plain int8 model, its path or its bytes.
        layer: number of the layer among the corrected layers, from 0 in execution order.
        samples: number of samples in ``sums`` and ``squares``, if a device computed them.
        sums: sums of the layer's int8 outputs over samples and positions, [channels].
        squares: likewise the sums of their squares.

    Attributes:
        layer: number of the layer.
        samples: number of samples so far.
        moments: `Moments` of the layer's output.

    Raises:
        ConversionError: the model cannot be recalibrated, or has no such layer.
        DataError: the sums do not fit the layer, or no int8 values have such sums.

    Example:
        >>> for layer in range(layers):  # doctest: +SKIP
        ...     moments = RunningMoments(model, layer)
        ...     moments.add(x)
        ...     model = tflm_zo.recalibrate(model, moments).model
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | bytes,
        layer: int,
        samples: int = 0,
        sums: Any = None,
        squares: Any = None,
    ) -> None:
        self._model = model.copy() if isinstance(model, Model) else load_model(model)
        names = corrected_names(self._model)
        if not 0 <= layer < len(names):
            raise ConversionError(f"`layer` must be in 0..{len(names) - 1} ({', '.join(names)}). Received: {layer}.")
        self.layer, self.samples = layer, int(samples)
        self._checksum = zlib.crc32(self._model.to_bytes())
        shape = corrected_layers(self._model)[layer].outputs[0].shape
        batch = self._model.subgraphs[0].inputs[0].shape[0]
        positions = self.samples * (math.prod(shape[:-1]) // batch)
        zeros = np.zeros(shape[-1], np.int64)
        self.moments = _checked(
            zeros if sums is None else sums, zeros if squares is None else squares, positions, shape[-1]
        )

    def add(self, x: Samples, *, runtime: str = "litert") -> None:
        """Adds samples.

        Args:
            x: samples without labels, as `tflm_zo.data.prepare_samples` takes them.
            runtime: name of the runtime that runs the model.

        Raises:
            DataError: the samples cannot be used.
        """
        (values,) = layer_outputs(self._model, [corrected_layers(self._model)[self.layer]], x, runtime)
        self.moments += moments_of(values)
        self.samples += len(values)

    def __add__(self, other: RunningMoments) -> RunningMoments:
        self.check_model(other._checksum)
        if other.layer != self.layer:
            raise DataError(f"moments of layers {self.layer} and {other.layer} do not add up")
        result = RunningMoments(self._model, self.layer)
        result.samples = self.samples + other.samples
        result.moments = self.moments + other.moments
        return result

    def check_use(self, model: Model) -> None:
        """Raises DataError if the moments are not of this model, or of no sample."""
        self.check_model(model)
        if self.samples < 1:
            raise DataError("the moments are of no sample")

    def check_model(self, model: Model | int) -> None:
        """Raises DataError if the moments belong to another model, or to another state of this one."""
        checksum = model if isinstance(model, int) else zlib.crc32(model.to_bytes())
        if checksum != self._checksum:
            raise DataError("the moments are of another model; they hold for the very file that was measured")

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes an ``.npz`` file: ``layer``, ``samples``, ``model`` (its CRC-32), ``sums`` and ``squares``.

        Raises:
            OSError: the file exists and ``force`` is not set, or it cannot be written.
        """
        numbers = {"layer": self.layer, "samples": self.samples, "model": self._checksum}
        arrays: dict[str, Any] = {name: np.array(value, np.int64) for name, value in numbers.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays, sums=self.moments.sums, squares=self.moments.squares)
        return write_output(Path(path), buffer.getvalue(), force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Model | str | os.PathLike[str] | bytes) -> RunningMoments:
        """Reads moments from a file that `save` wrote.

        Args:
            path: path of the file.
            model: the model of the moments.

        Raises:
            DataError: the file has no moments, is damaged, or belongs to another model.
        """
        arrays = read_arrays(path)
        ranks = {"layer": 0, "samples": 0, "model": 0, "sums": 1, "squares": 1}
        if {name: a.ndim for name, a in arrays.items()} != ranks or any(a.dtype != np.int64 for a in arrays.values()):
            raise DataError(f"{os.fspath(path)}: no file of moments")
        layer, samples, checksum = (int(arrays[name]) for name in ("layer", "samples", "model"))
        result = cls(model, layer, samples, arrays["sums"], arrays["squares"])
        result.check_model(checksum)
        return result


def _checked(sums: Any, squares: Any, positions: int, channels: int) -> Moments:
    s, q = (np.asarray(a) for a in (sums, squares))
    if any(a.shape != (channels,) or a.dtype.kind not in "iu" for a in (s, q)) or positions < 0:
        raise DataError(f"`sums` and `squares` must have {channels} integers each.")
    s, q = s.astype(np.int64), q.astype(np.int64)
    for total, square in zip(s.tolist(), q.tolist(), strict=True):
        if not (-128 * positions <= total <= 127 * positions and total * total <= positions * square):
            raise DataError(f"sums and squares: {positions} int8 values do not have them")
        if square > 16384 * positions:
            raise DataError(f"squares: {positions} int8 values do not have them")
    return Moments(positions, s, q)
