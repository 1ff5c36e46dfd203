# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The parts of a model have short names for messages and debuggers: none of them shows data."""

from __future__ import annotations

import dataclasses

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import load_model


def test_no_part_of_a_model_shows_its_data() -> None:
    model = load_model(inject_all(MODELS["lenet5"](), nodes="*").to_bytes())
    graph = model.subgraphs[0]
    parts = [
        model,
        graph,
        *graph.tensors,
        *graph.operators,
        *(model.signatures or ()),
        *(model.metadata or ()),
    ]
    parts += [t.buffer for t in graph.tensors] + [t.quantization for t in graph.tensors]
    parts += [op.code for op in graph.operators]
    assert any(dataclasses.is_dataclass(part) for part in parts)
    for part in parts:
        assert len(repr(part)) < 500, type(part)
