"""Bad input: a clear error, and nothing changed."""

import importlib.metadata
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo
from helpers.injection import inject_all
from helpers.interpreters import RUNTIMES, require
from helpers.models import MODELS
from tflm_zo import NativeError, Rademacher
from tflm_zo.core import Status
from tflm_zo.data import ModelError
from tflm_zo.runtime import InvokeError, Runtime, RuntimeUnavailableError, load
from tflm_zo.runtime.tflm import REGISTERER, WHEEL_VERSION, TflmRuntime, arena_upper_bound

Z = Rademacher(2)


def _runtime(name: str = "litert", **settings: Any) -> Runtime:
    require(name)
    runtime = load(inject_all(MODELS["small_cnn"](), batch=2, max_queries=3, **settings), name)
    rng = np.random.default_rng(0)
    shape, dtype, _, _ = runtime.input_details()
    runtime.set_inputs(rng.integers(-128, 128, shape).astype(dtype))
    runtime.set_labels(np.array([0, 3]))
    return runtime


def _state(runtime: Runtime) -> list[bytes]:
    return [a.tobytes() for d in (runtime.read_weights(), runtime.read_fractions()) for a in d.values()]


def _damage(words: Any, **changes: int) -> Any:
    copy = words.copy()
    for key, value in changes.items():
        copy[int(key[1:])] = value
    return copy


def bad_commands(runtime: Runtime) -> list[tuple[Any, Status]]:
    """Makes commands that the model does not allow, each with a good update before the error."""
    update = runtime.command().update([(1, 70000)], Z)
    end = update.length
    good = runtime.command().update([(1, 70000)], Z).perturb([(2, 1)], Z).words
    return [
        (_damage(good, _0=0x12340000), Status.COMMAND),
        (_damage(good, _0=0x5A4F0008), Status.COMMAND),
        (_damage(good, _1=1000), Status.COMMAND),
        (_damage(good, _1=-1), Status.COMMAND),
        (_damage(good, **{f"_{end}": 0x7F000000}), Status.OPCODE),
        (_damage(good, **{f"_{end}": 0x02000000, f"_{end + 3}": 1}), Status.ORDER),
        (_damage(good, **{f"_{end}": 0x04000009}), Status.BLOCK),
        (_damage(good, **{f"_{end + 2}": 0x07000001}), Status.DISTRIBUTION),
        (_damage(good, **{f"_{end + 2}": 3}), Status.HEADROOM),
        (_damage(good, **{f"_{end + 1}": 4}), Status.COMMAND),
        (_damage(good, **{f"_{end + 5}": 2}), Status.FACTOR),
        (_damage(good, _7=2**31 - 1), Status.COEFFICIENT),
        (runtime.command().update([(s, 1) for s in range(4)], Z).words, Status.QUERIES),
    ]


def test_command_that_the_model_does_not_allow() -> None:
    runtime = _runtime()
    runtime.invoke(runtime.command().update([(1, 70000)], Z))
    before, outputs = _state(runtime), runtime.outputs()[0].tobytes()
    for words, status in bad_commands(runtime):
        with pytest.raises(NativeError) as error:
            runtime.invoke(words)
        assert error.value.status == status
        assert _state(runtime) == before
        assert runtime.outputs()[0].tobytes() == outputs


@pytest.mark.parametrize("name", RUNTIMES)
def test_the_op_itself_refuses_too(name: str) -> None:
    """Returns the op's error to callers without our Python, and leaves weights untouched."""
    runtime = _runtime(name)
    runtime.invoke(runtime.command().update([(1, 70000)], Z))
    before = _state(runtime)
    segment = runtime.segments[0]
    assert segment.command is not None
    for words, status in bad_commands(runtime):
        for original, index in segment.inputs.items():
            segment.engine.set_input(index, runtime.inputs[original])
        segment.engine.set_input(segment.command, words)
        with pytest.raises(InvokeError) as error:
            segment.engine.invoke()
        if name != "tflm":  # TFLM writes the reason to stderr
            assert tflm_zo.core.library().zo_status_text(status).decode() in str(error.value)
            assert "TFLM_ZO_" in str(error.value)
        assert _state(runtime) == before
    runtime.invoke(runtime.command().perturb([(1, 1)], Z))  # and the interpreter still works
    assert _state(runtime) != before


@pytest.mark.parametrize("name", RUNTIMES)
def test_label_out_of_range(name: str) -> None:
    runtime = _runtime(name)
    with pytest.raises(ValueError, match=r"y: label 4 is out of range. It must be in 0\.\.3"):
        runtime.set_labels(np.array([0, 4]))
    with pytest.raises(ValueError, match="label -2 is out of range"):
        runtime.set_labels(np.array([-2, 0]))
    # Past our Python, the op refuses.
    segment = runtime.segments[0]
    assert segment.label is not None and segment.command is not None
    for original, index in segment.inputs.items():
        segment.engine.set_input(index, runtime.inputs[original])
    segment.engine.set_input(segment.label, np.array([0, 4], np.int32))
    segment.engine.set_input(segment.command, runtime.command().words)
    with pytest.raises(InvokeError):
        segment.engine.invoke()


