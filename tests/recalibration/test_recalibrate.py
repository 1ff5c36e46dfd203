"""Recalibration of small models: moments before and after, by NumPy from LiteRT's outputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo as zo
from helpers.interpreters import RUNTIMES, require, run, run_plain
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation, Padding
from tflm_zo.converters import ConversionError, inject, load_model
from tflm_zo.converters.channel_statistics import STATISTICS_NAME, read_statistics, with_statistics
from tflm_zo.converters.model import Buffer, Model, Subgraph
from tflm_zo.recalibration import channel_statistics_of, recalibrate
from tflm_zo.recalibration.walk import corrected_layers

OLD, NEW = 200, 64


def unclamped(seed: int = 1) -> bytes:
    """Builds three convolutions whose outputs have room, and a dense layer."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 8, 8, 2])
    x = g.conv(x, "a", 4, activation=Activation.NONE)
    x = g.depthwise(x, "b", activation=Activation.NONE, padding=Padding.VALID)
    x = g.conv(x, "c", 6, (1, 1), activation=Activation.NONE)
    return g.build([g.dense(g.flatten(x, "flatten"), "fc", 3, Activation.NONE)])


def samples(model: bytes, count: int, seed: int, *, gain: float = 1.0, offset: float = 0.0) -> Any:
    """Draws smooth random levels of every input, which differ from sample to sample, int8 [count, ...] each."""
    rng, found = np.random.default_rng(seed), []
    for tensor in load_model(model).subgraphs[0].inputs:
        own = rng.normal(0, 12, (count, *[1] * (len(tensor.shape) - 1)))
        levels = gain * (rng.normal(0, 22, (count, *tensor.shape[1:])) + own) + offset
        if tensor.type_name == "INT8":
            found.append(np.clip(np.rint(levels), -128, 127).astype(np.int8))
        else:
            found.append(((levels + 128) / 255).astype(np.float32))
    return found if len(found) > 1 else found[0]


def layer_values(model: Model, x: Any) -> list[Any]:
    """Computes outputs of the corrected layers by LiteRT itself, float64 [samples * positions, channels] each."""
    graph = model.subgraphs[0]
    outputs = [op.outputs[0] for op in corrected_layers(model)]
    last = max(graph.operators.index(op) for op in corrected_layers(model))
    exposed = Model(subgraphs=[Subgraph("", [], graph.inputs, outputs, graph.operators[: last + 1])])
    data, arrays = exposed.to_bytes(), x if isinstance(x, list) else [x]
    rows = [run(data, [a[i : i + 1] for a in arrays]) for i in range(len(arrays[0]))]
    return [
        np.concatenate([row[k].reshape(-1, t.shape[-1]) for row in rows]).astype(float) for k, t in enumerate(outputs)
    ]


def test_channels_get_back_their_means_and_deviations() -> None:
    plain = unclamped()
    old, new = samples(plain, OLD, 1), samples(plain, NEW, 2, gain=0.55, offset=25)
    wanted = layer_values(load_model(plain), old)
    result = recalibrate(plain, new, source=old, runtime="litert")
    for was, shifted, now, change in zip(
        wanted, layer_values(load_model(plain), new), layer_values(result.model, new), result.layers, strict=False
    ):
        assert np.abs(np.log(shifted.std(0) / was.std(0))).max() > 0.3
        error = 0.02 + 2 * (1 - min(change.mean_share, change.deviation_share))
        assert np.all(np.abs(now.mean(0) - was.mean(0)) < error * was.std(0))
        assert np.all(np.abs(np.log(now.std(0) / was.std(0))) < error)
    assert [layer.left_alone for layer in result.layers] == [None] * 3 + ["it computes the model's answer"]
    assert result.layers[0].corrected == result.layers[0].channels
    assert min(layer.mean_share for layer in result.layers[:1]) > 0.95


def test_the_first_layer_is_mapped_as_float64_says() -> None:
    """Compares the filter's scales with their products with old deviation / new deviation, if nothing clamps."""
    plain = unclamped()
    old, new = samples(plain, OLD, 1), samples(plain, NEW, 2, gain=0.5)
    result = recalibrate(plain, new, source=old, runtime="litert")
    was, shifted = (layer_values(load_model(plain), x)[0] for x in (old, new))
    share = result.layers[0].deviation_share
    a = (was.std(0) / shifted.std(0)) ** share
    scales = [
        op.inputs[1].quantization.scales.astype(float)
        for op in (load_model(plain).subgraphs[0].operators[0], result.model.subgraphs[0].operators[0])
    ]
    assert np.allclose(scales[1] / scales[0], a, rtol=0.02)


