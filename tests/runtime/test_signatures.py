"""The file alone: segments and original signatures through the runtimes' own signature runners."""

import importlib
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo import Rademacher, core
from tflm_zo.runtime import load

INTERPRETERS = [
    pytest.param("litert", "ai_edge_litert.interpreter"),
    pytest.param("tflite-runtime", "tflite_runtime.interpreter", marks=pytest.mark.tflite_runtime),
]


def _interpreter(module: str, model: bytes) -> Any:
    imported = importlib.import_module(module)
    return imported.Interpreter(
        model_content=model,
        experimental_op_resolver_type=imported.OpResolverType.BUILTIN_REF,
        experimental_delegates=[imported.load_delegate(str(core.library_path()), {"exact": "1"})],
    )


@pytest.mark.parametrize(("name", "module"), INTERPRETERS)
def test_segments_of_one_file(name: str, module: str) -> None:
    """A training step over the signatures of one cut file equals the same over our runtime."""
    require(name)
    model = inject_all(MODELS["lenet5"](), cuts=("pool1", "fc1"))
    runtime = load(model, name)
    interpreter = _interpreter(module, model.to_bytes())
    runners = [interpreter.get_signature_runner(f"segment_{k}") for k in range(3)]
    rng = np.random.default_rng(0)
    shape, dtype, _, _ = runtime.input_details()
    x, label = rng.integers(-128, 128, shape).astype(dtype), np.array([7], np.int32)
    runtime.set_inputs(x)
    runtime.set_labels(label)
    z = Rademacher(2)
    commands = [
        runtime.command(checksum=True),
        runtime.command(checksum=True).perturb([(1, 1)], z),
        runtime.command(checksum=True).perturb([(1, -2)], z),
        runtime.command(checksum=True).update([(1, 90000)], z, restore_k=1),
    ]
    checksums = set()
    for command in commands:
        runtime.invoke(command)
        words = {"zo_command": command.words}
        first = runners[0](image=x, **words)
        second = runners[1](boundary=first["boundary"], **words)
        third = runners[2](boundary=second["boundary"], zo_label=label, **words)
        np.testing.assert_array_equal(third["zo_loss"], runtime.losses())
        np.testing.assert_array_equal(third["softmax"], runtime.outputs()[0])
        np.testing.assert_array_equal(second["boundary"], runtime.boundary(2))
        total = sum(int(r["zo_status"][3]) for r in (first, second, third)) & 0xFFFFFFFF
        assert total == runtime.status().checksum
        checksums.add(total)
    assert len(checksums) == len(commands)


@pytest.mark.parametrize(("name", "module"), INTERPRETERS)
def test_original_signature_keeps_working(name: str, module: str) -> None:
    require(name)
    original = MODELS["lenet5"]()
    interpreter = _interpreter(module, inject_all(original, headroom=0).to_bytes())
    plain = _interpreter(module, original)
    assert set(interpreter.get_signature_list()) == {"serving_default", "segment_0"}
    interpreter.allocate_tensors()
    command = next(d for d in interpreter.get_input_details() if d["name"] == "zo_command")
    interpreter.set_tensor(command["index"], np.zeros(command["shape"], np.int32))
    signatures = interpreter.get_signature_list()["serving_default"]
    assert signatures == plain.get_signature_list()["serving_default"]
    (input_name,) = signatures["inputs"]
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.integers(-128, 128, (1, 28, 28, 1)).astype(np.int8)
        expected = plain.get_signature_runner("serving_default")(**{input_name: x})
        actual = interpreter.get_signature_runner("serving_default")(**{input_name: x})
        assert expected.keys() == actual.keys()
        for key, value in expected.items():
            np.testing.assert_array_equal(actual[key], value)