def test_unlabelled_sample_has_no_loss() -> None:
    runtime = _runtime()
    runtime.set_labels(np.array([-1, 2]))
    runtime.invoke(runtime.command())
    losses = runtime.losses()
    assert losses[0] == 0 and losses[1] > 0


def test_inputs() -> None:
    runtime = _runtime()
    good = np.zeros((2, 8, 8, 1), np.int8)
    before = runtime.inputs[0]
    for arguments, message in [
        ((), "must have 1 arrays, one for each input. Received: 0"),
        ((good, good), "must have 1 arrays, one for each input. Received: 2"),
        ((good[:1],), "`input 0` must have 2 samples. Received: 1"),
        ((good.astype(np.int32),), "input 0 is int32; expected floating point"),
        ((np.full(good.shape, np.nan),), "NaN"),
        ((np.full(good.shape, -np.inf),), "NaN or infinity"),
    ]:
        with pytest.raises(ValueError, match=message):
            runtime.set_inputs(*arguments)
        assert runtime.inputs[0] is before


def test_floating_point_inputs_are_quantized() -> None:
    runtime = _runtime()
    _, _, scale, zero_point = runtime.input_details()
    q = np.random.default_rng(0).integers(-128, 128, (2, 8, 8, 1)).astype(np.int8)
    runtime.set_inputs((q.astype(np.float64) - zero_point) * scale)
    np.testing.assert_array_equal(runtime.inputs[0], q)
    runtime.set_inputs(np.full((2, 8, 8, 1), 1e9, np.float32))
    assert (runtime.inputs[0] == 127).all()


def test_labels_are_described() -> None:
    for name, shape, dtype in (
        ("small_cnn", (2,), np.int32),
        ("logistic_head", (2, 3), np.int32),
        ("autoencoder", (2, 24), np.int8),
    ):
        runtime = load(inject_all(MODELS[name](), batch=2), "litert")
        assert runtime.label_details()[:2] == (shape, dtype)
    assert runtime.label_details() == runtime.output_details()
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinity"):
            runtime.set_labels(np.full((2, 24), wrong))
    with pytest.raises(ValueError, match="no loss"):
        load(inject_all(MODELS["small_cnn"](), loss="none"), "litert").label_details()


def test_losses_need_labels() -> None:
    require("litert")
    runtime = load(inject_all(MODELS["small_cnn"]()), "litert")
    with pytest.raises(ValueError, match="set_labels first"):
        runtime.invoke(runtime.command())


def test_start_and_boundary() -> None:
    model = inject_all(MODELS["small_cnn"](), cuts=("pool",))
    runtime = load(model, "litert")
    runtime.invoke()
    boundary = runtime.boundary(1)
    for arguments, message in [
        ({"start": 2}, r"segments 0\.\.1, got 2"),
        ({"start": -1}, r"segments 0\.\.1, got -1"),
        ({"start": 0, "boundary": boundary}, "segment 0 has none"),
        ({"start": 1, "boundary": boundary[:, :1]}, "`boundary` must be int8"),
        ({"start": 1, "boundary": boundary.astype(np.int16)}, "`boundary` must be int8 .*Received: int16"),
    ]:
        with pytest.raises(ValueError, match=message):
            runtime.invoke(**arguments)
    with pytest.raises(ValueError, match="no boundary"):
        runtime.boundary(2)


def test_command_of_another_size() -> None:
    runtime = _runtime()
    with pytest.raises(ValueError, match=r"Use `Runtime\.command\(\)`"):
        runtime.invoke(np.zeros(5, np.int32))


def test_seed_list_longer_than_the_command() -> None:
    runtime = _runtime()
    with pytest.raises(NativeError) as error:
        runtime.command().replay([[(1, 1)]] * 1000, Z)
    assert error.value.status == Status.CAPACITY


def test_write_weights() -> None:
    runtime = _runtime(update_bits=8)
    before = _state(runtime)
    name = runtime.metadata.trainable[0].name
    value = runtime.read_weights()[name]
    for weights, fractions, message in [
        ({"nothing": value}, None, "`weights` must name trainable filter tensors .* Received: 'nothing'"),
        ({name: value[:1]}, None, "needs int8"),
        ({name: value.astype(np.int16)}, None, "not int16"),
        ({name: np.full(value.shape, 126, np.int8)}, None, r"within \+-125"),
        ({name: np.full(value.shape, -128, np.int8)}, None, r"within \+-125"),
        ({}, {name: value}, "8-bit update"),
    ]:
        with pytest.raises(ValueError, match=message):
            runtime.write_weights(weights, fractions)
        assert _state(runtime) == before


