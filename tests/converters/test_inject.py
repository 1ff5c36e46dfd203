"""The ZO model, field by field against the contract of converters/README.md and ops/core/graph/zo_op.h."""

import struct
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from helpers.graphs import find, kinds, operator, reload
from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, lenet5, small_cnn
from helpers.models.graph_builder import Activation
from tflm_zo import runtime
from tflm_zo.converters import (
    ConversionError,
    InjectSettings,
    ZoMetadata,
    export_model,
    extract_segment,
    initial_weights,
    inject,
    load_model,
    read_metadata,
)
from tflm_zo.converters.model import Subgraph, Tensor

WEIGHT_OPS = ["TFLM_ZO_SEED_REPLAY", "TFLM_ZO_UPDATE", "TFLM_ZO_PERTURB"]


def filters_of(graph: Subgraph) -> list[Tensor | None]:
    unread = {"detect/filter"}  # of two_outputs, whose loss reads the other head
    return [
        op.inputs[1]
        for op in graph.operators
        if op.code.name.endswith(("CONV_2D", "CONNECTED")) and op.inputs[1].name not in unread
    ]


def test_graph_of_every_model(built: bytes) -> None:
    original = load_model(built)
    model = reload(inject_all(built, batch=4))
    graph, metadata = model.subgraphs[0], read_metadata(model)
    plain_kinds = kinds(original)
    assert kinds(model) == [*WEIGHT_OPS, *plain_kinds, "TFLM_ZO_LOSS"]
    assert [t.name for t in graph.inputs] == [*(t.name for t in original.subgraphs[0].inputs), "zo_label", "zo_command"]
    assert [t.name for t in graph.outputs] == [*(t.name for t in original.subgraphs[0].outputs), "zo_loss", "zo_status"]
    assert graph.outputs[-2].shape == (4,)
    assert graph.outputs[-1].shape == (4,)
    assert graph.inputs[-1].shape == (metadata.command_words,) == (2 + 4 + 2 * 8 + 4 + 4,)
    loss = graph.operators[-1]
    assert loss.inputs[1:] == [graph.inputs[-2], graph.outputs[-1]]


def test_weights_of_every_model(built: bytes) -> None:
    model = reload(inject_all(built, batch=4))
    metadata, weights = read_metadata(model), filters_of(model.subgraphs[0])
    assert [t.name for t in weights if t] == [t.name for t in metadata.trainable]
    assert [t.stream for t in metadata.trainable] == list(range(len(weights)))
    state = find(model, "zo_state")
    assert state.is_variable
    assert state.shape == (4,)
    initial, fraction = find(model, "zo_initial"), find(model, "zo_fraction")
    assert fraction.is_variable
    assert not initial.is_variable
    assert initial.shape == fraction.shape == (sum(t.size for t in metadata.trainable),)
    assert state.buffer is fraction.buffer is model.empty_buffer
    starts = initial_weights(model)
    filters = {t.name: t for t in load_model(built).subgraphs[0].tensors}
    for tensor, info in zip(weights, metadata.trainable, strict=True):
        assert tensor is not None
        old = filters[tensor.name]
        assert tensor.is_variable
        assert tensor.buffer is model.empty_buffer
        assert tensor.shape == old.shape == info.shape
        assert tensor.quantization is not None and old.quantization is not None
        assert tensor.quantization.axis == old.quantization.axis
        assert starts[tensor.name].shape == tensor.shape
    flat = np.concatenate([starts[t.name].reshape(-1) for t in metadata.trainable])
    np.testing.assert_array_equal(initial.numpy(), flat)


def test_weight_operators_of_every_model(built: bytes) -> None:
    model = reload(inject_all(built, batch=4))
    graph, metadata = model.subgraphs[0], read_metadata(model)
    weights = filters_of(graph)
    state, initial, fraction = (find(model, f"zo_{name}") for name in ("state", "initial", "fraction"))
    expected: list[Tensor | None] = [graph.inputs[-1], state, initial, fraction, *weights]
    for i, op in enumerate(graph.operators[:3]):
        assert op.inputs == expected
        assert op.outputs == ([graph.outputs[-1]] if i == 2 else [])
        assert op.custom_options is not None
        header = struct.unpack_from("<BBBBHH", op.custom_options)
        flags = 4 | (1 if i == 0 else 0) | (2 if i == 2 else 0)
        assert header == (1, flags, 2, 8, len(weights), len(metadata.blocks))
        assert len(op.custom_options) == 8 + 12 * len(weights)
        for k, t in enumerate(metadata.trainable):
            entry = struct.unpack_from("<HHII", op.custom_options, 8 + 12 * k)
            assert entry == (t.stream, t.block, t.channels, t.inner)


