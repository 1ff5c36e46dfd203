"""A run's export: a plain int8 model with the outputs of the trained ZO model, but for an interpreter's rounding."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo.converters import export_model, load_model, read_metadata
from tflm_zo.training import Linear, Settings, Trainer, Weights
from tflm_zo.training.rules import Sign

BATCH, SAMPLES = 20, 1000
CLASSIFIERS = [n for n in MODELS if read_metadata(inject_all(MODELS[n]())).loss.kind != "mse"]  # type: ignore
CUTS = {"lenet5": ("pool2",), "small_cnn": ("pool",)}

# A process that knows nothing of this package.
PLAIN = """
import sys
import numpy as np
from pathlib import Path
from ai_edge_litert.interpreter import Interpreter, OpResolverType

folder = Path(sys.argv[1])
for path in sorted(folder.glob("*.tflite")):
    interpreter = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    with np.load(path.with_suffix(".npz")) as data:
        x = [data[f"x{i}"] for i in range(len(inputs))]
    results = []
    for at in range(0, len(x[0]), BATCH):
        for details, values in zip(inputs, x):
            interpreter.set_tensor(details["index"], values[at : at + BATCH])
        interpreter.invoke()
        results.append([interpreter.get_tensor(details["index"]) for details in outputs])
    np.savez(path.with_suffix(".out.npz"), *map(np.concatenate, zip(*results)))
assert not any(name.startswith("tflm_zo") for name in sys.modules)
"""


def samples(trainer: Trainer) -> list[Any]:
    """Draws random samples over the whole range of every input."""
    rng, result = np.random.default_rng(11), []
    for i in range(len(trainer.runtime.metadata.original.inputs)):
        shape, dtype, _, _ = trainer.runtime.input_details(i)
        x = rng.integers(-128, 128, (SAMPLES, *shape[1:])).astype(np.int8)
        result.append(x if dtype == np.int8 else (x / 40).astype(dtype))
    return result


def train(name: str, runtime: str) -> tuple[Trainer, list[Any]]:
    """Takes a few large steps, so that every layer has other weights than before."""
    zo = inject_all(MODELS[name](), batch=BATCH, cuts=CUTS.get(name, ()))
    settings = Settings(tasks=(Weights(rule=Sign()),), batch_size=BATCH, learning_rate=40.0, schedule=Linear(40.0))
    trainer = Trainer(zo, settings, runtime)
    loss = trainer.runtime.metadata.loss
    assert loss is not None
    x, rng = samples(trainer), np.random.default_rng(12)
    binary = loss.kind == "binary_cross_entropy"
    y = rng.integers(0, 2 if binary else loss.elements, (SAMPLES, loss.elements) if binary else SAMPLES)
    before = trainer.runtime.read_weights()
    trainer.fit(x, y, steps=3, keep="last")
    after = trainer.runtime.read_weights()
    assert all((before[tensor] != after[tensor]).any() for tensor in before)
    return trainer, x


def trained_outputs(trainer: Trainer, x: list[Any]) -> list[Any]:
    """Returns all original outputs of the trained ZO model."""
    results = []
    for at in range(0, SAMPLES, BATCH):
        trainer.runtime.set_inputs(*(values[at : at + BATCH] for values in x))
        trainer.runtime.invoke()
        results.append(trainer.runtime.outputs())
    return [np.concatenate(values) for values in zip(*results, strict=True)]


def test_there_are_classifiers() -> None:
    assert len(CLASSIFIERS) >= 11


@pytest.fixture(scope="module")
def in_plain_litert(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Any], list[Any]]]:
    """Returns outputs of each trained ZO model, and of the exported one in a process without this package."""
    folder, expected = tmp_path_factory.mktemp("exported"), {}
    for name in CLASSIFIERS:
        trainer, x = train(name, "litert")
        trainer.export(folder / f"{name}.tflite")
        np.savez(folder / f"{name}.npz", **{f"x{i}": values for i, values in enumerate(x)})
        expected[name] = trained_outputs(trainer, x)
    script = PLAIN.replace("BATCH", str(BATCH))
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True, cwd=Path("/"))
    results = {}
    for name in CLASSIFIERS:
        with np.load(folder / f"{name}.out.npz") as data:
            results[name] = (expected[name], [data[key] for key in data.files])
    return results


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_same_outputs_in_plain_litert(name: str, in_plain_litert: Any) -> None:
    expected, actual = in_plain_litert[name]
    assert len(expected) == len(actual)
    for a, b in zip(expected, actual, strict=True):
        assert len(a) == SAMPLES and len(np.unique(a.reshape(SAMPLES, -1), axis=0)) > 10  # not all the same
        # Optimized kernels round ties their own way, and one LSB in a layer may be more behind it.
        away = np.abs(a.astype(np.float64) - b) / (np.abs(a).max() if a.dtype.kind == "f" else 1)
        assert np.mean(away > 1e-6) < 0.02
        assert away.max() <= (0.05 if a.dtype.kind == "f" else 4)


@pytest.mark.parametrize("name", slow_but(list(CLASSIFIERS)[::3], CLASSIFIERS))
def test_same_outputs_in_plain_tflm(name: str) -> None:
    """Compares in TFLM's own interpreter, without custom operators: the same bits."""
    require("tflm")
    from tflite_micro import runtime

    from tflm_zo.runtime.tflm import arena_upper_bound

    trainer, x = train(name, "tflm")
    exported = trainer.export()
    graph = exported.subgraphs[0]
    assert len(exported.subgraphs) == 1
    assert not any(op.code.name.startswith("TFLM_ZO") for op in graph.operators)
    assert not any(tensor.is_variable for tensor in graph.tensors)
    expected = trained_outputs(trainer, x)
    data = exported.to_bytes()
    interpreter = runtime.Interpreter.from_bytes(data, [], arena_size=arena_upper_bound(load_model(data)))
    results = []
    for at in range(0, SAMPLES, BATCH):
        for i, values in enumerate(x):
            interpreter.set_input(values[at : at + BATCH], i)
        interpreter.invoke()
        results.append([interpreter.get_output(i) for i in range(len(expected))])
    for a, b in zip(expected, map(np.concatenate, zip(*results, strict=True)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_export_with_the_range_of_the_weights() -> None:
    """Exports from the 16-bit weights; tests/converters/test_re_range.py tests the result."""
    zo = inject_all(MODELS["small_cnn"](), batch=BATCH)
    trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=BATCH), "litert")
    x = samples(trainer)
    trainer.fit(x[0], np.random.default_rng(12).integers(0, 4, SAMPLES), steps=20, keep="last")
    weights, fractions = trainer.runtime.read_weights(), trainer.runtime.read_fractions()
    assert any(f.any() for f in fractions.values())
    expected = export_model(zo, weights, batch=1, fractions=fractions, re_range=True).to_bytes()
    assert trainer.export(batch=1, re_range=True).to_bytes() == expected
    assert trainer.export(batch=1).to_bytes() == export_model(zo, weights, batch=1).to_bytes()
