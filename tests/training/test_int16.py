"""Networks of int8 weights and int16 activations: weight perturbation trains them, with the same bits everywhere."""

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from helpers.examples import slow_but
from helpers.graphs import kinds
from helpers.interpreters import require, run_plain
from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation
from helpers.models.int16_networks import LABELS, of_many_operators, random_network
from tflm_zo import Model, Trainer, adapt, algorithms, load_model
from tflm_zo.converters import ConversionError, inject
from tflm_zo.converters.errors import ConversionWarning
from tflm_zo.converters.initial_weights import initial_weights
from tflm_zo.converters.model import OperatorCode
from tflm_zo.converters.model.schema import BuiltinOperator
from tflm_zo.planner.ways import ways
from tflm_zo.training import Settings, Weights, inject_settings

SAMPLES = 8
RUN = Settings(tasks=(Weights(queries=2),), batch_size=4, seed=3, learning_rate=20.0)
T = schema.TensorType


def samples(model: Model, seed: int = 0) -> np.ndarray:
    shape = model.subgraphs[0].inputs[0].shape[1:]
    return np.random.default_rng(seed).integers(-32768, 32768, (SAMPLES, *shape)).astype(np.int16)


def trained(zo: Model, name: str, x: np.ndarray, labels: Any) -> Trainer:
    require(name)
    trainer = Trainer(zo, RUN, runtime=name)
    trainer.fit(x, labels, steps=4, keep="last")
    return trainer


NETWORKS = {str(seed): random_network(seed, softmax=seed % 3 > 0) for seed in range(40)}
NETWORKS["many operators"] = of_many_operators()


@pytest.mark.parametrize("name", slow_but([*map(str, range(6)), "many operators"], NETWORKS))
def test_networks_train_with_the_same_bits(name: str) -> None:
    model = load_model(NETWORKS[name])
    zo, x = inject(model, inject_settings(RUN, batch=2)), samples(model)
    labels = np.arange(SAMPLES) % LABELS
    a, b = (trained(zo, runtime, x, labels) for runtime in ("litert", "tflm"))
    weights, before = a.runtime.read_weights(), initial_weights(zo)
    for key, values in weights.items():
        np.testing.assert_array_equal(values, b.runtime.read_weights()[key])
        np.testing.assert_array_equal(a.runtime.read_fractions()[key], b.runtime.read_fractions()[key])
    assert any((values != before[key]).any() for key, values in weights.items())
    exported = a.export(batch=1)
    assert kinds(exported) == kinds(model)
    np.testing.assert_array_equal(run_plain(exported.to_bytes(), "tflm", [x[:1]])[0], a.predict(x)[:1])


def network(**changes: Any) -> Model:
    """Builds a convolution and a dense layer; `changes` are those of `conv`."""
    g = GraphBuilder(1, bits=16)
    y = g.conv(g.input("x", [1, 5, 5, 2]), "conv", 4, **changes)
    return load_model(g.build([g.dense(g.flatten(y, "flat"), "fc", LABELS, Activation.NONE, per_channel=False)]))


def test_train_chooses_weights_and_the_others_are_refused() -> None:
    model = network()
    assert {way.name for way in ways(model)} == {"weights"}
    x = samples(model)
    found = adapt(model, x, np.arange(SAMPLES) % LABELS, steps=2, keep="last")
    assert found.trainer.settings.algorithm == "weight"
    wanted = "INT16 activations, which weight perturbation alone trains"
    for algorithm in (algorithms.exact, algorithms.last_layer, algorithms.node):
        with pytest.raises(ConversionError, match=wanted) as e:
            Trainer(model, algorithm())
        assert str(e.value).count(wanted) == 1
    with pytest.raises(ConversionError, match="no layer has a bias to train: `conv` has one of INT64"):
        Trainer(model, Settings(tasks=(Weights(parameters="biases"),)))


