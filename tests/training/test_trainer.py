# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The trainer: the same bits everywhere, after every interruption, and from the log alone."""

from __future__ import annotations

import csv
import io
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from helpers.moments import At, interrupt, stop
from helpers.oracle.weights import checksum
from helpers.settings import weight_settings
from tflm_zo.converters import ConversionError, Model, initial_weights
from tflm_zo.converters.files import NewFile
from tflm_zo.core import Coordinate, Gaussian, Rademacher, SparseUniform
from tflm_zo.logs import LogError, SeedLog
from tflm_zo.training import (
    Callback,
    CSVLogger,
    EarlyStopping,
    ProgressBar,
    Settings,
    SettingsError,
    Trainer,
    Weights,
    replay_log,
    trained_layers,
)

RNG = np.random.default_rng(3)
X = RNG.integers(-128, 128, (24, 8, 8, 1)).astype(np.int8)
Y = RNG.integers(0, 4, 24)
STEPS = 17
SETTINGS = Settings(tasks=(Weights(queries=2),), batch_size=8, seed=9)

MODEL_SETTINGS: dict[str, dict[str, Any]] = {
    "8": {"update_bits": 8, "command_words": 40},
    "16": {"update_bits": 16},
    "cut": {"update_bits": 16, "cuts": ("pool",)},
    "top-k": {"update_bits": 16, "sparse": "top-k:0.3", "multipliers": "kernel-norm", "command_words": 40},
    "random": {"update_bits": 8, "sparse": "random:0.1", "cuts": ("pool",)},
    "one mask": {"sparse": {"fc/filter": np.arange(256).reshape(4, 64) % 5 == 0}},
    "headroom": {"update_bits": 16, "headroom": 4, "max_queries": 8, "command_words": 60},
}


def zo_model(name: str = "16", **more: Any) -> Model:
    return inject_all(MODELS["small_cnn"](), **{"batch": 4, "max_queries": 4, **MODEL_SETTINGS[name], **more})


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def state(trainer: Trainer) -> tuple[dict[str, Any], dict[str, Any]]:
    return trainer.runtime.read_weights(), trainer.runtime.read_fractions()


def equal(a: Any, b: Any) -> bool:
    return same(a[0], b[0]) and same(a[1], b[1])


def is_replay(trainer: Trainer, model: Model, log: Any) -> bool:
    return equal(state(trainer), replay_log(model, SeedLog.read(log)))


