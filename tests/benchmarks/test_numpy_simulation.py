"""The yardstick measures the right thing: TFLM's outputs bit for bit, and the trainer's steps."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from harness import random_data
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from numpy_simulation import Network, Simulation, UnsupportedError
from numpy_simulation.fixed_point import Clamp, Multiplier
from numpy_simulation.layers import Dense, Pool
from numpy_simulation.windows import Windows

from helpers.examples import REAL_MODELS
from helpers.injection import inject_all
from helpers.interpreters import random_inputs, require, run_plain
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation, Padding
from helpers.oracle.draws import distribution_of
from helpers.oracle.scalar import query_seed
from helpers.oracle.stream import direction
from helpers.runs import weight_settings
from tflm_zo.converters import Model, export_model, load_model, set_batch
from tflm_zo.logs import Log
from tflm_zo.training import Normalized, Settings, Trainer

BATCH = 4


def strided() -> bytes:
    """Builds the cases that others lack: depth multiplier, uneven windows, ReLU6 of CONV_2D, a factor > 1."""
    g = GraphBuilder(20)
    x = g.input("image", [1, 11, 10, 3], 1 / 4, -7)
    x = g.depthwise(x, "depthwise", (3, 4), stride=2, multiplier=2, activation=Activation.NONE)
    x = g.conv(x, "conv", 7, (2, 3), stride=2, activation=Activation.RELU6, per_channel=False)
    x = g.depthwise(x, "last", (2, 2), padding=Padding.VALID)
    fine = g.value("fine", x.shape, x.scale / 9, x.zero_point, x.rms)
    g.operators[-1].outputs = np.array([fine.index], np.int32)  # a scale that most values exceed
    return g.build([g.dense(fine, "fc", 3, Activation.NONE, bias=False)])


NAMES = "lenet5 small_cnn depthwise_separable residual dense_per_tensor dense_after_4d autoencoder".split()
SOURCES: dict[str, Callable[[], bytes]] = {"strided": strided, **{name: MODELS[name] for name in NAMES}}


def up_to_logits(model: Model) -> Model:
    model = model.copy()
    graph = model.subgraphs[0]
    if graph.operators[-1].code.name == "SOFTMAX":
        last = graph.operators.pop()
        assert last.inputs[0] is not None
        graph.outputs = [last.inputs[0]]
        graph.tensors = [t for t in graph.tensors if t is not last.outputs[0]]
        model.signatures = None
    return model


def check_logits(source: bytes, runtime: str) -> None:
    require(runtime)
    model = load_model(source)
    shape = model.subgraphs[0].inputs[0].shape[1:]
    (x,) = random_inputs([((BATCH, *shape), np.int8)], seed=1)
    (expected,) = run_plain(set_batch(up_to_logits(model), BATCH).to_bytes(), runtime, [x])
    logits = Network(model).logits(x)
    assert expected.std() > 5  # a saturated or constant network would compare equal even with errors inside
    np.testing.assert_array_equal(logits, expected.reshape(BATCH, -1))


@pytest.mark.parametrize("runtime", ["litert", "tflm"])
@pytest.mark.parametrize("name", SOURCES)
def test_logits_are_the_runtimes(name: str, runtime: str) -> None:
    check_logits(SOURCES[name](), runtime)


@pytest.mark.parametrize("source", REAL_MODELS)
def test_logits_of_real_models(source: Callable[[], bytes]) -> None:
    try:
        Network(load_model(source()))
    except UnsupportedError as reason:
        pytest.skip(str(reason))
    check_logits(source(), "litert")


@pytest.mark.parametrize(
    ("name", "message"), [("depth_multiplier", "MEAN `mean`: not simulated"), ("two_inputs", "one input, got 2")]
)
def test_refuses_what_it_does_not_know(name: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Network(load_model(MODELS[name]()))


def nearest_away(value: Fraction) -> int:
    rounded = int(abs(value) + Fraction(1, 2))
    return rounded if value >= 0 else -rounded


@given(
    st.floats(2.0**-36, 6.0),
    st.lists(st.one_of(st.integers(-(2**27), 2**27), st.integers(-300, 300)), min_size=1, max_size=20),
)
def test_requantization_rounds_twice(factor: float, values: list[int]) -> None:
    mantissa, exponent = np.frexp(factor)
    q31 = nearest_away(Fraction(float(mantissa)) * 2**31)
    left, right = max(0, int(exponent)), max(0, -int(exponent))
    expected = []
    for value in values:
        # Half up at 2^-31 (gemmlowp's nudge), then half away from zero.
        high = (value * 2**left * q31 * 2 + 2**31) // 2**32
        expected.append(nearest_away(Fraction(high, 2**right)) if exponent >= -31 else 0)
    applied = Multiplier([factor]).apply(np.array(values, np.int64))
    assert applied.tolist() == expected


def test_sums_beyond_float32_are_exact() -> None:
    depth = 2001
    x, weights = np.full((1, depth), 127, np.int8), np.full((1, depth), 127, np.int8)
    exact = depth * 127 * 127  # odd and above 2^24
    layer = Dense(0, np.array([5 - exact]), Multiplier([1.0]), Clamp(0, -128, 127), (1,))
    assert layer([x], weights).tolist() == [[5]]


@pytest.mark.parametrize("average", [False, True])
def test_pool_with_padding(average: bool) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 6, 3)).astype(np.int8)
    windows = Windows.of((5, 6), (3, 2), (2, 3), same=True)
    pooled = Pool(windows, average, Clamp(0, -100, 90))([x], x)
    assert pooled.shape == (2, 3, 2, 3)
    for b, i, j, c in np.ndindex(pooled.shape):
        # SAME: rows need 2 * 2 + 3 - 5 = 2 more, one above; columns 3 + 2 - 6 < 0, none.
        top = 2 * i - 1
        inside = x[b, max(0, top) : top + 3, 3 * j : 3 * j + 2, c].astype(int)
        value = nearest_away(Fraction(int(inside.sum()), inside.size)) if average else int(inside.max())
        assert pooled[b, i, j, c] == max(-100, min(90, value))


# --- steps ----------------------------------------------------------------------------------------------

Weights = dict[str, NDArray[np.int8]]


def random_run(name: str, settings: Settings | None = None) -> tuple[Trainer, NDArray[np.int8], NDArray[np.int64]]:
    zo = inject_all(MODELS[name](), batch=8, update_bits=16)
    trainer = Trainer(zo, settings or weight_settings(), runtime="litert")
    x, y = random_data(trainer.runtime, 24)
    return trainer, x, y


def train_both(tmp_path: Any, name: str, steps: int, **settings: Any) -> tuple[Trainer, Simulation, Any, Any]:
    """Runs trainer and simulation on the same minibatch and directions. Returns coefficients of each."""
    chosen = weight_settings(batch_size=24, schedule="constant", seed=11, **settings)
    trainer, x, y = random_run(name, chosen)
    zo, metadata = trainer.model, trainer.runtime.metadata
    trainer.fit(x, y, steps=steps, log=tmp_path / "run.zolog", keep="last")
    recorded = Log.read(tmp_path / "run.zolog").steps["coefficient"][:, 0].tolist()

    def directions(step: int) -> Weights:
        seed = query_seed(chosen.seed, step, 0)
        return {
            t.name: direction(distribution_of(chosen.weights.perturbation), seed, t.stream, t.size).reshape(t.shape)
            for t in metadata.trainable
        }

    rule = chosen.weights.rule
    assert isinstance(rule, Normalized)
    simulation = Simulation(Network(export_model(zo)), headroom=2, clip=rule.clip, batch=8, directions=directions)
    coefficients = []
    for _ in range(steps):
        simulation.step(x, y, chosen.learning_rate)
        coefficients.append(simulation.coefficient)
    return trainer, simulation, recorded, coefficients


@pytest.mark.parametrize("name", ["small_cnn", "depthwise_separable", "residual"])
def test_steps_are_the_trainers(tmp_path: Any, name: str) -> None:
    """With a tight clip every coefficient is ± clip * rate, independent of the losses' rounding: all is exact."""
    trainer, simulation, recorded, coefficients = train_both(tmp_path, name, 20, learning_rate=8204.5, clip=2.0**-12)
    assert {abs(c) for c in recorded} == {2 * 2**16 + 200} and len(set(recorded)) == 2
    assert coefficients == recorded
    before = export_model(trainer.model).subgraphs[0].tensors
    for t in (t for t in before if t.name in simulation.weights):
        assert (simulation.weights[t.name] != t.numpy()).mean() > 0.5
    for mine, theirs in (
        (simulation.weights, trainer.runtime.read_weights()),
        (simulation.fractions, trainer.runtime.read_fractions()),
    ):
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            np.testing.assert_array_equal(value, theirs[key])


@pytest.mark.parametrize("name", ["small_cnn", "dense_after_4d"])
def test_loss_is_the_trainers(name: str) -> None:
    """Compares a network without SOFTMAX, and one whose SOFTMAX has a beta of 2."""
    trainer, x, y = random_run(name)
    simulation = Simulation(Network(export_model(trainer.model)), batch=10)
    assert simulation.loss(x, y) == pytest.approx(trainer.evaluate(x, y)["loss"], abs=1e-3)


def test_coefficients_are_the_trainers(tmp_path: Any) -> None:
    """Without a tight clip coefficients differ by the rounding of the trainer's integer losses."""
    _, _, recorded, coefficients = train_both(tmp_path, "small_cnn", 8, learning_rate=2.0)
    np.testing.assert_allclose(np.array(coefficients) / 2**16, np.array(recorded) / 2**16, atol=0.02)
    assert len({abs(c) for c in recorded}) == 8
