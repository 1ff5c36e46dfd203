# SPDX-License-Identifier: Apache-2.0
"""What stands in the graph of a model."""

from __future__ import annotations

from tflm_zo.converters import Model, load_model
from tflm_zo.converters.model import Operator, Tensor


def reload(model: Model) -> Model:
    return load_model(model.to_bytes())


def kinds(model: Model, k: int = 0) -> list[str]:
    return [op.code.name for op in model.subgraphs[k].operators]


def find(model: Model, name: str, k: int = 0) -> Tensor:
    found = [t for t in model.subgraphs[k].all_tensors() if t.name == name]
    assert len(found) == 1, name
    return found[0]


def operator(model: Model, kind: str, k: int = 0) -> Operator:
    return next(op for op in model.subgraphs[k].operators if op.code.name == kind)
