"""Sums of several losses: values and gradients against float64, training, and what is refused."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import tflm_zo as zo
from helpers.models.detectors import LOSSES, detector_samples, grid, injected_detector, two_heads
from tflm_zo.converters import initial_weights, inject, load_model, read_metadata
from tflm_zo.converters.errors import ConversionError, InjectError
from tflm_zo.converters.loss_parts import parse_parts
from tflm_zo.converters.passes.loss import loss_parts
from tflm_zo.core.arguments import address
from tflm_zo.core.loader import call
from tflm_zo.data import DataError, prepare
from tflm_zo.runtime import load
from tflm_zo.training import Exact, Nodes, Settings, Weights
from tflm_zo.training.evaluation import evaluate, every_output


def bce(x: NDArray[Any], label: NDArray[Any]) -> NDArray[Any]:
    loss = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0) - x * label
    return np.where(label < 0, 0, loss)


def cross_entropy(x: NDArray[Any], label: NDArray[Any]) -> NDArray[Any]:
    whole = np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1)) + x.max(-1)
    return np.where(label < 0, 0, whole - np.take_along_axis(x, np.maximum(label, 0)[..., None], -1)[..., 0])


def expected_loss(name: str, logits: Mapping[str, Any], y: Mapping[str, NDArray[Any]], deltas: Mapping[str, float]):
    """The loss of each sample in float64, from the real values that each part reads."""
    if name == "grid":
        error = np.abs(logits["0[1:5]"] - y["0[1:5]"])
        delta = deltas["0[1:5]"]
        huber = np.where(error <= delta, error**2 / 2, delta * (error - delta / 2))
        boxes = np.nan_to_num(huber).mean(-1).sum((1, 2))
        scores = bce(logits["0[0]"][..., 0], y["0[0]"]).sum((1, 2))
        return scores + 5 * boxes + 0.5 * cross_entropy(logits["0[5:]"], y["0[5:]"]).sum((1, 2))
    return 2 * np.abs(logits["0"] - y["0"]).mean(-1) + cross_entropy(logits["1"], y["1"])


def quantized(values: NDArray[Any], scale: float, zero_point: int) -> NDArray[Any]:
    return (np.clip(np.round(values / scale) + zero_point, -128, 127) - zero_point) * scale


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("runtime", ["litert", "tflm"])
def test_losses_are_those_of_float64(name: str, runtime: str) -> None:
    rng = np.random.default_rng(1)
    model = injected_detector(name)
    loaded, loss = load(model, runtime), read_metadata(model).known_loss
    x, y = detector_samples(name, rng, 12)
    data = prepare(loaded, x, y)
    parts = {part.key: part for part in loss.parts}
    outputs = every_output(loaded, data.inputs)
    details = [loaded.output_details(i) for i in range(len(outputs))]
    real = [(o.astype(np.float64) - d[3]) * d[2] for o, d in zip(outputs, details, strict=True)]
    if name == "grid":
        logits = {"0[0]": real[0][..., :1], "0[1:5]": real[0][..., 1:5], "0[5:]": real[0][..., 5:]}
        y = {**y, "0[1:5]": quantized(y["0[1:5]"], parts["0[1:5]"].scale, parts["0[1:5]"].zero_point)}
    else:
        # The output is a probability; the loss reads logits, which differ by a constant from its logarithm.
        logits = {"0": real[0], "1": np.log(np.maximum(real[1], 1 / 512))}
        y = {**y, "0": quantized(y["0"], parts["0"].scale, parts["0"].zero_point)}
    deltas = {key: part.delta * part.scale for key, part in parts.items()}
    wanted = expected_loss(name, logits, y, deltas)
    found = np.array([evaluate(loaded, data.take(slice(i, i + 1))).loss if (data.labels[i] >= 0).any() else 0.0
                      for i in range(12)])  # fmt: skip
    # Probabilities of 8 bits tell the logits roughly.
    assert np.allclose(found, wanted, rtol=2e-3 if name == "grid" else 0.1, atol=loss.unit * 1e-3 + 0.02)


def errors(loss: Any, outputs: NDArray[np.int8], labels: NDArray[np.int32]) -> NDArray[np.int16]:
    packed, found = np.frombuffer(loss_parts(loss), np.uint8), np.zeros(outputs.shape, np.int16)
    where = [address("a", a, a.dtype.type) for a in (packed, outputs, labels, found)]
    call("zo_sum_loss_error_s8", where[0], len(loss.parts), where[1], *outputs.shape, where[2], where[3])
    return found


def losses(loss: Any, outputs: NDArray[np.int8], labels: NDArray[np.int32]) -> NDArray[np.float64]:
    packed, found = np.frombuffer(loss_parts(loss), np.uint8), np.zeros(len(outputs), np.int32)
    where = [address("a", a, a.dtype.type) for a in (packed, outputs, labels, found)]
    call("zo_sum_loss_s8", where[0], len(loss.parts), where[1], *outputs.shape, where[2], where[3])
    return found / 65536 * loss.unit


@pytest.mark.parametrize("name", LOSSES)
def test_errors_are_derivatives(name: str) -> None:
    """Errors are, up to one factor, the differences of the loss between neighbouring levels, over their real step."""
    rng = np.random.default_rng(2)
    loss = read_metadata(injected_detector(name)).known_loss
    loaded = load(injected_detector(name))
    data = prepare(loaded, *detector_samples(name, rng, 40))
    outputs = rng.integers(-120, 121, (40, loss.elements)).astype(np.int8)
    found = errors(loss, outputs, data.labels).astype(np.float64)
    scales = np.zeros(loss.elements)
    for part in loss.parts:
        for p in range(part.places):
            at = part.first + p * part.stride
            scales[at : at + part.channels] = part.scale
    slopes = np.zeros_like(found)
    for j in range(loss.elements):
        up, down = outputs.copy(), outputs.copy()
        up[:, j] += 4
        down[:, j] -= 4
        slopes[:, j] = (losses(loss, up, data.labels) - losses(loss, down, data.labels)) / (8 * scales[j])
    for i in range(40):
        if np.abs(slopes[i]).max() > 0:
            cosine = found[i] @ slopes[i] / np.linalg.norm(found[i]) / np.linalg.norm(slopes[i])
            assert cosine > 0.98
    factor = (found * slopes).sum() / (slopes**2).sum()
    assert np.median(np.abs(found - factor * slopes)) < 0.02 * np.abs(found).max()


EXACT = Settings(tasks=(Exact(last=2),), batch_size=8, seed=1)
SETTINGS = {
    "weights": Settings(tasks=(Weights(queries=4),), batch_size=8, seed=1, learning_rate=8.0),
    "nodes": Settings(tasks=(Nodes(queries=4),), batch_size=8, seed=1),
    "exact": EXACT,
}


def test_errors_begin_at_one_layer() -> None:
    with pytest.raises(InjectError, match="no trainable layer's output"):
        injected_detector("heads", EXACT)


@pytest.mark.parametrize(
    ("name", "way"),
    [("grid", "weights"), ("grid", "nodes"), ("grid", "exact"), ("heads", "weights"), ("heads", "nodes")],
)
def test_training_lowers_the_sum(name: str, way: str) -> None:
    settings = SETTINGS[way]
    rng = np.random.default_rng(3)
    x, labels = detector_samples(name, rng, 8)
    model = injected_detector(name, settings)
    found = {}
    for runtime in ("litert", "tflm"):
        trainer = zo.Trainer(load_model(model.to_bytes()), settings, runtime)
        data = prepare(trainer.runtime, x, labels)
        before = evaluate(trainer.runtime, data)
        trainer.fit(data, steps=60, keep="last")
        after = evaluate(trainer.runtime, data)
        assert after.loss < before.loss * (0.95 if way == "nodes" else 0.9)
        found[runtime] = trainer.runtime.read_weights()
        assert set(after.parts) == {part.key for part in read_metadata(model).known_loss.parts}
    assert all(np.array_equal(found["litert"][k], found["tflm"][k]) for k in found["litert"])
    assert any(not np.array_equal(found["litert"][k], w) for k, w in initial_weights(model).items())


@pytest.mark.parametrize("cuts", [(), "layers"])
def test_an_exported_model_is_the_plain_one(cuts: Any) -> None:
    plain = load_model(two_heads())
    model = inject(plain, trainable="all", nodes=(), loss=LOSSES["heads"], cuts=cuts)
    exported = zo.export_model(load_model(model.to_bytes()))
    before, after = plain.subgraphs[0], exported.subgraphs[0]
    assert sorted(op.label for op in after.operators) == sorted(op.label for op in before.operators)
    assert {t.name for t in after.all_tensors()} == {t.name for t in before.all_tensors()}
    x, _ = detector_samples("heads", np.random.default_rng(0), 1)
    for a, b in zip(*(every_output(load(inject(m, trainable="none", nodes=(), loss="none")), [x]) for m in
                      (plain, exported)), strict=True):  # fmt: skip
        assert np.array_equal(a, b)


def test_labels_tell_the_losses() -> None:
    rng = np.random.default_rng(4)
    x, y = detector_samples("grid", rng, 4)
    found = zo.evaluate(load_model(grid()), x, y)
    assert set(found.parts) == set(y) and 0 <= found.parts["0[0]"] <= 1


def test_labels_of_a_file(tmp_path: Any) -> None:
    rng = np.random.default_rng(5)
    x, y = detector_samples("grid", rng, 4)
    np.savez(tmp_path / "data.npz", x=x, **{f"y.{key}": array for key, array in y.items()})
    assert zo.evaluate(load_model(grid()), tmp_path / "data.npz") == zo.evaluate(load_model(grid()), x, y)


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_prepared_labels_stay_as_they_are(samples: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    loaded = load(GRID_MODEL)
    data = prepare(loaded, *detector_samples("grid", rng, samples))
    again = prepare(loaded, data.inputs[0], data.labels)
    assert np.array_equal(again.labels, data.labels)


GRID_MODEL = injected_detector("grid").to_bytes()
IMAGES, LABELS = detector_samples("grid", np.random.default_rng(0), 2)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ("nothing=mse", "outputs of the model"),
        ("0[6:20]=mse", "channels in 0..8"),
        ("0[3:3]=mse", "channels in 0..8"),
        ("0=median", "parts of the kinds"),
        ("0=mse*0", "weights from"),
        ("0=mse*x", "weights from"),
        ("0=mse,0=mae", "each output once"),
        ("0[2]=cross_entropy", "two classes"),
        ("=mse", "OUTPUT=KIND"),
    ],
)
def test_losses_that_are_refused(loss: str, said: str) -> None:
    with pytest.raises(InjectError, match=said):
        inject(load_model(grid()), trainable="none", nodes=(), loss=loss)


def test_a_softmax_has_all_its_classes() -> None:
    with pytest.raises(ConversionError, match="all of a SOFTMAX"):
        inject(load_model(two_heads()), trainable="none", nodes=(), loss="1[0:3]=cross_entropy")


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ({"0[0]": np.zeros((2, 4, 4), int)}, "labels for"),
        (np.zeros((2, 16)), "dictionary"),
        ({**LABELS, "0[0]": np.full((2, 4, 4), 2)}, "out of range"),
        ({**LABELS, "0[1:5]": np.full((2, 4, 4, 4), np.inf)}, "finite"),
        ({**LABELS, "0[1:5]": np.zeros((2, 4, 4))}, "64 numbers"),
        ({**LABELS, "0[0]": np.zeros((3, 4, 4), int)}, "as many samples"),
        (detector_samples("grid", np.random.default_rng(0), 3)[1], "2 samples"),
    ],
)
def test_labels_that_are_refused(y: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        prepare(load(GRID_MODEL), IMAGES, y)


def test_the_text_of_parts() -> None:
    parts = parse_parts("StatefulPartitionedCall:0=huber*5, a[0]=binary-cross-entropy,a[1:]=mse,b[:4]=auto")
    assert [(p.key, p.kind, p.weight, p.begin, p.end) for p in parts] == [
        ("StatefulPartitionedCall:0", "huber", 5.0, 0, None),
        ("a[0]", "binary_cross_entropy", 1.0, 0, 1),
        ("a[1:]", "mse", 1.0, 1, None),
        ("b[0:4]", "auto", 1.0, 0, 4),
    ]


def test_names_that_inject_uses_are_refused() -> None:
    model = load_model(grid())
    model.subgraphs[0].operators[0].outputs[0].name = "zo_outputs_of_mine"
    with pytest.raises(ConversionError, match="`zo_outputs_of_mine` must have another name"):
        inject(model, trainable="none", nodes=(), loss=LOSSES["grid"])
