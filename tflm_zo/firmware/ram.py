# SPDX-License-Identifier: Apache-2.0
"""The RAM that a run takes on a 32-bit target."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..core import NODE_TAIL, BackwardProgram, TaskKind
from ..training.from_metadata import model_loss
from .arena import Arena, arenas_of
from .boundaries import Boundaries
from .device_model import DeviceModel
from .plan import BlockRunPlan, NodeRunPlan, RunPlan
from .resolver import operators_of

__all__ = ["LIBRARIES", "STACK", "Ram", "arenas_of_devices", "ram_of", "trainer_of", "workspace_bytes"]

# Structs of the C core, bytes.
_TASK_STRUCT = 184
_TENSOR_STRUCT = 40
_SNAPSHOT_TASK_STRUCT = 32
_ERROR_FIELD_STRUCT = 16
_BACKWARD_STRUCT = 24
# zo_snapshot_header_bytes: of a run without tasks, and for each.
_SNAPSHOT_HEADER, _SNAPSHOT_HEADER_TASK = 164, 32

# The trainer, without what it has for each segment: an interpreter of TFLM's and a directory.
_TRAINERS = {"weight": 264, "node": 376, "block": 432}
_SEGMENT = 208 + 20
# MicroMutableOpResolver: without operators, and for each.
_RESOLVER, _OPERATOR = 12, 36
#: Bytes of stack that a step takes, TFLM and its kernels included, rounded up from what was measured
#: on emulated cores (benchmarks/firmware_costs.py).
STACK = 2560
#: Bytes that the example's program has besides: newlib with its printf, TFLM's static objects.
LIBRARIES = 2560


@dataclasses.dataclass(frozen=True)
class Ram:
    """Bytes of RAM that a run takes.

    Attributes:
        arena: the tensor arena.
        workspace: what a step keeps besides.
        objects: the trainer, its interpreters and the resolver.
        stack: while a step is done.
        libraries: of the C library and TFLM themselves.
    """

    arena: Arena
    workspace: int
    objects: int
    stack: int = STACK
    libraries: int = LIBRARIES

    @property
    def bytes(self) -> int:
        """All of it, on the core that takes more."""
        arena = max(self.arena.bytes, self.arena.bytes_mve)
        return arena + self.workspace + self.objects + self.stack + self.libraries


def ram_of(
    model: Model,
    metadata: ZoMetadata,
    plan: RunPlan,
    devices: Sequence[DeviceModel],
    *,
    static_memory: bool = True,
    arenas: Sequence[Arena] | None = None,
) -> tuple[Ram, Sequence[Arena]]:
    """Returns the RAM of a run, and the arena that each of its models needs, of which the largest counts.

    Args:
        model: the ZO model.
        metadata: the model's metadata.
        plan: plan of the run.
        devices: the model as the device has it; of each block's run, where it chooses a block.
        static_memory: True if TFLM is built with TF_LITE_STATIC_MEMORY.
        arenas: those of `devices`, where they are known already, else None.
    """
    if arenas is None:
        arenas = arenas_of_devices(devices, static_memory=static_memory)
    arena = Arena(
        max(a.bytes for a in arenas),
        max(a.bytes_mve for a in arenas),
        all(a.measured for a in arenas),
        min(a.least for a in arenas),
    )
    operators = operators_of([segment for device in devices for segment in device.segments])
    objects = _TRAINERS[trainer_of(plan)] + _SEGMENT * len(metadata.segments)
    objects += _RESOLVER + _OPERATOR * len(operators)
    return Ram(arena, workspace_bytes(model, metadata, plan), objects), arenas


def arenas_of_devices(devices: Sequence[DeviceModel], *, static_memory: bool = True) -> list[Arena]:
    """Returns the arena that each of several models needs, which takes no longer for many than for one."""
    return arenas_of(
        [d.segments for d in devices], [len(d.trained) for d in devices], static_memory=static_memory
    )


def trainer_of(plan: RunPlan) -> str:
    """Returns the name of the trainer that does a run: "weight", "node" or "block"."""
    if isinstance(plan, BlockRunPlan):
        return "block"
    return "node" if isinstance(plan, NodeRunPlan) else "weight"


def _eight(size: int) -> int:
    return -(-size // 8) * 8


def workspace_bytes(model: Model, metadata: ZoMetadata, plan: RunPlan) -> int:
    """Returns the bytes of the workspace on a 32-bit target: boundaries and a run's memory; of the largest
    block's run, where a device chooses a block.
    """
    if isinstance(plan, BlockRunPlan):
        return max(workspace_bytes(model, metadata, block.run) for block in plan.blocks)
    total = Boundaries(model, metadata, plan).bytes
    if isinstance(plan, NodeRunPlan):
        return total + _run_bytes(metadata, plan)
    return max(total, 8)


def _run_bytes(metadata: ZoMetadata, plan: NodeRunPlan) -> int:
    """Returns the bytes that `NodeTrainer` carves out of the workspace for a run."""
    samples, count = plan.value("batch") * plan.value("parts"), len(plan.tasks)
    total = _eight(count * _TASK_STRUCT)
    header = _SNAPSHOT_HEADER + _SNAPSHOT_HEADER_TASK * count
    scratch, tensors, labels = header // 2 + count * _SNAPSHOT_TASK_STRUCT // 4, 0, 0
    loss = metadata.loss
    assert loss is not None  # the generator has refused such a model
    values, kind = model_loss(loss).labels(loss.elements)
    for task in plan.tasks:
        queries = task.values["queries"]
        if task.perturbs_weights:
            total += 8 * queries
            tensors = max(tensors, task.tensors)
            continue
        total += _eight(samples * task.input_bytes)
        if task.values["following"] != NODE_TAIL:
            total += _eight(samples * task.route_bytes)
        exact = not queries and task.values["kind"] == TaskKind.NODES
        own = exact and task.field is None
        total += _eight(4 * queries * samples) + (_eight(2 * samples * task.nodes) if own else 0)
        scratch = max(scratch, task.scratch_values)
        labels = labels or (metadata.batch * values * np.dtype(kind).itemsize if exact else 0)
    if plan.backward is not None:
        total += _backward_bytes(plan.backward, samples)
        scratch = max(scratch, plan.backward.scratch_values)
    return total + _eight(tensors * _TENSOR_STRUCT) + _eight(4 * scratch) + _eight(labels)


def _backward_bytes(program: BackwardProgram, samples: int) -> int:
    """Returns the bytes of a backward program: structs, norms, addresses, and errors with exponents."""
    steps, fields = len(program.steps), len(program.fields)
    total = _eight(_BACKWARD_STRUCT + 8) + _eight(fields * _ERROR_FIELD_STRUCT) + 2 * _eight(4 * steps)
    total += _eight(2 * program.shared_errors) + _eight(fields)
    kept = (f.count for f in program.fields if f.at is None)
    return total + sum(_eight(2 * samples * count) + _eight(samples) for count in kept)
