"""Metadata that was changed: read as it is, or refused in one sentence, by the one place that reads it."""

import copy
import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fuzz.files.metadata import changed
from helpers.examples import examples
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.models.node_networks import attention, other_operators, parts
from tflm_zo import NativeError
from tflm_zo.converters import (
    ConversionError,
    Last,
    Model,
    ResidualBlocks,
    ZoMetadata,
    export_model,
    initial_weights,
    load_model,
    read_metadata,
)
from tflm_zo.converters.metadata import ZoTail
from tflm_zo.converters.model import OperatorCode, Tensor
from tflm_zo.converters.model.schema import BuiltinOperator
from tflm_zo.runtime import load
from tflm_zo.training import Exact, Settings, Trainer
from tflm_zo.training.plan import node_layer

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "weights": ("residual", {"batch": 2}),
    "nodes": ("lenet5", {"batch": 2, "nodes": "auto", "headroom": 0}),
    "cuts": ("two_outputs", {"loss_output": 1, "cuts": "layers"}),
    "pixels": ("uint8_edges", {"nodes": "auto", "trainable": "nodes", "headroom": 0}),
    "autoencoder": ("autoencoder", {"update_bits": 8}),
    "tail": ("residual", {"batch": 2, "nodes": (), "tail": ResidualBlocks(2)}),
    "tail of other operators": ("other", {"batch": 2, "nodes": ("stem",), "tail": 3}),
    "parts": ("parts", {"batch": 2, "nodes": (), "tail": 4}),
    "attention": ("attention", {"batch": 2, "nodes": (), "tail": 6}),
}
SOURCES = {**MODELS, "other": other_operators, "parts": parts, "attention": attention}


@cache
def model_of(kind: str) -> bytes:
    name, chosen = KINDS[kind]
    return inject_all(SOURCES[name](), **chosen).to_bytes()


@cache
def content_of(kind: str) -> Any:
    return json.loads(read_metadata(load_model(model_of(kind))).to_json())


def with_content(kind: str, content: Any) -> Model:
    model = load_model(model_of(kind))
    entry = model.find_metadata("tflm_zo")
    assert entry is not None
    entry.buffer.data = json.dumps(content).encode()
    return model


def use(model: Model) -> None:
    metadata = read_metadata(model)
    assert ZoMetadata.from_json(metadata.to_json()) == metadata
    initial_weights(model)
    export_model(model)
    try:
        for nodes in metadata.nodes:
            node_layer(nodes)
        if metadata.tail is not None:
            lead_back(model, metadata.tail)
    except NativeError:
        return  # the C core says which sizes do not fit each other
    runtime = load(model, "litert")
    runtime.set_inputs(*(np.zeros(runtime.input_details(i)[0]) for i in range(len(metadata.original.inputs))))
    runtime.invoke(runtime.command(loss=False))
    runtime.status()


def lead_back(model: Model, tail: ZoTail) -> None:
    settings = Settings(tasks=(Exact(last=len(tail.layers)),), batch_size=4, learning_rate=1.0)
    shape, rng = model.subgraphs[0].inputs[0].shape, np.random.default_rng(3)
    x = rng.integers(-128, 128, (8, *shape[1:])).astype(np.int8)
    Trainer(model, settings, "litert").fit(x, np.arange(8) % 4, steps=2, keep="last")


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_read(kind: str) -> None:
    use(load_model(model_of(kind)))


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**32 - 1), st.integers(1, 3))
@example("nodes", 1, 1)
def test_mutants_are_refused_in_one_sentence_or_work(kind: str, seed: int, count: int) -> None:
    rng, content = Random(seed), copy.deepcopy(content_of(kind))
    for _ in range(count):
        content = changed(rng, content)
    try:
        use(with_content(kind, content))
    except ConversionError as error:
        assert "\n" not in str(error)
        assert "metadata" in str(error), error


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([kind for kind in KINDS if "tail" in kind]), st.integers(0, 2**32 - 1))
def test_of_a_changed_tail_the_place_is_named(kind: str, seed: int) -> None:
    """Names the place of the change, or works: the backward program is in the metadata, in no graph."""
    content = copy.deepcopy(content_of(kind))
    content["tail"] = changed(Random(seed), content["tail"])
    try:
        use(with_content(kind, content))
    except ConversionError as error:
        assert "\n" not in str(error) and "tail" in str(error)


