"""Recurrent layers of Keras: their int8 form, and training of it. The oracle is Keras' own loop."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import run_plain
from helpers.keras_networks import check_full_int8, check_trainable, data, keras, layers
from tflm_zo import evaluate
from tflm_zo.conversion import ConversionResult, convert
from tflm_zo.converters import ConversionError, export_model, inject, load_model, read_metadata
from tflm_zo.converters.errors import ConversionWarning
from tflm_zo.converters.mend import mend
from tflm_zo.runtime import available
from tflm_zo.training import Settings, Trainer, Weights

pytestmark = pytest.mark.usefixtures("keras_seed")
STEPS, VALUES = 6, 5


def network(layer: Any, classes: int = 4) -> Any:
    """Returns a network around a layer, with biases that are not 0."""
    series = keras.Input((STEPS, VALUES))
    y = layer(series)
    y = layers.Flatten()(y) if len(y.shape) > 2 else y
    model = keras.Model(series, layers.Dense(classes, activation="softmax", name="fc")(y))
    draw = np.random.default_rng(0)
    for weight in model.weights:
        if weight.path.endswith("bias"):
            weight.assign(weight + 0.3 * draw.normal(size=weight.shape))
    return model


def check_outputs(model: Any, result: ConversionResult, x: np.ndarray, atol: float = 0.03) -> None:
    port = result.report.inputs[0]
    levels = np.clip(np.rint(x / port.scale) + port.zero_point, -128, 127).astype(np.int8)
    plain = result.model.to_bytes()
    found = [run_plain(plain, "litert", [sample[None]])[0][0] for sample in levels]
    np.testing.assert_allclose((np.array(found, float) + 128) / 256, np.asarray(model(x)), atol=atol)


def readers(result: Any) -> dict[str, int]:
    """Returns how many FULLY_CONNECTED read each filter, by its values, so that a copy would be another one."""
    graph = load_model(result.to_bytes()).subgraphs[0]
    filters = [op.inputs[1] for op in graph.operators if op.code.name == "FULLY_CONNECTED"]
    return {t.name: filters.count(t) for t in filters if t is not None}


@pytest.mark.parametrize(
    ("kind", "options", "recurrent"),
    [
        ("GRU", {}, 2),
        ("LSTM", {}, 0),
        ("SimpleRNN", {"return_sequences": True, "go_backwards": True}, 1),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("GRU", {"reset_after": False, "return_sequences": True}, 2),
                ("GRU", {"go_backwards": True, "use_bias": False}, 2),
                ("LSTM", {"return_sequences": True}, 0),
                ("LSTM", {"go_backwards": True, "use_bias": False}, 0),
                ("LSTM", {"unroll": True}, 1),
                ("LSTM", {"activation": "relu", "recurrent_dropout": 0.2}, 1),
                ("SimpleRNN", {"activation": "relu"}, 1),
            )
        ),
    ],
)
def test_layers(kind: str, options: dict[str, Any], recurrent: int) -> None:
    layer = getattr(layers, kind)(8, name="memory", **options)
    model, x = network(layer), data(STEPS, VALUES)
    result = convert(model, x)
    if recurrent:
        check_full_int8(result)  # the cell state of the LSTM operator is int16
    form = "one LSTM operator over" if not recurrent else "unrolled over"
    assert result.report.notes == (f"{kind} `memory`: {form} 6 steps",)
    assert ("UNIDIRECTIONAL_SEQUENCE_LSTM" in result.report.operators) == (not recurrent)
    assert not result.report.warnings
    check_outputs(model, result, x[:20])
    check_trainable(result)
    # Each filter is in the file once, for all steps but the first, which has no state before it.
    assert sorted(readers(result.model).values()) == [1] * (1 + recurrent) + [5] * recurrent
    # The layer is as it was.
    assert layer.unroll == options.get("unroll", False) and not {"inner_loop", "get_initial_state"} & vars(layer).keys()


@pytest.mark.parametrize("kind", ["GRU", pytest.param("SimpleRNN", marks=pytest.mark.slow)])
def test_steps_stay_tied(kind: str) -> None:
    """Runtimes move every filter, by the same bits, and the trained file has one of each."""
    model, x = network(getattr(layers, kind)(8)), data(STEPS, VALUES)
    result, y = convert(model, x), np.arange(60) % 4
    zo = inject_all(result.model)
    weights = []
    for runtime in ("litert", "tflm") if "tflm" in available() else ("litert",):
        settings = Settings(tasks=(Weights(),), batch_size=2, learning_rate=4.0)
        trainer = Trainer(zo, settings, runtime=runtime)
        before = trainer.runtime.read_weights()
        trainer.fit(x, y, steps=3, keep="last")
        weights.append(trainer.runtime.read_weights())
        assert all((before[name] != values).any() for name, values in weights[-1].items())
    for name, values in weights[0].items():
        np.testing.assert_array_equal(weights[-1][name], values)
    exported = trainer.export()
    assert sorted(readers(exported).values()) == sorted(readers(result.model).values())
    # Its outputs are those of the ZO model.
    assert evaluate(exported, x, y).accuracy == trainer.evaluate(x, y)["accuracy"]


def test_bias_of_a_shared_filter_is_not_trained() -> None:
    """It has a scale for each step, and so one copy for each: one of them alone would move."""
    result = convert(network(layers.GRU(8)), data(STEPS, VALUES))
    found = read_metadata(inject(result.model, trainable="all", parameters="all", algorithm="", nodes=()))
    layers_with_biases = {t.layer for t in found.trainable if t.shape == (t.size,)}
    assert layers_with_biases == {"input_gates", "input_new", "fc"}
    assert {t.layer for t in found.trainable} - layers_with_biases == {"recurrent_gates", "recurrent_new"}


def test_samples_begin_anew() -> None:
    """The accuracy of the report is that of samples without the states of those before."""
    x, y = data(STEPS, VALUES), np.arange(60) % 4
    result = convert(network(layers.LSTM(8)), x, labels=y)
    assert result.report.int8_accuracy == evaluate(result.model, x, y).accuracy


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_both_directions(kind: str) -> None:
    layer = layers.Bidirectional(getattr(layers, kind)(6, return_sequences=True))
    model, x = network(layer), data(STEPS, VALUES)
    result = convert(model, x)
    check_outputs(model, result, x[:20], 0.05)
    check_trainable(result)
    assert len(result.report.notes) == 2


@pytest.mark.slow
def test_stacked_with_states_between() -> None:
    series = keras.Input((STEPS, VALUES))
    y, *state = layers.GRU(8, return_sequences=True, return_state=True)(series)
    y = layers.RNN(layers.GRUCell(8), return_sequences=True)(y)
    y = layers.SimpleRNN(8)(y, initial_state=state)
    model = keras.Model(series, layers.Dense(4, activation="softmax")(y))
    result, x = convert(model, data(STEPS, VALUES)), data(STEPS, VALUES)
    check_outputs(model, result, x[:20])
    check_trainable(result)
    assert [note.split()[0] for note in result.report.notes] == ["GRU", "RNN", "SimpleRNN"]


def test_lstm_whose_output_has_another_scale() -> None:
    """Kernels give the output the scale of the state; a file may say another one."""
    model = network(layers.LSTM(8, return_sequences=True))
    x = data(STEPS, VALUES)
    plain = convert(model, x).model
    (lstm,) = (op for op in plain.subgraphs[0].operators if "LSTM" in op.code.name)
    state, quantization = lstm.inputs[18], lstm.outputs[0].quantization
    assert state is not None and quantization is not None
    quantization.scales = quantization.scales * np.float32(1.5)
    with pytest.warns(ConversionWarning, match="gets a QUANTIZE behind it"):
        mend(plain)
    lstm, quantize = plain.subgraphs[0].operators[:2]
    assert (lstm.code.name, quantize.code.name) == ("UNIDIRECTIONAL_SEQUENCE_LSTM", "QUANTIZE")
    assert lstm.outputs[0].quantization is not None and lstm.outputs[0].quantization.scale == state.quantization.scale
    check_plain = load_model(plain.to_bytes())
    read_metadata(inject_all(check_plain))
    assert export_model(inject_all(check_plain)).to_bytes()


def test_layers_without_fixed_steps() -> None:
    masked = keras.Sequential([keras.Input((STEPS, VALUES)), layers.Masking(name="gap"), layers.GRU(4)])
    series = keras.Input(batch_shape=(1, STEPS, VALUES))
    stateful = keras.Model(series, layers.GRU(4, stateful=True, name="memory")(series))
    dynamic = keras.Sequential([keras.Input((None, VALUES)), layers.GRU(4)])
    for model, message in (
        (masked, "layer `gap` must not mask steps of recurrent layers"),
        (stateful, "layer `memory` must have stateful=False"),
        (dynamic, r"all sizes but the batch must be fixed; put x = keras.Input\(shape\) before the model"),
    ):
        with pytest.raises(ConversionError, match=message):
            convert(model, data(STEPS, VALUES))
    x = keras.Input((STEPS, VALUES))
    assert not convert(keras.Model(x, dynamic(x)), data(STEPS, VALUES)).report.warnings
