"""The memory of a run on a device: RAM on a 32-bit target, flash, log."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..converters import ConversionError, read_metadata
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..converters.segments import with_batch
from ..core import SEED_LOG_HEADER_BYTES, SNAPSHOT_RECORD_BYTES, BackwardProgram, SnapshotLogHeader, StepRecord
from ..logs import Log
from ..training.lowering import LoweredRun, lower_recorded
from ..training.plan import model_loss
from .arena import Arena, arenas_of
from .boundaries import Boundaries, aligned, boundaries_of, saving_memory
from .device_model import DeviceModel, device_model
from .resolver import operators_of

# Structs of the C core, bytes.
TASK_STRUCT = 184
TENSOR_STRUCT = 36
SNAPSHOT_TASK_STRUCT = 32
_ERROR_FIELD_STRUCT = 16
_BACKWARD_STRUCT = 40
# zo_snapshot_header_bytes: of a run without tasks, and for each.
_SNAPSHOT_HEADER, _SNAPSHOT_HEADER_TASK = 164, 32

# The end of TFLM's own memory in an arena that errors share.
_MARK = 16
# The trainer without its data of each segment (TFLM's interpreter and a directory).
_TRAINERS = {"weight": 264, "node": 376}
_SEGMENT = 208 + 20
# MicroMutableOpResolver: without operators, and for each.
_RESOLVER, _OPERATOR = 12, 36
#: Stack of a step, TFLM and its kernels included, bytes; rounded up from measurements on emulated cores
#: (benchmarks/plan.py).
STACK = 2560
#: Bytes that the example's program has besides: newlib with its printf, TFLM's static objects.
LIBRARIES = 2560

# Bytes of code, constants and initial values on a Cortex-M4 at -Os, rounded up from measurements of several
# networks (docs/costs.md). Tests link programs and hold them to it.
_WEIGHTS: Final = 7_400
_NODES: Final = 15 * 1024
# Additional flash of node perturbation: exact gradients; errors that pass back through several layers.
_EXACT: Final = 1_536
_TAIL: Final = 6_656


@dataclasses.dataclass(frozen=True)
class Ram:
    """The RAM of a run, bytes."""

    arena: Arena  # the tensor arena
    workspace: int  # memory of a step outside the arena
    objects: int  # the trainer, its interpreters and the resolver
    stack: int = STACK  # stack of a step
    libraries: int = LIBRARIES  # static memory of the C library and TFLM

    @property
    def bytes(self) -> int:
        """Total RAM on the core that needs more."""
        return self.bytes_with(max(self.arena.bytes, self.arena.bytes_mve))

    def bytes_with(self, arena: int) -> int:
        """Returns the total RAM with an arena of so many bytes."""
        return arena + self.workspace + self.objects + self.stack + self.libraries


def ram_of(
    model: Model,
    metadata: ZoMetadata,
    device: DeviceModel,
    *,
    static_memory: bool = True,
    arena: Arena | None = None,
) -> Ram:
    """Returns the RAM of a run of a ZO model. `static_memory`: TFLM is built with TF_LITE_STATIC_MEMORY; `arena`: that
    of the device's model, if it is known.
    """
    own = arena or arenas_of_devices([device], static_memory=static_memory)[0]
    found = boundaries_of(model, metadata, device)
    shared = found.bytes + _MARK * (1 + len(found.limits)) if device.plan.memory.shares_arena else 0
    objects = _TRAINERS[trainer_of(device.plan)] + _SEGMENT * len(metadata.segments)
    objects += _RESOLVER + _OPERATOR * len(operators_of(device.segments))
    arena_bytes, mve = (-(-(size + shared) // 16) * 16 for size in (own.bytes, own.bytes_mve))
    own = dataclasses.replace(own, bytes=arena_bytes, bytes_mve=mve)
    return Ram(own, _workspace_bytes(metadata, device.plan, found), objects)


def ram_within(
    model: Model,
    metadata: ZoMetadata,
    device: DeviceModel,
    limit: int | None,
    *,
    static_memory: bool = True,
    arena: Arena | None = None,
) -> tuple[Ram, DeviceModel]:
    """Returns the RAM of a run, and its device. A run that needs more than `limit` bytes saves memory in its steps, as
    much as it needs or can. Other arguments are those of `ram_of`.
    """
    arena = arena or arenas_of_devices([device], static_memory=static_memory)[0]
    ram = ram_of(model, metadata, device, arena=arena)
    if limit is None or ram.bytes <= limit:
        return ram, device
    saving = saving_memory(model, metadata, device, boundaries_of(model, metadata, device).bytes - (ram.bytes - limit))
    return ram_of(model, metadata, saving, arena=arena), saving


def arenas_of_devices(devices: Sequence[DeviceModel], *, static_memory: bool = True) -> list[Arena]:
    """Returns the arenas of several models. Many take no longer than one."""
    return arenas_of([d.segments for d in devices], [len(d.trained) for d in devices], static_memory=static_memory)


def trainer_of(plan: LoweredRun) -> str:
    """Returns the name of a run's trainer: "weight" or "node"."""
    return "node" if plan.tasks else "weight"


