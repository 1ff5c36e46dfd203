"""The choice of the block of layers that is best trained."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.layerwise_runs import RNG, X, Y, mixed, poor_mans
from helpers.models import MODELS, lenet5
from tflm_zo import inject
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.logs import LogError
from tflm_zo.training import (
    BlockProbes,
    Settings,
    SettingsError,
    Trainer,
    Weights,
    algorithm,
    choose_block,
    inject_settings,
)
from tflm_zo.training.block_choice import BlockSearch


def test_against_training_each_block_alone() -> None:
    """Rebuilds the held-out part from the docstring of the choice."""
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
        runtime="litert",
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
        trainer = Trainer(model, dataclasses.replace(settings, layers=layers), runtime="litert")
        trainer.fit(X[rest], y[rest], epochs=2, keep="last")
        scores.append(int((trainer.predict(X[judged]).argmax(1) == y[judged]).sum()))
        equivalents += trainer.equivalents
    assert list(choice.scores) == scores
    assert choice.best == scores.index(max(scores))
    assert choice.layers == choice.blocks[choice.best]
    assert choice.equivalents == pytest.approx(equivalents)
    untrained = Trainer(model, settings, runtime="litert")
    assert choice.before == (untrained.predict(X[judged]).argmax(1) == y[judged]).sum()
    assert choice.value(choice.before) == choice.before / 10


#: Until a block has learned again, if that takes longer.
EPOCHS = {"conv2": 40}


@pytest.mark.parametrize("lost", ["conv2", "fc1", "fc2", "fc3"])
def test_the_block_that_a_task_needs(lost: str) -> None:
    """Finds a layer whose weights are lost: those before it change nothing, those behind it every output alike."""
    plain = load_model(lenet5())
    (filters,) = (t for t in plain.subgraphs[0].tensors if t.name == f"{lost}/filter")
    filters.set_data(np.zeros(filters.shape, np.int8))
    model = inject_all(plain, nodes="auto", batch=8)
    rng = np.random.default_rng(2)
    y = np.arange(200) % 10
    x = rng.integers(-128, 128, (10, 28, 28, 1))[y] + rng.normal(0, 10, (200, 28, 28, 1))
    x = np.clip(x, -128, 127).astype(np.int8)
    choice = choose_block(model, Settings(batch_size=8), x, y, blocks=4, epochs=EPOCHS.get(lost, 5))
    assert choice.blocks == (("conv2",), ("fc1",), ("fc2",), ("fc3",))
    assert choice.layers == (lost,)
    for layers, score in zip(choice.blocks, choice.scores, strict=True):
        # Of forty held-out samples four are of each class.
        assert score > 4 if layers == (lost,) else score == 4


@pytest.mark.parametrize("others", ["layers", "model"])
def test_same_choice_in_tflm(others: str) -> None:
    pytest.importorskip("tflite_micro", reason="TFLM is not installed")
    model, settings = mixed(), poor_mans(**{"weights.scope": others}, learning_rate=0.05)
    found = [choose_block(model, settings, X, Y, blocks=5, runtime=r) for r in ("litert", "tflm")]
    assert found[0] == found[1]
    assert found[0] == choose_block(model, settings, X, Y, blocks=5, runtime="litert")


def test_a_trainer_stays_as_it_is() -> None:
    model, settings = mixed(), poor_mans(learning_rate=0.05)
    trainer = Trainer(model, settings, runtime="litert")
    trainer.fit(X, Y, steps=2, keep="last")
    before = {name: w.copy() for name, w in trainer.runtime.read_weights().items()}
    choice = choose_block(trainer, None, X, Y, blocks=2)
    assert choice == choose_block(model, settings, X, Y, blocks=2, runtime="litert")
    assert trainer.settings == settings and trainer.step == 2
    after = trainer.runtime.read_weights()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("autoencoder", lambda shape: (RNG.uniform(-1, 1, (20, *shape)).astype(np.float32), None)),
        (
            "logistic_head",
            lambda shape: (RNG.uniform(-1, 1, (20, *shape)).astype(np.float32), RNG.integers(0, 2, (20, 3))),
        ),
    ],
)
def test_losses_that_are_not_of_classes(name: str, make: Any) -> None:
    """Scores by minus the sum of losses."""
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
        assert score == round(-loss_left / loss.unit * 4 * 65536)
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
        ({"blocks": 0}, r"`blocks` must be an integer in 1\.\.2147483648\. Received: 0"),
        ({"blocks": 6}, r"`blocks` must be in 1\.\.5, the number of trained layers \(conv1, conv2, fc1, fc2, fc3\)"),
        ({"blocks": 2.0}, r"`blocks` must be an integer in 1\.\.2147483648"),
        ({"epochs": 0}, r"`epochs` must be an integer in 1\.\.2147483648"),
        *(
            ({"held_out": share}, "`held_out` must divide the 40 labelled samples into two parts that are not empty")
            for share in (0.0, 0.01, 0.99, 1.0)
        ),
        ({"held_out": float("nan")}, r"`held_out` must be in 0\.\.1\. Received: nan"),
        ({"held_out": -0.5}, r"`held_out` must be in 0\.\.1"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        choose_block(mixed(), poor_mans(), X, Y, **options)


def test_refused_settings() -> None:
    with pytest.raises(SettingsError, match="`blocks` must be left out in runs of weight perturbation alone"):
        choose_block(mixed(), Settings(tasks=(Weights(),), batch_size=8), X, Y)  # type: ignore[arg-type]
    # Of the trained layers, not of all trainable ones.
    with pytest.raises(
        SettingsError, match=r"`blocks` must be in 1\.\.2, the number of trained layers \(fc1, fc2\)\. Received: 3"
    ):
        choose_block(mixed(), poor_mans(layers=("fc1", "fc2")), X, Y, blocks=3)
    # A block that would cut the exact tail, before anything is trained.
    with pytest.raises(
        SettingsError, match="`layers` must include fc3, because the exact gradient of layer fc2 comes back through it"
    ):
        choose_block(mixed(tail=2), poor_mans(**{"exact.last": 2}), X, Y, blocks=5)
    with pytest.raises(ValueError, match="x has 40 samples, y has 3 labels"):
        choose_block(mixed(), poor_mans(), X, Y[:3])


def test_budget() -> None:
    """Computes by hand: a step of the dearest block and the probes must fit."""
    model = mixed()
    probes = BlockProbes(model, poor_mans(), X, Y, BlockSearch(5))
    # conv1's: 8 samples through the whole network, once as it is and once for each of two queries.
    first = 8 * (1 + 2)
    least = probes.equivalents + first
    assert probes.rest_of(least + 1, 40) == pytest.approx(first + 1)
    with pytest.raises(
        ValueError, match="`budget` must be at least 316 forward equivalents: 292 for probes of 5 blocks, and 24 for a"
    ):
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
