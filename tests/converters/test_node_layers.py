"""Which layers carry nodes and train: by name, by cost, and why others cannot."""

import dataclasses
import glob
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, lenet5
from helpers.models.graph_builder import Activation, Padding
from helpers.models.node_networks import conv, head, pool, sequence
from tflm_zo.converters import ConversionError, Last, Model, load_model, read_metadata
from tflm_zo.converters.inject import node_choices


def layers(model: Model) -> list[str]:
    metadata = read_metadata(model)
    return [metadata.trainable[n.trainable].layer for n in metadata.nodes]


def test_names_and_patterns() -> None:
    assert layers(inject_all(lenet5(), nodes="fc1")) == ["fc1"]
    assert layers(inject_all(lenet5(), nodes=("fc3", "conv?"))) == ["conv1", "conv2", "fc3"]
    assert layers(inject_all(lenet5(), nodes="auto", trainable=Last(2))) == ["fc2", "fc3"]
    assert layers(inject_all(lenet5(), cuts=("flatten", "fc1"), nodes="fc1")) == ["fc1"]
    assert len(read_metadata(inject_all(lenet5(), cuts=("flatten", "fc1"), nodes="fc1")).segments) == 4
    assert read_metadata(inject_all(lenet5())).nodes == ()


def shared_filter() -> bytes:
    g = GraphBuilder(24)
    x = g.conv(g.input("image", [1, 6, 6, 3]), "first", 3)
    x = g.conv(x, "second", 3)
    for op in g.operators:
        op.inputs[1] = g.operators[0].inputs[1]
    return head(g, x)


def branches() -> bytes:
    g = GraphBuilder(25)
    x = g.input("features", [1, 30])
    a, b = (g.dense(x, name, 4, Activation.NONE) for name in ("left", "right"))
    x = g.concat([a, g.requantize(b, "match", a.scale, a.zero_point)], "concat", 1)
    return head(g, x)


def long_signal() -> bytes:
    g = GraphBuilder(27)
    x = conv(g, g.input("signal", [1, 1, 5000, 1]), "conv", kernel=(1, 9), stride=(1, 5))
    return head(g, pool(g, x, "mean", (1, 1000), (1, 1000), Padding.VALID, average=True))


def contradicting(name: str, shape: tuple[int, ...]) -> bytes:
    """Gives a tensor of small_cnn a shape that differs from its operator's."""
    model = load_model(MODELS["small_cnn"]())
    next(t for t in model.subgraphs[0].all_tensors() if t.name == name).shape = shape
    return model.to_bytes()


def contradictions(name: str, shape: tuple[int, ...]) -> tuple[Callable[[], bytes], str, str]:
    told = re.escape(f"layer `conv`, which has the output `{name}` of shape {list(shape)}, which its window")
    return lambda: contradicting(name, shape), "conv", rf"{told} does not give. Possible: fc\.$"


