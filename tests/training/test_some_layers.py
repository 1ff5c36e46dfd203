"""Training of some layers alone."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.layerwise_runs import X, Y, mixed, poor_mans
from helpers.models import lenet5
from tflm_zo.converters import Model, read_metadata
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Nodes, Settings, SettingsError, Trainer, Weights

LAYERS = ["conv1", "conv2", "fc1", "fc2", "fc3"]


def changed(model: Model, trainer: Trainer) -> list[str]:
    """Lists layers whose weights differ from the model's initial ones."""
    fresh = Trainer(model, trainer.settings).runtime
    fresh.invoke(fresh.command(loss=False).restore())
    initial, now = fresh.read_weights(), trainer.runtime.read_weights()
    return [t.layer for t in trainer.runtime.metadata.trainable if not np.array_equal(initial[t.name], now[t.name])]


# --- some layers alone --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "layers"),
    [
        (None, LAYERS),
        (("fc2",), ["fc2"]),
        (("conv1",), ["conv1"]),
        (("fc*",), ["fc1", "fc2", "fc3"]),
        (("fc?", "conv1"), ["conv1", "fc1", "fc2", "fc3"]),
        (("*2", "fc2"), ["conv2", "fc2"]),
    ],
)
def test_only_these_layers_are_trained(only: tuple[str, ...] | None, layers: list[str], tmp_path: Path) -> None:
    model = mixed()
    trainer = Trainer(model, poor_mans(layers=only, snapshot_every=2), runtime="litert")
    trainer.fit(X, Y, steps=3, log=tmp_path / "a.zolog", keep="last")
    assert changed(model, trainer) == layers
    # The log leads to the same weights.
    log = Log.read(tmp_path / "a.zolog")
    names = [t.layer for t in read_metadata(model).trainable]
    assert sorted(names[i] for task in log.tasks for i in task.tensors) == sorted(layers)
    weights, _ = replay_log(model, log)
    now = trainer.runtime.read_weights()
    assert all(np.array_equal(weights[name], now[name]) for name in now)


def test_a_trained_layer_is_estimated_as_beside_others() -> None:
    """Estimates all layers at the same weights: after one step a layer equals its result with all layers."""
    model, first, second = mixed(tail=2), {}, {}
    for only, weights in ((None, first), (("fc3", "fc2"), second)):
        # The seeds of a task's directions go by its number, which others before it would change.
        trainer = Trainer(model, poor_mans(layers=only, **{"exact.last": 2}), runtime="litert")
        trainer.fit(X, Y, steps=1, keep="last")
        weights.update(trainer.runtime.read_weights())
    trainable = [t for t in read_metadata(model).trainable if t.layer in ("fc2", "fc3")]
    assert len(trainable) == 2
    for t in trainable:
        # Rounding of fractions is drawn by the task's number, too.
        difference = np.abs(first[t.name].astype(int) - second[t.name])
        assert difference.max() <= 1 and difference.mean() < 0.05


def test_errors_come_back_through_a_layer_that_stays() -> None:
    """Trains fc1 by the same errors, whether fc2 behind it is trained or not."""
    model, moved = mixed(tail=3), {}
    for only in (None, ("fc1", "fc3")):
        trainer = Trainer(model, poor_mans(layers=only, learning_rate=2.0, **{"exact.last": 3}), runtime="litert")
        trainer.fit(X, Y, steps=1, keep="last")
        weights = trainer.runtime.read_weights()
        moved[only] = {t.layer: weights[t.name].astype(int) for t in read_metadata(model).trainable}
        assert changed(model, trainer) == (LAYERS if only is None else ["fc1", "fc3"])
    # Rounding of fractions is drawn by the task's number.
    difference = np.abs(moved[None]["fc1"] - moved["fc1", "fc3"]["fc1"])
    assert difference.max() <= 1 and difference.mean() < 0.05


def test_weights_together_around_a_layer_with_nodes(tmp_path: Path) -> None:
    """Splits tensors that are not consecutive into tasks of their own: the log stores a first tensor and a number."""
    model = inject_all(lenet5(), nodes=("fc1",), batch=8)
    settings = Settings(tasks=(Nodes(), Weights()), batch_size=8, snapshot_every=1)
    for only, expected in (
        (None, [(2,), (0, 1), (3, 4)]),
        (("conv1", "fc?"), [(2,), (0,), (3, 4)]),
        (("conv*", "fc3"), [(0, 1), (4,)]),
    ):
        trainer = Trainer(model, dataclasses.replace(settings, layers=only), runtime="litert")
        log = tmp_path / "log"
        trainer.fit(X, Y, steps=2, log=log, replace=True, keep="last")
        read = Log.read(log)
        assert [task.tensors for task in read.tasks] == expected
        weights, _ = replay_log(model, read)
        now = trainer.runtime.read_weights()
        assert all(np.array_equal(weights[name], now[name]) for name in now)
        again = Trainer(model, dataclasses.replace(settings, layers=only), runtime="litert")
        again.fit(X, Y, steps=2, log=log, resume=True, keep="last")
        assert again.step == 2


@pytest.mark.parametrize(
    ("injection", "chosen", "message"),
    [
        ({}, {"layers": ("fc9",)}, r"`layers` must name trained layers \(conv1, conv2, fc1, fc2, fc3\)"),
        ({}, {"layers": ("fc1", "pool*")}, r"`layers` must name trained layers \(conv1, conv2, fc1, fc2, fc3\)"),
        (
            {"tail": 2},
            {"layers": ("fc2",), "exact.last": 2},
            "`layers` must include fc3, because the exact gradient of layer fc2 comes back through it",
        ),
    ],
)
def test_layers_that_cannot_be_trained_alone(injection: dict[str, Any], chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Trainer(mixed(**injection), poor_mans(**chosen))


def test_layers_of_no_task() -> None:
    settings = Settings(tasks=(poor_mans().nodes,), batch_size=8, layers="conv1")
    with pytest.raises(SettingsError, match=r"`layers` must name trained layers \(conv2, fc1, fc2, fc3\)"):
        Trainer(mixed(), settings)


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ((), "`layers` must name at least one layer, or be None for all"),
        (("fc1", 2), "`layers` must be names of layers or patterns"),
    ],
)
def test_bad_only(only: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings(layers=only)


def test_a_name_is_no_pattern() -> None:
    """Selects the first alone of layers called a? and ab, by a?."""
    metadata = read_metadata(mixed())
    renamed = [
        dataclasses.replace(t, layer=name)
        for t, name in zip(metadata.trainable, ["a?", "ab", "c", "d", "e"], strict=True)
    ]
    from tflm_zo.training.plan import trained_tensors

    found = dataclasses.replace(metadata, trainable=tuple(renamed))
    assert trained_tensors(poor_mans(layers=("a?",)), found) == [0]
    assert trained_tensors(poor_mans(layers=("?b",)), found) == [1]
    assert trained_tensors(poor_mans(layers=("a*",)), found) == [0, 1]
