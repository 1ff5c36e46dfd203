# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Metadata that are whole, and do not fit the model that they are in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tflm_zo.converters import ConversionError, Model, load_model, read_metadata
from tflm_zo.converters.model.schema import TensorType

from models import MODELS
from tflm_zo import inject
from tflm_zo.runtime import ModelError, load

CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a segment less": (lambda m: m["segments"].pop(), "they describe 2 segments, the model has 3 subgraphs"),
    "no segment": (lambda m: m["segments"].clear(), "they describe 0 segments"),
    "an input less": (lambda m: m["segments"][1]["inputs"].pop(), "they describe [01] inputs of segment 1"),
    "another role": (lambda m: m["segments"][0]["inputs"][0].update(role="loss"), "other roles than"),
    "a role twice": (
        lambda m: m["segments"][2]["inputs"][1].update(role="boundary"),
        "have the role boundary",
    ),
    "no boundary": (lambda m: m["segments"][2]["inputs"][0].update(role="input", index=0), "boundary"),
    "no label": (lambda m: m.update(loss=None), "label|loss"),
    "numbers from 1": (
        lambda m: m["segments"][0]["inputs"][0].update(index=1),
        "an original input is missing",
    ),
    "words": (lambda m: m.update(command_words=29), "has not 29 words"),
    "batch": (lambda m: m.update(batch=3), "is not of batch 3"),
    "batch of 0": (lambda m: m.update(batch=0), "batch is 0"),
    "labels": (lambda m: m["loss"].update(kind="mse"), "labels of loss mse are 2 x 4"),
    "no scale": (lambda m: m["loss"].update(scale=0.0), "the loss has no scale"),
    "stream": (lambda m: m["trainable"][0].update(stream=80), "has stream 80, not 0"),
    "segment": (lambda m: m["trainable"][0].update(segment=4), "in segment 4, which there is not"),
    "another's segment": (lambda m: m["trainable"][0].update(segment=1), "segment 1 has no filter"),
    "block": (lambda m: m["trainable"][0].update(block=-1), "in a block that there is not"),
    "name": (lambda m: m["trainable"][0].update(name="x"), "has no filter «x»"),
    "shape": (lambda m: m["trainable"][0].update(shape=[4, 3, 3, 2]), "is not int8"),
    "size": (lambda m: m["trainable"][0].update(size=37), "is not int8 .* of 37 weights"),
    "channels": (lambda m: m["trainable"][0].update(channels=5), "channels of"),
    "inner": (lambda m: m["trainable"][0].update(inner=0), "channels of"),
    "updated": (lambda m: m["trainable"][0].update(updated=99), "has not 99 weights to train"),
    "nodes of no filter": (lambda m: m["nodes"][0].update(trainable=2), "nodes belong to no filter"),
    "form": (lambda m: m["nodes"][0].update(form="min_pool"), "a form that is none of"),
    "order": (lambda m: m["nodes"][0].update(output_segment=3), "in the wrong segments"),
    "count": (lambda m: m["nodes"][0].update(count=1), "is not that of its tensors"),
    "field": (lambda m: m["nodes"][0]["geometry"].update(a=1), "has not the fields"),
    "no field": (lambda m: m["nodes"][0]["geometry"].pop("in_h"), "has not the fields"),
    "size of 0": (lambda m: m["nodes"][0]["geometry"].update(in_h=0), "has a size of 0"),
    "geometry": (lambda m: m["nodes"][0]["geometry"].update(out_c=3), "is not that of its tensors"),
}


def zo_model() -> Model:
    return inject(MODELS["small_cnn"](), nodes="auto", head_room=0, replay=False, batch=2)


@pytest.mark.parametrize("name", CHANGES)
def test_refused(name: str) -> None:
    change, message = CHANGES[name]
    model = zo_model()
    entry = model.find_metadata("tflm_zo")
    assert entry is not None
    content = json.loads(entry.buffer.data)
    change(content)
    entry.buffer.data = json.dumps(content).encode()
    with pytest.raises(ConversionError, match=message) as error:
        read_metadata(model)
    assert "\n" not in str(error.value) and str(error.value).endswith("inject the original model again")
    with pytest.raises(ModelError, match=message):
        load(model, "litert-ref")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "settings",
    [
        {"batch": 2},
        {"cuts": "layers", "update_bits": 8, "sparse": "top-k:0.5"},
        {"nodes": "auto", "head_room": 0, "trainable": "nodes"},
        {"nodes": "last:1", "wide": "last", "batch": 3},
        {"trainable": "none", "head_room": 0, "replay": False},
        {"cuts": "layers", "loss": "none"},
        {"loss": "mse"},
        {"loss": "binary_cross_entropy"},
    ],
    ids=str,
)
def test_what_inject_writes_fits(name: str, settings: dict[str, Any]) -> None:
    try:
        model = inject(MODELS[name](), **settings)
    except ConversionError:
        return  # no such model; what inject refuses has tests of its own
    assert read_metadata(load_model(model.to_bytes())) == read_metadata(model)


def test_a_model_that_the_runtime_does_not_take() -> None:
    """Its own words, in one line."""
    model = inject(MODELS["small_cnn"]())
    pool = next(op for op in model.subgraphs[0].operators if op.code.name == "MAX_POOL_2D")
    pool.outputs[0].type = TensorType.FLOAT32
    with pytest.raises(ModelError, match="litert-ref does not take the model: .*MAX_POOL_2D") as error:
        load(model, "litert-ref")
    assert "\n" not in str(error.value)


def test_operators_that_do_not_say_where_the_weights_are() -> None:
    """The streams of the filters are in their options, 12 bytes each from byte 8 on (zo_node.h)."""
    model = inject(MODELS["small_cnn"](), replay=False)
    for op in model.subgraphs[0].operators:
        if op.code.name in ("TFLM_ZO_UPDATE", "TFLM_ZO_PERTURB"):
            options = bytearray(op.custom_options or b"")
            assert options[8:10] == b"\0\0"
            options[8] = 9
            op.custom_options = bytes(options)
    with pytest.raises(ModelError, match="do not say where weights 0 are"):
        load(model, "litert-ref")
