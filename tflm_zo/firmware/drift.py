"""The layer at whose output a device reads the drift of data, and the table of its old data."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ConversionError, export_model
from ..converters.channel_statistics import STATISTICS_NAME, ChannelStatistics, read_statistics
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..converters.segments import entering_tensor
from ..recalibration.walk import corrected_layers, corrected_names
from .device_model import DeviceModel

# Bits behind the point of mean, deviation, and the spreads of the mean and of the deviation's logarithm.
_BITS: Final = (24, 24, 20, 20)


@dataclasses.dataclass(frozen=True)
class DriftLayer:
    """A layer whose output enters a segment, and what ``zo_drift_layer`` says of it."""

    name: str  # name of the layer
    number: int  # number of the layer among those that recalibration corrects
    segment: int  # segment that the output enters
    samples: int  # number of samples of the old data
    positions: int  # number of values of a channel in a sample
    rows: NDArray[np.int32]  # old data of each channel, [channels, 4]

    @property
    def sum_bytes(self) -> int:
        """RAM of the two sums of each channel, bytes."""
        return 16 * len(self.rows)


def drift_layer(model: Model, metadata: ZoMetadata, device: DeviceModel) -> tuple[DriftLayer | None, str]:
    """Returns the layer of a ZO model at which a device reads the drift of data, or None and the reason why there is
    none. It is the last one that no training changes; if there is none, the first one.
    """
    if model.find_metadata(STATISTICS_NAME) is None:
        return None, "the model keeps no statistics of the data that it was made for"
    plain = export_model(model, batch=metadata.batch)
    try:
        old, layers, names = read_statistics(plain), corrected_layers(plain), corrected_names(plain)
    except ConversionError as error:
        return None, str(error)
    assert old is not None
    numbers = {op.outputs[0].name: i for i, op in enumerate(layers)}
    entering = {k: entering_tensor(model, metadata, k) for k in range(1, len(metadata.segments))}
    found = {k: numbers[t.name] for k, t in entering.items() if t.name in numbers}
    if not found:
        return None, "no layer with statistics ends at a cut of the model, where a device can read its output"
    trained = min(metadata.trainable[i].segment for i in device.plan.tensors or device.trained)
    segment = max((k for k in found if k <= trained), default=min(found))
    number, tensor = found[segment], entering[segment]
    assert tensor.quantization is not None
    rows = rows_of(old.layers[number], tensor.quantization.zero_point)
    positions = math.prod(tensor.shape[:-1]) // metadata.batch
    return DriftLayer(names[number], number, segment, old.samples, positions, rows), ""


def rows_of(old: ChannelStatistics, zero_point: int) -> NDArray[np.int32]:
    """Returns the old data of a layer with a zero point as ``zo_drift_layer`` has them, [channels, 4]."""
    unit = np.where(old.deviation > 0, old.deviation, 1.0)
    columns = old.mean + zero_point, old.deviation, old.spread / unit, old.log_spread
    values = np.stack([np.rint(np.ldexp(c, bits)) for c, bits in zip(columns, _BITS, strict=True)], axis=1)
    rows: NDArray[np.int32] = np.clip(values, -(2**31), 2**31 - 1).astype(np.int32)
    return rows