def test_untouched_parts_are_as_before(built: bytes) -> None:
    original, model = load_model(built), reload(inject_all(built, headroom=0))
    before = {t.name: t for t in original.subgraphs[0].tensors}
    after = {t.name: t for t in model.subgraphs[0].tensors}
    starts = initial_weights(model)
    for name, tensor in before.items():
        other = after[name]
        data = starts[name].tobytes() if other.is_variable else other.buffer.data
        assert (tensor.shape, tensor.type, tensor.buffer.data) == (other.shape, other.type, data)
        if tensor.quantization is not None:
            assert other.quantization is not None
            np.testing.assert_array_equal(tensor.quantization.scales, other.quantization.scales)
            np.testing.assert_array_equal(tensor.quantization.zero_points, other.quantization.zero_points)
    for entry in original.metadata or ():
        kept = model.find_metadata(entry.name)
        assert kept is not None
        assert kept.buffer.data == entry.buffer.data
    keys = [s.key for s in original.signatures or ()]
    assert [s.key for s in model.signatures or ()] == [*keys, "segment_0"]
    for old, new in zip(original.signatures or (), model.signatures or (), strict=False):
        assert [(n, t.name) for n, t in old.inputs] == [(n, t.name) for n, t in new.inputs]
        assert [(n, t.name) for n, t in old.outputs] == [(n, t.name) for n, t in new.outputs]


def test_injecting_changes_no_argument_and_stores_no_weight_twice(built: bytes) -> None:
    model = load_model(built)
    before = model.to_bytes()
    zo = reload(inject_all(model, batch=2, headroom=20))
    assert model.to_bytes() == before
    weights = sum(t.size for t in read_metadata(zo).trainable)
    stored = sum(len(b.data) for b in zo.buffers)
    entry = zo.find_metadata("tflm_zo")
    assert entry is not None
    assert stored - len(entry.buffer.data) <= sum(len(b.data) for b in model.buffers) + 64
    assert weights < stored


def test_metadata_of_lenet5() -> None:
    metadata = read_metadata(reload(inject_all(lenet5(), batch=8, headroom=4, update_bits=8, max_queries=3)))
    assert (metadata.version, metadata.batch, metadata.headroom) == (1, 8, 4)
    assert (metadata.update_bits, metadata.max_queries, metadata.command_words) == (8, 3, 20)
    assert metadata.blocks == ("conv1", "conv2", "fc1", "fc2", "fc3")
    first = metadata.trainable[0]
    assert (first.name, first.operator, first.shape) == ("conv1/filter", "CONV_2D", (6, 5, 5, 1))
    assert (first.size, first.channels, first.inner) == (150, 6, 25)
    assert metadata.loss is not None
    assert (metadata.loss.kind, metadata.loss.elements) == ("cross_entropy", 10)
    assert [p.role for p in metadata.segments[0].inputs] == ["input", "label", "command"]
    assert [p.role for p in metadata.segments[0].outputs] == ["output", "loss", "status"]
    assert metadata.original.inputs == ("image",)
    assert ZoMetadata.from_json(metadata.to_json()) == metadata


def test_depthwise_channels() -> None:
    metadata = read_metadata(inject_all(MODELS["depth_multiplier"]()))
    first = metadata.trainable[0]
    assert (first.operator, first.shape, first.channels, first.inner) == ("DEPTHWISE_CONV_2D", (1, 3, 3, 6), 6, 1)


def test_without_replay_update_comes_first() -> None:
    model = inject_all(small_cnn(), replay=False)
    assert kinds(model)[:2] == WEIGHT_OPS[1:]
    flags = [op.custom_options[1] for op in model.subgraphs[0].operators[:2] if op.custom_options]
    assert flags == [1 | 4, 2 | 4]


def test_eight_bit_update_has_no_fractions() -> None:
    model = inject_all(small_cnn(), update_bits=8)
    assert not [t for t in model.subgraphs[0].tensors if t.name.endswith("zo_fraction")]
    op = operator(model, "TFLM_ZO_UPDATE")
    assert len(op.inputs) == 3 + 2
    assert op.custom_options is not None
    assert op.custom_options[1] == 0


def test_multipliers() -> None:
    factors = np.array([1, 2, 3, 4], np.int32)
    model = reload(inject_all(small_cnn(), multipliers={"conv/filter": factors}))
    np.testing.assert_array_equal(find(model, "conv/filter/zo_multiplier").numpy(), factors)
    assert (find(model, "fc/filter/zo_multiplier").numpy() == 2**31 - 1).all()
    op = operator(model, "TFLM_ZO_UPDATE")
    assert len(op.inputs) == 4 + 2 * 2
    assert op.inputs[5] is find(model, "conv/filter/zo_multiplier")
    assert op.custom_options is not None
    assert op.custom_options[1] == 4 | 8
    for bad, message in [
        ({"conv": factors}, r"`multipliers` must name trainable filter tensors \(conv/filter, fc/filter\)"),
        ({"conv/filter": factors[:3]}, r"int32 \[4\]"),
        ({"conv/filter": factors.astype(np.int64)}, "int64"),
        ({"conv/filter": -factors}, "negative"),
    ]:
        with pytest.raises(ConversionError, match=message):
            inject_all(small_cnn(), multipliers=bad)


