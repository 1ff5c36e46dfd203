# SPDX-License-Identifier: Apache-2.0
"""Plans of runs in the integers of the C core, which the generator writes into firmware."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..core import BackwardProgram, TaskKind


@dataclasses.dataclass(frozen=True)
class TaskPlan:
    """A task of a layer-wise run.

    Attributes:
        values: fields of ``zo_node_task`` that are plain numbers, by name.
        layer: fields of ``zo_node_layer``, in order; empty for perturbed weights.
        gain: mantissa and exponent of the task's gain.
        first_tensor: number of its first trainable tensor.
        tensors: number of its trainable tensors.
        input_segment: number of the segment that the layer's input enters; 0: input 0 of the network.
        output_segment: number of the segment that the layer's output enters.
        scales: int16 [outputs], scales of an exact task, or None.
        input_bytes: bytes of a pair's input, per sample; 0 where biases alone are trained, which need none.
        route_bytes: bytes of a pair's route, per sample.
        nodes: number of nodes per sample.
        scratch_values: number of int32 values that an update needs.
        field: number of the task's field in the run's backward program, or None.
    """

    values: Mapping[str, int]
    layer: tuple[int, ...]
    gain: tuple[int, int]
    first_tensor: int
    tensors: int
    input_segment: int = 0
    output_segment: int = 0
    scales: npt.NDArray[np.int16] | None = None
    input_bytes: int = 0
    route_bytes: int = 0
    nodes: int = 0
    scratch_values: int = 0
    field: int | None = None

    @property
    def perturbs_weights(self) -> bool:
        """True if the task perturbs weights."""
        return self.values["kind"] == TaskKind.WEIGHTS


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """Plan of a run: the part that all kinds of runs share.

    Attributes:
        settings: fields of ``zo_control_settings`` by name, in order; nested ones as tuples.
        multipliers: int32 [channels] by tensor name that replace the model's own.
        words: the settings in words, for comments: name and value.
    """

    settings: Mapping[str, int | tuple[int, ...]]
    multipliers: Mapping[str, npt.NDArray[np.int32] | None]
    words: Mapping[str, str]

    def value(self, name: str) -> int:
        """A setting that is a number."""
        value = self.settings[name]
        assert isinstance(value, int)
        return value


@dataclasses.dataclass(frozen=True)
class WeightRunPlan(RunPlan):
    """Plan of a run by weight perturbation.

    Attributes:
        block_segments: first segment of each block.
    """

    block_segments: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class NodeRunPlan(RunPlan):
    """Plan of a layer-wise run.

    Attributes:
        rules: fields of ``zo_node_settings`` after ``common``, by name, in order.
        tasks: tasks of the run, in order.
        interval: number of steps between snapshots of the log.
        backward: program that leads errors back to the tasks of an exact tail, or None.
    """

    rules: Mapping[str, int | tuple[int, ...]] = dataclasses.field(default_factory=dict)
    tasks: tuple[TaskPlan, ...] = ()
    interval: int = 100
    backward: BackwardProgram | None = None


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """A block of layers that may turn out to be the one that is trained.

    Attributes:
        layers: names of the block's layers.
        probe: plan of the block's probe: the run's tasks and settings but for numbers of steps and samples.
        run: plan of the run that trains the block alone, on all samples.
    """

    layers: tuple[str, ...]
    probe: NodeRunPlan
    run: NodeRunPlan


@dataclasses.dataclass(frozen=True)
class BlockRunPlan(NodeRunPlan):
    """A layer-wise run of the best of several blocks of layers, which probes on the device find.

    The fields of `NodeRunPlan` are those of a run of all blocks' tasks.

    Attributes:
        blocks: blocks in execution order.
        held_out: numbers of the samples that judge probes, rising.
    """

    blocks: tuple[BlockPlan, ...] = ()
    held_out: tuple[int, ...] = ()


def runs_of(plan: RunPlan) -> list[NodeRunPlan]:
    """Returns the layer-wise runs that a plan has: those of its blocks, itself, or none."""
    if isinstance(plan, BlockRunPlan):
        return [block.run for block in plan.blocks]
    return [plan] if isinstance(plan, NodeRunPlan) else []
