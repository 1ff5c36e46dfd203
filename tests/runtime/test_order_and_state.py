"""Weight ops run before the forward pass, start from the initial weights, and survive a reset."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import RUNTIMES, require, run_plain
from helpers.models import MODELS
from helpers.oracle.weights import checksum
from tflm_zo import Rademacher, core, load_model
from tflm_zo.converters import Model, set_batch
from tflm_zo.runtime import Runtime, load


def _within(model: bytes, limit: int) -> Model:
    """Clips every filter of the model to +-limit, so that headroom has nothing to requantize."""
    clipped = load_model(model)
    for tensor in clipped.subgraphs[0].tensors:
        if tensor.type_name == "INT8" and tensor.is_constant:
            tensor.set_data(np.clip(tensor.numpy(), -limit, limit))
    return clipped


def _with_weights(model: Model, batch: int, weights: dict[str, Any]) -> bytes:
    """Replaces the constant weights of a plain model."""
    plain = set_batch(model, batch)
    for tensor in plain.subgraphs[0].tensors:
        if tensor.name in weights:
            tensor.set_data(weights[tensor.name])
    return plain.to_bytes()


def _runtime(model: bytes, name: str, batch: int) -> Runtime:
    runtime = load(inject_all(model, batch=batch), name)
    rng = np.random.default_rng(1)
    shape, dtype, _, _ = runtime.input_details()
    runtime.set_inputs(rng.integers(-128, 128, shape).astype(dtype))
    return runtime


@pytest.mark.parametrize("model", ["small_cnn", "lenet5", "residual"])
@pytest.mark.parametrize("name", RUNTIMES)
def test_forward_pass_sees_the_weights_of_the_same_command(name: str, model: str) -> None:
    require(name)
    batch = 2
    original = _within(MODELS[model](), 125)
    zo = inject_all(original, batch=batch)
    runtime = load(zo, name)
    rng = np.random.default_rng(1)
    shape, dtype, _, _ = runtime.input_details()
    x = rng.integers(-128, 128, shape).astype(dtype)
    runtime.set_inputs(x)
    z = Rademacher(2)
    seen = set()
    for seed, k in ((1, 1), (1, -2), (1, 1), (2, 1), (2, -2)):
        runtime.invoke(runtime.command(loss=False).perturb([(seed, k)], z))
        weights = runtime.read_weights()
        expected = run_plain(_with_weights(original, batch, weights), name, [x])
        for a, e in zip(runtime.outputs(), expected, strict=True):
            np.testing.assert_array_equal(a, e)
        seen.add(runtime.outputs()[0].tobytes())
    assert len(seen) > 1, "the perturbation does not reach the outputs"


@pytest.mark.parametrize("name", RUNTIMES)
def test_restore_brings_the_initial_weights_back(name: str) -> None:
    require(name)
    runtime = _runtime(MODELS["small_cnn"](), name, 2)
    initial = runtime.read_weights()
    z = Rademacher(2)
    runtime.invoke(runtime.command(loss=False).update([(1, 90000)], z))
    assert any((runtime.read_weights()[n] != initial[n]).any() for n in initial)
    assert runtime.status().steps == 1
    runtime.invoke(runtime.command(loss=False).restore(block=0))
    assert runtime.status().steps == 1
    runtime.invoke(runtime.command(loss=False).restore())
    assert runtime.status().steps == 0
    for name_, value in runtime.read_weights().items():
        np.testing.assert_array_equal(value, initial[name_])
    for value in runtime.read_fractions().values():
        assert not value.any()


def test_reset_of_the_interpreter_brings_the_initial_weights_back() -> None:
    """reset_all_variables zeroes the weights behind the delegate's back; zo_state tells the ops."""
    runtime = _runtime(MODELS["small_cnn"](), "litert", 2)
    initial = runtime.read_weights()
    runtime.invoke()
    expected = runtime.outputs()[0]
    runtime.invoke(runtime.command(loss=False).update([(1, 90000)], Rademacher(2)))
    interpreter = runtime.segments[0].engine.interpreter  # type: ignore[attr-defined]
    interpreter.reset_all_variables()
    assert not any(value.any() for value in runtime.read_weights().values())
    runtime.invoke()
    for name, value in runtime.read_weights().items():
        np.testing.assert_array_equal(value, initial[name])
    np.testing.assert_array_equal(runtime.outputs()[0], expected)
    assert runtime.status().steps == 0


@pytest.mark.parametrize("name", RUNTIMES)
def test_written_weights_are_used(name: str) -> None:
    require(name)
    runtime = _runtime(MODELS["small_cnn"](), name, 2)
    rng = np.random.default_rng(0)
    weights = {n: rng.integers(-125, 126, w.shape).astype(np.int8) for n, w in runtime.read_weights().items()}
    runtime.write_weights(weights)
    runtime.invoke(runtime.command(loss=False, checksum=True))
    for n, value in runtime.read_weights().items():
        np.testing.assert_array_equal(value, weights[n])
    expected = sum(
        checksum(weights[t.name], runtime.read_fractions()[t.name], stream=t.stream) for t in runtime.metadata.trainable
    )
    assert runtime.status().checksum == expected % 2**32


def test_runtimes_do_not_share_weights() -> None:
    model = inject_all(MODELS["small_cnn"]())
    one, other = load(model, "litert"), load(model, "litert")
    before = other.read_weights()
    one.invoke(one.command(loss=False).perturb([(1, 1)], Rademacher(2)))
    other.invoke()
    for name, value in other.read_weights().items():
        np.testing.assert_array_equal(value, before[name])


def test_delegate_in_tensorflows_own_interpreter() -> None:
    """Loads the same library in TensorFlow's interpreter: the same outputs."""
    lite = pytest.importorskip("tensorflow", reason="TensorFlow is not installed").lite
    model = inject_all(MODELS["small_cnn"](), batch=2).to_bytes()
    runtime = load(model, "litert")
    delegate = lite.experimental.load_delegate(str(core.library_path()), {"exact": "1"})
    interpreter = lite.Interpreter(
        model_content=model,
        experimental_op_resolver_type=lite.experimental.OpResolverType.BUILTIN_REF,
        experimental_delegates=[delegate],
    )
    interpreter.allocate_tensors()
    ports = {d["name"]: d["index"] for d in interpreter.get_input_details()}
    outputs = interpreter.get_output_details()
    rng = np.random.default_rng(0)
    shape, dtype, _, _ = runtime.input_details()
    x, labels = rng.integers(-128, 128, shape).astype(dtype), np.array([1, 3], np.int32)
    runtime.set_inputs(x)
    runtime.set_labels(labels)
    z = Rademacher(2)
    commands = [
        runtime.command(checksum=True).perturb([(5, 1)], z),
        runtime.command(checksum=True).perturb([(5, -2)], z),
        runtime.command(checksum=True).update([(5, -70000)], z, restore_k=1).perturb([(6, 1)], z),
    ]
    for command in commands:
        runtime.invoke(command)
        image = next(i for n, i in ports.items() if not n.startswith("zo_"))
        interpreter.set_tensor(image, x)
        interpreter.set_tensor(ports["zo_label"], labels)
        interpreter.set_tensor(ports["zo_command"], command.words)
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(outputs[0]["index"]), runtime.outputs()[0])
        np.testing.assert_array_equal(interpreter.get_tensor(outputs[1]["index"]), runtime.losses())
        status = interpreter.get_tensor(outputs[2]["index"])
        assert int(status[3]) & 0xFFFFFFFF == runtime.status().checksum
