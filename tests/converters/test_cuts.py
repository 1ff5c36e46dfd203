"""Segments run one after another compute the same as the whole model."""

import itertools

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import inputs_of, run
from helpers.models import MODELS, lenet5, residual, small_cnn, two_inputs, two_outputs
from tflm_zo.converters import (
    ConversionError,
    Last,
    Model,
    extract_segment,
    load_model,
    possible_cuts,
    read_metadata,
    set_batch,
)

SMALL = ["small_cnn", "dense_per_tensor", "depth_multiplier", "logistic_head", "dense_after_4d",
         "autoencoder", "float_edges", "two_inputs", "two_outputs", "residual"]  # fmt: skip


def run_chained(model: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    metadata = read_metadata(model)
    outputs: dict[int, np.ndarray] = {}
    boundaries: list[np.ndarray] = []
    for k, segment in enumerate(metadata.segments):
        fed = []
        for port in segment.inputs:
            if port.role == "boundary":
                fed.append(boundaries[-1])
            elif port.role == "skip":
                assert port.index is not None
                fed.append(boundaries[port.index - 1])
            else:
                assert port.index is not None
                fed.append(inputs[port.index])
        values = run(extract_segment(model, k).to_bytes(), fed)
        for port, value in zip(segment.outputs, values, strict=True):
            if port.role == "boundary":
                boundaries.append(value)
            else:
                assert port.index is not None
                outputs[port.index] = value
    return [outputs[i] for i in range(len(outputs))]


def check(data: bytes, cuts: list[str], batch: int = 1) -> None:
    model = load_model(inject_all(data, trainable="none", loss="none", cuts=cuts, batch=batch).to_bytes())
    assert len(model.subgraphs) > len(cuts)
    whole = set_batch(load_model(data), batch).to_bytes()
    inputs = inputs_of(whole)
    for a, b in zip(run_chained(model, inputs), run(whole, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", slow_but(("dense_after_4d", "two_outputs", "two_inputs"), SMALL))
def test_all_cuts_into_two_to_four_segments(name: str) -> None:
    data = MODELS[name]()
    model = load_model(data)
    names = possible_cuts(model)
    assert names
    for count in (1, 2, 3):
        for cuts in itertools.combinations(names, count):
            check(data, list(cuts))


def test_all_cuts_of_lenet5() -> None:
    names = possible_cuts(load_model(lenet5()))
    assert names == ["conv1", "pool1", "conv2", "pool2", "flatten", "fc1", "fc2", "fc3"]
    check(lenet5(), list(reversed(names)), batch=2)


@pytest.mark.slow
def test_real_models(real_model: bytes) -> None:
    names = possible_cuts(load_model(real_model))
    for cuts in [names, *([name] for name in names[::3])]:
        check(real_model, cuts, batch=2)
        model = load_model(inject_all(real_model, cuts=cuts, batch=2).to_bytes())
        # Tensors that cross a cut inside of a residual block become cuts of their own.
        assert len(cuts) < len(model.subgraphs) <= len(names) + 1


def test_shortcuts_cross_a_cut_in_their_block() -> None:
    model = load_model(residual())
    metadata = read_metadata(inject_all(model, cuts=["block0/conv0", "block1/conv1"]))
    roles = [[(p.role, p.index) for p in s.inputs if p.role in ("boundary", "skip")] for s in metadata.segments]
    assert roles == [
        [],
        [("boundary", None)],  # the stem
        [("boundary", None), ("skip", 1)],  # block 0 from its second convolution on
        [("boundary", None)],
        [("boundary", None), ("skip", 3)],
    ]
    assert [metadata.entering(k) for k in range(5)] == [[], [1], [1, 2], [3], [3, 4]]


def test_what_cannot_be_a_boundary() -> None:
    for name, message in [
        ("image", "is an input"),
        ("softmax", "is an output"),
        ("conv1/filter", "is a constant"),
        ("conv3", "0 tensors are called so"),
    ]:
        with pytest.raises(ConversionError, match=f"`{name}`.*{message}"):
            inject_all(lenet5(), cuts=[name])
    with pytest.raises(ConversionError, match="twice"):
        inject_all(lenet5(), cuts=["fc1", "fc1"])
    model = load_model(lenet5())
    model.subgraphs[0].operators[0].outputs[0].name = "pool1"
    with pytest.raises(ConversionError, match="2 tensors are called so"):
        inject_all(model, cuts=["pool1"])
    assert "pool1" not in possible_cuts(model)
    model = load_model(two_outputs())
    model = set_batch(model, 2)
    next(t for t in model.subgraphs[0].all_tensors() if t.name == "flatten").shape = (1, 72)
    assert "flatten" not in possible_cuts(model)
    with pytest.raises(ConversionError, match=r"`flatten`.*has shape \[1, 72\], which does not divide"):
        inject_all(model, cuts=["flatten"], batch=2)


def test_cuts_on_different_branches() -> None:
    names = possible_cuts(load_model(two_inputs()))
    assert names == ["conv", "flatten", "fc_image", "fc_features", "match", "concat", "fc"]
    check(two_inputs(), ["fc_features", "match", "concat"], batch=2)
    # A boundary may cross a segment that does not read it.
    check(two_inputs(), ["fc_image", "match"], batch=2)
    metadata = read_metadata(inject_all(two_inputs(), cuts=["fc_image", "match"]))
    assert [metadata.entering(k) for k in range(3)] == [[], [1], [1, 2]]


def test_loss_lies_behind_every_cut() -> None:
    model = load_model(two_outputs())
    # The class logits stay before `detect` if the loss reads only its sigmoid.
    assert "detect" in possible_cuts(model, loss_output="sigmoid")
    classes = read_metadata(inject_all(model, cuts=["detect"])).segments
    assert [[p.role for p in s.outputs] for s in classes] == [
        ["boundary", "status"],  # `flatten`, which crosses the cut
        ["boundary"],
        ["output", "output", "loss", "status"],
    ]
    segments = read_metadata(inject_all(model, cuts=["detect"], loss_output=1)).segments
    assert [(p.role, p.name, p.index) for p in segments[0].outputs] == [
        ("output", "softmax", 0),
        ("boundary", None, None),
        ("status", None, None),
    ]


def test_segments_of_a_zo_model() -> None:
    zo = inject_all(lenet5(), cuts=["fc1", "pool1"], batch=3)
    entry = zo.find_metadata("tflm_zo")
    assert entry is not None
    model = load_model(zo.to_bytes())
    metadata = read_metadata(model)
    assert [g.name for g in model.subgraphs] == ["segment_0", "segment_1", "segment_2"]
    assert [s.key for s in model.signatures or ()] == ["segment_0", "segment_1", "segment_2"]
    roles = [([p.role for p in s.inputs], [p.role for p in s.outputs]) for s in metadata.segments]
    assert roles == [
        (["input", "command"], ["boundary", "status"]),
        (["boundary", "command"], ["boundary", "status"]),
        (["boundary", "label", "command"], ["output", "loss", "status"]),
    ]
    for graph, segment, signature in zip(model.subgraphs, metadata.segments, model.signatures or (), strict=True):
        assert len(graph.inputs) == len(segment.inputs)
        assert len(graph.outputs) == len(segment.outputs)
        assert [t for _, t in signature.inputs] == graph.inputs
        assert [t for _, t in signature.outputs] == graph.outputs
    assert [t for t, _ in (model.signatures or [])[1].inputs] == ["boundary", "zo_command"]
    assert [t.segment for t in metadata.trainable] == [0, 1, 1, 2, 2]
    assert [t.stream for t in metadata.trainable] == list(range(5))
    # Nothing is stored twice: the constants of the segments add up to those of the whole.
    whole = inject_all(lenet5(), batch=3)
    constants = sum(len(b.data) for b in whole.referenced_buffers()) - len(
        whole.find_metadata("tflm_zo").buffer.data  # type: ignore[union-attr]
    )
    assert sum(len(b.data) for b in zo.referenced_buffers()) - len(entry.buffer.data) == constants


def test_streams_do_not_depend_on_cuts() -> None:
    whole, cut = (read_metadata(inject_all(lenet5(), cuts=cuts)) for cuts in ((), ("conv2", "fc2")))
    for a, b in zip(whole.trainable, cut.trainable, strict=True):
        assert (a.name, a.stream, a.block) == (b.name, b.stream, b.block)
    assert whole.blocks == cut.blocks


def test_last_segment_without_trainable_layers_has_a_command_for_the_loss() -> None:
    model = inject_all(small_cnn(), cuts=["pool"], trainable="conv")
    first, last = read_metadata(model).segments
    assert [p.role for p in last.inputs] == ["boundary", "label", "command"]
    assert [p.role for p in last.outputs] == ["output", "loss"]
    loss = model.subgraphs[1].operators[-1]
    assert loss.inputs[2] is model.subgraphs[1].inputs[2]
    assert [p.role for p in first.outputs] == ["boundary", "status"]


def test_segments_without_trainable_layers_have_no_custom_operator() -> None:
    model = inject_all(lenet5(), cuts=["flatten"], trainable="fc*")
    assert all(not op.code.name.startswith("TFLM_ZO") for op in model.subgraphs[0].operators)
    data = extract_segment(model, 0).to_bytes()
    (boundary,) = run(data, inputs_of(data))
    assert boundary.shape == (1, 400)


def test_before_every_layer():
    """Cuts by "layers" at every possible place; names beside it are kept, and nothing is cut twice."""
    metadata = read_metadata(inject_all(lenet5(), cuts=["layers"]))
    assert [t.segment for t in metadata.trainable] == [0, 1, 2, 3, 4]
    same = read_metadata(inject_all(lenet5(), cuts=["layers", "fc1"]))
    assert len(same.segments) == 5
    with_nodes = read_metadata(inject_all(lenet5(), cuts=["layers"], nodes=Last(2)))
    assert [with_nodes.trainable[n.trainable].layer for n in with_nodes.nodes] == ["fc2", "fc3"]
    with pytest.raises(ConversionError, match="`nodes` must be at most 5 layers, which can carry nodes: conv1, conv2"):
        inject_all(lenet5(), nodes=Last(9))


def test_graphs_that_are_out_of_order() -> None:
    model = load_model(MODELS["logistic_head"]())
    squashing = next(op for op in model.subgraphs[0].operators if op.code.name == "LOGISTIC")
    squashing.inputs = []
    assert possible_cuts(model)

    model = load_model(MODELS["float_edges"]())
    graph = model.subgraphs[0]
    last = graph.producers()[graph.outputs[0]]
    assert last.code.name == "DEQUANTIZE"
    last.inputs = [graph.outputs[0]]
    with pytest.raises(ConversionError, match="is not computed before it is read"):
        possible_cuts(model)
