"""Runs that train biases: their requirements of the model, their moves, and unchanged biases."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS, residual
from tflm_zo.converters import Last, Model, export_model, initial_weights, load_model, read_metadata
from tflm_zo.firmware import plan_run
from tflm_zo.firmware.device_model import device_model
from tflm_zo.firmware.sizes import workspace_bytes
from tflm_zo.logs import Log
from tflm_zo.logs.replay import replay_log
from tflm_zo.training import (
    Exact,
    Nodes,
    Settings,
    SettingsError,
    Trainer,
    Weights,
    algorithm_for,
    inject_for,
    inject_settings,
    trained_layers,
)

SAMPLES, CLASSES = 24, 6
RNG = np.random.default_rng(2)
X = RNG.integers(-128, 128, (SAMPLES, 8, 8, 3)).astype(np.int8)
Y = RNG.integers(0, CLASSES, SAMPLES).astype(np.int32)
USUAL = Settings(tasks=(Nodes(queries=2, parameters="all"),), batch_size=8, seed=4, snapshot_every=3)


def model_of(parameters: str = "all", **given: Any) -> Model:
    wanted = {"trainable": "nodes", "nodes": "*", "parameters": parameters, "headroom": 0, "batch": 4}
    return load_model(inject_all(residual(), **{**wanted, **given}).to_bytes())


def residual_model() -> Model:
    return load_model(residual())


def of(parameters: str, *tasks: Any, **given: Any) -> Settings:
    return replace(USUAL, tasks=tasks or (Nodes(queries=2, parameters=parameters),), **given)  # type: ignore[arg-type]


def moved(trainer: Trainer, start: Any) -> dict[str, set[bool]]:
    """Returns kinds of tensors, True: biases, that have moved and that have not."""
    now, known = trainer.runtime.read_weights(), {t.name: t for t in trainer.runtime.metadata.trainable}
    found: dict[str, set[bool]] = {"moved": set(), "still": set()}
    for name, before in start.items():
        found["still" if np.array_equal(now[name], before) else "moved"].add(known[name].bias)
    return found


def check_replay(zo: Model, log: Path, trainer: Trainer, steps: int) -> None:
    """Checks that the log leads to the trainer's weights and fractions."""
    weights, fractions = replay_log(zo, log, steps)
    for name, now in trainer.runtime.read_weights().items():
        np.testing.assert_array_equal(weights[name], now)
    assert {n: f.tolist() for n, f in fractions.items()} == {
        n: f.tolist() for n, f in trainer.runtime.read_fractions().items()
    }


@pytest.mark.parametrize("update_bits", [8, 16])
@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        ("all", "all", {"moved": {False, True}, "still": set()}),
        ("all", "biases", {"moved": {True}, "still": {False}}),
        ("all", "weights", {"moved": {False}, "still": {True}}),
        ("biases", "biases", {"moved": {True}, "still": set()}),
    ],
)
def test_what_moves(model: str, parameters: str, expected: Any, update_bits: int, tmp_path: Path) -> None:
    zo = model_of(model, update_bits=update_bits)
    trainer = Trainer(zo, of(parameters), runtime="litert")
    log = tmp_path / "run.zolog"
    trainer.fit(X, Y, steps=7, log=log, keep="last")
    assert moved(trainer, initial_weights(zo)) == expected
    check_replay(zo, log, trainer, 7)
    # The log tells which tensors a task trains.
    metadata, header = trainer.runtime.metadata, Log.read(log)
    assert header.weight_bytes == metadata.bytes_of(i for task in header.tasks for i in task.tensors)
    kinds = [[metadata.trainable[i].bias for i in task.tensors] for task in header.tasks]
    wanted = {"all": [False, True], "biases": [True], "weights": [False]}[parameters]
    assert kinds == [wanted] * len(kinds)


