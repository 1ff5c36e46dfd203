"""Networks over sequences, in each form in which Keras' are converted, are trained as those over images."""

import numpy as np
import pytest

from helpers.exact_gradients import check_gradients, int8_activations, samples
from helpers.examples import slow_but
from helpers.interpreters import require
from helpers.keras_networks import FORMS, TIME, sequence_network
from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.converters import inject, load_model, read_metadata
from tflm_zo.runtime import load
from tflm_zo.training import Exact, Nodes, Settings, Trainer, algorithm, algorithms, inject_for

# Nodes of the last convolution if a pooling follows it.
POOLED = {
    "mean": ("mean", 6),
    "mean, axis kept": ("mean", 6),
    "mean by keras.ops": ("mean", 6),
    "maximum": ("max_pool", 6),
    "maximum, axis kept": ("max_pool", 6),
    "poolings": ("max_pool", 24),
    "overlapping maxima": ("max_pool", 42),
    "average of all": ("mean", 6),
    "an image's side": ("max_pool", 6),
    "causal": ("mean", 6),
    "separable": ("mean", 6),
    "padded and cropped": ("mean", 6),
    "dense at each time": ("mean", 6),
    "batch norm, ReLU6": ("mean", 6),
    "squeeze and excitation": ("mean", 6),
    "squeeze and excitation, hard sigmoid": ("mean", 6),
}


def pooled(outputs: np.ndarray, geometry: dict[str, int]) -> np.ndarray:
    """Computes largest values of the windows in a layer's geometry, of outputs [out_h, out_w, out_c]."""
    g = geometry
    nodes = np.full((g["node_h"], g["node_w"], g["out_c"]), -128)
    for h, w, i, j in np.ndindex(g["node_h"], g["node_w"], g["pool_h"], g["pool_w"]):
        y = h * g["pool_stride_h"] + i - g["pool_pad_top"]
        x = w * g["pool_stride_w"] + j - g["pool_pad_left"]
        if 0 <= y < g["out_h"] and 0 <= x < g["out_w"]:
            nodes[h, w] = np.maximum(nodes[h, w], outputs[y, x])
    return nodes


@pytest.mark.parametrize("name", slow_but(("mean", "maximum", "overlapping maxima", "squeeze and excitation"), POOLED))
def test_nodes_are_what_a_pooling_leaves(name):
    """A layer's geometry makes its nodes of its outputs, as the network has computed both."""
    plain = load_model(sequence_network(name))
    zo = inject(plain, nodes="*", batch=4)
    runtime = load(zo, "litert")
    (nodes,) = (n for n in runtime.metadata.nodes if n.form != "plain")
    assert (nodes.form, nodes.count) == POOLED[name]
    x, y = samples(plain, 4, 1)
    runtime.feed([x], y)
    runtime.invoke()
    g = nodes.geometry
    outputs = runtime.boundary(nodes.output_segment).reshape(4, g["out_h"], g["out_w"], g["out_c"])
    found = runtime.boundary(nodes.node_segment).reshape(4, g["node_h"], g["node_w"], g["out_c"])
    if nodes.form == "max_pool":
        np.testing.assert_array_equal(found, [pooled(sample, g) for sample in outputs])
        return
    graph = [op for s in zo.subgraphs for op in s.operators]
    mean = [op for op in graph if op.code.name in ("MEAN", "AVERAGE_POOL_2D")][-1]
    real, q = _real(outputs.mean(axis=(1, 2)), mean.inputs[0]), mean.outputs[0].quantization
    levels = np.clip(real / q.scale + q.zero_point, -128, 127)
    assert np.abs(found[:, 0, 0] - levels).max() < 1  # kernels round the zero point on its own


def _real(values, tensor):
    return (values.astype(np.float64) - tensor.quantization.zero_point) * float(tensor.quantization.scale)


@pytest.mark.parametrize("last", slow_but(["all"], ["two", "all"]))
@pytest.mark.parametrize("name", slow_but(list(FORMS)[::3], FORMS))
def test_errors_are_the_gradients(name, last, monkeypatch):
    model = sequence_network(name)
    count = len(read_metadata(inject(model, trainable="all")).trainable)
    check_gradients(model, 2 if last == "two" else count, monkeypatch)


#: Losses and the activations that they are for.
ENDS = {"cross_entropy": "softmax", "floor_log2": "softmax", "binary_cross_entropy": "sigmoid", "mse": None}


@pytest.mark.parametrize("loss", ["binary_cross_entropy", "mse"])
def test_errors_of_another_loss(loss, monkeypatch):
    """Trains several labels at once, and a regression."""
    model = sequence_network("squeeze and excitation", ENDS[loss])
    count = len(read_metadata(inject(model, trainable="all")).trainable)
    check_gradients(model, count, monkeypatch, loss)


