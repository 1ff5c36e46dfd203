# SPDX-License-Identifier: Apache-2.0
"""What a run does, in the integers of the C core: what the generator needs to know of training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class TaskPlan:
    """A task of a layer-wise run.

    Attributes:
        values: fields of ``zo_node_task`` that are plain numbers, by name.
        layer: fields of ``zo_node_layer``, in order; empty for perturbed weights.
        gain: mantissa and exponent.
        first_tensor: number of its first trainable tensor.
        tensors: how many.
        input_segment: what enters it is the layer's input; 0: input 0 of the network.
        output_segment: the layer's output enters it.
        scales: int16 [outputs] of an exact task, or None.
        input_bytes: of a pair, per sample.
        route_bytes: of a pair, per sample.
        nodes: per sample.
        scratch_values: int32 values that an update needs.
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

    @property
    def perturbs_weights(self) -> bool:
        """Whether it is a weight task."""
        return self.values["kind"] == 1


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """What all runs have.

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
    """Weight perturbation.

    Attributes:
        block_segments: first segment of each block.
    """

    block_segments: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class NodeRunPlan(RunPlan):
    """A layer-wise run.

    Attributes:
        rules: fields of ``zo_node_settings`` after ``common``, by name, in order.
        tasks: in order.
        interval: steps between snapshots of the log.
    """

    rules: Mapping[str, int | tuple[int, ...]] = dataclasses.field(default_factory=dict)
    tasks: tuple[TaskPlan, ...] = ()
    interval: int = 100


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """A block of layers that may turn out to be the one that is trained.

    Attributes:
        layers: their names.
        probe: of its probe: the run's settings but for numbers of steps and samples, and the same tasks.
        run: that trains it alone, on all samples.
    """

    layers: tuple[str, ...]
    probe: NodeRunPlan
    run: NodeRunPlan


@dataclasses.dataclass(frozen=True)
class BlockRunPlan(NodeRunPlan):
    """A layer-wise run of the best of several blocks of layers, which probes on the device find.

    What it has of `NodeRunPlan` is the run of all blocks' tasks.

    Attributes:
        blocks: in order.
        held_out: numbers of the samples that judge probes, rising.
    """

    blocks: tuple[BlockPlan, ...] = ()
    held_out: tuple[int, ...] = ()
