# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Algorithms by name, and the weights of a snapshot log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS
from tflm_zo import inject
from tflm_zo.converters import InjectSettings, read_metadata
from tflm_zo.logs import LogError, SnapshotLog
from tflm_zo.training import (
    ALGORITHMS,
    NodeSettings,
    SettingsError,
    Trainer,
    TrainSettings,
    algorithm,
    algorithm_of,
    snapshot_weights,
)

RNG = np.random.default_rng(3)
X = RNG.integers(-128, 128, (24, 28, 28, 1)).astype(np.int8)
Y = RNG.integers(0, 10, 24)


def test_names() -> None:
    assert list(ALGORITHMS)[:2] == ["node", "weight"]
    assert all(algorithm(name).name == name and algorithm(name).summary for name in ALGORITHMS)
    with pytest.raises(SettingsError, match="no 'adam'; there are node, weight, "):
        algorithm("adam")


def test_settings() -> None:
    assert algorithm("node").make() == NodeSettings()
    assert algorithm("weight").make() == TrainSettings()
    assert algorithm("node").make(mu=4, rate=0.5) == NodeSettings(mu=4, rate=0.5)
    with pytest.raises(SettingsError, match="scope: algorithm node has no such setting; it has batch_size, "):
        algorithm("node").make(scope="blocks")
    with pytest.raises(SettingsError, match="mu: expected an integer"):
        algorithm("node").make(mu=0)
    assert algorithm("weight").inject_settings() == InjectSettings(algorithm="weight")
    assert algorithm("node").inject_settings(batch=4, head_room=1) == InjectSettings(
        trainable="nodes", nodes="auto", head_room=1, replay=False, batch=4, algorithm="node"
    )
    with pytest.raises(SettingsError, match="perturbs weights, not nodes"):
        algorithm("weight").inject_settings(nodes="auto")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_model_injected_for_an_algorithm_is_trained_by_it(name: str) -> None:
    model = inject(MODELS["lenet5"](), algorithm(name).inject_settings(batch=8))
    assert algorithm_of(read_metadata(model)).name == name
    settings = algorithm(name).make(batch_size=8)
    history = Trainer(model, settings).fit(X, Y, steps=2, keep="last")
    assert len(history.steps) == 2


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("trainable", ["nodes", "all"])
def test_snapshot_weights(bits: int, trainable: str, tmp_path: Path) -> None:
    """What the trainer has; layers without nodes are what they were."""
    log = tmp_path / "log"
    more: dict[str, Any] = {"trainable": trainable, "update_bits": bits, "nodes": ["conv2", "fc3"]}
    model = inject(MODELS["lenet5"](), algorithm("node").inject_settings(batch=8, **more))
    trainer = Trainer(model, NodeSettings(batch_size=8, snapshot_every=2))
    before = trainer.runtime
    before.invoke(before.command(loss=False).restore())
    initial = before.read_weights()
    trainer.fit(X, Y, steps=5, log=log, keep="last")
    weights, fractions = snapshot_weights(model, SnapshotLog.read(log))
    for found, expected in (
        (weights, trainer.runtime.read_weights()),
        (fractions, trainer.runtime.read_fractions()),
    ):
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
        assert all(found[name].shape == expected[name].shape for name in expected)
    changed = {name for name in weights if not np.array_equal(weights[name], initial[name])}
    assert changed == {"conv2/filter", "fc3/filter"}
    assert bool(fractions) == (bits == 16)

    other = inject(MODELS["lenet5"](7), algorithm("node").inject_settings(batch=8, **more))
    with pytest.raises(LogError, match="another model"):
        snapshot_weights(other, SnapshotLog.read(log))