ONE_LSB: dict[str, Any] = {"perturbation": Rademacher(1)}
MEMORY: dict[str, Any] = {"perturbation": Gaussian(0.6), "momentum": 0.7}
ONE_WEIGHT: dict[str, Any] = {"perturbation": Coordinate(2)}
ONE_LSB_OF_ONE: dict[str, Any] = {"perturbation": Coordinate(1)}
RUNS = {
    "8 bit": ("8", Settings(tasks=(Weights(queries=2),), batch_size=8)),
    "16 bit": ("16", Settings(tasks=(Weights(queries=2),), batch_size=8)),
    "one-sided": (
        "16",
        Settings(
            tasks=(Weights(queries=3, rule="sign"),), batch_size=4, estimator="one-sided", learning_rate=0.5
        ),
    ),
    "one-sided, 8 bit": (
        "8",
        Settings(tasks=(Weights(),), batch_size=12, estimator="one-sided", schedule="cosine"),
    ),
    "gradient": (
        "16",
        Settings(tasks=(Weights(rule="gradient", clip=0.5),), batch_size=8, learning_rate=30.0),
    ),
    "blocks, suffix": ("cut", Settings(tasks=(Weights(queries=2, scope="blocks"),), batch_size=4)),
    "blocks, parts": (
        "cut",
        Settings(tasks=(Weights(queries=2, scope="blocks"),), batch_size=8, estimator="one-sided"),
    ),
    "sparse": (
        "8",
        Settings(tasks=(Weights(perturbation=SparseUniform(2, 0.3)),), batch_size=8),
    ),
    "sparse, 16 bit": (
        "16",
        Settings(tasks=(Weights(perturbation=SparseUniform(2)),), batch_size=8),
    ),
    "gaussian": ("16", Settings(tasks=(Weights(perturbation=Gaussian(0.6)),), batch_size=8)),
    "sharpness": ("headroom", Settings(tasks=(Weights(queries=2, sharpness=True),), batch_size=8)),
    "sharpness, blocks": ("cut", weight_settings(batch_size=4, sharpness=True, scope="blocks", **ONE_LSB)),
    "sharpness, 8 bit": ("8", weight_settings(batch_size=8, sharpness=True, **ONE_LSB)),
    "momentum": ("headroom", weight_settings(batch_size=8, queries=2, momentum_terms=4, **MEMORY)),
    "momentum, 8 bit": ("8", weight_settings(batch_size=8, momentum_terms=3, **MEMORY)),
    "momentum, blocks": ("cut", weight_settings(batch_size=4, momentum_terms=2, scope="blocks", **MEMORY)),
    "momentum, one-sided": (
        "16",
        weight_settings(batch_size=4, momentum_terms=2, estimator="one-sided", **MEMORY),
    ),
    "momentum, sharpness": ("headroom", weight_settings(batch_size=8, sharpness=True, **MEMORY)),
    "coordinate": (
        "16",
        weight_settings(batch_size=8, queries=4, rule="gradient", learning_rate=300.0, **ONE_WEIGHT),
    ),
    "coordinate, 8 bit": (
        "8",
        weight_settings(batch_size=4, estimator="one-sided", learning_rate=9.0, **ONE_WEIGHT),
    ),
    "coordinate, sparse, blocks": (
        "random",
        weight_settings(batch_size=4, scope="blocks", learning_rate=9.0, **ONE_WEIGHT),
    ),
    "coordinate, sharpness": (
        "top-k",
        weight_settings(batch_size=8, sharpness=True, learning_rate=9.0, **ONE_LSB_OF_ONE),
    ),
    "sparse update": ("top-k", Settings(tasks=(Weights(queries=2),), batch_size=8)),
    "sparse update, momentum": ("top-k", weight_settings(batch_size=8, momentum_terms=3, **MEMORY)),
    "sparse update, blocks": ("random", Settings(tasks=(Weights(scope="blocks"),), batch_size=4)),
    "sparse update of a layer": (
        "one mask",
        Settings(tasks=(Weights(gradient_norm=True),), batch_size=4, learning_rate=9.0),
    ),
    "gaussian, 8 bit": (
        "8",
        Settings(tasks=(Weights(perturbation=Gaussian(0.6)),), batch_size=8),
    ),
}


# --- the same bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_same_in_tflm_and_from_the_log(name, tmp_path):
    kind, settings = RUNS[name]
    model = zo_model(kind)
    results = []
    for runtime in ("litert-ref", "tflm"):
        require(runtime)
        trainer = Trainer(model, settings, runtime)
        log = tmp_path / runtime
        history = trainer.fit(X, Y, steps=40, log=log, keep="last")
        assert is_replay(trainer, model, log)
        sides, queries = 4 if settings.weights.sharpness else 2, settings.weights.queries
        forwards = queries + 1 if settings.estimator == "one-sided" else sides * queries
        assert history.forwards == trainer.forwards == 40 * forwards * settings.batch_size
        results.append((state(trainer), log.read_bytes(), history.steps))
    assert equal(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]
    assert len(results[0][2]) == 40
    assert not same(results[0][0][0], replay_log(model, SeedLog.from_steps(*_empty(log)))[0])


def _empty(log):
    whole = SeedLog.read(log)
    return whole.settings, whole.fingerprint, []


def test_suffixes_are_what_whole_passes_are(tmp_path):
    """A cut model's block runs, which skip the prefix, and the uncut model's, which do not."""
    settings = Settings(tasks=(Weights(queries=2, scope="blocks"),), batch_size=4)
    a, b = Trainer(zo_model("cut"), settings, "litert-ref"), Trainer(zo_model("16"), settings, "litert-ref")
    losses = [t.fit(X, Y, steps=40, keep="last").steps for t in (a, b)]
    assert losses[0] == losses[1]
    assert equal(state(a), state(b))


