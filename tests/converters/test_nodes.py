"""Layers that carry nodes: geometry against a forward pass in float64, boundaries, refusals."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate

from helpers.injection import inject_all
from helpers.interpreters import inputs_of, run
from helpers.models import MODELS, GraphBuilder, lenet5, residual, small_cnn, two_inputs, two_outputs
from helpers.models.graph_builder import Activation, Padding
from helpers.models.node_networks import convolution, global_mean, pooled, sequence
from helpers.nodes import route_nodes
from tflm_zo import core
from tflm_zo.converters import ConversionError, Model, ZoNodes, export_model, load_model, read_metadata, set_batch
from tflm_zo.core import NodeForm, NodeLayer
from tflm_zo.runtime import Runtime, load

Array = np.ndarray[Any, Any]
BATCH = 3


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, the layers that carry nodes there, and forms of their nodes in order."""

    build: Callable[[], bytes]
    nodes: str | tuple[str, ...] = "*"
    forms: tuple[str, ...] = ("plain", "plain")


CASES = {
    "SAME": Case(convolution()),
    "VALID": Case(convolution(padding=Padding.VALID)),
    "stride": Case(convolution(stride=(2, 3))),
    "stride, padding before the image": Case(convolution(kernel=(5, 4), stride=(2, 3))),
    "window of even size": Case(convolution(kernel=(2, 4))),
    "VALID, stride": Case(convolution(stride=(3, 2), kernel=(2, 3), padding=Padding.VALID)),
    "dilation": Case(convolution(dilation=(2, 3))),
    "VALID, dilation": Case(convolution(dilation=(3, 2), padding=Padding.VALID)),
    "1 x 1": Case(convolution(kernel=(1, 1), stride=(2, 1))),
    "no activation": Case(convolution(activation=Activation.NONE)),
    "RELU6": Case(convolution(activation=Activation.RELU6, rms=4.0)),
    "RELU_N1_TO_1": Case(convolution(activation=Activation.RELU_N1_TO_1)),
    "max pool": Case(pooled((2, 2), (2, 2)), forms=("max_pool", "plain")),
    "max pool, VALID": Case(pooled((3, 2), (2, 2), Padding.VALID), forms=("max_pool", "plain")),
    "max pool, padding": Case(pooled((3, 3), (2, 2)), forms=("max_pool", "plain")),
    "max pool, padding before the image": Case(pooled((4, 5), (3, 1)), forms=("max_pool", "plain")),
    "max pool, no activation": Case(pooled((2, 3), (2, 2), activation=Activation.NONE), forms=("max_pool", "plain")),
    "max pool, RELU6": Case(pooled((2, 3), (2, 2), activation=Activation.RELU6), forms=("max_pool", "plain")),
    "global AVERAGE_POOL_2D": Case(lambda: global_mean(False), forms=("mean", "plain")),
    "MEAN": Case(lambda: global_mean(True), forms=("mean", "plain")),
    "MEAN, dimensions kept": Case(lambda: global_mean(True, True), forms=("mean", "plain")),
    "LeNet": Case(lenet5, forms=("max_pool", "max_pool", "plain", "plain", "plain")),
    "depthwise": Case(MODELS["depthwise_separable"], forms=("plain",) * 4 + ("mean", "plain")),
    "depth multiplier": Case(MODELS["depth_multiplier"], forms=("mean", "plain")),
    "DS-CNN": Case(MODELS["depthwise_separable"], "auto", ("mean", "plain")),
    "no softmax": Case(small_cnn, forms=("max_pool", "plain")),
    "inside of residual blocks": Case(residual, ("block?/conv0", "fc"), ("plain",) * 3),
    "dense layer on positions": Case(sequence),
    "dense layers": Case(MODELS["dense_per_tensor"], forms=("plain",) * 3),
    "dense after 4D": Case(MODELS["dense_after_4d"], forms=("plain",) * 3),
    "autoencoder": Case(MODELS["autoencoder"], forms=("plain",) * 4),
    "sigmoid": Case(MODELS["logistic_head"], forms=("plain",) * 2),
    "float edges": Case(MODELS["float_edges"], forms=("plain",) * 2),
    "two inputs": Case(two_inputs, "auto", ("plain",) * 2),
    "two outputs": Case(two_outputs, "auto", ("plain",)),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


# --- the layer in float64 -----------------------------------------------------------------------------------


def forward(g: dict[str, int], source: Array, op: Any, low: int, high: int) -> Array:
    """Computes the int8 output of an operator from its input [samples, in_h, in_w, in_c], in float64 until the end."""
    weights, bias = op.inputs[1], op.input(2)
    w = weights.numpy().astype(np.float64)
    if g.get("depthwise"):  # as a filter of all input channels, which is zero but for the one that is read
        whole = np.zeros((g["out_c"], g["k_h"], g["k_w"], g["in_c"]))
        for c in range(g["out_c"]):
            whole[c, :, :, c * g["in_c"] // g["out_c"]] = w[0, :, :, c]
        w = whole
    w = w.reshape(g["out_c"], g["k_h"], g["k_w"], g["in_c"])
    w = w * np.broadcast_to(np.array(weights.quantization.scales), g["out_c"]).reshape(-1, 1, 1, 1)
    real = (source.astype(np.float64) - g["input_zero_point"]) * op.inputs[0].quantization.scale
    y = np.zeros((len(source), g["out_h"], g["out_w"], g["out_c"]))
    if bias is not None:
        y += bias.numpy() * np.array(bias.quantization.scales)
    for h, w_, i, j in itertools.product(*(range(g[k]) for k in ("out_h", "out_w", "k_h", "k_w"))):
        row = h * g["stride_h"] + i * g["dilation_h"] - g["pad_top"]
        column = w_ * g["stride_w"] + j * g["dilation_w"] - g["pad_left"]
        if 0 <= row < g["in_h"] and 0 <= column < g["in_w"]:
            y[:, h, w_] += real[:, row, column] @ w[:, i, j].T
    output = op.outputs[0].quantization
    return np.clip(np.floor(y / output.scale + 0.5) + output.zero_point, low, high)


def operator_of(model: Model, filter_name: str) -> Any:
    graph = model.subgraphs[0]
    return next(op for op in graph.operators if len(op.inputs) > 1 and op.inputs[1].name == filter_name)


def native_layer(nodes: ZoNodes) -> NodeLayer:
    forms = {"plain": NodeForm.PLAIN, "max_pool": NodeForm.MAX_POOL, "mean": NodeForm.MEAN}
    return NodeLayer(form=forms[nodes.form], **nodes.geometry)


def run_zo(model: Model, inputs: list[Array]) -> Runtime:
    runtime = load(model, "litert")
    runtime.set_inputs(*inputs)
    runtime.invoke()
    return runtime


def activations(runtime: Runtime, nodes: ZoNodes, inputs: list[Array]) -> Iterator[Array]:
    for segment in (nodes.input_segment, nodes.output_segment, nodes.node_segment):
        yield inputs[0] if segment == 0 else runtime.boundary(segment)


def test_geometry(case: Case) -> None:
    data = case.build()
    plain = load_model(data)
    model = inject_all(data, nodes=case.nodes, headroom=0, batch=BATCH)
    metadata = read_metadata(model)
    assert tuple(n.form for n in metadata.nodes) == case.forms
    whole = set_batch(load_model(data), BATCH).to_bytes()
    inputs = inputs_of(whole, 5)
    runtime = run_zo(model, inputs)
    for nodes in metadata.nodes:
        g = nodes.geometry
        source, output, node = activations(runtime, nodes, inputs)
        source = source.reshape(BATCH, g["in_h"], g["in_w"], g["in_c"])
        output = output.reshape(BATCH, g["out_h"], g["out_w"], g["out_c"])
        node = node.reshape(BATCH, g["node_h"], g["node_w"], g["out_c"])
        assert node[0].size == nodes.count
        op = operator_of(plain, metadata.trainable[nodes.trainable].name)
        expected = forward(g, source, op, max(-128, g["low"]), min(127, g["high"]))
        assert np.abs(output - expected).max() <= 1
        assert (output == expected).mean() > 0.95
        # The clamps are neither too wide nor too narrow.
        activation = op.option("fusedActivationFunction", 0)
        assert (g["low"] == -129) == (activation == Activation.NONE)
        if g["low"] > -129:
            assert (output.min() == g["low"]) and (output <= g["low"]).mean() > 0.02
        if activation in (Activation.RELU6, Activation.RELU_N1_TO_1):
            assert output.max() == g["high"] < 128
        else:
            assert g["high"] == 128
        check_nodes(native_layer(nodes), output, node)


def check_nodes(layer: NodeLayer, output: Array, node: Array) -> None:
    routes = route_nodes(layer, np.ascontiguousarray(output))
    if layer.form == NodeForm.MEAN:
        means = output.astype(np.float64).mean((1, 2), keepdims=True)
        assert np.abs(node - means).max() <= 1
        return
    routes = routes.reshape(node.shape)
    clamped = (node <= layer.low) | (node >= layer.high)
    np.testing.assert_array_equal(routes == 255, clamped)
    b, h, w, c = np.nonzero(~clamped)
    to = routes[~clamped].astype(np.int64)
    if layer.form == NodeForm.MAX_POOL:
        h = h * layer.pool_stride_h + to // layer.pool_w - layer.pool_pad_top
        w = w * layer.pool_stride_w + to % layer.pool_w - layer.pool_pad_left
    np.testing.assert_array_equal(output[b, h, w, c], node[~clamped])


def test_padding_before_the_image_is_tested() -> None:
    """Checks that the cases have the properties in their names."""

    def geometry(name: str) -> dict[str, int]:
        return read_metadata(inject_all(CASES[name].build(), nodes="conv")).nodes[0].geometry

    g = geometry("stride, padding before the image")
    assert (g["pad_top"], g["pad_left"]) == (2, 1)
    g = geometry("max pool, padding before the image")
    assert (g["pool_pad_top"], g["pool_pad_left"]) == (0, 2)
    g = geometry("max pool, padding")
    assert (g["pool_pad_top"], g["pool_pad_left"]) == (1, 0)


def test_outputs_are_those_of_the_uncut_model(case: Case) -> None:
    data = case.build()
    model = load_model(inject_all(data, nodes=case.nodes, headroom=0, batch=BATCH).to_bytes())
    whole = set_batch(load_model(data), BATCH).to_bytes()
    inputs = inputs_of(whole, 6)
    uncut = run_zo(inject_all(data, headroom=0, batch=BATCH), inputs)
    cut = run_zo(model, inputs)
    for a, b in zip(cut.outputs(), uncut.outputs(), strict=True):
        np.testing.assert_array_equal(a, b)
    labels = np.zeros(*cut.label_details()[:2])
    for runtime in (cut, uncut):
        runtime.set_labels(labels)
        runtime.invoke(runtime.command())
    np.testing.assert_array_equal(cut.losses(), uncut.losses())
    # Joined again, it is a model without cuts.
    for a, b in zip(run(export_model(model).to_bytes(), inputs), run(whole, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nodes_of_a_sum() -> None:
    """Layers on both branches of a residual block share the nodes of the sum, and its clamps."""
    plain = load_model(residual())
    model = inject_all(plain, nodes=("*/conv1", "projection"), headroom=0, batch=BATCH)
    metadata = read_metadata(model)
    names = [metadata.trainable[n.trainable].layer for n in metadata.nodes]
    assert names == ["block0/conv1", "block1/conv1", "projection"]
    first, second, projection = metadata.nodes
    assert (second.form, projection.form) == ("mean", "mean")
    assert (second.output_segment, second.node_segment) == (projection.output_segment, projection.node_segment)
    assert projection.input_segment == first.output_segment
    inputs = inputs_of(set_batch(plain, BATCH).to_bytes(), 5)
    runtime = run_zo(model, inputs)
    # Summands of the sums, which enter segments of a model that is cut there.
    summands = ["stem", "block0/conv1", "block1/conv1", "block1/projection"]
    cut = inject_all(plain, cuts=summands, headroom=0, batch=BATCH)
    branches, read = run_zo(cut, inputs), {}
    for k, segment in enumerate(read_metadata(cut).segments):
        if (index := segment.input_index("boundary")) is not None:
            read[cut.subgraphs[k].inputs[index].name] = branches.boundary(k)
    tensors = {t.name: t for t in plain.subgraphs[0].all_tensors()}
    for nodes, name in ((first, "block0/add"), (second, "block1/add")):
        op = next(op for op in plain.subgraphs[0].operators if op.outputs[0].name == name)
        real = sum(
            (read[t.name].astype(np.float64) - t.quantization.zero_point) * t.quantization.scale for t in op.inputs
        )
        own = tensors[name].quantization
        expected = np.floor(real / own.scale + 0.5) + own.zero_point
        low, high = nodes.geometry["low"], nodes.geometry["high"]
        assert (low, high) == (own.zero_point, 128)  # RELU
        output = runtime.boundary(nodes.output_segment)
        assert np.abs(output - np.clip(expected, low, 127)).max() <= 1
        assert (output <= low).mean() > 0.02
        check_nodes(native_layer(nodes), output, runtime.boundary(nodes.node_segment))


# --- logits that are the model's output ---------------------------------------------------------------------


def test_a_cut_at_the_logits_leaves_the_loss_alone_behind_it() -> None:
    model = load_model(inject_all(small_cnn(), nodes="fc", batch=2).to_bytes())
    segments = read_metadata(model).segments
    assert [[p.role for p in s.inputs] for s in segments[1:]] == [
        ["boundary", "command"],
        ["boundary", "label", "command"],
    ]
    assert [[p.role for p in s.outputs] for s in segments[1:]] == [["output", "boundary", "status"], ["loss"]]
    assert [op.code.name for op in model.subgraphs[2].operators] == ["TFLM_ZO_LOSS"]
    assert len(read_metadata(inject_all(small_cnn(), cuts=("fc",))).segments) == 2
    with pytest.raises(ConversionError, match="`fc`.*is an output of the model"):
        inject_all(small_cnn(), cuts=("fc",), loss="none")
    with pytest.raises(ConversionError, match="`softmax`.*is an output of the model"):
        inject_all(lenet5(), cuts=("softmax",))


def test_logits_that_are_an_output_beside_the_probabilities() -> None:
    g = GraphBuilder(26)
    x = g.dense(g.input("features", [1, 12]), "fc", 4, Activation.NONE)
    model = inject_all(g.build([g.softmax(x, "softmax"), x]), nodes="fc", batch=2)
    assert [[(p.role, p.index) for p in s.outputs] for s in read_metadata(model).segments] == [
        [("output", 1), ("boundary", None), ("status", None)],
        [("output", 0), ("loss", None)],
    ]


def test_signatures_of_a_model_that_is_cut_at_its_output() -> None:
    """The output and the boundary are one tensor under two names, in the file's own signatures too."""
    model = inject_all(small_cnn(), nodes="fc", headroom=0)
    runtime = load(model, "litert")
    interpreter = Interpreter(
        model_content=model.to_bytes(),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_delegates=[load_delegate(str(core.library_path()), {"exact": "1"})],
    )
    runners = [interpreter.get_signature_runner(f"segment_{k}") for k in range(3)]
    (x,), label = inputs_of(small_cnn(), 7), np.array([2], np.int32)
    command = runtime.command()
    runtime.set_inputs(x)
    runtime.set_labels(label)
    runtime.invoke(command)
    first = runners[0](image=x, zo_command=command.words)
    second = runners[1](boundary=first["boundary"], zo_command=command.words)
    third = runners[2](boundary=second["boundary"], zo_label=label, zo_command=command.words)
    np.testing.assert_array_equal(second["fc"], second["boundary"])
    np.testing.assert_array_equal(second["fc"], runtime.outputs()[0])
    np.testing.assert_array_equal(third["zo_loss"], runtime.losses())