def test_a_version_is_not_guessed() -> None:
    content = copy.deepcopy(content_of("weights"))
    del content["version"]
    with pytest.raises(ConversionError, match="is damaged: version: Field required"):
        read_metadata(with_content("weights", content))
    with pytest.raises(ConversionError, match="no ZO model"):
        read_metadata(load_model(MODELS["small_cnn"]()))


def nested(content: Any, path: str) -> tuple[Any, Any]:
    *parents, last = (int(p) if p.isdigit() else p for p in path.split("."))
    for key in parents:
        content = content[key]
    return content, last


TAIL, OTHER = "tail", "tail of other operators"


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("weights", "version", 2, "metadata of this ZO model has version 2, not 1"),
        ("weights", "batch", "2", "batch: Input should be a valid integer"),
        ("weights", "batch", True, "batch: Input should be a valid integer"),
        ("weights", "batch", 3, "does not begin with the batch 3|\\[2\\]"),
        ("weights", "command_words", 29, "command_words: 29 do not hold 8 queries"),
        ("weights", "command_words", 40, "command `zo_command` is INT32 \\[30\\]"),
        ("weights", "update_bits", 12, "update_bits"),
        ("weights", "loss.kind", "hinge", "loss.kind"),
        ("weights", "loss.scale", float("nan"), "loss.scale"),
        ("weights", "loss.output", 1, "loss.output: the model has no output 1"),
        ("weights", "loss", None, "of role label, not 0"),
        ("weights", "trainable.1.segment", 1, "trainable.1: its stream, block or segment does not exist"),
        ("weights", "trainable.0.stream", 1, "trainable.0: its stream"),
        ("weights", "trainable.0.size", 7, "trainable.0: shape, size, channels and inner"),
        ("weights", "trainable.0.name", "nowhere", "has not one int8 variable `nowhere`"),
        ("weights", "segments", [], "segments: .*at least 1"),
        ("weights", "segments.0.inputs.0.role", "boundary", "1 of role boundary, not 0"),
        ("weights", "segments.0.inputs.0.index", 4, "do not have the original inputs"),
        ("weights", "original.inputs", [], "do not have the original inputs"),
        ("nodes", "nodes.0.trainable", 9, "nodes.0: there is no trainable 9"),
        ("nodes", "nodes.0.node_segment", 99, "nodes.0: its segments are not in order"),
        ("nodes", "nodes.0.geometry.in_c", 2, "nodes.0.geometry: it is not that of a filter of 2400 weights"),
        ("nodes", "nodes.0.geometry.in_h", 4000, "what enters segment 1 is not in_h x in_w x in_c"),
        ("nodes", "nodes.0.geometry.nonsense", 1, "nodes.0.geometry: a field is missing or unknown"),
        ("nodes", "nodes.0.count", 3, "nodes.0.geometry: it is not that of 3 nodes"),
        ("nodes", "nodes.0.form", "sum", "nodes.0.form"),
        ("nodes", "nodes.0.head", True, "nodes.0.head: the loss does not read these nodes"),
        (TAIL, "tail.asked", "blocks", "tail.asked"),
        (TAIL, "tail.layers", [], "tail.layers: .*at least 1"),
        (TAIL, "tail.layers.2.trainable", 9, "tail.layers.2: there is no trainable 9"),
        (TAIL, "tail.layers.2.trainable", 2, "tail.layers.2: its segments are not in order"),
        (TAIL, "tail.layers.2.form", "mean", "tail.layers.2: the last layer alone is the head"),
        (TAIL, "tail.layers.0.input_segment", 2, "tail.layers.0: its segments are not in order"),
        (TAIL, "tail.of_layers", [], "tail.of_layers: these fields have other sizes"),
        (TAIL, "tail.of_layers.5", 7, "tail.of_layers: these fields have other sizes"),
        (TAIL, "tail.fields.1.count", 13, "tail.steps.0: its fields have not the sizes of its operator"),
        (TAIL, "tail.steps", [], "tail.fields.1: no step leads errors to it"),
        (TAIL, "tail.steps.0.kind", "softmax", "tail.steps.0.kind"),
        (TAIL, "tail.steps.0.source", 7, "tail.steps.0: its fields do not exist"),
        (TAIL, "tail.steps.0.target", -1, "tail.steps.0.target: Input should be greater"),
        (TAIL, "tail.steps.0.layer", 6, "tail.steps.0: its layer does not exist"),
        (TAIL, "tail.steps.0.layer", 4, "tail.steps.0: its fields have not the sizes of its operator"),
        (TAIL, "tail.steps.1.numbers.channels", 11, "tail.steps.1: its fields have not the sizes"),
        (TAIL, "tail.steps.1.numbers.k_h", None, "tail.steps.1.numbers.k_h: Input should be a valid integer"),
        (TAIL, "tail.steps.2.segment", 8, "tail.steps.2: its segment does not exist"),
        (TAIL, "tail.steps.2.segment", 1, "tail.steps.2: what enters segment 1 is not what it looks at"),
        (TAIL, "tail.steps.3.source", 4, "tail.steps.3: no errors are in its fields yet"),
        (TAIL, "tail.steps.4.target", 6, "tail.steps.4: its fields have not the sizes of its operator"),
        (TAIL, "tail.steps.7.source", 6, "tail.steps.7: no errors are in its fields yet"),
        (OTHER, "tail.steps.2.factors", [], "tail.steps.2: a number is missing or unknown"),
        (OTHER, "tail.steps.2.factors", [1.0] * 7, "tail.steps.2: its fields have not the sizes"),
        (OTHER, "tail.steps.2.factors.0", float("inf"), "tail.steps.2.factors.0: Input should be a finite"),
        (OTHER, "tail.steps.7.numbers.offset", -1, "tail.steps.7: its fields have not the sizes"),
        (OTHER, "tail.steps.7.numbers.pitch", 200, "tail.steps.7: its fields have not the sizes"),
        (OTHER, "tail.steps.8.numbers.blocks", 0, "tail.steps.8: its fields have not the sizes"),
        ("parts", "tail.steps.3.numbers.offset", 35, "tail.steps.3: its fields have not the sizes"),
        ("parts", "tail.steps.3.numbers.blocks", 3, "tail.steps.3: its fields have not the sizes"),
        ("parts", "tail.steps.3.numbers.low", 3, "tail.steps.3: a number is missing or unknown"),
        ("attention", "tail.steps.2.numbers.length", 5, "tail.steps.2: its fields have not the sizes"),
        ("attention", "tail.steps.2.factors", [1.0, 1.0], "tail.steps.2: its fields have not the sizes"),
        ("attention", "tail.steps.6.factors", [1.0] * 255, "tail.steps.6: its fields have not the sizes"),
        ("attention", "tail.steps.6.segment", None, "tail.steps.6: its segment does not exist"),
        ("attention", "tail.steps.12.numbers.other_length", 60, "tail.steps.12: its fields have not"),
        ("attention", "tail.steps.12.numbers.other_repeat", 7, "tail.steps.12: its fields have not"),
        ("attention", "tail.steps.12.numbers.zero_point", None, "tail.steps.12.numbers.zero_point: Input"),
    ],
)
def test_faults_are_named(kind: str, path: str, value: Any, said: str) -> None:
    content = copy.deepcopy(content_of(kind))
    parent, key = nested(content, path)
    parent[key] = value
    with pytest.raises(ConversionError, match=said):
        read_metadata(with_content(kind, content))


