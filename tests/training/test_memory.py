"""Memory of a long run: a step leaves its loss in the history, and nothing else."""

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.moments import At, stop
from tflm_zo.core import Gaussian
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Nodes, Settings, Trainer, Weights, weight_run

RNG = np.random.default_rng(5)
X = RNG.integers(-128, 128, (500, 8, 8, 1)).astype(np.int8)
Y = RNG.integers(0, 4, len(X))


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["node"], ["weight", "node"]))
def test_a_step_leaves_its_loss_alone(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes 8 bytes, in an array that is extended by an eighth; any object more would take 32."""
    monkeypatch.setattr(weight_run, "_KEPT_STEPS", 64)
    if kind == "weight":
        trainer = Trainer(inject_all(MODELS["small_cnn"]()), Settings(tasks=(Weights(),), batch_size=1))
    else:
        trainer = Trainer(
            inject_all(MODELS["small_cnn"](), nodes="fc"), Settings(tasks=(Nodes(queries=1),), batch_size=1)
        )
    sizes: list[int] = []

    def look(_: Trainer) -> None:
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])

    first, last = 10 * 64, 50 * 64
    tracemalloc.start()
    try:
        trainer.fit(
            X, Y, steps=last, log=tmp_path / "log", callbacks=[At(first - 1, look), At(last - 1, look)], keep="last"
        )
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 16 * (last - first), sizes


@pytest.mark.parametrize("steps", [1, 7, 8, 9, 16, 21])
def test_a_log_is_read_in_parts(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads the same log, weights and resumed run in parts of any size; the last part finds torn bytes."""
    monkeypatch.setattr(weight_run, "_KEPT_STEPS", 5)
    model, log = inject_all(MODELS["small_cnn"](), max_queries=16, headroom=6), tmp_path / "log"
    settings = Settings(tasks=(Weights(queries=2, perturbation=Gaussian(1.0)),), batch_size=4)
    Trainer(model, settings).fit(X, Y, steps=21, log=log, callbacks=[At(steps - 1, stop)], keep="last")
    whole, weights = Log.read(log), replay_log(model, Log.read(log))
    with log.open("ab") as file:
        file.write(b"torn")
    monkeypatch.setattr("tflm_zo.logs.log._STEPS_AT_ONCE", 4)
    parts = list(Log.parts(log))
    assert [p.first_step for p in parts] == list(range(0, steps + 1, 4))
    assert [p.torn_bytes for p in parts] == [0] * (len(parts) - 1) + [4]
    read = Log.read(log)
    for name in ("steps", "losses", "mean_squares"):
        np.testing.assert_array_equal(getattr(read, name), getattr(whole, name))
    assert (read.whole_bytes, read.torn_bytes) == (whole.whole_bytes, 4)
    for a, b in zip(replay_log(model, log), weights, strict=True):
        assert list(a) == list(b)
        for name, value in a.items():
            np.testing.assert_array_equal(value, b[name])
    resumed, once = Trainer(model, settings), Trainer(model, settings)
    resumed.fit(X, Y, steps=21, log=log, resume=True, keep="last")
    once.fit(X, Y, steps=21, log=tmp_path / "once", keep="last")
    assert log.read_bytes() == (tmp_path / "once").read_bytes()
    assert resumed.export().to_bytes() == once.export().to_bytes()
