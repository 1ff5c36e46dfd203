"""Variants of weight perturbation as whole runs: resumed, replayed, and their unchanged state."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from helpers.moments import At, stop
from helpers.runs import packed, random_samples, state, weight_settings
from tflm_zo.converters import Model, initial_weights, read_metadata
from tflm_zo.core import Coordinate, Gaussian
from tflm_zo.logs import Log, replay_log
from tflm_zo.runtime import load
from tflm_zo.training import Settings, Trainer, Weights
from tflm_zo.training.rules import Normalized

X, Y = random_samples(4)
STEPS = 23

GAUSSIAN = {"perturbation": Gaussian(0.6)}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gaussian, 8 bit, blocks": ({"update_bits": 8, "cuts": ("pool",)}, {"scope": "blocks", **GAUSSIAN}),
    "8 bit": ({"update_bits": 8}, {"queries": 3}),
    "multipliers": ({"multipliers": "quantization-aware"}, {}),
    "coordinate": ({}, {"perturbation": Coordinate(2), "queries": 4, "learning_rate": 9.0}),
    "coordinate, 8 bit": ({"update_bits": 8}, {"perturbation": Coordinate(2), "learning_rate": 9.0}),
}


def made(name: str) -> tuple[Model, Settings]:
    injection, changes = VARIANTS[name]
    model = inject_all(MODELS["small_cnn"](), **{"batch": 4, "command_words": 1000, **injection})
    return model, weight_settings(**{"batch_size": 4, **changes})


@pytest.mark.parametrize("name", slow_but(list(VARIANTS)[::3], VARIANTS))
def test_resumed_at_any_step(name: str, tmp_path: Path) -> None:
    """Ends with the same weights and the same bytes as an uninterrupted run."""
    model, changes = made(name)
    whole, expected = Trainer(model, changes), tmp_path / "whole.zolog"
    whole.fit(X, Y, steps=STEPS, log=expected, keep="last")
    for at in (1, 2, 3, 9, STEPS - 1):
        log = tmp_path / f"{at}.zolog"
        Trainer(model, changes).fit(X, Y, steps=STEPS, log=log, callbacks=[At(at, stop)], keep="last")
        resumed = Trainer(model, changes)
        resumed.fit(X, Y, steps=STEPS, log=log, resume=True, keep="last")
        assert log.read_bytes() == expected.read_bytes()
        assert state(resumed) == state(whole)


@pytest.mark.parametrize("name", VARIANTS)
def test_replayed_by_the_model_itself(name: str, tmp_path: Path) -> None:
    """Makes the trained weights of the initial ones by SEED_REPLAY, and so do `replay_log` and TFLM's run."""
    model, changes = made(name)
    trainer, path = Trainer(model, changes), tmp_path / "run.zolog"
    trainer.fit(X, Y, steps=STEPS, log=path, keep="last")
    log, runtime = Log.read(path), load(model, "litert")
    for block in range(len(read_metadata(model).blocks)):
        for distribution, steps in log.steps_of_block(block):
            runtime.invoke(runtime.command(loss=False, checksum=True).replay(steps, distribution, block))
    weights, fractions = replay_log(model, log)
    own = packed(runtime.read_weights(), runtime.read_fractions())
    assert own == packed(weights, fractions) == state(trainer)
    require("tflm")
    exact = Trainer(model, changes, "tflm")
    exact.fit(X, Y, steps=STEPS, log=tmp_path / "tflm.zolog", keep="last")
    assert state(exact) == own and (tmp_path / "tflm.zolog").read_bytes() == path.read_bytes()
    assert any(not np.array_equal(weights[k], v) for k, v in initial_weights(model).items())


def test_gradient_norm_counts_what_is_trained() -> None:
    """Computes N Q / (N Q + d - 1) with d the weights that directions have."""
    model = inject_all(MODELS["small_cnn"](), batch=4, trainable="fc")
    rates = [
        Trainer(
            model,
            Settings(tasks=(Weights(queries=2, rule=Normalized(gradient_norm=on)),), batch_size=8, learning_rate=8.0),
        )
        .fit(X, Y, steps=1, keep="last")
        .history["rate"][0]
        for on in (False, True)
    ]
    d = 256
    assert rates[1] / rates[0] == pytest.approx(16 / (16 + d - 1), rel=1e-3)


@given(st.sampled_from(sorted(VARIANTS)), st.integers(0, 2**32 - 1), st.integers(0, 12))
@settings(max_examples=25, deadline=None)
def test_perturbations_leave_no_trace(name: str, seed: int, steps: int) -> None:
    """Runs at a rate too small for any step but with directions as large as ever."""
    model, changes = made(name)
    injection, own = VARIANTS[name]
    trainer = Trainer(model, weight_settings(**{"batch_size": 4, **own, "learning_rate": 2.0**-16, "seed": seed}))
    if steps:
        trainer.fit(X, Y, steps=steps, keep="last")
    for k, v in initial_weights(model).items():
        moved = np.abs(trainer.runtime.read_weights()[k].astype(int) - v)
        assert moved.max() <= (1 if injection.get("update_bits") == 8 else 0)