def test_a_second_fit_goes_on(tmp_path):
    trainer = Trainer(zo_model(), SETTINGS)
    initial = trainer.runtime.read_weights()
    first, weights = trainer.fit(X, Y, steps=5, keep="last"), trainer.runtime.read_weights()
    second = trainer.fit(X, Y, steps=5, log=tmp_path / "log", keep="last")
    # From the weights of the first one, which a new trainer can be given, too.
    assert same(initial_weights(trainer.model), weights)
    other = Trainer(zo_model(), SETTINGS)
    assert other.fit(X, Y, steps=5, keep="last", initial_weights=weights).steps == second.steps
    assert equal(state(other), state(trainer)) and not same(weights, trainer.runtime.read_weights())
    assert is_replay(trainer, trainer.model, tmp_path / "log")
    # From those of the beginning it is the first one again.
    third = trainer.fit(X, Y, steps=5, keep="last", initial_weights=initial)
    assert third.steps == first.steps and same(weights, trainer.runtime.read_weights())
    with pytest.raises(ConversionError, match="«nix» is no trainable filter"):
        trainer.fit(X, Y, steps=5, initial_weights={"nix": weights["fc/filter"]})


def test_a_fit_that_is_refused_changes_nothing(tmp_path):
    trainer = Trainer(zo_model(), SETTINGS)
    trainer.fit(X, Y, steps=5, keep="last")
    model, before = trainer.model, state(trainer)
    (tmp_path / "log").write_bytes(b"another run's")
    for given, error in (({"log": tmp_path / "log"}, FileExistsError), ({"resume": True}, ValueError)):
        with pytest.raises(error):
            trainer.fit(X, Y, steps=5, **given)
    assert trainer.model is model and equal(before, state(trainer))


def test_layers_of_weight_perturbation_alone_are_those_of_the_model():
    settings = Settings(tasks=(Weights(),), batch_size=8, layers="fc")
    with pytest.raises(SettingsError, match="layers: the model trains conv, too"):
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
    assert actual.steps == expected.steps and equal(state(watched), state(plain))
    assert actual.forwards == expected.forwards
    assert len(actual.history["val_loss"]) == len(actual.history["loss"]) == 6
    final = watched.evaluate(X[:7], Y[:7])
    assert final == {"loss": actual.history["val_loss"][-1], "accuracy": actual.history["val_accuracy"][-1]}

    # A callback may look at the model after any step, and sees that step's weights.
    seen: list[Any] = []

    class Look(Callback):
        def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
            seen.append((trainer.evaluate(X, Y), trainer.predict(X).tolist(), state(trainer)))
            trainer.export()

    looked = Trainer(model, SETTINGS)
    assert looked.fit(X, Y, steps=STEPS, callbacks=[Look()], keep="last").steps == expected.steps
    assert equal(state(looked), state(plain))
    for t in (0, 4, STEPS - 1):
        part = Trainer(model, SETTINGS)
        part.fit(X, Y, steps=STEPS, callbacks=[At(t, stop)], keep="last")
        assert seen[t][:2] == (part.evaluate(X, Y), part.predict(X).tolist())
        assert equal(seen[t][2], state(part))


# --- interruptions ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Log and weights of each run of INTERRUPTED."""
    results = {}
    for kind, settings in INTERRUPTED.items():
        trainer = Trainer(zo_model(kind), settings)
        log = tmp_path_factory.mktemp("whole") / "log"
        trainer.fit(X, Y, steps=STEPS, log=log, keep="last")
        results[kind] = (log.read_bytes(), state(trainer))
    return results


INTERRUPTED = {
    "8": Settings(tasks=(Weights(queries=2),), batch_size=8, estimator="one-sided"),
    "16": SETTINGS,
    "cut": Settings(tasks=(Weights(queries=2, scope="blocks"),), batch_size=4),
}


