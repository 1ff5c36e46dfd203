"""Every setting of the rewriter, in contexts: it changes the graph, or it is refused."""

import dataclasses
from typing import Any

import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import ConversionError, InjectSettings, Last, read_metadata

# Another value of each setting. Contexts that have it already are skipped.
OTHER: dict[str, Any] = {
    "trainable": Last(1),
    "blocks": {"one": "*"},
    "headroom": 3,
    "update_bits": 8,
    "max_queries": 4,
    "batch": 2,
    "export_batch": 3,
    "signature": "other",
    "loss": "mse",
    "loss_output": 1,
    "loss_over": "largest",
    "cuts": ("layers",),
    "nodes": Last(1),
    "parameters": "biases",
    "tail": 2,
    "command_words": 200,
    "multipliers": "quantization-aware",
    "replay": False,  # if nothing is trained, which has no replay anyway: True
    "algorithm": "weight",
}
# For training or export, not for the graph.
OF_METADATA = {"export_batch", "algorithm"}
# Refused in contexts without weights that are trained.
OF_WEIGHTS = {
    "blocks",
    "headroom",
    "update_bits",
    "multipliers",
    "replay",
    "nodes",
    "parameters",
    "tail",
}

# Name: model, settings, refused settings, and settings that another name changes in the same way.
CONTEXTS: dict[str, tuple[str, dict[str, Any], set[str], set[str]]] = {
    "usual": ("small_cnn", {}, {"loss_output"}, set()),
    "two outputs": ("two_outputs", {}, set(), set()),
    "8 bits": ("small_cnn", {"update_bits": 8}, {"loss_output"}, set()),
    "multipliers": ("small_cnn", {"multipliers": "quantization-aware"}, {"loss_output"}, set()),
    "nodes": (
        "lenet5",
        {"nodes": ("conv2",), "batch": 2},
        {"loss_output", "trainable"},  # the last layer alone is not the one with nodes
        set(),
    ),
    "defaults of inject": (
        "lenet5",
        {"trainable": "nodes", "nodes": "auto", "headroom": 0, "algorithm": "node"},
        {"loss_output"},
        {"cuts", "tail"},  # nodes cut before every layer, and dense layers at the end have them
    ),
    "without weights": ("small_cnn", {"trainable": "none"}, OF_WEIGHTS | {"loss_output", "cuts"}, set()),
    "without a loss": ("small_cnn", {"loss": "none"}, {"loss_output", "nodes", "tail"}, set()),
    "to look at": (
        "small_cnn",
        {"trainable": "none", "loss": "none"},
        OF_WEIGHTS | {"loss_output", "cuts"},
        {"max_queries", "command_words"},  # no command is left
    ),
}


def outcome(model: str, settings: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    zo = inject_all(MODELS[model](), **settings)
    metadata = read_metadata(zo)
    zo.metadata = None
    return zo.to_bytes(), {"export_batch": metadata.original.batch, "algorithm": metadata.algorithm}


def test_every_setting_is_in_the_table() -> None:
    assert set(OTHER) == {field.name for field in dataclasses.fields(InjectSettings)}


@pytest.mark.parametrize("context", CONTEXTS)
def test_it_acts_or_is_refused(context: str) -> None:
    model, given, refused, inert = CONTEXTS[context]
    graph, others = outcome(model, given)
    found_refused, found_inert = set(), set()
    for name, value in OTHER.items():
        if name == "replay":
            value = given.get("trainable") == "none"
        if given.get(name) == value:
            continue
        try:
            new_graph, new_others = outcome(model, {**given, name: value})
        except ConversionError:
            found_refused.add(name)
            continue
        if name in OF_METADATA:
            assert new_others == {**others, name: value}
        elif new_graph == graph:
            found_inert.add(name)
    # They have one subgraph and no states.
    assert (found_refused, found_inert) == (refused | {"signature", "loss_over"}, inert)
