# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Training of some layers alone, and the choice of the block of layers that is best trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.models import MODELS, lenet5
from helpers.settings import settings_of
from tflm_zo import inject
from tflm_zo.converters import Model, load_model, read_metadata
from tflm_zo.core import NativeError, Status
from tflm_zo.logs import LogError, SnapshotLog
from tflm_zo.training import (
    BlockProbes,
    Nodes,
    Settings,
    SettingsError,
    Trainer,
    Weights,
    algorithm,
    choose_block,
    inject_settings,
    replay_log,
)
from tflm_zo.training.block_choice import BlockControl
from tflm_zo.training.block_search import BlockSearch

RNG = np.random.default_rng(11)
X = RNG.integers(-128, 128, (40, 28, 28, 1)).astype(np.int8)
Y = RNG.integers(0, 10, 40)
LAYERS = ["conv1", "conv2", "fc1", "fc2", "fc3"]


def mixed(**options: Any) -> Model:
    """LeNet-5; conv1 alone carries no nodes."""
    return inject(lenet5(), inject_settings(algorithm("poor-mans-training"), batch=8), **options)


def poor_mans(**options: Any) -> Settings:
    queries = {"nodes.queries": 2, "weights.queries": 2}
    settings = settings_of("poor-mans-training", {"batch_size": 8, **queries, **options})
    return settings


def changed(model: Model, trainer: Trainer) -> list[str]:
    """Layers whose weights are not those that the model starts with."""
    fresh = Trainer(model, trainer.settings).runtime
    fresh.invoke(fresh.command(loss=False).restore())
    initial, now = fresh.read_weights(), trainer.runtime.read_weights()
    return [
        t.layer
        for t in trainer.runtime.metadata.trainable
        if not np.array_equal(initial[t.name], now[t.name])
    ]


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
def test_only_these_layers_are_trained(
    only: tuple[str, ...] | None, layers: list[str], tmp_path: Path
) -> None:
    model = mixed()
    trainer = Trainer(model, poor_mans(layers=only, snapshot_every=2), runtime="litert-ref")
    trainer.fit(X, Y, steps=3, log=tmp_path / "a.zolog", keep="last")
    assert changed(model, trainer) == layers
    # What the log says leads to the same weights.
    log = SnapshotLog.read(tmp_path / "a.zolog")
    names = [t.layer for t in read_metadata(model).trainable]
    assert sorted(names[i] for task in log.tasks for i in task.tensors) == sorted(layers)
    weights, _ = replay_log(model, log)
    now = trainer.runtime.read_weights()
    assert all(np.array_equal(weights[name], now[name]) for name in now)


def test_a_trained_layer_is_estimated_as_beside_others() -> None:
    """All layers are estimated at the same weights: after one step a layer is where it would be with all."""
    model, first, second = mixed(), {}, {}
    for only, weights in ((None, first), (("fc3", "fc2"), second)):
        # The seeds of a task's directions go by its number, which others before it would change.
        trainer = Trainer(model, poor_mans(layers=only, **{"exact.last": 2}), runtime="litert-ref")
        trainer.fit(X, Y, steps=1, keep="last")
        weights.update(trainer.runtime.read_weights())
    trainable = [t for t in read_metadata(model).trainable if t.layer in ("fc2", "fc3")]
    assert len(trainable) == 2
    for t in trainable:
        # Rounding of fractions is drawn by the task's number, too.
        difference = np.abs(first[t.name].astype(int) - second[t.name])
        assert difference.max() <= 1 and difference.mean() < 0.05


def test_what_is_not_trained_costs_nothing() -> None:
    """By hand: fc2's input is kept of the 16 samples that two steps use; fc2's queries run fc3, its update is
    its products.
    """
    trainer = Trainer(mixed(), poor_mans(layers=("fc2",)))
    trainer.fit(X, Y, steps=2, keep="last")
    conv1, conv2, fc1, fc2, fc3 = 117_600, 240_000, 48_000, 10_080, 840
    whole = conv1 + conv2 + fc1 + fc2 + fc3
    macs = 16 * (conv1 + conv2 + fc1) + 2 * 8 * (fc2 + fc3 + 2 * fc3 + fc2)
    assert trainer.equivalents == pytest.approx(macs / whole)