def check_and_resume(kind, log, uninterrupted, trainer):
    """The weights are those of the log, which has whole steps only; going on ends where it should."""
    model = zo_model(kind)
    whole, weights = uninterrupted[kind]
    read = SeedLog.read(log)
    assert read.torn_bytes == 0
    assert whole.startswith(log.read_bytes())
    assert is_replay(trainer, model, log)
    again = Trainer(model, INTERRUPTED[kind])
    again.fit(X, Y, steps=STEPS, log=log, resume=True, keep="last")
    assert log.read_bytes() == whole
    assert equal(state(again), weights)
    return len(read.steps)


@pytest.mark.parametrize("kind", INTERRUPTED)
@pytest.mark.parametrize("step", [0, 2, 3, 8, STEPS - 1])
@pytest.mark.parametrize("action", [stop, interrupt])
def test_stopped_by_a_callback(kind, step, action, tmp_path, uninterrupted):
    trainer = Trainer(zo_model(kind), INTERRUPTED[kind])
    trainer.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[At(step, action)], keep="last")
    assert check_and_resume(kind, tmp_path / "log", uninterrupted, trainer) == step + 1


@pytest.mark.parametrize("kind", INTERRUPTED)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", ["invoke", "report", "append", "settle"])
def test_interrupted_anywhere(kind, when, place, tmp_path, uninterrupted, monkeypatch):
    """Ctrl-C at random calls of what a run consists of."""
    from tflm_zo.core import Control
    from tflm_zo.logs import SeedLogWriter

    rng = np.random.default_rng([len(place), when == "after", len(kind)])
    for round_ in range(4):
        trainer = Trainer(zo_model(kind), INTERRUPTED[kind])
        calls = int(rng.integers(1, {"invoke": 60, "report": 60, "append": STEPS, "settle": 4}[place]))
        owner, name = {
            "invoke": (type(trainer.runtime), "invoke"),
            "report": (Control, "report"),
            "append": (SeedLogWriter, "append"),
            "settle": (Control, "settle"),
        }[place]
        original = getattr(owner, name)
        left = [calls]

        def patched(*args: Any, original=original, left=left, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and when == "before":
                raise KeyboardInterrupt
            result = original(*args, **kwargs)
            if left[0] == 0:
                raise KeyboardInterrupt
            return result

        log = tmp_path / f"log{round_}"
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, patched)
            try:
                trainer.fit(X, Y, steps=STEPS, log=log, keep="last")
            except KeyboardInterrupt:
                assert place == "invoke" and calls == 1  # before the first step
                continue
        assert left[0] <= 0
        check_and_resume(kind, log, uninterrupted, trainer)


def test_an_error_of_a_callback_leaves_the_last_steps_weights(tmp_path, uninterrupted):
    def fail(trainer: Trainer) -> None:
        raise RuntimeError("disk full")

    ended: list[int] = []

    class End(Callback):
        def on_train_end(self, trainer: Trainer) -> None:
            ended.append(trainer.step)

    trainer = Trainer(zo_model(), SETTINGS)
    with pytest.raises(RuntimeError, match="disk full"):
        trainer.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[At(4, fail), End()], keep="last")
    assert ended == [5]
    assert check_and_resume("16", tmp_path / "log", uninterrupted, trainer) == 5


CHILD = """
import sys
import numpy as np
from tflm_zo.training import Settings, Trainer, Weights
folder, resume = sys.argv[1], sys.argv[2] == "resume"
data = np.load(folder + "/data.npz")
trainer = Trainer(folder + "/model.tflite", Settings(tasks=(Weights(queries=2),), batch_size=8, seed=9))
trainer.fit(data["x"], data["y"], steps=STEPS, log=folder + "/log", resume=resume, keep="last")
np.savez(folder + "/final.npz", **trainer.runtime.read_weights())
"""


