# SPDX-License-Identifier: Apache-2.0
"""Models with several outputs: which one the loss belongs to, and which layers it trains."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import GraphBuilder, two_outputs
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, Model, load_model, read_metadata
from tflm_zo.converters.inject import node_choices
from tflm_zo.training import Settings, Trainer, Weights


def boxes_and_classes() -> bytes:
    """A detector: raw box coordinates first, class probabilities last, on a common trunk."""
    g = GraphBuilder(21)
    x = g.input("image", [1, 6, 6, 1])
    x = g.flatten(g.conv(x, "trunk", 4, stride=2), "flatten")
    boxes = g.dense(g.dense(x, "box_hidden", 16), "boxes", 4, Activation.NONE)
    return g.build([boxes, g.softmax(g.dense(x, "class", 3, Activation.NONE), "classes")])


def trained(model: Model) -> list[str]:
    return [t.layer for t in read_metadata(model).trainable]


def test_the_loss_belongs_to_the_first_output_behind_a_softmax_or_sigmoid() -> None:
    loss = read_metadata(inject_all(boxes_and_classes())).loss
    assert loss is not None and (loss.output, loss.kind, loss.elements) == (1, "cross_entropy", 3)
    first = read_metadata(inject_all(two_outputs())).loss
    assert first is not None and first.output == 0


@pytest.mark.parametrize(("wanted", "layers"), [(0, ["trunk", "class"]), (1, ["trunk", "detect"])])
def test_layers_that_the_loss_does_not_read_are_not_trainable(wanted: int, layers: list[str]) -> None:
    assert trained(inject_all(two_outputs(), loss_output=wanted)) == layers
    assert trained(inject_all(two_outputs(), loss_output=wanted, trainable=["*"])) == layers
    assert trained(inject_all(two_outputs(), loss_output=wanted, trainable="last:1")) == layers[1:]
    assert (
        trained(inject_all(two_outputs(), loss_output=wanted, nodes="auto", trainable="nodes")) == layers[1:]
    )


def test_without_a_loss_every_layer_is_trainable() -> None:
    assert trained(inject_all(two_outputs(), loss="none")) == ["trunk", "class", "detect"]


def test_a_layer_that_the_loss_does_not_read_is_refused_by_name() -> None:
    for settings in ({"trainable": "detect"}, {"blocks": {"both": ["trunk", "detect"]}}):
        with pytest.raises(
            ConversionError, match="`detect` does not feed what the loss reads .`class`.; loss_output"
        ):
            inject_all(two_outputs(), **settings)


def test_inspect_says_that_it_does_not_feed_the_loss() -> None:
    choices = {c.layer: c for c in node_choices(load_model(two_outputs()))}
    assert "does not feed what the loss reads" in choices["detect"].reason
    assert not choices["detect"].auto and choices["class"].auto


def test_weights_of_the_other_head_stay_as_they_are() -> None:
    """Weight perturbation let them walk at random: the loss never tells it to stop."""
    x = np.random.default_rng(0).integers(-128, 128, (32, 6, 6, 1)).astype(np.int8)
    y = (x.mean((1, 2, 3)) > 0).astype(np.int32)
    trainer = Trainer(
        inject_all(boxes_and_classes(), batch=8),
        Settings(tasks=(Weights(),), batch_size=8),
        runtime="litert",
    )
    trainer.fit(x, y, steps=60, keep="last")
    before, after = (
        {t.name: t.numpy() for t in m.subgraphs[0].tensors if t.is_constant and t.name.endswith("/filter")}
        for m in (load_model(boxes_and_classes()), trainer.export())
    )
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert moved == {"trunk/filter", "class/filter"}
