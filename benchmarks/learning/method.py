# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A way to adapt a task's model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """One way.

    Attributes:
        summary: one line.
        algorithm: name of an algorithm of `tflm_zo.training.algorithms`; "" for backpropagation in Keras.
        injection: differences from the algorithm's own injection.
        settings: by name, differences from the algorithm's own settings.
        exact: whether the algorithm's exact gradients are taken; without, these layers are perturbed, too.
        rate: factor of the measured learning rate.
        last_layer: whether the last layer alone is trained.
        most_steps: of a method whose steps cost next to nothing; None: as many as the budget is good for.
        rehearsal: whether samples of the old domain are mixed in, as many as the task has.
        steps: the published number, independent of the budget; None: as many as the budget allows.
        integer: full backpropagation in int8 instead, with that rule.
        frozen_norm: of full backpropagation in float32, whether batch norm keeps its statistics.
        choose_block: number of blocks of layers, the best of which is trained alone; 0: all layers are. The
            budget includes the probes.
        probe_epochs: of each probe.
        recalibrate: whether the model is recalibrated with the samples that it adapts on, before.
        chosen: whether the way to train is chosen on held-out samples, as by `tflm-zo train` without an algorithm. The
            budget does not count.
        device: of a chosen way, the device, as `zo.adapt` takes it.
    """

    summary: str
    algorithm: str
    injection: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    exact: bool = True
    rate: float = 1.0
    last_layer: bool = False
    most_steps: int | None = None
    rehearsal: bool = False
    steps: int | None = None
    integer: str = ""
    frozen_norm: bool = True
    choose_block: int = 0
    probe_epochs: int = 1
    recalibrate: bool = False
    chosen: bool = False
    device: dict[str, Any] = field(default_factory=dict)