def kill_and_resume(folder, kills, steps):
    model = zo_model()
    model.save(folder / "model.tflite")
    np.savez(folder / "data.npz", x=X, y=Y)
    rng, log = np.random.default_rng(kills), folder / "log"
    marks = sorted(int(v) for v in rng.integers(1, steps, kills))
    lost = 0
    for i, mark in enumerate([*marks, None]):
        command = [sys.executable, "-c", CHILD.replace("STEPS", str(steps)), str(folder)]
        before = len(SeedLog.read(log).steps) if i else 0
        child = subprocess.Popen([*command, "resume" if i else "new"], stdout=subprocess.DEVNULL)
        if mark is None:
            assert child.wait(timeout=120) == 0
            break
        deadline = time.monotonic() + 60
        while not (log.exists() and log.stat().st_size >= 132 + 28 * max(mark, before + 1)):
            assert child.poll() is None or log.stat().st_size == 132 + 28 * steps, "the child failed"
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        time.sleep(float(rng.random()) * 0.003)
        child.send_signal(signal.SIGKILL)
        child.wait()
        lost += child.returncode == -signal.SIGKILL
    trainer = Trainer(model, SETTINGS)
    trainer.fit(X, Y, steps=steps, log=folder / "whole", keep="last")
    assert log.read_bytes() == (folder / "whole").read_bytes()
    assert is_replay(trainer, model, log)
    with np.load(folder / "final.npz") as final:
        assert same(dict(final), trainer.runtime.read_weights())
    return lost


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed(tmp_path):
    assert kill_and_resume(tmp_path, 3, 2000) >= 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_20_times(tmp_path):
    assert kill_and_resume(tmp_path, 20, 20000) >= 15


def test_a_torn_record_is_cut_off(tmp_path, uninterrupted):
    trainer = Trainer(zo_model(), SETTINGS)
    trainer.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[At(6, stop)], keep="last")
    whole, weights = uninterrupted["16"]
    for torn in (1, 13, 27):
        (tmp_path / "log").write_bytes(whole[: 132 + 7 * 28 + torn])
        trainer.fit(X, Y, steps=STEPS, log=tmp_path / "log", resume=True, keep="last")
        assert (tmp_path / "log").read_bytes() == whole
        assert equal(state(trainer), weights)


def test_resume_of_what_is_not_this_run(tmp_path):
    log = tmp_path / "log"
    trainer = Trainer(zo_model(), SETTINGS)
    with pytest.raises(ValueError, match="resume: needs a log"):
        trainer.fit(X, Y, steps=STEPS, resume=True, keep="last")
    trainer.fit(X, Y, steps=STEPS, log=log, callbacks=[At(3, stop)], keep="last")
    data = log.read_bytes()
    other = Trainer(zo_model(), Settings(tasks=(Weights(queries=2),), batch_size=8, seed=10))
    with pytest.raises(LogError, match="other settings"):
        other.fit(X, Y, steps=STEPS, log=log, resume=True, keep="last")
    with pytest.raises(LogError, match="other settings, data or number of steps"):
        trainer.fit(X, Y, steps=STEPS + 1, log=log, resume=True, keep="last")
    with pytest.raises(LogError, match="other settings, data"):
        trainer.fit(X[1:], Y[1:], steps=STEPS, log=log, resume=True, keep="last")
    with pytest.raises(LogError, match="another model"):
        Trainer(zo_model("8"), SETTINGS).fit(X, Y, steps=STEPS, log=log, resume=True, keep="last")
    with pytest.raises(LogError, match="another model"):
        replay_log(zo_model("8"), SeedLog.read(log))
    with pytest.raises(FileExistsError):
        trainer.fit(X, Y, steps=STEPS, log=log, keep="last")
    assert log.read_bytes() == data


def test_multipliers_are_replayed(tmp_path):
    base = zo_model()
    tensor = Trainer(base, SETTINGS).runtime.metadata.trainable[0]
    factors = np.linspace(0, 2**31 - 1, tensor.channels).astype(np.int32)
    model = zo_model(multipliers={tensor.name: factors})
    trainer = Trainer(model, SETTINGS)
    trainer.fit(X, Y, steps=30, log=tmp_path / "log", keep="last")
    assert is_replay(trainer, model, tmp_path / "log")