def test_not_a_zo_model(tmp_path: Any) -> None:
    with pytest.raises(ModelError, match="inject it first"):
        load(MODELS["small_cnn"](), "litert")
    with pytest.raises(ModelError):
        load(b"not a model", "litert")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.tflite", "litert")


def test_a_model_that_the_runtime_does_not_take() -> None:
    """Raises the runtime's own words, in one line."""
    model = inject_all(MODELS["small_cnn"]())
    flat = next(op for op in model.subgraphs[0].operators if op.code.name == "RESHAPE")
    assert flat.inputs[1] is not None
    flat.inputs[1].set_data(np.array([1, 7], np.int32))
    with pytest.raises(ModelError, match="litert does not take the model: .*RESHAPE") as error:
        load(model, "litert")
    assert "\n" not in str(error.value)


def test_operators_that_do_not_say_where_the_weights_are() -> None:
    """The streams of the filters are in their options, 12 bytes each from byte 8 on (zo_node.h)."""
    model = inject_all(MODELS["small_cnn"](), replay=False)
    for op in model.subgraphs[0].operators:
        if op.code.name in ("TFLM_ZO_UPDATE", "TFLM_ZO_PERTURB"):
            options = bytearray(op.custom_options or b"")
            assert options[8:10] == b"\0\0"
            options[8] = 9
            op.custom_options = bytes(options)
    with pytest.raises(ModelError, match="do not say where weights 0 are"):
        load(model, "litert")


@pytest.mark.parametrize("shape", [(4,), (2**30 + 4,), (2**16 + 1, 2**16 - 1), (2**31 - 1, 2**31 - 1, 4)])
def test_a_size_that_wraps(shape: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """TFLM takes dimensions as the model says; the bytes of the second are right in 32 bits."""
    require("tflm")
    model = inject_all(MODELS["small_cnn"](), multipliers="quantization-aware")
    multiplier = next(t for t in model.subgraphs[0].tensors if t.name.endswith("zo_multiplier"))
    assert multiplier.shape == (4,)
    multiplier.shape = shape
    interpreter = TflmRuntime.import_module().Interpreter
    arguments = (model.to_bytes(), [REGISTERER], arena_upper_bound(inject_all(MODELS["small_cnn"]())))
    if shape == (4,):
        interpreter.from_bytes(*arguments)
        return
    with pytest.raises(RuntimeError):
        interpreter.from_bytes(*arguments)
    assert "TFLM_ZO_WEIGHTS" in capfd.readouterr().err


def test_an_output_that_nothing_computes() -> None:
    model = inject_all(MODELS["small_cnn"](), cuts="layers")
    graph = model.subgraphs[0]
    graph.operators = [op for op in graph.operators if graph.outputs[0] not in op.outputs]
    with pytest.raises(ModelError, match="output `.*` is not computed"):
        load(model, "litert")


def test_unknown_runtime() -> None:
    with pytest.raises(ValueError, match="there are litert, tflite-runtime, tflm"):
        load(MODELS["small_cnn"](), "onnx")


@pytest.mark.parametrize(
    ("name", "module", "hint"),
    [
        ("litert", "ai_edge_litert.interpreter", "pip install ai-edge-litert"),
        ("tflite-runtime", "tflite_runtime.interpreter", r"tflm_zo\[tflite-runtime\]"),
        ("tflm", "tflite_micro", r"tflm_zo\[tflm\]"),
    ],
)
def test_runtime_that_is_not_installed(name: str, module: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    assert name not in tflm_zo.runtime.available()
    with pytest.raises(RuntimeUnavailableError, match=hint):
        load(inject_all(MODELS["small_cnn"]()), name)


def test_unknown_delegate_option() -> None:
    from ai_edge_litert.interpreter import load_delegate

    with pytest.raises(ValueError, match=r"unknown option \(known: directory, weights, exact, kernels\)"):
        load_delegate(str(tflm_zo.core.library_path()), {"speed": "9"})
    for option in ("directory", "weights"):
        stranger = np.zeros(8, np.int64)  # no zo_directory begins like this
        for address in ("", "x", "-8", "1", str(2**70), str(stranger.ctypes.data)):
            with pytest.raises(ValueError, match=f"{option} is not the decimal address of a zo_directory"):
                load_delegate(str(tflm_zo.core.library_path()), {option: address})


def test_another_version_of_the_tflm_wheel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    require("tflm")
    pinned = re.search(r'"tflite-micro==([^;"]+)', (Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert pinned is not None and pinned[1] == WHEEL_VERSION
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda n: "0.dev20270101000000" if n == "tflite-micro" else version(n)
    )
    with pytest.raises(RuntimeUnavailableError, match=f"needs.*{WHEEL_VERSION}, but 0.dev2027.*pip install"):
        load(inject_all(MODELS["small_cnn"](), batch=2), "tflm")
    assert "tflm" not in tflm_zo.runtime.available()