@pytest.mark.parametrize("parameters", ["all", "biases"])
def test_a_resumed_run_is_the_whole_one(parameters: str, tmp_path: Path) -> None:
    zo, settings = model_of(parameters), of(parameters)
    whole, cut = Trainer(zo, settings, runtime="litert"), tmp_path / "cut.zolog"
    given: dict[str, Any] = {"steps": 11, "validation_data": (X[:8], Y[:8]), "keep": "best"}
    whole.fit(X, Y, log=tmp_path / "whole.zolog", **given)
    content = (tmp_path / "whole.zolog").read_bytes()
    cut.write_bytes(content[:-12])  # its last record, or the measurement, is missing
    again = Trainer(zo, settings, runtime="litert")
    again.fit(X, Y, log=cut, resume=True, **given)
    assert cut.read_bytes() == content
    for name, value in whole.runtime.read_weights().items():
        np.testing.assert_array_equal(again.runtime.read_weights()[name], value)
    assert again.export().to_bytes() == whole.export().to_bytes()


def test_a_second_call_goes_on_from_the_trained_biases() -> None:
    trainer = Trainer(model_of(), USUAL, runtime="litert")
    trainer.fit(X, Y, steps=3, keep="last")
    first = trainer.runtime.read_weights()
    trainer.fit(X, Y, steps=3, keep="last")
    start = initial_weights(trainer.model)
    assert all(np.array_equal(first[name], start[name]) for name in first)
    assert moved(trainer, first)["moved"] == {False, True}


def test_biases_alone_keep_no_inputs() -> None:
    sizes = {}
    for parameters in ("all", "biases"):
        zo, settings = model_of(parameters), of(parameters)
        device = device_model(zo, plan_run(zo, settings, steps=1, samples=8))
        sizes[parameters] = workspace_bytes(zo, read_metadata(zo), device)
    nodes = read_metadata(model_of()).nodes
    of_input = {n.input_segment: n.geometry["in_h"] * n.geometry["in_w"] * n.geometry["in_c"] for n in nodes}
    # Inputs are kept of 8 samples, and an activation that is a layer's output or its nodes of the 4 of an invoke.
    others = {k for n in nodes for k in (n.output_segment, n.node_segment)}
    saved = sum(size * (4 if segment in others else 8) for segment, size in of_input.items())
    assert sizes["all"] - sizes["biases"] == saved


def test_a_plain_model_becomes_what_the_tasks_train() -> None:
    for settings, expected in (
        (of("weights"), "weights"),
        (of("all"), "all"),
        (of("biases"), "biases"),
        (of("", Nodes(queries=2), Exact(parameters="biases")), "all"),
        (of("", Exact(last=2, parameters="biases")), "all"),  # errors come back through filters
    ):
        assert inject_settings(settings).parameters == expected
    trainer = Trainer(MODELS["small_cnn"](), of("biases"), runtime="litert")
    assert {t.bias for t in trainer.runtime.metadata.trainable} == {True}


def test_the_usual_settings_are_the_models() -> None:
    for parameters in ("weights", "biases", "all"):
        settings = algorithm_for(read_metadata(model_of(parameters)), "node")
        assert settings.nodes.parameters == parameters


def test_exact_gradients_come_back_through_a_filter_that_stays() -> None:
    zo = load_model(
        inject_all(MODELS["lenet5"](), tail=3, parameters="all", trainable="nodes", headroom=0, batch=4).to_bytes()
    )
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (8, *zo.subgraphs[0].inputs[0].shape[1:])).astype(np.int8)
    y = rng.integers(0, 10, 8).astype(np.int32)
    found = []
    for parameters in ("all", "biases"):
        settings = of("", Exact(last=3, parameters=parameters))
        trainer = Trainer(zo, settings, runtime="litert")
        found.append(trainer.fit(x, y, steps=1, keep="last").steps)
        now, start = trainer.runtime.read_weights(), initial_weights(zo)
        assert all((now[t.name] != start[t.name]).any() for t in read_metadata(zo).trainable if t.bias)
    assert found[0] == found[1]


OF_MODEL = r"`nodes\.parameters` must be '{}', the trainable parameters of the model\. Received"
WITHOUT_TAIL = r"`last` must be at most 1, the last layer of a model that was injected without a tail \(fc3\)"


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("weights", of("all"), OF_MODEL.format("weights")),
        ("biases", of("weights"), OF_MODEL.format("biases")),
        ("biases", of("", Exact(last=2, parameters="biases")), WITHOUT_TAIL),
    ],
)
def test_what_the_model_lacks_is_named(model: str, settings: Settings, words: str) -> None:
    zo = model_of(model)
    if settings.has(Exact):
        zo = inject_all(MODELS["lenet5"](), nodes=Last(2), trainable="nodes", parameters=model, batch=4)
    with pytest.raises(SettingsError, match=words):
        Trainer(zo, settings, runtime="litert")


