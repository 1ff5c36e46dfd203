# SPDX-License-Identifier: Apache-2.0
"""A ZO model as a device has it: what its run does not train is constant, in flash."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..converters.initial_weights import initial_weights
from ..converters.metadata import ZoMetadata, read_metadata
from ..converters.model import Model
from ..converters.segments import freeze, trained_in_segment
from ..core import checksum
from .plan import BlockRunPlan, NodeRunPlan, RunPlan

__all__ = ["DeviceModel", "device_models"]


@dataclasses.dataclass(frozen=True)
class DeviceModel:
    """The model of a run.

    Attributes:
        plan: plan of the run.
        segments: each segment as a model of its own.
        trained: numbers of the trainable tensors that are in RAM, rising; a device counts these alone.
        in_segment: for each segment the numbers of those that it has.
        frozen_checksum: sum of the checksums of the others, which their model's checksum has, too.
    """

    plan: RunPlan
    segments: tuple[Model, ...]
    trained: tuple[int, ...]
    in_segment: tuple[tuple[int, ...], ...]
    frozen_checksum: int

    def number(self, tensor: int) -> int:
        """Returns the device's number of a trainable tensor."""
        return self.trained.index(tensor)


def device_models(model: Model, plan: RunPlan) -> list[DeviceModel]:
    """Returns the model of a run, or, where a device chooses a block, of each block's run: without RAM for
    what the run neither trains nor leads errors through.

    Raises:
        ConversionError: the model is no ZO model, or does not fit its metadata.
    """
    metadata = read_metadata(model)
    if isinstance(plan, BlockRunPlan):
        return [_device_model(model, metadata, block.run) for block in plan.blocks]
    return [_device_model(model, metadata, plan)]


def _device_model(model: Model, metadata: ZoMetadata, plan: RunPlan) -> DeviceModel:
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


def _wanted(metadata: ZoMetadata, plan: RunPlan) -> set[int]:
    """Returns the numbers of the tensors of all layers that a run trains or leads errors through."""
    if not isinstance(plan, NodeRunPlan):
        return set(range(len(metadata.trainable)))
    found = {i for t in plan.tasks for i in range(t.first_tensor, t.first_tensor + t.tensors)}
    if plan.backward is not None:
        found |= {step.tensor for step in plan.backward.steps if step.tensor is not None}
    layers = {metadata.trainable[i].layer for i in found}
    return {i for i, t in enumerate(metadata.trainable) if t.layer in layers}