KINDS = ("lenet5", "residual", "depthwise_separable", "dense_per_tensor", "autoencoder")
EDGES = ("two_inputs", "two_outputs", "float_edges", "uint8_edges")


@pytest.mark.parametrize("name", KINDS + EDGES)
def test_models_come_nearer_and_keep_weights_operators_and_answers_layer(name: str) -> None:
    plain = MODELS[name]()
    model = load_model(plain)
    if name == "uint8_edges":
        rng = np.random.default_rng(0)
        old, new = (rng.integers(*r, (64, 8, 8, 1)).astype(np.uint8) for r in ((0, 256), (90, 160)))
    else:
        old, new = samples(plain, OLD, 1), samples(plain, NEW, 2, gain=0.6, offset=15)
    result = recalibrate(model, new, source=old, runtime="litert")
    before, after = model.subgraphs[0], result.model.subgraphs[0]
    assert [op.code.name for op in before.operators] == [op.code.name for op in after.operators]
    for a, b in zip(before.operators, after.operators, strict=True):
        if a.code.name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            assert a.inputs[1].numpy().tobytes() == b.inputs[1].numpy().tobytes()
            assert len(a.inputs[1].quantization.scales) == len(b.inputs[1].quantization.scales)
        assert [(t.shape, t.type) for t in a.outputs] == [(t.shape, t.type) for t in b.outputs]

    def distance(m: Model) -> float:
        found = 0.0
        for was, now in zip(layer_values(model, old), layer_values(m, new), strict=True):
            alive = was.std(0) > 0
            found += float(np.mean(((now.mean(0) - was.mean(0))[alive] / was.std(0)[alive]) ** 2))
        return found

    assert distance(result.model) < 0.6 * distance(model)
    head = [layer for layer in result.layers if layer.left_alone]
    assert head and all(layer.corrected == 0 for layer in head)


def test_data_of_the_old_domain_change_next_to_nothing() -> None:
    plain = MODELS["residual"]()
    old = samples(plain, 400, 1)
    for seed in range(2, 6):
        result = recalibrate(plain, samples(plain, 16, seed), source=old)
        moved = [op.inputs[1].quantization.scales for op in corrected_layers(result.model)]
        kept = [op.inputs[1].quantization.scales for op in corrected_layers(load_model(plain))]
        ratios = np.concatenate([np.abs(np.log(a / b)) for a, b in zip(moved, kept, strict=True)])
        assert np.sqrt(np.mean(ratios**2)) < 0.03


def test_a_constant_channel_stays() -> None:
    model = load_model(unclamped())
    op = model.subgraphs[0].operators[0]
    values = op.inputs[1].numpy().copy()
    values[2] = 0
    op.inputs[1].set_data(values)
    plain = model.to_bytes()
    result = recalibrate(plain, samples(plain, NEW, 2, gain=0.5), source=samples(plain, OLD, 1))
    after = result.model.subgraphs[0].operators[0]
    assert after.inputs[1].quantization.scales[2] == op.inputs[1].quantization.scales[2]
    assert after.inputs[2].numpy()[2] == op.inputs[2].numpy()[2]
    assert result.layers[0].corrected == result.layers[0].channels - 1


def test_factors_end_at_a_third_and_three() -> None:
    plain = unclamped()
    result = recalibrate(plain, samples(plain, NEW, 2, gain=0.15), source=samples(plain, OLD, 1))
    before, after = (m.subgraphs[0].operators[0].inputs[1] for m in (load_model(plain), result.model))
    assert np.allclose(after.quantization.scales / before.quantization.scales, 3, rtol=1e-6)


def test_what_differs_from_place_to_place_is_left_alone() -> None:
    plain = MODELS["lenet5"]()
    old, new = samples(plain, OLD, 1), samples(plain, 16, 2)
    new[:, :14] = np.clip(new[:, :14].astype(int) + 60, -128, 127)
    new[:, 14:] = np.clip(new[:, 14:].astype(int) - 60, -128, 127)
    result = recalibrate(plain, new, source=old)
    assert result.uneven
    assert [layer.corrected for layer in result.layers] == [0] * 5
    kept = with_statistics(load_model(plain), channel_statistics_of(load_model(plain), old))
    assert result.model.to_bytes() == kept.to_bytes()