# --- wrong settings --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["epochs", "steps"])
def test_no_steps(length):
    with pytest.raises(ValueError, match=f"^{length}: expected at least 1, got 0"):
        Trainer(zo_model(), SETTINGS).fit(X, Y, **{length: 0}, keep="last")


@pytest.mark.parametrize("steps", [2**29, 2**32 + 5])
def test_more_steps_than_32_bits_count(steps):
    with pytest.raises(ValueError, match=f"steps: expected 536870911 at most, got {steps}"):
        Trainer(zo_model(), SETTINGS).fit(X, Y, steps=steps, keep="last")


BAD_SETTINGS = [
    ({"estimator": "central"}, "estimator: no 'central'; there are antithetic, one-sided"),
    ({"rule": "adam"}, "rule: no 'adam'"),
    ({"schedule": "exp"}, "schedule: no 'exp'"),
    ({"scope": "rows"}, "scope: no 'rows'; there are model, blocks, layers"),
    ({"queries": 0}, r"queries: expected an integer in 1..32, got 0"),
    ({"queries": 33}, "queries"),
    ({"queries": 1.5}, "queries"),
    ({"queries": True}, "queries"),
    ({"learning_rate": "1"}, "rate: expected .*, got '1'"),
    ({"batch_size": 0}, "batch_size"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**32}, "seed"),
    ({"learning_rate": 0.0}, "rate"),
    ({"learning_rate": float("nan")}, "rate"),
    ({"learning_rate": float("inf")}, "rate"),
    ({"learning_rate": 1.0, "final_learning_rate": 1.5}, "final_learning_rate: expected 0..1, got 1.5"),
    ({"final_learning_rate": -1.0}, "final_learning_rate"),
    ({"decay": 1.5}, "decay"),
    ({"decay_steps": 0}, "decay_steps"),
    ({"clip": -1.0}, "clip"),
    ({"warmup_steps": -1}, "warmup_steps"),
    ({"momentum": 1.0}, "momentum: expected 0..0.99"),
    ({"momentum": 0.5}, "momentum: needs the Gaussian distribution, not Rademacher"),
    ({**MEMORY, "momentum_terms": 9}, r"momentum_terms: expected an integer in 2\.\.8, got 9"),
    ({**MEMORY, "queries": 5}, r"momentum_terms: times queries must be 32 at most, got 8 \* 5"),
    ({"sharpness": 1}, "sharpness: expected True or False, got 1"),
    ({"sharpness": True, "estimator": "one-sided"}, "sharpness: needs the antithetic estimator"),
]


@pytest.mark.parametrize(
    "changes, message", BAD_SETTINGS, ids=lambda v: "-".join(v) if isinstance(v, dict) else ""
)
def test_bad_settings(changes, message):
    with pytest.raises(SettingsError, match=message):
        weight_settings(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"perturbation": Rademacher(3)}, "up to 3 LSB, the model's headroom is 2"),
        ({"sharpness": True}, r"up to 4 LSB \(sharpness: twice\), the model's headroom is 2; .*headroom=4"),
        ({"batch_size": 6}, "batch_size: expected a multiple of the model's batch 4, got 6"),
        ({**MEMORY, "momentum_terms": 5}, "max_queries=4, got 1, times momentum_terms=5; .*max_queries=5"),
        ({"sharpness": True, "queries": 4, **ONE_LSB}, "command_words=22; inject with command_words=24"),
        ({"queries": 5}, "queries: the model was injected with max_queries=4, got 5"),
    ],
)
def test_settings_that_the_model_does_not_fit(changes, message):
    with pytest.raises(SettingsError, match=message):
        Trainer(zo_model(), weight_settings(**{"batch_size": 8, **changes}))


