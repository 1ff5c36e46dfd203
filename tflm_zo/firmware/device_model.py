"""A ZO model on a device, whose untrained weights are constants in flash, and its memory for input activations."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ..converters.initial_weights import initial_weights
from ..converters.metadata import ZoMetadata, read_metadata
from ..converters.model import Model
from ..converters.model.schema import DTYPES
from ..converters.segments import freeze, trained_in_segment
from ..core import checksum
from ..training.lowering import LoweredRun

__all__ = ["Boundaries", "DeviceModel", "bytes_of_sample", "device_models"]


@dataclasses.dataclass(frozen=True)
class DeviceModel:
    """The model of a run."""

    plan: LoweredRun  # plan of the run
    segments: tuple[Model, ...]  # each segment as a model of its own
    # numbers of the trainable tensors in RAM, in rising order; a device only counts these
    trained: tuple[int, ...]
    in_segment: tuple[tuple[int, ...], ...]  # numbers of the trainable tensors of each segment
    frozen_checksum: int  # sum of the checksums of the other tensors, which the model's checksum includes

    def number(self, tensor: int) -> int:
        """Returns the device's number of a trainable tensor."""
        return self.trained.index(tensor)


def device_models(model: Model, plan: LoweredRun) -> list[DeviceModel]:
    """Returns the model of a run, or of each block's run if a device chooses a block. Only layers that the
    run trains or through which errors pass use RAM.

    Raises:
        ConversionError: the model is no ZO model, or does not fit its metadata.
    """
    metadata = read_metadata(model)
    if plan.blocks:
        return [_device_model(model, metadata, block.run) for block in plan.blocks]
    return [_device_model(model, metadata, plan)]


def _device_model(model: Model, metadata: ZoMetadata, plan: LoweredRun) -> DeviceModel:
    wanted = _wanted(metadata, plan)
    segments = tuple(tuple(trained_in_segment(metadata, k, wanted)) for k in range(len(metadata.segments)))
    trained = tuple(i for own in segments for i in own)
    values = initial_weights(model)
    others = 0
    for i, t in enumerate(metadata.trainable):
        if i in trained:
            continue
        has_fraction = metadata.update_bits == 16 and not t.bias
        fraction = np.zeros(t.shape, np.int8) if has_fraction else None
        others += checksum(values[t.name], fraction, t.stream)
    return DeviceModel(plan, tuple(freeze(model, wanted)), trained, segments, others % 2**32)


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


def _starts(plan: LoweredRun) -> set[int]:
    """Returns the first segments of runs that keep no activations, except segment 0."""
    if plan.tasks:
        return {t.start_segment for t in plan.tasks if t.queries} - {0}
    return set(plan.block_segments) - {0} if plan.settings.blocks else set()


def kept_boundaries(metadata: ZoMetadata, plan: LoweredRun) -> list[int]:
    """Returns the segments whose input activations are kept."""
    wanted = {k for start in _starts(plan) for k in metadata.entering(start)}
    for task in plan.tasks:
        wanted.add(task.start_segment)
        if task.nodes is not None:
            wanted |= {task.nodes.input_segment if task.keeps_inputs else 0, task.nodes.output_segment}
    steps = () if plan.program is None else plan.program.steps
    wanted |= {step.segment for step in steps if step.segment is not None}
    return sorted(wanted - {0})


class Boundaries:
    """The memory for input activations of segments.

    Attributes:
        at: offset of each that is kept, by the segment's number.
        passing: offset of each that later segments read, in a run that keeps nothing: the place where it is
            kept, unless such a run begins at the segment or before it.
        bytes: size of all together.
    """

    def __init__(self, model: Model, metadata: ZoMetadata, plan: LoweredRun) -> None:
        self._model, self._metadata = model, metadata
        self.bytes = 0
        self.at = {k: self._place(k) for k in kept_boundaries(metadata, plan)}
        first = min(_starts(plan), default=len(metadata.segments))
        skipping = sorted({k for s in metadata.segments for k in s.skips})
        self.passing = {k: self.at[k] if k in self.at and k < first else self._place(k) for k in skipping}

    def _place(self, segment: int) -> int:
        port = self._metadata.segments[segment].input_index("boundary")
        assert port is not None  # every segment but the first has one
        batch, at = self._metadata.batch, self.bytes
        size = batch * bytes_of_sample(self._model, segment, "inputs", port, batch)
        self.bytes += -(-size // 8) * 8
        return at