def test_a_mean_squared_error_reads_the_upper_bytes() -> None:
    model = network()
    zo, x = inject(model, inject_settings(RUN, batch=2, loss="mse")), samples(model)
    y = trained(zo, "litert", x, np.zeros((SAMPLES, LABELS), np.float32)).runtime
    logits, scale = run_plain(model.to_bytes(), "tflm", [x[:1]])[0], model.subgraphs[0].outputs[0].quantization.scale
    loss = y.metadata.known_loss
    assert (loss.zero_point, loss.scale) == (0, pytest.approx(256 * scale))
    fresh = Trainer(zo, RUN, runtime="litert").runtime
    fresh.set_inputs(x[:2])
    fresh.set_labels(np.zeros((2, LABELS), np.int8))
    fresh.invoke(fresh.command())
    upper = np.clip(np.floor(logits.astype(np.float64) / 256 + 0.5), -128, 127)
    expected = (upper**2).mean() / 64
    assert fresh.losses()[0] / 65536 == pytest.approx(expected, rel=0.02)


def test_scales_of_a_dense_layer_become_one() -> None:
    g = GraphBuilder(1, bits=16)
    model = load_model(g.build([g.dense(g.input("x", [1, 40]), "fc", 6, Activation.NONE)]))
    with pytest.warns(ConversionWarning, match="FULLY_CONNECTED `fc`: its filter has one scale now, because CMSIS-NN"):
        zo = inject(model, inject_settings(RUN, batch=1))
    (fc,) = (op for op in zo.subgraphs[0].operators if op.code.name == "FULLY_CONNECTED")
    assert len(fc.inputs[1].quantization.scales) == len(fc.inputs[2].quantization.scales) == 1
    x = samples(model)[:1]
    found = run_plain(Trainer(zo, RUN).export().to_bytes(), "tflm", [x])[0].astype(np.int32)
    np.testing.assert_allclose(found, run_plain(model.to_bytes(), "tflm", [x])[0], atol=500)


def without_bias(model: Model) -> None:
    model.subgraphs[0].operators[0].inputs[2] = None


def with_narrow_bias(model: Model) -> None:
    bias = model.subgraphs[0].operators[0].inputs[2]
    values = bias.numpy().astype(np.int32)
    bias.type = T.INT32
    bias.set_data(values)


def with_groups(model: Model) -> None:
    model.subgraphs[0].inputs[0].shape = (1, 5, 5, 4)


def with_zero_point(model: Model) -> None:
    model.subgraphs[0].operators[0].outputs[0].quantization.zero_points[:] = 5


def with_inner_softmax(model: Model) -> None:
    flat = model.subgraphs[0].operators[1]
    flat.outputs[0].quantization.scales[:] = 1 / 32768
    softmax = load_model(random_network(1)).subgraphs[0].operators[-1]
    flat.code, flat.inputs, flat.raw = OperatorCode(BuiltinOperator.SOFTMAX), flat.inputs[:1], softmax.raw
    flat.outputs[0].shape = flat.inputs[0].shape


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_bias, "CONV_2D `conv`: LiteRT takes a convolution of int16 with a bias only"),
        (with_narrow_bias, "CONV_2D `conv`: bias `conv/bias` is INT32, int16 kernels take INT64"),
        (with_groups, "CONV_2D `conv`: CMSIS-NN has no grouped convolution of int16"),
        (with_zero_point, "int16 activation `conv` must have a scale, and zero point 0"),
        (with_inner_softmax, "SOFTMAX `flat`: builds of TFLM differ by a level in a SOFTMAX of int16"),
    ],
)
def test_refused(change: Any, reason: str) -> None:
    model = network()
    change(model)
    with pytest.raises(ConversionError, match=reason):
        inject(model, inject_settings(RUN, batch=1))


def test_a_mean_squared_error_of_shares_is_refused() -> None:
    with pytest.raises(ConversionError, match="`loss` must be `cross_entropy`, because builds of TFLM differ"):
        inject(random_network(1), inject_settings(RUN, batch=1, loss="mse"))