def test_weights_together_around_a_layer_with_nodes(tmp_path: Path) -> None:
    """The log stores a first tensor and a number: what is not consecutive becomes tasks of its own."""
    model = inject_all(lenet5(), nodes=("fc1",), batch=8)
    settings = Settings(tasks=(Nodes(), Weights()), batch_size=8, snapshot_every=1)
    for only, expected in (
        (None, [(2,), (0, 1), (3, 4)]),
        (("conv1", "fc?"), [(2,), (0,), (3, 4)]),
        (("conv*", "fc3"), [(0, 1), (4,)]),
    ):
        trainer = Trainer(model, dataclasses.replace(settings, layers=only), runtime="litert-ref")
        log = tmp_path / "log"
        trainer.fit(X, Y, steps=2, log=log, replace=True, keep="last")
        read = SnapshotLog.read(log)
        assert [task.tensors for task in read.tasks] == expected
        weights, _ = replay_log(model, read)
        now = trainer.runtime.read_weights()
        assert all(np.array_equal(weights[name], now[name]) for name in now)
        again = Trainer(model, dataclasses.replace(settings, layers=only), runtime="litert-ref")
        again.fit(X, Y, steps=2, log=log, resume=True, keep="last")
        assert again.step == 2


@pytest.mark.parametrize(
    ("injection", "chosen", "message"),
    [
        (
            {},
            {"layers": ("fc9",)},
            "layers: no layer that is trained fits 'fc9'; there are conv1, conv2, fc1,",
        ),
        ({}, {"layers": ("fc1", "pool*")}, "fits 'pool[*]'; there are conv1"),
        (
            {},
            {"layers": ("fc2",), "exact.last": 2},
            "gradient of layer fc2 comes back through layer fc3, which is left out",
        ),
        (
            {},
            {"layers": ("fc1", "fc3"), "exact.last": 3},
            "gradient of layer fc1 comes back through layer fc2",
        ),
    ],
)
def test_layers_that_cannot_be_trained_alone(
    injection: dict[str, Any], chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        Trainer(mixed(**injection), poor_mans(**chosen))


def test_layers_of_no_task() -> None:
    settings = Settings(tasks=(poor_mans().nodes,), batch_size=8, layers="conv1")
    with pytest.raises(SettingsError, match="fits 'conv1'; there are conv2, fc1, fc2, fc3$"):
        Trainer(mixed(), settings)


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ((), "expected at least one layer"),
        (("fc1", 2), "expected names of layers"),
    ],
)
def test_bad_only(only: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings(layers=only)


def test_a_name_is_no_pattern() -> None:
    """Of layers called a? and ab, a? is the first one alone."""
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


# --- the choice ---------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2), min_size=1, max_size=20))
def test_the_best_score_counts(scores: list[int]) -> None:
    control, asked = BlockControl(len(scores)), []
    while (block := control.next()) is not None:
        asked.append(block)
        control.report(scores[block])
    assert asked == list(range(len(scores)))
    assert control.best == scores.index(max(scores))
    with pytest.raises(NativeError) as error:
        control.report(0)
    assert error.value.status == Status.ORDER


def test_there_is_a_block() -> None:
    with pytest.raises(NativeError):
        BlockControl(0)


def test_against_training_each_block_alone() -> None:
    """The held-out part is whatever the choice says it is not trained on: here rebuilt from the docstring."""
    model, settings = mixed(), poor_mans(seed=4, learning_rate=0.05)
    y = np.repeat(np.arange(10), 4)
    told: list[tuple[int, int, int]] = []
    choice = choose_block(
        model,
        settings,
        X,
        y,
        blocks=3,
        held_out=0.25,
        epochs=2,
        runtime="litert-ref",
        progress=lambda *what: told.append(what),
    )
    assert choice.blocks == (("conv1", "conv2"), ("fc1", "fc2"), ("fc3",))
    assert choice.held_out == 10  # one of each class
    # 30 samples to train on: 4 steps an epoch.
    assert told == [(block, 8 * block + step + 1, 24) for block in range(3) for step in range(8)]

    order = np.random.default_rng(4).permutation(40)
    judged = np.sort([next(i for i in order if y[i] == label) for label in range(10)])
    rest = np.setdiff1d(np.arange(40), judged)
    scores, equivalents = [], 4 * 10.0
    for layers in choice.blocks:
        trainer = Trainer(model, dataclasses.replace(settings, layers=layers), runtime="litert-ref")
        trainer.fit(X[rest], y[rest], epochs=2, keep="last")
        scores.append(int((trainer.predict(X[judged]).argmax(1) == y[judged]).sum()))
        equivalents += trainer.equivalents
    assert list(choice.scores) == scores
    assert choice.best == scores.index(max(scores))
    assert choice.layers == choice.blocks[choice.best]
    assert choice.equivalents == pytest.approx(equivalents)
    untrained = Trainer(model, settings, runtime="litert-ref")
    assert choice.before == (untrained.predict(X[judged]).argmax(1) == y[judged]).sum()
    assert choice.value(choice.before) == choice.before / 10


@pytest.mark.parametrize("lost", ["conv2", "fc1", "fc2", "fc3"])
def test_the_block_that_a_task_needs(lost: str) -> None:
    """A layer whose weights are gone passes nothing on: what is before it cannot change the output at all,
    what is behind it can only change the same output for every sample.
    """
    plain = load_model(lenet5())
    (filters,) = (t for t in plain.subgraphs[0].tensors if t.name == f"{lost}/filter")
    filters.set_data(np.zeros(filters.shape, np.int8))
    model = inject_all(plain, nodes="auto", batch=8)
    rng = np.random.default_rng(2)
    y = np.arange(200) % 10
    x = rng.integers(-128, 128, (10, 28, 28, 1))[y] + rng.normal(0, 10, (200, 28, 28, 1))
    x = np.clip(x, -128, 127).astype(np.int8)
    choice = choose_block(model, Settings(batch_size=8), x, y, blocks=4, epochs=5)
    assert choice.blocks == (("conv2",), ("fc1",), ("fc2",), ("fc3",))
    assert choice.layers == (lost,)
    for layers, score in zip(choice.blocks, choice.scores, strict=True):
        # Of forty held-out samples four are of each class.
        assert score > 4 if layers == (lost,) else score == 4


@pytest.mark.parametrize("others", ["layers", "model"])
def test_same_choice_in_tflm(others: str) -> None:
    pytest.importorskip("tflite_micro", reason="TFLM is not installed")
    model, settings = mixed(), poor_mans(**{"weights.scope": others}, learning_rate=0.05)
    found = [choose_block(model, settings, X, Y, blocks=5, runtime=r) for r in ("litert-ref", "tflm")]
    assert found[0] == found[1]
    assert found[0] == choose_block(model, settings, X, Y, blocks=5, runtime="litert-ref")


def test_a_trainer_stays_as_it_is() -> None:
    model, settings = mixed(), poor_mans(learning_rate=0.05)
    trainer = Trainer(model, settings, runtime="litert-ref")
    trainer.fit(X, Y, steps=2, keep="last")
    before = {name: w.copy() for name, w in trainer.runtime.read_weights().items()}
    choice = choose_block(trainer, None, X, Y, blocks=2)
    assert choice == choose_block(model, settings, X, Y, blocks=2, runtime="litert-ref")
    assert trainer.settings == settings and trainer.step == 2
    after = trainer.runtime.read_weights()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("autoencoder", lambda shape: (RNG.uniform(-1, 1, (20, *shape)).astype(np.float32), None)),
        (
            "logistic_head",
            lambda shape: (
                RNG.uniform(-1, 1, (20, *shape)).astype(np.float32),
                RNG.integers(0, 2, (20, 3)),
            ),
        ),
    ],
)
def test_losses_that_are_not_of_classes(name: str, make: Any) -> None:
    """Scored by minus the sum of losses."""
    model = inject_all(MODELS[name](), nodes="*", batch=4)
    settings = Settings(batch_size=4, seed=9)
    loss = read_metadata(model).loss
    assert loss is not None
    details = Trainer(model, settings).runtime.input_details()
    x, y = make(details[0][1:])
    if y is not None:
        y = RNG.integers(0, 2, (20, loss.elements))
    choice = choose_block(model, settings, x, y, blocks=2, held_out=0.2)
    assert not choice.of_classes and choice.held_out == 4
    judged = np.sort(np.random.default_rng(9).permutation(20)[:4])
    rest = np.setdiff1d(np.arange(20), judged)
    for layers, score in zip(choice.blocks, choice.scores, strict=True):
        trainer = Trainer(model, dataclasses.replace(settings, layers=layers))
        trainer.fit(x[rest], None if y is None else y[rest], epochs=1, keep="last")
        loss_left = trainer.evaluate(x[judged], None if y is None else y[judged])["loss"]
        assert score == round(-loss_left * 4 * 65536)
        assert choice.value(score) == pytest.approx(loss_left)
    assert choice.best == int(np.argmax(choice.scores))


