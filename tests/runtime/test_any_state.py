"""Operators with a state, of any size and scales: TFLM's bits in each of several invokes, those of the operators with
trained weights included.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.interpreters import require, run_frames
from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.converters import load_model
from tflm_zo.converters.check_kernel import quantization_of
from tflm_zo.converters.model.schema import DTYPES, TensorType
from tflm_zo.converters.recurrent import use_own

T = schema.TensorType
FOLDER = Path(os.environ.get("TFLM_ZO_MODELS") or ".") / "wild"
FILES = (
    "tflite-micro-keyword_scrambled",
    "tflite-micro-keyword_scrambled_8bit",
    "tflite-micro-trained_lstm_int8",
    "tflite-micro-micro_speech_lstm",
    "test_data-keras_lstm_mnist_ptq",
)
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 6))
ZERO_POINTS = st.sampled_from([-128, 127, 0, 3])
SEEDS = st.integers(0, 2**32 - 1)


class Element(NamedTuple):
    """An element type: its number in files, its NumPy type, and its largest value."""

    number: int
    dtype: type
    largest: int


INT8 = Element(T.INT8, np.int8, 127)
INT16 = Element(T.INT16, np.int16, 32767)


class Network:
    """One operator with constants of random values."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.g = GraphBuilder()

    def constant(self, shape: list[int], of: Element, scale: float) -> int:
        values = self.rng.integers(-of.largest - 1, of.largest + 1, shape)
        if self.rng.integers(4) == 0:
            values = self.rng.choice([-of.largest - 1, of.largest], shape)
        return self.g.tensor("c", shape, of.number, data=values.astype(of.dtype).tobytes(), scales=[scale])

    def bias(self, count: int, largest: float, scale: float) -> int:
        values = self.rng.uniform(-largest, largest, count).astype(np.int32)
        return self.g.tensor("b", [count], T.INT32, data=values.tobytes(), scales=[scale])

    def state(self, shape: list[int], of: Element, scale: float, zero_point: int) -> int:
        index = self.g.tensor("state", shape, of.number, scales=[scale], zero_points=[zero_point])
        self.g.tensors[index].isVariable = True
        return index

    def frames(self, shape: list[int], count: int) -> list[list[np.ndarray]]:
        """Draws inputs, of which some are extreme."""
        frames = [[self.rng.integers(-128, 128, shape).astype(np.int8)] for _ in range(count)]
        frames[count // 2] = [self.rng.choice([-128, 127], shape).astype(np.int8)]
        return frames


def check(model: bytes, frames: list[list[np.ndarray]], threads: int = 1) -> None:
    expected = run_frames(model, "tflm", frames)
    np.testing.assert_array_equal(run_frames(model, "litert", frames, threads=threads), expected)
    own = load_model(model)
    use_own(own.subgraphs[0].operators[0])
    for name in ("litert", "tflm"):
        np.testing.assert_array_equal(run_frames(own.to_bytes(), name, frames, threads=threads), expected, name)


def svdf(
    network: Network,
    sizes: tuple[int, int, int],
    rank: int,
    memory: int,
    of: Element,
    fills: tuple[float, float],
    zero_points: tuple[int, int, int],
) -> bytes:
    """Builds SVDF whose features and outputs fill their types by such factors, roughly."""
    (batch, depth, units), g = sizes, network.g
    scale, weight_scale, time_scale = (float(np.float32(2 ** network.rng.uniform(-12, -2))) for _ in range(3))
    x = g.input("x", [batch, depth], scale, zero_points[0])
    state_scale = float(np.float32(scale * weight_scale * 5000 * depth**0.5 / of.largest / fills[0]))
    product = float(np.float32(state_scale) * np.float32(time_scale))
    sums = (of.largest / 2) ** 2 * (rank * memory) ** 0.5
    inputs = [
        x.index,
        network.constant([units * rank, depth], INT8, weight_scale),
        network.constant([units * rank, memory], of, time_scale),
        network.bias(units, sums / 2, product),
        network.state([batch, units * rank * memory], of, state_scale, zero_points[1]),
    ]
    y = g.value("y", [batch, units], product * sums / 127 / fills[1], zero_points[2], 1.0)
    g.operator("SVDF", inputs, [y.index], "SVDF", rank=rank, fusedActivationFunction=int(network.rng.integers(2)))
    return g.build([y])


@settings(max_examples=examples(200), deadline=None)
@given(
    SIZES,
    st.integers(1, 3),
    st.integers(1, 9),
    st.sampled_from([INT8, INT16]),
    st.tuples(st.sampled_from([0.01, 0.5, 1, 20]), st.sampled_from([0.1, 1, 20])),
    st.tuples(ZERO_POINTS, st.sampled_from([0, 0, 3, -100]), ZERO_POINTS),
    SEEDS,
)
def test_svdf(
    sizes: tuple[int, int, int],
    rank: int,
    memory: int,
    of: Element,
    fills: tuple[float, float],
    zero_points: tuple[int, int, int],
    seed: int,
) -> None:
    require("tflm")
    network = Network(seed)
    model = svdf(network, sizes, rank, memory, of, fills, zero_points)
    check(model, network.frames([*sizes[:2]], memory + 3), threads=1 + seed % 3)


def lstm(
    network: Network,
    sizes: tuple[int, int, int],
    steps: int,
    time_major: bool,
    power: int,
    clip: float,
    fills: tuple[float, float],
    zero_points: tuple[int, int],
) -> tuple[bytes, list[int]]:
    """Builds an LSTM whose sums of inputs and of hidden values have such deviations, roughly; and its input's shape."""
    (batch, depth, units), g, rng = sizes, network.g, network.rng
    scale, hidden_scale = (float(np.float32(2 ** rng.uniform(-9, -6))) for _ in range(2))
    shape = [steps, batch, depth] if time_major else [batch, steps, depth]
    x = g.input("x", shape, scale, zero_points[0])
    scales = [float(np.float32(f * 2 ** rng.uniform(-1, 1) / 5000)) for f in fills * 4]
    inputs = [x.index]
    inputs += [network.constant([units, depth], INT8, s / scale / depth**0.5) for s in scales[::2]]
    inputs += [network.constant([units, units], INT8, s / hidden_scale / units**0.5) for s in scales[1::2]]
    inputs += [-1] * 3 + [network.bias(units, 5000 * depth**0.5, s) for s in scales[::2]] + [-1] * 2
    inputs.append(network.state([batch, units], INT8, hidden_scale, zero_points[1]))
    inputs.append(network.state([batch, units], INT16, 2.0**power, 0))
    y = g.value("y", [*shape[:2], units], hidden_scale, zero_points[1], 1.0)
    options = {"fusedActivationFunction": Activation.TANH, "cellClip": clip, "timeMajor": time_major}
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    g.operator(name, inputs + [-1] * 4, [y.index], "UnidirectionalSequenceLSTM", **options)
    return g.build([y]), shape


@settings(max_examples=examples(200), deadline=None)
@given(
    SIZES,
    st.integers(1, 5),
    st.booleans(),
    st.integers(-17, -7),
    st.sampled_from([0.0, 0.3, 10.0]),
    st.tuples(st.sampled_from([0.1, 1, 8, 100]), st.sampled_from([0.1, 1, 8, 100])),
    st.tuples(ZERO_POINTS, ZERO_POINTS),
    SEEDS,
)
def test_lstm(
    sizes: tuple[int, int, int],
    steps: int,
    time_major: bool,
    power: int,
    clip: float,
    fills: tuple[float, float],
    zero_points: tuple[int, int],
    seed: int,
) -> None:
    require("tflm")
    network = Network(seed)
    model, shape = lstm(network, sizes, steps, time_major, power, clip, fills, zero_points)
    check(model, network.frames(shape, 5), threads=1 + seed % 3)


@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_public_models(name: str, has_biases: bool) -> None:
    """The weights of some are scrambled, so that their biases saturate all outputs."""
    require("tflm")
    path = FOLDER / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"TFLM_ZO_MODELS HAS NO wild/{path.name}")
    model = load_model(path)
    graph = model.subgraphs[0]
    graph.outputs = [op.outputs[0] for op in graph.operators]
    for tensor in graph.tensors if not has_biases else ():
        if tensor.is_constant and tensor.type == TensorType.INT32 and quantization_of(tensor)[0] > 0:
            tensor.set_data(np.zeros_like(tensor.numpy()))
    rng = np.random.default_rng(0)
    limits = [np.iinfo(DTYPES[t.type]) for t in graph.inputs]
    frames = [
        [rng.integers(i.min, i.max + 1, t.shape).astype(i.dtype) for t, i in zip(graph.inputs, limits, strict=True)]
        for _ in range(20)
    ]
    outputs = run_frames(model.to_bytes(), "tflm", frames)
    for k, op in enumerate(graph.operators if not has_biases else ()):
        assert len({values[k].tobytes() for values in outputs}) > 1, op.label
    for found, expected in zip(run_frames(model.to_bytes(), "litert", frames), outputs, strict=True):
        for op, a, b in zip(graph.operators, found, expected, strict=True):
            np.testing.assert_array_equal(a, b, op.label)
