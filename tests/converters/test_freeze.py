"""Segments with frozen layers: trainable layers move by the same bits as in the whole ZO model."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.models import MODELS, residual
from tflm_zo.converters import Model, extract_segment, initial_weights, load_model, read_metadata
from tflm_zo.converters.constants import STATUS
from tflm_zo.converters.model.schema import DTYPES
from tflm_zo.converters.segments import freeze, trained_in_segment
from tflm_zo.core import Command, Directory, Rademacher
from tflm_zo.runtime.litert import InterpreterEngine, LiteRTRuntime

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one segment": ("small_cnn", {}),
    "8 bits, layers apart": ("small_cnn", {"update_bits": 8, "cuts": "layers"}),
    "biases, too": ("residual", {"parameters": "all", "nodes": "*"}),
    "biases alone": ("residual", {"parameters": "biases", "cuts": "layers"}),
    "multipliers": ("small_cnn", {"multipliers": "quantization-aware"}),
}


@cache
def zo_model(case: str) -> Model:
    network, given = CASES[case]
    original = residual(channels=1, classes=4) if network == "residual" else MODELS[network]()
    return load_model(inject_all(original, **given).to_bytes())


class Segment:
    def __init__(self, model: Model, tensors: int) -> None:
        self.model, self.directory = load_model(model.to_bytes()), Directory(max(tensors, 1))
        self._engine = InterpreterEngine(LiteRTRuntime.import_module(), model.to_bytes(), self.directory)

    def run(self, command: np.ndarray) -> list[np.ndarray]:
        """Returns all outputs for noise, except the status."""
        graph, rng = self.model.subgraphs[0], np.random.default_rng(5)
        for i, tensor in enumerate(graph.inputs):
            shape, dtype = tensor.shape, np.dtype(DTYPES[tensor.type])
            value = np.zeros(shape, dtype) if dtype == np.int32 else rng.integers(-128, 128, shape, dtype)
            self._engine.set_input(i, command if tensor.name == "zo_command" else value)
        self._engine.invoke()
        return [self._engine.get_output(i) for i, t in enumerate(graph.outputs) if t.name != STATUS]


def variable_bytes(model: Model) -> int:
    return sum(t.size for t in model.subgraphs[0].tensors if t.is_variable)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10)  # an interpreter or two for each segment
@given(data=st.data())
def test_what_is_left_moves_alike(case: str, data: st.DataObject) -> None:
    model = zo_model(case)
    metadata, values = read_metadata(model), initial_weights(model)
    tensors = range(len(metadata.trainable))
    trained = data.draw(st.sets(st.sampled_from(tensors)))
    seed = data.draw(st.integers(0, 2**32 - 1))
    plain = Command(metadata.command_words).words
    moving = Command(metadata.command_words).update([(seed ^ 5, 70000)], Rademacher(1))
    frozen = freeze(model, trained)
    assert len(frozen) == len(metadata.segments)
    for k, own in enumerate(frozen):
        of_segment = [i for i in tensors if metadata.trainable[i].segment == k]
        left = trained_in_segment(metadata, k, trained)
        assert left == sorted(trained & set(of_segment))
        whole = Segment(extract_segment(model, k), len(of_segment))
        part = Segment(own, len(left))
        for one, other in zip(whole.run(plain), part.run(plain), strict=True):
            np.testing.assert_array_equal(one, other)
        constants = {t.name: t for t in part.model.subgraphs[0].tensors if t.is_constant}
        for i in set(of_segment) - set(left):
            name = metadata.trainable[i].name
            np.testing.assert_array_equal(constants[name].numpy(), values[name])
        if len(left) < len(of_segment):
            assert variable_bytes(part.model) < variable_bytes(whole.model)
        if not left:
            assert not any(op.code.name.startswith("TFLM_ZO_") for op in own.subgraphs[0].operators[:-1])
            continue
        for segment in (whole, part):
            segment.run(moving.words)
        for i in left:
            pairs = zip(whole.directory.find(i), part.directory.find(i), strict=True)
            moved = [one for one, _ in pairs]
            for one, other in zip(whole.directory.find(i), part.directory.find(i), strict=True):
                if one is None or other is None:
                    assert one is other
                else:
                    np.testing.assert_array_equal(one, other)
            before = values[metadata.trainable[i].name].reshape(-1).view(np.int8)
            assert moved[0] is not None and moved[0].size == before.size