RUNS = {
    "nodes": Settings(tasks=(Nodes(queries=2),), batch_size=8, seed=1),
    "every layer": Settings(tasks=(Exact(last=5),), batch_size=8, seed=2),
    "fqt": algorithm("fqt"),
    "exact": algorithms.exact(seed=3),
}


@pytest.mark.parametrize("loss", slow_but(["cross_entropy"], ENDS))
@pytest.mark.parametrize(("network", "run"), [*(("squeeze and excitation", run) for run in RUNS), ("mean", "exact")])
def test_the_same_bits_in_tflm(network, run, loss, tmp_path):
    require("tflm")
    plain, settings = load_model(sequence_network(network, ENDS[loss])), RUNS[run]
    x, y = samples(plain, 64, 5, loss)
    found = []
    for runtime in ("litert", "tflm"):
        trainer = Trainer(inject_for(plain, settings, loss=loss), settings, runtime)
        trainer.fit(x, y, steps=4, log=tmp_path / runtime, keep="last")
        found.append(((tmp_path / runtime).read_bytes(), trainer.export().to_bytes()))
    assert found[0] == found[1]


def test_a_batch_leaves_the_gate_of_each_sample_its_own():
    """TFLite drops the axis of size 1 in a gate's shape, [1, channels]; a batch needs it."""
    model = sequence_network("squeeze and excitation")
    x, _ = samples(load_model(model), 5, 2)
    runtime = load(inject(model, batch=5, headroom=0), "litert")
    runtime.feed([x], np.zeros(5, np.int32))
    runtime.invoke()
    alone = [values[load_model(model).subgraphs[0].outputs[0].name][0] for values in int8_activations(model, x)]
    np.testing.assert_array_equal(runtime.outputs()[0], alone)


def test_time_is_a_side_of_the_image():
    """Counts a convolution's positions as those of its sequence, for each layout of the converter."""
    for name in ("mean", "an image's side"):
        (*_, layer, _) = read_metadata(inject(sequence_network(name), nodes="*")).nodes
        assert sorted((layer.geometry["out_h"], layer.geometry["out_w"])) == [1, TIME]


@pytest.mark.parametrize("reshape", ["RESHAPE", "EXPAND_DIMS", "SQUEEZE"])
@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("reduction", ["MEAN", "REDUCE_MAX", "AVERAGE_POOL_2D"])
def test_other_converters_forms(reshape, side, reduction):
    """Places time along either side of an image, reshaped in any of three ways; an axis that counts from the end."""
    g = GraphBuilder(6)
    image = [1, TIME, 1, 3] if side == 1 else [1, 1, TIME, 3]
    x = g.conv(g.input("window", image), "conv", 6, kernel=(3, 1) if side == 1 else (1, 3))
    sequence = [1, TIME, 6]
    if reduction == "AVERAGE_POOL_2D":
        sequence = [1, TIME, 1, 6]
    y = g.value("sequence", sequence, x.scale, x.zero_point, x.rms)
    if list(x.shape) == sequence:
        y = x
    elif reshape == "RESHAPE" or len(sequence) == 4:
        g.operator("RESHAPE", [x.index, g.int32("shape", sequence)], [y.index], "Reshape")
    elif reshape == "SQUEEZE":
        g.operator("SQUEEZE", [x.index], [y.index], "Squeeze", squeezeDims=np.array([3 - side], np.int32))
    else:  # an axis of size 1 that is added, where another one has been dropped
        inner = g.value("inner", [1, TIME * 6], x.scale, x.zero_point, x.rms)
        g.operator("RESHAPE", [x.index, g.int32("flat", [1, TIME * 6])], [inner.index], "Reshape")
        wide = g.value("wide", [1, 1, TIME * 6], x.scale, x.zero_point, x.rms)
        g.operator("EXPAND_DIMS", [inner.index, g.int32("axis", [1])], [wide.index], "ExpandDims")
        g.operator("RESHAPE", [wide.index, g.int32("shape", sequence)], [y.index], "Reshape")
    if reduction == "AVERAGE_POOL_2D":
        window = {"strideH": 1, "strideW": 1, "filterHeight": TIME, "filterWidth": 1, "padding": 1}
        z = g.value("pooled", [1, 1, 1, 6], y.scale, y.zero_point, y.rms)
        g.operator(reduction, [y.index], [z.index], "Pool2D", **window)
    else:
        z = g.value("pooled", [1, 6], y.scale, y.zero_point, y.rms)
        g.operator(reduction, [y.index, g.int32("time", [-2])], [z.index], "Reducer")
    source = g.build([g.softmax(g.dense(g.flatten(z, "flat"), "fc", 4, Activation.NONE), "softmax")])
    (nodes, _) = read_metadata(inject(load_model(source), nodes="*")).nodes
    assert (nodes.form, nodes.count) == ("max_pool" if reduction == "REDUCE_MAX" else "mean", 6)
