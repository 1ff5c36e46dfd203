"""A model and its parts have short names for messages and debuggers."""

import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo import load_model


@pytest.mark.parametrize("name", sorted(MODELS))
def test_repr_fits_on_a_line(name: str) -> None:
    """None of its parts shows its data."""
    plain = load_model(MODELS[name]())
    for model in (plain, load_model(inject_all(plain).to_bytes())):
        assert len(repr(model)) < 200
        graph = model.subgraphs[0]
        parts = [graph, *graph.tensors, *graph.operators, *(model.signatures or ()), *(model.metadata or ())]
        parts += [t.buffer for t in graph.tensors]
        parts += [q for t in graph.tensors if (q := t.quantization) is None or not q.is_per_channel]
        for part in [*parts, *(op.code for op in graph.operators)]:
            assert len(repr(part)) < 500, type(part)
    operators = sum(len(graph.operators) for graph in plain.subgraphs)
    assert repr(plain).startswith(f"<Model: {operators} operators, ")


def test_repr_says_inputs_and_outputs() -> None:
    small = repr(load_model(MODELS["small_cnn"]()))
    assert small.endswith(", 1x8x8x1 INT8 -> 1x4 INT8>")