# --- Settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"headroom": 113}, "`headroom` must be at most 112, to leave weights of 5 bits"),
        ({"headroom": -1}, "headroom"),
        ({"headroom": 2.0}, "headroom"),
        ({"update_bits": 4}, "update_bits"),
        ({"max_queries": 0}, "max_queries"),
        ({"max_queries": 33}, "max_queries"),
        ({"batch": 0}, "batch"),
        ({"batch": True}, "batch"),
        (
            {"loss": "hinge"},
            "`loss` must be one of auto, cross_entropy, floor_log2, binary_cross_entropy, mse, mae, huber, none",
        ),
        ({"loss_output": -1}, "loss_output"),
        ({"command_words": 29}, r"`command_words` must be an integer in 30\.\.16777216"),
        ({"trainable": ""}, "trainable"),
        ({"trainable": ()}, "trainable"),
        ({"trainable": [""]}, "trainable"),
        ({"tail": "block"}, "tail"),
        ({"trainable": [1]}, "trainable"),
        ({"blocks": {}}, "blocks"),
        ({"blocks": {"a": ()}}, "blocks"),
        ({"cuts": [3]}, "cuts"),
    ],
)
def test_settings_are_checked_when_constructed(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        InjectSettings(**overrides)


def test_largest_headroom() -> None:
    model = inject_all(small_cnn(), headroom=112)
    for weights in initial_weights(model).values():
        assert np.abs(weights.astype(int)).max() <= 15


def test_overrides() -> None:
    settings = InjectSettings(batch=2)
    metadata = read_metadata(inject(small_cnn(), settings, command_words=1000))
    assert (metadata.batch, metadata.command_words) == (2, 1000)
    with pytest.raises(ConversionError, match="unknown setting `heads`; there are: algorithm, batch"):
        inject_all(small_cnn(), heads=2)


def test_extracted_segment_has_its_own_buffers_only(built: bytes) -> None:
    model = inject_all(built)
    before = model.to_bytes()
    alone = reload(extract_segment(model, 0))
    assert model.to_bytes() == before
    assert len(alone.subgraphs) == 1
    assert set(alone.buffers) <= alone.referenced_buffers()
    assert alone.metadata is None
    for bad in (1, -1):
        with pytest.raises(ConversionError, match="no segment"):
            extract_segment(model, bad)


def test_real_models(real_model: bytes) -> None:
    model = reload(inject_all(real_model, batch=2, headroom=8))
    metadata = read_metadata(model)
    for weights in initial_weights(model).values():
        assert np.abs(weights.astype(int)).max() <= 119
    filters = [op for op in load_model(real_model).subgraphs[0].operators if len(op.inputs) == 3]
    assert len(metadata.trainable) == len(filters)
    assert len(set(metadata.blocks)) == len(filters)


@pytest.mark.parametrize("per_channel", [False, True])
def test_quantized_dimension_of_tensors_with_one(per_channel: bool) -> None:
    # As TFLM's own person_detect has it: biases name the dimension of a depthwise filter's channels. TFLM
    # does not look at it, LiteRT refuses such a model.
    g = GraphBuilder(bias_axis=3)
    x = g.depthwise(g.input("image", [1, 8, 8, 2]), "depthwise", per_channel=per_channel)
    x = g.flatten(x, "flatten")
    plain = g.build([g.dense(x, "fc", 4, Activation.NONE, per_channel=per_channel)])
    with pytest.raises((RuntimeError, ValueError), match="quantized_dimension must be in range"):
        Interpreter(model_content=plain)
    axes = {t.name: t.quantization.axis for t in load_model(plain).subgraphs[0].tensors if "bias" in t.name}
    assert axes == {"depthwise/bias": 3, "fc/bias": 3}
    model = reload(inject_all(plain, trainable="fc"))
    for name in axes:
        quantization = find(model, name).quantization
        assert quantization is not None and quantization.axis == 0
    # Filters keep theirs, and LiteRT accepts the ZO model and its export.
    depthwise = find(model, "depthwise/filter").quantization
    assert depthwise is not None and depthwise.axis == (3 if per_channel else 0)
    assert runtime.load(model, "litert").outputs()
    Interpreter(model_content=export_model(model).to_bytes()).allocate_tensors()
