"""More classes in the last layer: known classes stay, new ones can be learned."""

import numpy as np
import pytest

import tflm_zo
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo.converters import ConversionError, grow_classes, load_model
from tflm_zo.training import Settings, Trainer

CLASSIFIERS = ("lenet5", "small_cnn", "depthwise_separable", "dense_per_tensor", "dense_after_4d")


def run(model, inputs):
    """Runs a plain model in LiteRT's reference mode. Returns all outputs and the logits, int8."""
    zo = inject_all(model, trainable="none", loss="cross_entropy")
    runtime = tflm_zo.runtime.load(zo, "litert")
    outputs = []
    for x in inputs:
        runtime.set_inputs(x[None])
        runtime.invoke()
        outputs.append([v.copy() for v in runtime.outputs()])
    return outputs


def samples(model, count, seed=0):
    shape = model.subgraphs[0].inputs[0].shape[1:]
    return np.random.default_rng(seed).integers(-128, 128, (count, *shape)).astype(np.int8)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_old_answers_stay(name):
    model = load_model(MODELS[name]())
    old = model.subgraphs[0].outputs[0].shape[-1]
    grown = load_model(grow_classes(model, old + 3).to_bytes())
    assert grown.subgraphs[0].outputs[0].shape == (1, old + 3)
    x = samples(model, 50)
    for (before, *_), (after, *_) in zip(run(model, x), run(grown, x), strict=True):
        assert after.shape == (1, old + 3)
        assert after[0, old:].max() < after[0].max()
        if before[0].max() > np.sort(before[0])[-2]:
            assert after[0].argmax() == before[0].argmax()
    # The original is as it was.
    assert model.subgraphs[0].outputs[0].shape[-1] == old


def test_old_weights_and_biases_are_bit_for_bit():
    model = load_model(MODELS["lenet5"]())
    grown = grow_classes(model, 12)

    def last(m):
        op = next(o for o in reversed(m.subgraphs[0].operators) if o.code.name == "FULLY_CONNECTED")
        return op.inputs

    (_, w, b), (_, w2, b2) = last(model), last(grown)
    assert w2.shape == (12, w.shape[1])
    np.testing.assert_array_equal(w2.numpy()[:10], w.numpy())
    assert not w2.numpy()[10:].any()
    np.testing.assert_array_equal(b2.numpy()[:10], b.numpy())
    np.testing.assert_array_equal(w2.quantization.scales[:10], w.quantization.scales)
    assert (w2.quantization.scales[10:] == np.float32(np.median(w.quantization.scales))).all()


def test_a_new_class_can_be_learned():
    model = load_model(MODELS["small_cnn"]())
    x = samples(model, 60)
    x[30:] = np.clip(x[30:] // 8 + 100, -128, 127)
    y = np.array([v[0][0].argmax() for v in run(model, x)])
    y[30:] = 4
    zo = inject_all(grow_classes(model, 5), nodes=("fc",), batch=4, headroom=0)
    trainer = Trainer(zo, Settings(batch_size=12, learning_rate=2.0), "litert")
    before = trainer.evaluate(x, y)["accuracy"]
    trainer.fit(x, y, steps=150, keep="last")
    assert before <= 0.5
    assert trainer.evaluate(x, y)["accuracy"] > 0.9


def test_in_tflm():
    require("tflm")
    model = grow_classes(load_model(MODELS["depthwise_separable"]()), 9)
    x = samples(model, 5)
    zo = inject_all(model, trainable="none", loss="cross_entropy")
    exact = tflm_zo.runtime.load(zo, "tflm")
    for sample, (expected, *_) in zip(x, run(model, x), strict=True):
        exact.set_inputs(sample[None])
        exact.invoke()
        np.testing.assert_array_equal(exact.outputs()[0], expected)


@pytest.mark.parametrize(
    ("name", "classes", "message"),
    [
        ("small_cnn", 4, "has 4; expected an integer above, got 4"),
        ("small_cnn", 3, "got 3"),
        ("small_cnn", True, "got True"),
        ("logistic_head", 5, "LOGISTIC|FULLY_CONNECTED"),
    ],
)
def test_refusals(name, classes, message):
    with pytest.raises(ConversionError, match=message):
        grow_classes(load_model(MODELS[name]()), classes)


def test_zo_models_are_refused():
    with pytest.raises(ConversionError, match="cannot be added to a ZO model"):
        grow_classes(inject_all(MODELS["small_cnn"]()), 6)