def test_models_of_removed_settings_are_refused() -> None:
    """Names the setting: weights that are trained in part, or read as 16 bits."""
    masked, wide = load_model(model_of("weights")), load_model(model_of("weights"))
    name = read_metadata(masked).trainable[0].name
    masked.subgraphs[0].tensors.append(Tensor.constant(f"{name}/zo_mask", np.zeros(1, np.int8)))
    wide.subgraphs[0].operators[-1].code = OperatorCode.of_custom("TFLM_ZO_FULLY_CONNECTED_16")
    for setting, model in (("sparse", masked), ("int16", wide)):
        with pytest.raises(ConversionError, match=f"made with setting `{setting}`, which this version does not have"):
            read_metadata(load_model(model.to_bytes()))


def test_filters_of_another_operator() -> None:
    model = load_model(model_of("weights"))
    op = next(op for op in model.subgraphs[0].operators if op.code.name == "CONV_2D")
    op.code = OperatorCode(BuiltinOperator.DEPTHWISE_CONV_2D)
    weights = op.inputs[1]
    assert weights is not None
    said = f"filter `{weights.name}` is that of a DEPTHWISE_CONV_2D, not of a CONV_2D"
    with pytest.raises(ConversionError, match=said):
        read_metadata(model)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"version":1}', b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ConversionError, match="is damaged"):
        ZoMetadata.from_json(text)


