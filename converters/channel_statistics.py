"""Statistics of a model's channels on the data that it was made for, kept in the model's own metadata.

The entry `tflm_zo_channels` is little-endian: uint16 version (1), uint16 layers, uint32 samples; of each layer uint32
channels and float16 [4, channels] (mean, deviation, spread, log spread); then uint32 channels of the first layer, or 0
where it has no layout, float16 [16, channels] and float16 [2] (cells, spread).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from .errors import ConversionError
from .model import Buffer, Metadata, Model
from .rescale_channels import layers_with_filters, why_fixed

#: Name of the metadata entry.
STATISTICS_NAME: Final = "tflm_zo_channels"
#: Parts of a layer's output, 4 x 4, whose means a layout has.
CELLS: Final = 16
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<HHI")
_COUNT: Final = struct.Struct("<I")
_HALF: Final = np.dtype("<f2")

_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class ChannelStatistics:
    """Statistics of a layer's output channels on data, [channels] each, in LSB of the output."""

    mean: _Floats  # mean over samples and positions, from the output's zero point
    deviation: _Floats  # standard deviation over samples and positions, 0 for a constant channel
    spread: _Floats  # standard deviation from sample to sample of a sample's own mean
    # standard deviation over samples of a sample's share of log(``deviation``); divided by the root of the
    # number of samples, it is the standard error of log(``deviation``)
    log_spread: _Floats


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the output of a model's first layer differs from place to place."""

    # mean of each cell and channel, [16, channels], in deviations of the channel, from its mean
    cells: _Floats
    # standard deviation from sample to sample of the whole picture's mean, and of a cell's difference from
    # it, root mean square over cells and channels, in the same unit
    spread: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Statistics of the layers of a model that can be recalibrated, in execution order."""

    samples: int  # number of samples that they are of, at least 2
    layers: Sequence[ChannelStatistics]  # statistics of each layer
    # layout of the first layer's output; None where that is no image of 4 x 4 pixels at least
    layout: Layout | None


def with_statistics(model: Model, statistics: Statistics) -> Model:
    """Returns a copy of a model that keeps these statistics in the place of any that it had."""
    parts = [_HEAD.pack(_VERSION, len(statistics.layers), statistics.samples)]
    for layer in statistics.layers:
        parts += [_COUNT.pack(len(layer.mean)), *(_half(a) for a in dataclasses.astuple(layer))]
    layout = statistics.layout
    parts.append(_COUNT.pack(0 if layout is None else layout.cells.shape[1]))
    if layout is not None:
        parts += [_half(layout.cells), _half(np.array(layout.spread))]
    result = model.copy()
    others = [m for m in result.metadata or () if m.name != STATISTICS_NAME]
    replaced = {m.buffer for m in result.metadata or () if m not in others}
    result.metadata = [*others, Metadata(STATISTICS_NAME, Buffer(b"".join(parts)))]
    result.buffers = [b for b in result.buffers if b not in replaced]
    return result


def _half(values: _Floats) -> bytes:
    limit = float(np.finfo(np.float16).max)
    return np.clip(values, -limit, limit).astype(_HALF).tobytes()


def read_statistics(model: Model) -> Statistics | None:
    """Returns a plain model's statistics, or None. Raises ConversionError if they are damaged or of other layers."""
    entry = model.find_metadata(STATISTICS_NAME)
    if entry is None:
        return None
    try:
        found = _parse(bytes(entry.buffer.data or b""))
    except (struct.error, ValueError) as error:
        raise ConversionError(f"the statistics in metadata `{STATISTICS_NAME}` are damaged: {error}") from None
    graph = model.subgraphs[0]
    own = [op.outputs[0].shape[-1] for op in layers_with_filters(model) if why_fixed(graph, op) is None]
    if [len(layer.mean) for layer in found.layers] != own:
        raise ConversionError(
            f"the statistics in metadata `{STATISTICS_NAME}` are of a model with other layers; measure them "
            "anew with a source"
        )
    return found


def _parse(data: bytes) -> Statistics:
    version, layers, samples = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"version {version} is not known to this version of the package")
    if samples < 2:
        raise ValueError(f"they are of {samples} samples")
    at, found = _HEAD.size, []

    def halves(count: int) -> _Floats:
        nonlocal at
        if at + 2 * count > len(data):
            raise ValueError("they end early")
        values = np.frombuffer(data, _HALF, count, at).astype(np.float64)
        at += 2 * count
        if not np.isfinite(values).all():
            raise ValueError("a value is no number")
        return values

    def number() -> int:
        nonlocal at
        at += _COUNT.size
        return int(_COUNT.unpack_from(data, at - _COUNT.size)[0])

    for _ in range(layers):
        rows = halves(4 * number()).reshape(4, -1)
        if (rows[1:] < 0).any():
            raise ValueError("a deviation is negative")
        found.append(ChannelStatistics(*rows))
    channels = number()
    layout = None
    if channels:
        if not found or channels != len(found[0].mean):
            raise ValueError("the layout is of another layer")
        cells = halves(CELLS * channels).reshape(CELLS, channels)
        whole, rest = halves(2)
        layout = Layout(cells, (float(whole), float(rest)))
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow them")
    return Statistics(samples, found, layout)
