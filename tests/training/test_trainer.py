"""The trainer: runs in sequence, inspections without an effect, and a loss that falls."""

from typing import Any

import numpy as np
import pytest

from helpers.interrupted_runs import fit, make
from helpers.models import MODELS
from helpers.moments import At, stop
from helpers.runs import state, weight_settings
from helpers.weight_runs import SETTINGS, X, Y, is_replay, zo_model
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


@pytest.mark.parametrize("kind", ["nodes", "head", "weights"])
def test_looking_does_not_change_the_run(kind):
    """Evaluates, predicts and exports between steps, on other data and with the weights of that step."""
    plain, watched = make(kind), make(kind)
    expected, seen = fit(plain), []

    class Look(Callback):
        def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            evaluated = progress.evaluate(X[:7], Y[:7])
            assert watched.evaluate(X[:7], Y[:7]) == evaluated
            seen.append((evaluated, watched.predict(X).tobytes(), state(watched), watched.export().to_bytes()))

    actual = fit(watched, validation_data=(X[:9], Y[:9]), callbacks=[Look()])
    assert actual.steps == expected.steps and state(watched) == state(plain)
    assert actual.forwards == expected.forwards
    assert len(actual.history["val_loss"]) == len(actual.history["loss"]) == 5
    final = watched.evaluate(X[:9], Y[:9])
    assert final == {"loss": actual.history["val_loss"][-1], "accuracy": actual.history["val_accuracy"][-1]}
    for t in (0, 4, len(expected.steps) - 1):
        part = make(kind)
        fit(part, callbacks=[At(t, stop)])
        found = part.evaluate(X[:7], Y[:7]), part.predict(X).tobytes(), state(part), part.export().to_bytes()
        assert seen[t] == found


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
        ("multipliers", {"learning_rate": 4.0}),
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