def variable_of(model: Model) -> Tensor:
    return next(t for t in model.subgraphs[0].tensors if t.name == "stem/filter")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.subgraphs.append(m.copy().subgraphs[0]), "it has 2 subgraphs, not 1"),
        (lambda m: m.subgraphs[0].outputs.pop(), "segment 0 has 2 inputs or outputs, not 3"),
        (lambda m: m.subgraphs[0].tensors.clear(), "initial weights of its filters"),
        (lambda m: setattr(variable_of(m), "is_variable", False), "has not one int8 variable `stem/filter`"),
        (lambda m: setattr(m.subgraphs[0].inputs[0], "type", 5), "input `.*` is STRING"),
        (
            lambda m: m.subgraphs[0].outputs.__setitem__(0, m.subgraphs[0].inputs[-1]),
            "output `zo_command` has not . values per sample",
        ),
    ],
)
def test_a_graph_that_is_another_is_refused(change: Callable[[Model], Any], said: str) -> None:
    model = load_model(model_of("weights"))
    change(model)
    for read in (read_metadata, export_model, initial_weights):
        with pytest.raises(ConversionError, match=f"does not fit its metadata: .*{said}"):
            read(model)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"lenet5"}))
@pytest.mark.parametrize(
    "given",
    [
        {"batch": 2},
        {"cuts": "layers", "update_bits": 8},
        {"nodes": Last(1), "batch": 3},
        {"trainable": "none"},
        {"headroom": 0, "replay": False},
        {"trainable": "none", "loss": "none"},
        {"cuts": "layers", "loss": "none"},
        {"loss": "mse"},
        {"loss": "binary_cross_entropy"},
    ],
    ids=str,
)
def test_what_inject_writes_is_read(name: str, given: dict[str, Any]) -> None:
    try:
        model = inject_all(MODELS[name](), **given)
    except ConversionError:
        return  # inject's refusals have tests of their own
    assert read_metadata(load_model(model.to_bytes())) == read_metadata(model)


def test_names_of_a_file_do_not_break_a_message() -> None:
    with pytest.raises(ConversionError) as error:
        raise ConversionError("operator `line\nbreak`, `\x1b[31m`, `\udcff` is unknown")
    assert str(error.value) == "operator `line break`, `\ufffd[31m`, `\ufffd` is unknown"