def test_models_that_cannot_be_trained():
    for changes in ({"trainable": "none"}, {"loss": "none"}):
        with pytest.raises(SettingsError, match="no trainable tensors or no loss"):
            Trainer(zo_model(**changes), SETTINGS)


# --- learning -----------------------------------------------------------------------------------------------


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


# --- cost ---------------------------------------------------------------------------------------------------

# small_cnn: 2,304 MACs of conv and 256 of fc, which alone has fewer nodes than weights. Its nodes are the
# last ones, so that a query costs nothing and there are 32 of them.
NODE_STEP = 8 * (0.1 + 0.1)


def node_cost(steps):
    """In forward equivalents; conv is run once for each of the 24 samples that is used."""
    return min(24, 8 * steps) * 0.9 + steps * NODE_STEP


@pytest.mark.parametrize("name", ["weight", "node", "blocks"])
def test_budget(name):
    """As many steps as it is good for, and not one more."""
    if name == "node":
        trainer = Trainer(zo_model(nodes="auto"), Settings(batch_size=8))
        cost = node_cost
    elif name == "weight":
        trainer, cost = Trainer(zo_model(), SETTINGS), lambda steps: steps * 2 * 2 * 8
    else:  # one of conv and fc, in turn; fc's suffix is a tenth
        trainer = Trainer(zo_model("cut"), Settings(tasks=(Weights(scope="blocks"),), batch_size=8))
        cost = lambda steps: steps * 2 * 8 * (1 + 0.1) / 2  # noqa: E731
    for steps in (2, 10):
        exact = cost(steps)
        history = trainer.fit(X, Y, budget=exact + 1e-6, keep="last")
        assert len(history.steps) == trainer.step == steps
        assert history.equivalents == trainer.equivalents == pytest.approx(exact)
        trainer.fit(X, Y, budget=cost(steps + 2) - 1e-6, keep="last")
        assert trainer.step == steps + 1
    with pytest.raises(ValueError, match="budget: one step takes .* forward equivalents, got 1$"):
        trainer.fit(X, Y, budget=1, keep="last")
    with pytest.raises(ValueError, match="give one of them"):
        trainer.fit(X, Y, budget=100, steps=3, keep="last")
    for budget in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="budget: expected forward equivalents above 0"):
            trainer.fit(X, Y, budget=budget, keep="last")


@pytest.mark.parametrize("name", ["weight", "node"])
def test_equivalents_are_of_the_run_and_of_this_part_of_it(name, tmp_path):
    nodes = name == "node"
    model = zo_model(nodes="auto") if nodes else zo_model()
    settings = Settings(batch_size=8, seed=9) if nodes else SETTINGS
    cost = node_cost if nodes else lambda steps: 32 * steps
    first = Trainer(model, settings)
    assert (first.equivalents, first.buffer_bytes) == (0, 0)
    history = first.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[At(6, stop)], keep="last")
    assert history.equivalents == first.equivalents == pytest.approx(cost(7))
    # Inputs and route of fc of a minibatch, nodes of a batch, loss differences of 32 queries, a row.
    assert first.buffer_bytes == (8 * (64 + 4) + 4 * 4 + 4 * 32 * 8 + 4 * (64 + 4) if nodes else 0)
    second = Trainer(model, settings)
    history = second.fit(X, Y, steps=STEPS, log=tmp_path / "log", resume=True, keep="last")
    assert second.equivalents == pytest.approx(cost(STEPS))
    assert history.equivalents == pytest.approx(cost(STEPS) - cost(7))
    assert history.history["equivalents"][-1] == second.equivalents
    again = second.fit(X, Y, steps=3, keep="last")
    assert again.equivalents == second.equivalents == pytest.approx(cost(3))


def test_exported_for_another_batch():
    trainer = Trainer(zo_model(), SETTINGS)
    trainer.fit(X, Y, steps=3, keep="last")
    four, one = trainer.export(), trainer.export(batch=1)
    assert [m.subgraphs[0].inputs[0].shape[0] for m in (four, one)] == [4, 1]
    constants = [{t.name: t.numpy() for t in m.subgraphs[0].tensors if t.is_constant} for m in (four, one)]
    weights = trainer.runtime.read_weights()
    assert all(same({n: c[n] for n in weights}, weights) for c in constants)


