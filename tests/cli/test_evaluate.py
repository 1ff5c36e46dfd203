"""evaluate: losses and accuracies of every kind of model, and refusals."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo
from helpers.commands import parsed, result_of, run
from helpers.interpreters import require, run_plain
from helpers.models import MODELS
from tflm_zo.converters import load_model

INJECT = ("inject", "--algorithm", "weight")


def _expected(name: str, x: Any, y: Any, runtime: str) -> tuple[float, float]:
    """Computes accuracy and mean cross-entropy of logits, one sample at a time, in float64."""
    model = MODELS[name]()
    graph = load_model(model).subgraphs[0]
    entry, exit_ = graph.inputs[0].quantization, graph.outputs[0].quantization
    assert entry is not None and exit_ is not None
    right, losses = 0, []
    for sample, label in zip(x, y, strict=True):
        levels = np.clip(np.rint(sample / entry.scale) + entry.zero_point, -128, 127).astype(np.int8)
        (output,) = run_plain(model, runtime, [levels[None]])
        logits = (output[0].astype(np.float64) - exit_.zero_point) * exit_.scale
        right += int(logits.argmax() == label)
        losses.append(np.log(np.exp(logits).sum()) - logits[label])
    return right / len(y), float(np.mean(losses))


@pytest.mark.parametrize("runtime", ["litert", "tflm"])
def test_evaluate(cli: Any, model_file: Any, data_file: Any, samples: Any, runtime: str) -> None:
    require(runtime)
    x, y = samples
    data = data_file(x=x, y=y)
    accuracy, loss = _expected("small_cnn", x, y, runtime)
    plain = result_of("evaluate", model_file(), data, "--runtime", runtime)
    assert (plain["samples"], plain["labelled"], plain["batch"]) == (45, 45, 32)
    assert plain["accuracy"] == pytest.approx(accuracy)
    assert plain["loss"] == pytest.approx(loss, abs=1e-3)

    run("inject", "--algorithm", "weight", model_file(), "-o", "o.zo.tflite", "--batch", 7, "--headroom", 0)
    zo = parsed(cli("evaluate", "o.zo.tflite", data, "--runtime", runtime, "--json", "-o", "r.json"))
    assert zo["batch"] == 7
    assert (zo["accuracy"], zo["loss"]) == pytest.approx((plain["accuracy"], plain["loss"]))
    assert json.loads(Path("r.json").read_text()) == zo

    text = cli("evaluate", model_file(), data, "--runtime", runtime)
    assert f"accuracy {accuracy:.2%}, cross_entropy {plain['loss']:.4f}" in text.stdout


def test_evaluate_leaves_out_the_unlabelled(cli: Any, model_file: Any, data_file: Any, samples: Any) -> None:
    x, y = samples
    some = result_of("evaluate", model_file(), data_file("a.npz", x=x[:20], y=y[:20]))
    y = np.where(np.arange(45) < 20, y, -1)
    rest = result_of("evaluate", model_file(), data_file("b.npz", x=x, y=y))
    assert (rest["samples"], rest["labelled"]) == (45, 20)
    assert (rest["accuracy"], rest["loss"]) == pytest.approx((some["accuracy"], some["loss"]))


def test_evaluate_binary(cli: Any, model_file: Any, data_file: Any) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.9, 1.9, (9, 6, 6, 2)).astype(np.float32)
    model = MODELS["logistic_head"]()
    entry = load_model(model).subgraphs[0].inputs[0].quantization
    assert entry is not None
    levels = np.clip(np.rint(x / entry.scale) + entry.zero_point, -128, 127).astype(np.int8)
    guesses = np.array([run_plain(model, "litert", [v[None]])[0][0] > 0 for v in levels]).astype(int)
    result = result_of("evaluate", model_file("logistic_head"), data_file(x=x, y=guesses))
    assert result["loss_kind"] == "binary_cross_entropy"
    assert result["accuracy"] == 1.0
    guesses[0, 0] ^= 1
    result = result_of("evaluate", model_file("logistic_head"), data_file(x=x, y=guesses))
    assert result["accuracy"] == pytest.approx(1 - 1 / 27)


def test_warning_goes_to_stderr(cli: Any, model_file: Any, data_file: Any, samples: Any) -> None:
    result = cli("evaluate", model_file(), data_file(x=samples[0] * 100, y=samples[1]), "--json")
    assert parsed(result)["samples"] == 45
    assert result.stderr.startswith("warning: x goes from ")
    assert result.stderr.count("\n") == 1


_X = np.zeros((6, 8, 8, 1), np.float32) + np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
_Y = np.zeros(6, int)


def test_evaluate_unknown_or_absent_runtime(
    cli: Any, model_file: Any, data_file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_file(x=_X, y=_Y)
    result = cli("evaluate", model_file(), data, "--runtime", "magic")
    assert result.exit_code == 2
    for name in tflm_zo.runtime.RUNTIMES:
        assert name in result.stderr
    monkeypatch.setitem(sys.modules, "tflite_runtime", None)
    result = cli("evaluate", model_file(), data, "--runtime", "tflite-runtime")
    assert result.exit_code == 1
    assert "pip install" in result.stderr


def test_evaluate_refuses_models(cli: Any, model_file: Any, data_file: Any) -> None:
    data = data_file(x=_X, y=_Y)
    assert "has 2 inputs" in cli("evaluate", model_file("two_inputs"), data).stderr
    refused = cli("evaluate", model_file(), data, "--loss", "none")
    assert refused.exit_code == 2 and "binary-cross-entropy" in refused.stderr
    measured = [cli("evaluate", model_file(), data, "--json", "--loss", f"cross{c}entropy") for c in "-_"]
    assert measured[0].exit_code == 0 and measured[0].stdout == measured[1].stdout
    run(*INJECT, model_file(), "-o", "o.zo.tflite", "--loss", "none")
    assert "has no loss" in cli("evaluate", "o.zo.tflite", data).stderr
    assert "its own loss" in cli("evaluate", "o.zo.tflite", data, "--loss", "mse").stderr
