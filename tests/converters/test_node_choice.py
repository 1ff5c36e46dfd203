"""Models whose only trainable layers are those with nodes, and the reasons for each layer."""

import dataclasses
import glob

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, load_model, read_metadata
from tflm_zo.converters.inject import node_choices


@pytest.mark.parametrize("name", MODELS)
def test_only_layers_with_nodes_are_trainable(name: str) -> None:
    """Selects the same nodes as with every layer trainable; the others' filters stay constants."""
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


def test_refusals() -> None:
    with pytest.raises(ConversionError, match="`nodes` must name a layer where only layers with nodes are trainable"):
        inject_all(MODELS["lenet5"](), trainable="nodes")
    g = GraphBuilder(1)
    x = g.depthwise(g.input("x", [1, 4, 4, 1]), "depthwise", multiplier=4)
    x = g.flatten(g.pool(x, "average", 2, average=True), "flatten")
    model = load_model(g.build([g.softmax(x, "softmax")]))
    (choice,) = node_choices(model)
    assert (choice.layer, choice.form, choice.count, choice.auto) == ("depthwise", "plain", 64, False)
    assert choice.reason == "has no fewer nodes than weights"
    with pytest.raises(ConversionError, match="no trainable layer .*possible with more nodes: depthwise"):
        inject_all(model, nodes="auto", trainable="nodes")


def test_reasons() -> None:
    found = {c.layer: c for c in node_choices(load_model(MODELS["residual"]()))}
    assert found["fc"].auto and found["fc"].reason == ""
    assert (found["stem"].form, found["stem"].count) == ("plain", 8 * 8 * 8)
    assert found["stem"].reason == "has no fewer nodes than weights"
    assert [found[name].form for name in ("block0/conv0", "block0/conv1", "projection")] == ["plain", "plain", "mean"]