def by_weights(parameters: str, **given: Any) -> Settings:
    task = Weights(parameters=parameters, **given)  # type: ignore[arg-type]
    return Settings(tasks=(task,), batch_size=4, seed=1, learning_rate=20.0)


@pytest.mark.parametrize("update_bits", [8, 16])
@pytest.mark.parametrize("scope", ["model", "layers"])
@pytest.mark.parametrize(("parameters", "kinds"), [("all", {False, True}), ("biases", {True}), ("weights", {False})])
def test_weight_perturbation_moves_what_it_is_asked_to(
    parameters: str, kinds: set[bool], scope: str, update_bits: int, tmp_path: Path
) -> None:
    """Perturbs the bias of a layer along with its filter if layers take turns."""
    settings, log = by_weights(parameters, scope=scope), tmp_path / "run.zolog"
    zo = load_model(inject_for(residual_model(), settings, update_bits=update_bits).to_bytes())
    trainer = Trainer(zo, settings, runtime="litert")
    trainer.fit(X, Y, steps=3, log=log, keep="last")
    assert moved(trainer, initial_weights(zo)) == {"moved": kinds, "still": set()}
    check_replay(zo, log, trainer, 3)
    again = Trainer(zo, settings, runtime="litert")
    again.fit(X, Y, steps=3, log=log, resume=True, keep="last")
    check_replay(zo, log, again, 3)
    if scope == "layers":
        metadata, tasks = trainer.runtime.metadata, Log.read(log).tasks
        assert len(tasks) == len({t.layer for t in metadata.trainable})
        assert all(len({metadata.trainable[i].layer for i in task.tensors}) == 1 for task in tasks)
        assert sum(len(task.tensors) for task in tasks) == len(metadata.trainable)


def test_biases_that_are_perturbed_alone_leave_filters_as_they_are() -> None:
    plain, zo = residual_model(), inject_for(residual_model(), by_weights("biases"))
    exported = {t.name: t for t in export_model(zo).subgraphs[0].tensors}
    assert sum(t.bias for t in read_metadata(zo).trainable) == len(read_metadata(zo).trainable) > 0
    for tensor in plain.subgraphs[0].tensors:
        if tensor.is_constant:
            np.testing.assert_array_equal(exported[tensor.name].numpy(), tensor.numpy())


def test_weight_perturbation_alone_moves_all_that_is_trainable() -> None:
    zo = model_of("all", replay=True, headroom=2)
    with pytest.raises(
        SettingsError,
        match="`layers` must include the bias of stem, the bias of block0/conv0, the bias of block0/conv1",
    ):
        Trainer(zo, by_weights("weights"), runtime="litert")
    alone = model_of("biases", replay=True, headroom=2)
    with pytest.raises(
        SettingsError, match="`weights.parameters` must be 'biases', the trainable parameters of the model"
    ):
        Trainer(alone, by_weights("all"), runtime="litert")
    for model in (zo, alone):
        trainer = Trainer(model, algorithm_for(read_metadata(model), "weight"), runtime="litert")
        trainer.fit(X, Y, steps=1, keep="last")


def test_layers_are_layers_whatever_is_trained_of_them() -> None:
    zo = model_of()
    metadata = read_metadata(zo)
    trained = trained_layers(zo, of("all", layers=Last(2)))
    assert trained.layers == ("projection", "fc")
    own = [t for t in metadata.trainable if t.layer in trained.layers]
    assert trained.biases == sum(t.size for t in own if t.bias) > 0
    assert trained.weights == sum(t.size for t in own if not t.bias)
    assert "of the weights and 18 biases): projection, fc" in trained.sentence
    alone = trained_layers(model_of("biases"), of("biases"))
    assert "biases alone" in alone.sentence and alone.weights == 0


def test_a_word_that_is_none() -> None:
    for kind in (Nodes, Exact, Weights):
        with pytest.raises(SettingsError, match="parameters"):
            kind(parameters="both")  # type: ignore[arg-type]