def test_statistics_stay_those_of_the_old_data() -> None:
    plain = MODELS["residual"]()
    old, new = samples(plain, OLD, 1), samples(plain, NEW, 2, gain=0.6)
    first = recalibrate(plain, new, source=old)
    kept = read_statistics(first.model)
    assert kept is not None and kept.samples == OLD
    again = recalibrate(load_model(first.model.to_bytes()), samples(plain, NEW, 3, offset=20))
    entries = [m.find_metadata(STATISTICS_NAME) for m in (first.model, again.model)]
    assert entries[0].buffer.data == entries[1].buffer.data  # type: ignore[union-attr]
    # Back on the old data, the old moments return.
    back = recalibrate(first.model, samples(plain, OLD, 4))
    for a, b in zip(corrected_layers(load_model(plain)), corrected_layers(back.model), strict=True):
        scales = [op.inputs[1].quantization.scales for op in (a, b)]
        assert np.allclose(np.log(scales[0]), np.log(scales[1]), atol=0.15)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", ["residual", "depthwise_separable", "dense_per_tensor"])
def test_recalibrated_models_run_with_the_same_bits(name: str, runtime: str) -> None:
    require(runtime)
    require("litert")
    plain = MODELS[name]()
    data = samples(plain, 24, 2, gain=0.6)
    models = [
        recalibrate(plain, data, source=samples(plain, 32, 1), runtime=r).model.to_bytes() for r in ("litert", runtime)
    ]
    assert models[0] == models[1]
    for i in range(4):
        outputs = [run_plain(models[0], r, [data[i : i + 1]])[0] for r in ("litert", runtime)]
        assert np.array_equal(*outputs)


def test_the_arena_is_that_of_the_model() -> None:
    require("tflm")
    from tflm_zo.firmware.arena import recorded

    plain = MODELS["residual"]()
    result = recalibrate(plain, samples(plain, NEW, 2, gain=0.6), source=samples(plain, OLD, 1))
    after, before = recorded([result.model, load_model(plain)]) or ()
    assert after["total"] == before["total"]


def test_a_trainer_takes_a_recalibrated_model(tmp_path: Path) -> None:
    plain = MODELS["small_cnn"]()
    result = zo.recalibrate(plain, samples(plain, NEW, 2, gain=0.6), source=samples(plain, OLD, 1))
    path = result.save(tmp_path / "recalibrated.tflite")
    assert zo.Trainer(path, zo.algorithms.node()).export().find_metadata(STATISTICS_NAME) is not None


def damaged(change: Any) -> Model:
    plain = MODELS["small_cnn"]()
    model = load_model(plain)
    model = with_statistics(model, channel_statistics_of(model, samples(plain, 8, 1)))
    entry = model.find_metadata(STATISTICS_NAME)
    assert entry is not None and entry.buffer.data is not None
    entry.buffer = Buffer(change(bytes(entry.buffer.data)))
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:20], "end early"),
        (lambda d: d + b"0", "1 bytes follow"),
        (lambda d: b"\x09" + d[1:], "version 9"),
        (lambda d: d[:4] + bytes(4) + d[8:], "of 0 samples"),
        (lambda d: d[:12] + b"\xff\x7f" + d[14:], "no number"),
        (lambda d: d[:2] + bytes(2) + d[4:8] + bytes(4), "other layers"),
        (lambda d: b"", "damaged"),
    ],
)
def test_damaged_statistics_are_refused(change: Any, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        recalibrate(damaged(change), samples(MODELS["small_cnn"](), 16, 1))


def test_statistics_survive_the_file_to_half_precision() -> None:
    plain = MODELS["residual"]()
    found = channel_statistics_of(load_model(plain), samples(plain, OLD, 1))
    read = read_statistics(load_model(with_statistics(load_model(plain), found).to_bytes()))
    assert read is not None and read.layout is not None and found.layout is not None
    for a, b in zip(found.layers, read.layers, strict=True):
        for field in ("mean", "deviation", "spread", "log_spread"):
            assert np.allclose(getattr(a, field), getattr(b, field), rtol=1e-3, atol=1e-6)
    assert np.allclose(found.layout.cells, read.layout.cells, rtol=1e-3, atol=1e-4)


def test_refusals() -> None:
    plain = MODELS["small_cnn"]()
    x = samples(plain, 16, 1)
    with pytest.raises(ConversionError, match="keeps no statistics"):
        recalibrate(plain, x)
    with pytest.raises(zo.DataError, match="2 samples at least"):
        recalibrate(plain, x, source=x[:1])
    with pytest.raises(zo.DataError, match="must have samples of shape"):
        recalibrate(plain, x[:, :3], source=x)
    with pytest.raises(ConversionError, match="plain model"):
        recalibrate(inject(plain), x, source=x)
    g = GraphBuilder(1)
    head = g.build([g.dense(g.input("x", [1, 4]), "fc", 3, Activation.NONE)])
    with pytest.raises(ConversionError, match="no layer that could be recalibrated.*the model's answer"):
        recalibrate(head, np.zeros((4, 4), np.int8), source=np.zeros((4, 4), np.int8))
