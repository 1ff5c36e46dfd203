"""A ZO model on a device, whose untrained weights are constants in flash."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ..converters.metadata import ZoMetadata, read_metadata
from ..converters.model import Model
from ..converters.model.schema import DTYPES
from ..converters.segments import freeze, trained_in_segment
from ..logs.replay import Replay, checksum_of
from ..training.lowering import LoweredRun
from .arena import head_ends

__all__ = ["DeviceModel", "bytes_of_sample", "device_model"]


@dataclasses.dataclass(frozen=True)
class DeviceModel:
    """The model of a run."""

    plan: LoweredRun  # plan of the run
    segments: tuple[Model, ...]  # each segment as a model of its own
    # numbers of the trainable tensors in RAM, in rising order; a device only counts these
    trained: tuple[int, ...]
    in_segment: tuple[tuple[int, ...], ...]  # numbers of the trainable tensors of each segment
    frozen_checksum: int  # sum of the checksums of the other tensors, which the model's checksum includes
    # end of the activations of each segment and those before it, from the beginning of those of all segments
    heads: tuple[int, ...]

    def number(self, tensor: int) -> int:
        """Returns the device's number of a trainable tensor."""
        return self.trained.index(tensor)


def device_model(model: Model, plan: LoweredRun) -> DeviceModel:
    """Returns the model of a run. Only layers that the run trains or through which errors pass use RAM. Raises
    ConversionError if the model is no ZO model, or does not fit its metadata.
    """
    metadata = read_metadata(model)
    wanted = _wanted(metadata, plan)
    segments = tuple(tuple(trained_in_segment(metadata, k, wanted)) for k in range(len(metadata.segments)))
    trained = tuple(i for own in segments for i in own)
    begin, others = Replay(model), (t for i, t in enumerate(metadata.trainable) if i not in trained)
    checksum, frozen = checksum_of(others, begin.weights, begin.fractions), tuple(freeze(model, wanted))
    return DeviceModel(plan, frozen, trained, segments, checksum, head_ends(frozen))


def _wanted(metadata: ZoMetadata, plan: LoweredRun) -> set[int]:
    """Returns the numbers of the tensors of all layers that a run trains or through which errors pass."""
    if not plan.tasks:
        return set(range(len(metadata.trainable)))
    found = set(plan.tensors)
    if plan.program is not None:
        found |= {step.tensor for step in plan.program.steps if step.tensor is not None}
    layers = {metadata.trainable[i].layer for i in found}
    return {i for i, t in enumerate(metadata.trainable) if t.layer in layers}


def bytes_of_sample(model: Model, segment: int, side: str, index: int, batch: int) -> int:
    """Returns the size of a sample in an input ("inputs") or output ("outputs") of a segment, bytes."""
    tensor = getattr(model.subgraphs[segment], side)[index]
    itemsize: int = np.dtype(DTYPES[tensor.type]).itemsize
    return int(math.prod(tensor.shape) * itemsize // batch)
