"""Weight perturbation: the same bits in every exact runtime, cut or not, and from the log alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.interpreters import require
from helpers.oracle.weights import checksum
from helpers.runs import state, weight_settings
from helpers.weight_runs import SETTINGS, X, Y, is_replay, zo_model
from tflm_zo.core import Coordinate, Gaussian, SparseUniform
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Settings, Trainer, executors


def run(model: str, batch_size: int = 8, **given: Any) -> tuple[str, Settings]:
    return model, weight_settings(batch_size=batch_size, **given)


SMOOTH: dict[str, Any] = {"perturbation": Gaussian(0.6)}
ONE_WEIGHT: dict[str, Any] = {"perturbation": Coordinate(2)}
RUNS = {
    "8 bit": run("8", queries=2),
    "16 bit": run("16", queries=2),
    "one-sided": run("16", 4, queries=3, rule="sign", estimator="one-sided", learning_rate=0.5),
    "one-sided, 8 bit": run("8", 12, estimator="one-sided", schedule="cosine"),
    "gradient": run("16", rule="gradient", clip=0.5, learning_rate=30.0),
    "blocks, suffix": run("cut", 4, queries=2, scope="blocks"),
    "blocks, parts": run("cut", queries=2, scope="blocks", estimator="one-sided"),
    "sparse": run("8", perturbation=SparseUniform(2, 0.3)),
    "sparse, 16 bit": run("16", perturbation=SparseUniform(2)),
    "gaussian": run("16", **SMOOTH),
    "coordinate": run("16", queries=4, rule="gradient", learning_rate=300.0, **ONE_WEIGHT),
    "coordinate, 8 bit": run("8", 4, estimator="one-sided", learning_rate=9.0, **ONE_WEIGHT),
    "coordinate, blocks": run("cut, 8", 4, scope="blocks", learning_rate=9.0, **ONE_WEIGHT),
    "coordinate, multipliers": run("multipliers", learning_rate=9.0, perturbation=Coordinate(1)),
    "multipliers": run("multipliers", queries=2),
    "blocks, 8 bit": run("cut, 8", 4, scope="blocks"),
    "gradient norm": run("16", 4, gradient_norm=True, learning_rate=9.0),
    "gaussian, 8 bit": run("8", **SMOOTH),
}


@pytest.mark.parametrize("name", slow_but(list(RUNS)[::3], RUNS))
def test_same_in_tflm_and_from_the_log(name: str, tmp_path: Path) -> None:
    kind, settings = RUNS[name]
    model = zo_model(kind)
    results = []
    for runtime in ("litert", "tflm"):
        require(runtime)
        trainer = Trainer(model, settings, runtime)
        log = tmp_path / runtime
        history = trainer.fit(X, Y, steps=40, log=log, keep="last")
        assert is_replay(trainer, log)
        queries = settings.weights.queries
        forwards = queries + 1 if settings.estimator == "one-sided" else 2 * queries
        assert history.forwards == trainer.forwards == 40 * forwards * settings.batch_size
        results.append((state(trainer), log.read_bytes(), history.steps))
    assert results[0] == results[1]
    assert len(results[0][2]) == 40
    whole = Log.read(log)
    weights, _ = replay_log(model, Log.from_steps(whole.settings, whole.fingerprint, []))
    assert any((weights[k] != v).any() for k, v in trainer.runtime.read_weights().items())


@pytest.mark.parametrize("of_invoke", [0, 1 << 20])
@pytest.mark.parametrize("of_step", [0, 1 << 26])
def test_parts_are_fed_anew_where_they_share_memory(
    of_step: int, of_invoke: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Feeds parts of a minibatch one by one or at once, all of them kept for a step or none."""
    settings = weight_settings(batch_size=12, queries=2)
    Trainer(zo_model("16"), settings).fit(X, Y, steps=9, log=tmp_path / "usual", keep="last")
    monkeypatch.setattr(executors, "_MOST_BYTES", of_step)
    monkeypatch.setattr(executors, "_MOST_OF_INVOKE", of_invoke)
    Trainer(zo_model("16"), settings).fit(X, Y, steps=9, log=tmp_path / "log", keep="last")
    assert (tmp_path / "log").read_bytes() == (tmp_path / "usual").read_bytes()


def test_suffixes_are_what_whole_passes_are() -> None:
    """Compares a cut model's block runs, which skip the prefix, with the uncut model's, which do not."""
    _, settings = RUNS["blocks, suffix"]
    a, b = Trainer(zo_model("cut"), settings, "litert"), Trainer(zo_model("16"), settings, "litert")
    losses = [t.fit(X, Y, steps=40, keep="last").steps for t in (a, b)]
    assert losses[0] == losses[1]
    assert state(a) == state(b)


def test_multipliers_are_replayed(tmp_path: Path) -> None:
    tensor = Trainer(zo_model(), SETTINGS).runtime.metadata.trainable[0]
    factors = np.linspace(0, 2**31 - 1, tensor.channels).astype(np.int32)
    trainer = Trainer(zo_model(multipliers={tensor.name: factors}), SETTINGS)
    trainer.fit(X, Y, steps=30, log=tmp_path / "log", keep="last")
    assert is_replay(trainer, tmp_path / "log")


def test_checksum_of_the_device_is_the_replays(tmp_path: Path) -> None:
    model = zo_model()
    trainer = Trainer(model, SETTINGS, "litert")
    trainer.fit(X, Y, steps=9, log=tmp_path / "log", keep="last")
    weights, fractions = replay_log(model, Log.read(tmp_path / "log"))
    total = sum(checksum(weights[t.name], fractions.get(t.name), t.stream) for t in trainer.runtime.metadata.trainable)
    trainer.runtime.invoke(trainer.runtime.command(loss=False, checksum=True))
    assert trainer.runtime.status().checksum == total % 2**32
