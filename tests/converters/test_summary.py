# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A model says what it is: on a line."""

from __future__ import annotations

import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo import load_model


@pytest.mark.parametrize("name", sorted(MODELS))
def test_repr_fits_on_a_line(name: str) -> None:
    plain = load_model(MODELS[name]())
    for model in (plain, inject_all(plain)):
        assert len(repr(model)) < 200
        graph = model.subgraphs[0]
        for part in (graph, graph.operators[0].code, graph.inputs[0], graph.outputs[0]):
            assert len(repr(part)) < 1000
    operators = sum(len(graph.operators) for graph in plain.subgraphs)
    assert repr(plain).startswith(f"<Model: {operators} operators, ")


def test_repr_says_inputs_and_outputs() -> None:
    small = repr(load_model(MODELS["small_cnn"]()))
    assert small.endswith(", 1x8x8x1 INT8 -> 1x4 INT8>")
