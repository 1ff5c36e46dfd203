# SPDX-License-Identifier: Apache-2.0
"""What a run that a log has recorded takes of a device, were it done there."""

from __future__ import annotations

from dataclasses import dataclass

from ..converters import ConversionError, Model, read_metadata
from ..converters.segments import with_batch
from ..logs import Log
from ..training.costs import block_segments
from ..training.node_plan import backward_program, placed_task
from ..training.recorded_costs import recorded_tasks
from .device_model import device_models
from .flash import flash_of_training
from .plan import NodeRunPlan, RunPlan, WeightRunPlan
from .planning import task_plan
from .ram import Ram, ram_of

__all__ = ["DeviceMemory", "device_memory"]


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes that a run takes of a device.

    Attributes:
        batch: samples of an invoke: 1, or what an operator ties the model to.
        minibatch: samples of a step.
        trained: bytes of the arena that the weights which are trained take, with their fractions.
        ram: bytes of RAM by part.
        flash: bytes of flash that training takes beyond inference, without the model, at most.
    """

    batch: int
    minibatch: int
    trained: int
    ram: Ram
    flash: int


def device_memory(model: Model, log: Log) -> DeviceMemory:
    """Returns what a device takes for a run, as firmware of the same model and settings would do it.

    Args:
        model: the ZO model that the log was recorded on, of any batch.
        log: the log.

    Raises:
        ConversionError: the model does not fit its metadata.
    """
    minibatch = int(log.settings.batch) * int(log.settings.parts)
    try:
        model = with_batch(model, 1)
    except ConversionError:
        pass  # an operator ties it to its batch
    metadata = read_metadata(model)
    sizes = {"batch": metadata.batch, "parts": minibatch // metadata.batch}
    plan: RunPlan
    if not log.is_layerwise:
        sizes["blocks"] = int(log.settings.blocks)
        plan = WeightRunPlan(sizes, {}, {}, block_segments=tuple(block_segments(metadata)))
    else:
        tasks = recorded_tasks(log.tasks, metadata)
        program = backward_program(tasks, model, metadata)
        fields = {} if program is None else program.of_tasks
        nodes = (placed_task(task, model, metadata, program) for task in tasks)
        plan = NodeRunPlan(
            sizes,
            {},
            {},
            tasks=tuple(
                task_plan(task, node, None, fields.get(i))
                for i, (task, node) in enumerate(zip(tasks, nodes, strict=True))
            ),
            backward=program,
        )
    devices = device_models(model, plan)
    ram, _ = ram_of(model, metadata, plan, devices)
    trained = metadata.bytes_of(devices[0].trained)
    return DeviceMemory(metadata.batch, minibatch, trained, ram, flash_of_training(plan))
