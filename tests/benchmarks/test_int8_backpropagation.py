"""Integer backpropagation: its gradients are those of the network in floating point, and it learns."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from numpy_simulation import Backward, Network, UnsupportedError
from numpy_simulation.backward import round_shift, to_bits
from numpy_simulation.layers import Conv, Dense, DepthwiseConv, Pool, Reshape

from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation, Padding
from helpers.oracle.fixed_losses import cross_entropy_error
from tflm_zo.converters import load_model

LEARNING = Path(__file__).parents[2] / "benchmarks" / "learning"


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports its modules as the script itself does."""
    monkeypatch.syspath_prepend(str(LEARNING))
    for name in ("tasks", "int8_backpropagation"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import int8_backpropagation
    import tasks

    return type("Learning", (), {"tasks": tasks, "int8": int8_backpropagation})


# --- gradients ------------------------------------------------------------------------------------------


def uneven() -> bytes:
    g = GraphBuilder(20)
    x = g.input("image", [1, 11, 8, 3], 1 / 4, -7)
    x = g.depthwise(x, "depthwise", (3, 4), stride=2, multiplier=2, activation=Activation.NONE)
    x = g.conv(x, "conv", 7, (2, 3), activation=Activation.RELU6, per_channel=False)
    x = g.pool(x, "average", average=True)
    pool = g.operators[-1].builtinOptions  # 3 x 3 with stride 2, padded: windows of 9, 6 and 4
    pool.padding, pool.filterHeight, pool.filterWidth = Padding.SAME, 3, 3
    x = g.depthwise(x, "last", (2, 2), padding=Padding.VALID)
    x = g.flatten(x, "flatten")
    return g.build([g.dense(x, "fc", 5, Activation.NONE, bias=False)])


CHAINS: dict[str, Callable[[], bytes]] = {
    "uneven": uneven,
    **{name: MODELS[name] for name in ("lenet5", "small_cnn", "depthwise_separable")},
}


def float_gradients(network: Network, x: NDArray[np.int8], y: Any) -> dict[str, NDArray[np.float64]]:
    """Computes TensorFlow's gradients of the sum of cross-entropies by the dequantized filters, in float64."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

    def real(tensor: Any, values: Any) -> Any:
        return (values.astype(np.float64) - tensor.quantization.zero_point) * tensor.quantization.scale

    filters = {}
    for node in network.nodes:
        if node.filter is not None:
            tensor = node.operator.inputs[1]
            shape = [1] * len(tensor.shape)
            shape[tensor.quantization.axis if tensor.quantization.is_per_channel else 0] = -1
            scales = tensor.quantization.scales.astype(np.float64).reshape(shape)
            filters[node.filter] = tf.Variable(network.weights[node.filter] * scales)
    with tf.GradientTape() as tape:
        value = tf.constant(real(network.input, x))
        for node in network.nodes:
            layer, op = node.layer, node.operator
            windows = getattr(layer, "windows", None)
            if windows is not None:
                strides = [1, *windows.stride, 1]
                padding = "SAME" if op.option("padding", 0) == 0 else "VALID"
            if node.filter is not None:
                w = filters[node.filter]
                bias = 0.0
                if op.input(2) is not None:
                    unit = op.inputs[0].quantization.scale * op.inputs[1].quantization.scales
                    bias = op.inputs[2].numpy() * unit.astype(np.float64)
            if isinstance(layer, Dense):
                value = tf.reshape(value, (len(x), -1)) @ tf.transpose(w) + bias
            elif isinstance(layer, Conv):
                value = tf.nn.conv2d(value, tf.transpose(w, (1, 2, 3, 0)), strides, padding) + bias
            elif isinstance(layer, DepthwiseConv):
                w = tf.reshape(w, (*w.shape[1:3], value.shape[3], -1))
                strides = [1, windows.stride[0], windows.stride[0], 1]
                value = tf.nn.depthwise_conv2d(value, w, strides, padding) + bias
            elif isinstance(layer, Pool):
                pool = tf.nn.avg_pool2d if layer.average else tf.nn.max_pool2d
                value = pool(value, windows.kernel, windows.stride, padding)
            else:
                assert isinstance(layer, Reshape)
                value = tf.reshape(value, (len(x), *layer.shape))
            if hasattr(layer, "clamp"):
                exit_ = node.output.quantization
                low, high = ((end - exit_.zero_point) * exit_.scale for end in (-128, 127))
                activation = op.option("fusedActivationFunction", 0)
                low, high = max(low, 0.0 if activation else low), min(high, 6.0 if activation == 3 else high)
                clamped = tf.clip_by_value(value, low, high)
                # Logits learn even if they are clamped.
                last = node is network.nodes[-1]
                value = value + tf.stop_gradient(clamped - value) if last else clamped
        logits = tf.reshape(value, (len(x), -1)) * (network.logit_scale / node.output.quantization.scale)
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    found = tape.gradient(loss, filters)
    return {name: value.numpy() for name, value in found.items()}


def errors_of(network: Network, activations: Any, y: Any) -> NDArray[np.int16]:
    logits = activations[network.nodes[-1].output].reshape(len(y), -1)
    return cross_entropy_error(logits, y.astype(np.int32), network.logit_scale)


# Inputs of a reach of 40 saturate next to nothing, those of 128 a lot.
@pytest.mark.parametrize("reach", [40, 128])
@pytest.mark.parametrize("name", CHAINS)
def test_gradients_are_tensorflows(name: str, reach: int) -> None:
    """Compares direction and size, filter by filter, with the network that the int8 one represents."""
    network = Network(load_model(CHAINS[name]()))
    rng = np.random.default_rng(5)
    x = rng.integers(-reach, reach, (64, *network.input.shape[1:])).astype(np.int8)
    activations = network.activations(x)
    y = rng.integers(0, activations[network.nodes[-1].output].reshape(64, -1).shape[1], 64)
    expected = float_gradients(network, x, y)
    found = Backward(network).gradients(activations, errors_of(network, activations, y))
    assert list(found) == list(expected)[::-1]  # from the last layer to the first
    for key, gradient in found.items():
        mine, theirs = (gradient.sums * gradient.scale).reshape(-1), expected[key].reshape(-1)
        cosine = mine @ theirs / np.linalg.norm(mine) / np.linalg.norm(theirs)
        print(f"\n{name} {key}: cosine {cosine:.4f}, size {np.linalg.norm(mine) / np.linalg.norm(theirs):.3f}")
        assert cosine > 0.95
        assert np.linalg.norm(mine) == pytest.approx(np.linalg.norm(theirs), rel=0.1)
        assert np.abs(gradient.sums).max() < 2**31


def test_errors_that_round_to_nothing_move_nothing() -> None:
    network = Network(load_model(MODELS["small_cnn"]()))
    x = np.random.default_rng(0).integers(-128, 128, (4, 8, 8, 1)).astype(np.int8)
    for gradient in Backward(network).gradients(network.activations(x), np.full((4, 4), 3, np.int16)).values():
        assert not gradient.sums.any()


@pytest.mark.parametrize("name", ["residual", "two_outputs_of_one"])
def test_refuses_what_is_no_chain(name: str) -> None:
    if name == "residual":
        source = MODELS[name]()
    else:
        g = GraphBuilder(0)
        x = g.dense(g.input("x", [1, 6]), "first", 4)
        source = g.build([g.dense(x, "a", 3, Activation.NONE), g.dense(x, "b", 3, Activation.NONE)])
    with pytest.raises(UnsupportedError, match="has no backward pass|no link of a chain"):
        Backward(Network(load_model(source)))


@given(st.lists(st.integers(-(2**31), 2**31), min_size=1, max_size=30), st.integers(0, 31))
def test_rounding_is_to_a_neighbour(values: list[int], shift: int) -> None:
    rounded = round_shift(np.array(values, np.int64), shift)
    for value, result in zip(values, rounded.tolist(), strict=True):
        assert abs(result * 2**shift - value) < 2**shift
        assert result * value >= 0


def test_rounding_is_fair() -> None:
    """Covers all values with that many bits to drop; one sign, since the other is its mirror image."""
    for shift in range(1, 16):
        values = np.arange(2 ** (shift + 4))
        assert np.mean(round_shift(values, shift) - values / 2**shift) == pytest.approx(0, abs=0.05)
        assert np.array_equal(round_shift(-values, shift), -round_shift(values, shift))


@given(st.lists(st.integers(-(2**31), 2**31), min_size=1, max_size=30), st.integers(1, 15))
def test_bits(values: list[int], bits: int) -> None:
    rounded, shift = to_bits(np.array(values, np.int64), bits)
    assert np.abs(rounded).max() < 2**bits
    largest = max(map(abs, values))
    assert shift == max(0, largest.bit_length() - bits)
    if shift == 0:
        assert rounded.tolist() == values


# --- learning -------------------------------------------------------------------------------------------


def stripes(network: Network, samples: int, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Draws four classes of 8 x 8 images, by their bright half."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, samples).astype(np.int32)
    x = rng.integers(-128, 0, (samples, 8, 8, 1))
    bright = [np.s_[:4, :], np.s_[4:, :], np.s_[:, :4], np.s_[:, 4:]]
    for image, label in zip(x, y, strict=True):
        image[bright[label]] += 100
    return x.astype(np.int8), y


@pytest.mark.parametrize("settings", [{}, {"fraction": False}, {"rule": "rounded"}, {"rule": "rounded", "bits": (2,)}])
def test_learns(learning: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(MODELS["small_cnn"]())
    network = Network(load_model(path))
    parts = [stripes(network, n, i) for i, n in enumerate((200, 100, 100, 100))]
    adapt, validation, test, old = parts
    task = learning.tasks.Task(path, adapt, validation, test, old, None, tmp_path / "none.keras", adapt[0])
    chosen = learning.int8.Settings(**settings)
    found = learning.int8.adapt(task, 9000.0, 0, chosen)
    assert (found["steps"], found["equivalents"]) == (93, 93 * 96.0)
    assert found["before"] < 50
    assert min(found["validation"], found["test"], found["old"]) > 90
    assert found == learning.int8.adapt(task, 9000.0, 0, chosen)
    assert network.weights.keys() == Network(load_model(path)).weights.keys()


def test_a_step_without_a_fraction_is_whole(learning: Any) -> None:
    network = Network(load_model(MODELS["small_cnn"]()))
    before = {name: w.copy() for name, w in network.weights.items()}
    x, y = stripes(network, 64, 0)
    learning.int8.train(network, x, y, 3, 0, learning.int8.Settings(rate=0.05, fraction=False))
    moved = [np.abs(network.weights[n].astype(int) - w) for n, w in before.items()]
    # 0.05 LSB a step: most weights stay where they are, some move by a whole one.
    assert all(0 < (m > 0).mean() < 0.5 for m in moved)


@pytest.mark.parametrize("settings", [{"rule": "adam"}, {"rate": 0.0}, {"bits": ()}])
def test_settings_are_checked(learning: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        learning.int8.Settings(**settings)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"rule": "rounded"}])
def test_rotated_digits(learning: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    """Reaches nearly the accuracy of backpropagation in floating point (95.6 ± 0.3 %)."""
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    if not (Path(os.environ.get("TFLM_ZO_DATA", "")) / "mnist10k.npz").is_file():
        pytest.skip("TFLM_ZO_DATA names no folder with mnist10k.npz")
    task = learning.tasks.TASKS["rotated"](tmp_path, 0)
    found = learning.int8.adapt(task, 1e5, 0, learning.int8.Settings(**settings))
    assert found["before"] < 60
    assert found["test"] >= 93.0