REFUSALS: dict[str, tuple[Any, str, str]] = {
    "rows that no window gives": contradictions("conv", (1, 9, 8, 4)),
    "channels that no filter gives": contradictions("conv", (1, 8, 8, 3)),
    "columns that no pooling gives": contradictions("pool", (1, 2, 8, 4)),
    "another output": ("two_outputs", "detect", r"`detect`, which does not feed what the loss reads \(`class`\)"),
    "second input": ("two_inputs", "fc_features", "only the first is possible. Possible: conv, fc_image, fc"),
    "unknown": ("lenet5", "fc9", "`nodes` must fit a trainable layer: conv1, conv2, fc1, fc2, fc3"),
    "empty": ("lenet5", "", "`nodes` must be names"),
    "shared filter": (shared_filter, "first", "layer `first`, which shares its filter with another layer"),
    "too long": (long_signal, "conv", "layer `conv`, which has in_w = 5000, at most 4096 are possible"),
    "samples that are merged": (
        lambda: sequence(True),
        "token",
        r"its input `merge` in shape \[5, 8\], which does not begin with the batch 1. Possible: fc",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    build, nodes, message = REFUSALS[name]
    with pytest.raises(ConversionError, match=message):
        inject_all(build() if callable(build) else MODELS[build](), nodes=nodes)


def test_other_refusals() -> None:
    with pytest.raises(ConversionError, match="nodes need a loss of each sample"):
        inject_all(lenet5(), nodes="auto", loss="none")
    with pytest.raises(ConversionError, match="`nodes` must fit a trainable layer: fc2, fc3"):
        inject_all(lenet5(), nodes="conv1", trainable=Last(2))
    with pytest.raises(ConversionError, match=r"no trainable layer can.*\(possible with more nodes: conv1\)"):
        inject_all(lenet5(), nodes="auto", trainable="conv1")
    with pytest.raises(ConversionError, match="no trainable layer can.*: `first` shares its filter"):
        inject_all(shared_filter(), nodes="auto", trainable="first")


def test_auto_leaves_out_what_is_too_large() -> None:
    assert layers(inject_all(long_signal(), nodes="auto")) == ["fc"]


def test_auto_takes_both_branches() -> None:
    assert layers(inject_all(branches(), nodes="auto")) == ["left", "right", "fc"]


@pytest.mark.parametrize(("nodes", "behind", "taken"), [(107, 400, True), (108, 400, False)])
def test_auto_leaves_out_nodes_that_take_many_passes(nodes: int, behind: int, taken: bool) -> None:
    """Limits nodes times the multiply-accumulates behind them, as a share of all, to 100."""
    g = GraphBuilder(28)
    x = g.dense(g.input("features", [1, 30]), "first", nodes)
    model = head(g, g.dense(x, "second", behind))
    (classes,) = {t.channels for t in read_metadata(inject_all(model)).trainable if t.layer == "fc"}
    after = nodes * behind + behind * classes
    passes = nodes * after / (30 * nodes + after)
    assert (passes <= 100) == taken
    assert layers(inject_all(model, nodes="auto"))[:-1] == (["first", "second"] if taken else ["second"])
    assert "first" in layers(inject_all(model, nodes=("first",)))


@pytest.mark.parametrize("name", MODELS)
def test_only_layers_with_nodes_are_trainable(name: str) -> None:
    all_ = read_metadata(inject_all(MODELS[name](), nodes="auto"))
    model = inject_all(MODELS[name](), nodes="auto", trainable="nodes")
    only = read_metadata(model)
    layers = [t.layer for t in only.trainable]
    assert [only.trainable[n.trainable].layer for n in only.nodes] == layers
    assert [all_.trainable[n.trainable].layer for n in all_.nodes] == layers
    anonymous = [[dataclasses.replace(n, trainable=0) for n in m.nodes] for m in (all_, only)]
    assert anonymous[0] == anonymous[1]
    original = {t.name: t for t in load_model(MODELS[name]()).subgraphs[0].tensors}
    filters = {t.name for t in all_.trainable}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.name in filters:
                trained = tensor.name in {t.name for t in only.trainable}
                assert tensor.is_variable == trained
                if not trained:
                    np.testing.assert_array_equal(tensor.numpy(), original[tensor.name].numpy())


def test_names_with_brackets_are_no_patterns() -> None:
    """As patterns, `fc[12]` would match fc1 as well, and `fc*` all three."""
    g = GraphBuilder(1)
    x = g.dense(g.input("x", [1, 20]), "fc1", 16)
    x = g.dense(x, "fc[12]", 12)
    model = g.build([g.softmax(g.dense(x, "fc*", 5, Activation.NONE), "softmax")])
    for layer in ("fc1", "fc[12]", "fc*"):
        metadata = read_metadata(inject_all(model, nodes=[glob.escape(layer)], trainable="nodes"))
        assert [t.layer for t in metadata.trainable] == [layer]


def test_reasons() -> None:
    found = {c.layer: c for c in node_choices(load_model(MODELS["residual"]()))}
    assert found["fc"].auto and found["fc"].reason == ""
    assert (found["stem"].form, found["stem"].count) == ("plain", 8 * 8 * 8)
    assert found["stem"].reason == "has no fewer nodes than weights"
    assert [found[name].form for name in ("block0/conv0", "block0/conv1", "projection")] == ["plain", "plain", "mean"]