def test_unlabelled_samples_are_not_judged_by() -> None:
    y = np.where(np.arange(40) < 30, -1, Y)
    probes = BlockProbes(mixed(), poor_mans(), X, y, BlockSearch(2, 0.3))
    judged = probes._judge
    assert len(judged) == 3 and (judged.labels >= 0).all()
    assert len(probes._train) == 37
    assert {a.tobytes() for a in judged.inputs[0]} <= {a.tobytes() for a in X[30:]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, r"blocks: expected an integer in 1\.\..*, got 0"),
        ({"blocks": 6}, r"blocks: expected 1..5, .*\(conv1, conv2, fc1, fc2, fc3\), got 6"),
        ({"blocks": 2.0}, "blocks: expected an integer"),
        ({"epochs": 0}, "epochs: expected an integer"),
        ({"held_out": 0.0}, "held_out: .* got 0 of 40 labelled"),
        ({"held_out": 0.01}, "held_out: .* got 0.01 of 40 labelled"),
        ({"held_out": 1.0}, "held_out: .* got 1 of 40 labelled"),
        ({"held_out": 0.99}, "held_out: .* got 0.99 of 40 labelled"),
        ({"held_out": float("nan")}, "held_out: expected 0..1, got nan"),
        ({"held_out": -0.5}, "held_out: expected 0..1"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        choose_block(mixed(), poor_mans(), X, Y, **options)


def test_refused_settings() -> None:
    with pytest.raises(SettingsError, match="a block is chosen for layer-wise runs"):
        choose_block(mixed(), Settings(tasks=(Weights(),), batch_size=8), X, Y)  # type: ignore[arg-type]
    # Of the layers that are trained, not of all that could be.
    with pytest.raises(SettingsError, match=r"1..2, .*\(fc1, fc2\), got 3"):
        choose_block(mixed(), poor_mans(layers=("fc1", "fc2")), X, Y, blocks=3)
    # A block that would cut the exact tail, before anything is trained.
    with pytest.raises(SettingsError, match="gradient of layer fc2 comes back through layer fc3"):
        choose_block(mixed(), poor_mans(**{"exact.last": 2}), X, Y, blocks=5)
    with pytest.raises(ValueError, match="x has 40 samples, y has 3 labels"):
        choose_block(mixed(), poor_mans(), X, Y[:3])


def test_budget() -> None:
    """By hand: a step of the dearest block and the probes must fit."""
    model = mixed()
    probes = BlockProbes(model, poor_mans(), X, Y, BlockSearch(5))
    # conv1's: 8 samples through the whole network, once as it is and once for each of two queries.
    first = 8 * (1 + 2)
    least = probes.equivalents + first
    assert probes.rest_of(least + 1, 40) == pytest.approx(first + 1)
    with pytest.raises(ValueError, match=r"the probes of 5 blocks take \d+ forward equivalents"):
        probes.rest_of(least - 1, 40)


def test_the_block_of_a_log(tmp_path: Path) -> None:
    model, settings = mixed(), poor_mans()
    probes = BlockProbes(model, settings, X, Y, BlockSearch(3))
    for block in range(3):
        log = tmp_path / f"{block}.zolog"
        Trainer(model, probes.settings_of(block)).fit(X, Y, steps=1, log=log, keep="last")
        assert probes.block_of(log) == block
    Trainer(model, poor_mans(layers=("fc1",))).fit(X, Y, steps=1, log=tmp_path / "other.zolog", keep="last")
    with pytest.raises(LogError, match="trains fc1, which is none of the blocks: conv1, conv2; fc1"):
        probes.block_of(tmp_path / "other.zolog")
    other = inject(lenet5(seed=77), inject_settings(algorithm("poor-mans-training"), batch=8))
    with pytest.raises(LogError, match="another model"):
        BlockProbes(other, settings, X, Y, BlockSearch(3)).block_of(tmp_path / "0.zolog")
