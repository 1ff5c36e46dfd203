# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Settings of runs from one flat table of names, as ``--set`` has them."""

from __future__ import annotations

from typing import Any

from tflm_zo.training import Settings, Weights, algorithm
from tflm_zo.training.setting_names import changed


def weight_settings(**given: Any) -> Settings:
    """Of weight perturbation alone, with minibatches of 64."""
    return changed(Settings(tasks=(Weights(),), batch_size=64), given)


def layerwise_settings(**given: Any) -> Settings:
    """Of node perturbation and the tasks that names add."""
    return changed(Settings(), given)


def settings_of(name: str, given: dict[str, Any] | None = None, **more: Any) -> Settings:
    """Of an algorithm, with values by name."""
    return changed(algorithm(name), {**(given or {}), **more})
