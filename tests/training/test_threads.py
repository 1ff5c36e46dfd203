"""A run does not depend on how many threads divide its minibatches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.examples import REAL_MODELS
from helpers.models import MODELS
from helpers.moments import At, stop
from tflm_zo import recalibrate
from tflm_zo.converters import load_model
from tflm_zo.data import Inputs
from tflm_zo.training import ALGORITHMS, Trainer, algorithm
from tflm_zo.training.setting_texts import changed

THREADS = (2, 3, 7)
SAMPLES = 23

MADE = [
    pytest.param(MODELS[name], id=name, marks=[pytest.mark.slow] * (name != "residual"))
    for name in ("small_cnn", "residual", "depthwise_separable")
]


def _data(trainer: Trainer) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    shape = trainer.runtime.input_details()[0]
    loss = trainer.runtime.metadata.loss
    assert loss is not None
    x = rng.integers(-128, 128, (SAMPLES, *shape[1:])).astype(np.int8)
    return x, x if loss.kind == "mse" else rng.integers(0, loss.elements, SAMPLES)


def _run(model: bytes, settings: Any, log: Path, threads: int, steps: int) -> tuple[Any, ...]:
    """Returns all results of a run."""
    trainer = Trainer(model, settings, threads=threads)
    x, y = _data(trainer)
    history = trainer.fit(x, y, steps=steps, log=log)
    weights = {name: values.tobytes() for name, values in trainer.runtime.read_weights().items()}
    return (
        log.read_bytes(),
        weights,
        history.measurements,
        history.equivalents,
        history.forwards,
        trainer.evaluate(x, y),
        trainer.predict(x).tobytes(),
    )


@pytest.mark.parametrize("name", [*ALGORITHMS])
@pytest.mark.parametrize("make", MADE)
def test_the_log_is_the_same(make: Any, name: str, tmp_path: Path) -> None:
    settings = changed(algorithm(name), {"batch_size": 8, "seed": 3})
    one = _run(make(), settings, tmp_path / "1.zolog", 1, 3)
    for threads in THREADS:
        assert _run(make(), settings, tmp_path / f"{threads}.zolog", threads, 3) == one


@pytest.mark.slow
@pytest.mark.parametrize("make", REAL_MODELS)
def test_the_log_is_the_same_for_real_models(make: Any, tmp_path: Path) -> None:
    for name in ("node", "weight"):
        settings = changed(algorithm(name), {"batch_size": 8})
        one = _run(make(), settings, tmp_path / f"{name}-1.zolog", 1, 2)
        for threads in THREADS:
            log = tmp_path / f"{name}-{threads}.zolog"
            assert _run(make(), settings, log, threads, 2) == one


@pytest.mark.parametrize("make", MADE)
def test_recalibration_is_the_same(make: Any) -> None:
    model = load_model(make())
    shape = Inputs(Trainer(model).model).input_details()[0]
    old, new = np.random.default_rng(1).normal([[0.0], [0.4]], [[0.5], [0.8]], (2, 40 * int(np.prod(shape[1:]))))
    old, new = (values.reshape(40, *shape[1:]).astype(np.float32) for values in (old, new))
    one = recalibrate(model, new, source=old)
    assert any(layer.corrected for layer in one.layers)
    for threads in THREADS:
        other = recalibrate(model, new, source=old, threads=threads)
        assert other.model.to_bytes() == one.model.to_bytes()


def test_an_interrupted_run_goes_on_with_other_threads(tmp_path: Path) -> None:
    settings = changed(algorithm("node"), {"batch_size": 8, "snapshot_every": 2})
    whole = _run(MODELS["residual"](), settings, tmp_path / "whole.zolog", 1, 6)
    log = tmp_path / "parts.zolog"
    first = Trainer(MODELS["residual"](), settings, threads=3)
    x, y = _data(first)
    first.fit(x, y, steps=6, log=log, callbacks=[At(3, stop)])
    assert first.step == 4
    second = Trainer(MODELS["residual"](), settings, threads=2)
    second.fit(x, y, steps=6, log=log, resume=True)
    assert log.read_bytes() == whole[0]
