"""The trainer: runs in sequence, inspections without an effect, and a loss that falls."""

from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS
from helpers.moments import At, stop
from helpers.runs import state, weight_settings
from helpers.weight_runs import MEMORY, SETTINGS, X, Y, is_replay, zo_model
from tflm_zo.converters import ConversionError, initial_weights
from tflm_zo.core import Gaussian, SparseUniform
from tflm_zo.training import (
    Callback,
    RunProgress,
    Settings,
    SettingsError,
    Trainer,
    Weights,
    algorithms,
    trained_layers,
)

STEPS = 17


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_a_second_fit_goes_on(tmp_path):
    trainer = Trainer(zo_model(), SETTINGS)
    initial = trainer.runtime.read_weights()
    first, weights = trainer.fit(X, Y, steps=5, keep="last"), trainer.runtime.read_weights()
    second = trainer.fit(X, Y, steps=5, log=tmp_path / "log", keep="last")
    # From the weights of the first one, which a new trainer can be given, too.
    assert same(initial_weights(trainer.model), weights)
    other = Trainer(zo_model(), SETTINGS)
    assert other.fit(X, Y, steps=5, keep="last", initial_weights=weights).steps == second.steps
    assert state(other) == state(trainer) and not same(weights, trainer.runtime.read_weights())
    assert is_replay(trainer, tmp_path / "log")
    # From those of the beginning it is the first one again.
    third = trainer.fit(X, Y, steps=5, keep="last", initial_weights=initial)
    assert third.steps == first.steps and same(weights, trainer.runtime.read_weights())
    with pytest.raises(ConversionError, match="must name trainable filter tensors .* Received: 'nix'"):
        trainer.fit(X, Y, steps=5, initial_weights={"nix": weights["fc/filter"]})


def test_a_fit_that_is_refused_changes_nothing(tmp_path):
    trainer = Trainer(zo_model(), SETTINGS)
    trainer.fit(X, Y, steps=5, keep="last")
    model, before = trainer.model, state(trainer)
    (tmp_path / "log").write_bytes(b"another run's")
    for given, error in (({"log": tmp_path / "log"}, FileExistsError), ({"resume": True}, ValueError)):
        with pytest.raises(error):
            trainer.fit(X, Y, steps=5, **given)
    assert trainer.model is model and before == state(trainer)


def test_layers_of_weight_perturbation_alone_are_those_of_the_model():
    settings = Settings(tasks=(Weights(),), batch_size=8, layers="fc")
    with pytest.raises(
        SettingsError,
        match="`layers` must include conv, because weight perturbation alone moves all trainable tensors of",
    ):
        Trainer(zo_model(), settings)
    trainer = Trainer(MODELS["small_cnn"](), settings)
    assert [t.layer for t in trainer.runtime.metadata.trainable] == ["fc"]
    assert trained_layers(trainer.model, settings).layers == ("fc",)


def test_forwards_are_counted():
    trainer = Trainer(zo_model(), SETTINGS)
    first, second = (trainer.fit(X, Y, steps=5, keep="last") for _ in range(2))
    assert first.forwards == second.forwards == 5 * 4 * 8
    assert trainer.forwards == 2 * 5 * 4 * 8


def test_validation_and_evaluation_do_not_change_the_run():
    model = zo_model()
    plain = Trainer(model, SETTINGS)
    expected = plain.fit(X, Y, steps=STEPS, keep="last")
    watched = Trainer(model, SETTINGS)
    actual = watched.fit(X, Y, steps=STEPS, validation_data=(X[:7], Y[:7]), keep="last")
    assert actual.steps == expected.steps and state(watched) == state(plain)
    assert actual.forwards == expected.forwards
    assert len(actual.history["val_loss"]) == len(actual.history["loss"]) == 6
    final = watched.evaluate(X[:7], Y[:7])
    assert final == {"loss": actual.history["val_loss"][-1], "accuracy": actual.history["val_accuracy"][-1]}

    # A callback may look at the model after any step, and sees that step's weights.
    seen: list[Any] = []

    class Look(Callback):
        def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            seen.append((looked.evaluate(X, Y), looked.predict(X).tolist(), state(looked)))
            looked.export()

    looked = Trainer(model, SETTINGS)
    assert looked.fit(X, Y, steps=STEPS, callbacks=[Look()], keep="last").steps == expected.steps
    assert state(looked) == state(plain)
    for t in (0, 4, STEPS - 1):
        part = Trainer(model, SETTINGS)
        part.fit(X, Y, steps=STEPS, callbacks=[At(t, stop)], keep="last")
        assert seen[t][:2] == (part.evaluate(X, Y), part.predict(X).tolist())
        assert seen[t][2] == state(part)


def test_models_that_cannot_be_trained():
    for changes in ({"trainable": "none"}, {"loss": "none"}):
        with pytest.raises(SettingsError, match="`model` must have trainable tensors and a loss"):
            Trainer(zo_model(**changes), SETTINGS)


@pytest.mark.parametrize("given", ["node", algorithms.node])
def test_settings_are_no_name_and_no_function(given):
    with pytest.raises(TypeError, match=r"`settings` must be Settings, such as algorithms.node\(\)\. Received: "):
        Trainer(zo_model(), given)


def test_exported_for_another_batch():
    trainer = Trainer(zo_model(), SETTINGS)
    trainer.fit(X, Y, steps=3, keep="last")
    four, one = trainer.export(), trainer.export(batch=1)
    assert [m.subgraphs[0].inputs[0].shape[0] for m in (four, one)] == [4, 1]
    constants = [{t.name: t.numpy() for t in m.subgraphs[0].tensors if t.is_constant} for m in (four, one)]
    weights = trainer.runtime.read_weights()
    assert all(same({n: c[n] for n in weights}, weights) for c in constants)


@pytest.mark.parametrize(
    "kind, changes",
    [
        ("16", {}),
        ("8", {}),
        ("16", {"estimator": "one-sided"}),
        ("16", {"perturbation": Gaussian(0.6)}),
        ("16", {"perturbation": SparseUniform(2, 0.33)}),
        ("cut", {"scope": "blocks"}),
        ("headroom", {"sharpness": True}),
        ("top-k", {"learning_rate": 4.0}),
        ("headroom", {**MEMORY, "momentum_terms": 2}),
        ("16", {"schedule": "cosine", "warmup_steps": 20}),
    ],
    ids=str,
)
def test_learns(kind, changes):
    settings = weight_settings(**{"batch_size": 8, "queries": 4, "learning_rate": 2.0, **changes})
    trainer = Trainer(zo_model(kind), settings)
    before = trainer.evaluate(X[:8], Y[:8])["loss"]
    history = trainer.fit(X[:8], Y[:8], steps=400, keep="last")
    after = trainer.evaluate(X[:8], Y[:8])
    print(f"{before:.3f} -> {after}")
    assert after["loss"] < before / 3
    assert np.mean(history.steps[-20:]) < np.mean(history.steps[:5]) / 2