def workspace_bytes(model: Model, metadata: ZoMetadata, device: DeviceModel) -> int:
    """Returns the size of the workspace on a 32-bit target."""
    return _workspace_bytes(metadata, device.plan, boundaries_of(model, metadata, device))


def _workspace_bytes(metadata: ZoMetadata, plan: LoweredRun, boundaries: Boundaries) -> int:
    return max(8, boundaries.beside + (_run_bytes(metadata, plan) if plan.tasks else 0))


def _run_bytes(metadata: ZoMetadata, plan: LoweredRun) -> int:
    """Returns the bytes of the workspace that `NodeTrainer` uses for a run."""
    samples, count = plan.minibatch, len(plan.tasks)
    total = aligned(count * TASK_STRUCT)
    header = _SNAPSHOT_HEADER + _SNAPSHOT_HEADER_TASK * count
    scratch, tensors, labels = header // 2 + count * SNAPSHOT_TASK_STRUCT // 4, 0, 0
    loss = metadata.loss
    assert loss is not None  # the generator has refused such a model
    values, kind = model_loss(loss).labels(loss.elements)
    fields = {} if plan.program is None else plan.program.of_tasks
    for i, task in enumerate(plan.tasks):
        layer = task.layer
        if layer is None:
            total += 8 * task.queries
            tensors = max(tensors, len(task.tensors))
            continue
        total += 0 if task.in_tail else aligned(samples * layer.route_bytes)
        own = task.is_exact and i not in fields
        total += aligned(4 * task.queries * samples) + (aligned(2 * samples * layer.nodes) if own else 0)
        scratch = max(scratch, layer.scratch_values)
        labels = labels or (metadata.batch * values * np.dtype(kind).itemsize if task.is_exact else 0)
    if plan.program is not None:
        total += _backward_bytes(plan.program, samples)
        scratch = max(scratch, plan.program.scratch_values)
    return total + aligned(tensors * TENSOR_STRUCT) + aligned(4 * scratch) + aligned(labels)


def _backward_bytes(program: BackwardProgram, samples: int) -> int:
    """Returns the size of a backward program: structs, norms, addresses, and errors with exponents; bytes."""
    steps, fields = len(program.steps), len(program.fields)
    total = aligned(_BACKWARD_STRUCT) + aligned(fields * _ERROR_FIELD_STRUCT) + 2 * aligned(4 * steps) + aligned(fields)
    kept = (program.fields[i] for i in program.kept) if samples > 1 else ()
    return total + sum(aligned(2 * samples * count) + aligned(samples) for count in kept)


def flash_of_training(plan: LoweredRun) -> int:
    """Returns an upper bound of the flash that training adds to inference, without the model, bytes."""
    if not plan.tasks:
        return _WEIGHTS
    total = _NODES
    if any(task.is_exact for task in plan.tasks):
        total += _EXACT
    if plan.program is not None:
        total += _TAIL
    return total


@dataclasses.dataclass(frozen=True)
class LogSize:
    """Sizes of the parts of a log without padding, bytes."""

    header: int  # bytes of the header
    record: int  # bytes of the record of a step
    slot: int = 0  # size of a snapshot's slot; 0: the log has no snapshots


def log_size_of(metadata: ZoMetadata, run: LoweredRun) -> LogSize:
    """Returns the sizes of a run's log."""
    if not run.tasks:
        return LogSize(SEED_LOG_HEADER_BYTES, StepRecord.size_of(int(run.settings.queries)))
    slot = SnapshotLogHeader.slot_of(len(run.tasks), metadata.bytes_of(set(run.tensors)))
    return LogSize(SnapshotLogHeader.size_of(len(run.tasks)), SNAPSHOT_RECORD_BYTES, slot)


@dataclasses.dataclass(frozen=True)
class DeviceMemory:
    """Memory of a run on a device."""

    batch: int  # number of samples in an invoke: 1, or the batch that an operator requires
    minibatch: int  # samples of a step
    trained: int  # size of the trained weights and their fractions in the arena, bytes
    ram: Ram  # bytes of RAM by part
    flash: int  # upper bound of the flash that training adds to inference, without the model, bytes


def device_memory(model: Model, log: Log) -> DeviceMemory:
    """Returns the memory of a run in firmware of the same model and settings, from its log and the ZO model, of any
    batch, that it was recorded on. Raises ConversionError if the model does not fit its metadata.
    """
    try:
        model = with_batch(model, 1)
    except ConversionError:
        pass  # an operator ties it to its batch
    metadata = read_metadata(model)
    plan = lower_recorded(model, metadata, log.settings, log.tasks)
    device = device_model(model, plan)
    ram, trained = ram_of(model, metadata, device), metadata.bytes_of(device.trained)
    return DeviceMemory(metadata.batch, plan.minibatch, trained, ram, flash_of_training(plan))