# --- callbacks ----------------------------------------------------------------------------------------------


def test_csv(tmp_path):
    trainer = Trainer(zo_model(), SETTINGS)
    history = trainer.fit(
        X, Y, epochs=3, validation_data=(X, Y), callbacks=[CSVLogger(tmp_path / "log.csv")], keep="last"
    )
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row.pop("epoch") for row in rows] == ["0", "1", "2"]
    for i, row in enumerate(rows):
        assert {k: float(v) for k, v in row.items()} == {k: v[i] for k, v in history.history.items()}
    assert history.history["loss"] == pytest.approx(np.mean(np.reshape(history.steps, (3, 3)), 1).tolist())


def test_a_table_is_replaced_when_what_is_kept_of_it_is_written(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_text("old")
    monkeypatch.setattr(NewFile, "publish", lambda *_, **__: path.write_text("old, still"))
    Trainer(zo_model(), SETTINGS).fit(X, Y, callbacks=[CSVLogger(path)], keep="last")
    assert path.read_text() == "old, still" and list(tmp_path.iterdir()) == [path]


def test_early_stopping():
    trainer = Trainer(zo_model(), SETTINGS)
    stopping = EarlyStopping("loss", patience=2, min_delta=100.0)
    for _ in range(2):  # it forgets the run before
        history = trainer.fit(X, Y, epochs=10, callbacks=[stopping], keep="last")
        assert len(history.history["loss"]) == 3
    with pytest.raises(ValueError, match="no 'val_accuracy'; there are loss, rate"):
        trainer.fit(X, Y, epochs=2, callbacks=[EarlyStopping("val_accuracy")], keep="last")
    with pytest.raises(ValueError, match="patience"):
        EarlyStopping(patience=0)


def test_progress_bar():
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, force_terminal=True, width=120))
    trainer = Trainer(zo_model(), SETTINGS)
    trainer.fit(X, Y, epochs=2, validation_data=(X, Y), callbacks=[bar], keep="last")
    output = text.getvalue()
    assert "equivalents/s" in output and "/6" in output and "val " in output
    # Six steps of two queries, two passes of 8 samples each.
    assert "192 equivalents" in output


def test_what_callbacks_are_told():
    calls: list[Any] = []

    class Tell(Callback):
        def on_train_begin(self, trainer: Trainer, steps: int) -> None:
            calls.append(("begin", steps))

        def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
            calls.append(("step", step, trainer.step, sorted(logs)))

        def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
            calls.append(("epoch", epoch, sorted(logs)))

        def on_train_end(self, trainer: Trainer) -> None:
            calls.append(("end",))

    Trainer(zo_model(), SETTINGS).fit(X[:16], Y[:16], steps=3, callbacks=[Tell()], keep="last")
    assert calls == [
        ("begin", 3),
        ("step", 0, 1, ["loss", "rate"]),
        ("step", 1, 2, ["loss", "rate"]),
        ("epoch", 0, ["equivalents", "loss", "rate"]),
        ("step", 2, 3, ["loss", "rate"]),
        ("epoch", 1, ["equivalents", "loss", "rate"]),
        ("end",),
    ]


def test_checksum_of_the_device_is_the_replays(tmp_path):
    model = zo_model()
    trainer = Trainer(model, SETTINGS, "litert-ref")
    trainer.fit(X, Y, steps=9, log=tmp_path / "log", keep="last")
    weights, fractions = replay_log(model, SeedLog.read(tmp_path / "log"))
    total = sum(
        checksum(weights[t.name], fractions.get(t.name), t.stream) for t in trainer.runtime.metadata.trainable
    )
    trainer.runtime.invoke(trainer.runtime.command(loss=False, checksum=True))
    assert trainer.runtime.status().checksum == total % 2**32
