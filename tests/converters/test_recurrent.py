"""Operators with a state: files that TFLM's kernels refuse or misread are refused by name, and samples stay apart."""

from collections.abc import Callable

import numpy as np
import pytest

from helpers.interpreters import run_frames
from helpers.models.single_operators import SINGLE_OPERATORS
from tflm_zo.converters import ConversionError, load_model, set_batch
from tflm_zo.converters.check_graph import check_graph
from tflm_zo.converters.kernels import macs
from tflm_zo.converters.model import Operator, Tensor
from tflm_zo.converters.model.schema import TensorType

Damage = Callable[[Operator], None]


def tensor(op: Operator, index: int) -> Tensor:
    found = op.inputs[index]
    assert found is not None
    return found


def is_no_variable(index: int) -> Damage:
    return lambda op: setattr(tensor(op, index), "is_variable", False)


def has_type(index: int, name: str) -> Damage:
    return lambda op: setattr(tensor(op, index), "type", getattr(TensorType, name))


def has_shape(index: int, *shape: int) -> Damage:
    return lambda op: setattr(tensor(op, index), "shape", shape)


def has_option(name: str, value: object) -> Damage:
    return lambda op: setattr(op.options, name, value)


def has_scales(index: int, *scales: float) -> Damage:
    def damage(op: Operator) -> None:
        given = tensor(op, index).quantization
        assert given is not None
        given.scales = np.array(scales, np.float32)
        given.zero_points = np.zeros(len(scales), np.int64)

    return damage


def has_inputs(index: int, other: int | None) -> Damage:
    def damage(op: Operator) -> None:
        op.inputs[index] = None if other is None else op.inputs[other]

    return damage


SVDF: list[tuple[Damage, str]] = [
    (is_no_variable(4), "state `state` is not a variable"),
    (has_type(4, "INT16"), "its weights of time are INT8 and its state is INT16"),
    (has_type(0, "FLOAT32"), "it computes in float"),
    (has_type(4, "FLOAT32"), "it computes in float"),
    (has_inputs(3, None), "takes 5 to 5 inputs"),
    (has_option("rank", 0), "its rank must be at least 1"),
    (has_option("rank", 3), "do not fit its rank"),
    (has_shape(4, 1, 7), "do not fit its rank"),
    (has_shape(4, 8), "must have two dimensions"),
    (has_scales(1, 0.01, 0.02), r"has no \(single, positive\) scale"),
    (has_scales(3, 0.1), "must have the product of the scales of state and weights of time"),
    (has_scales(0, 1e30), "its scales differ too much"),
]

LSTM: list[tuple[Damage, str]] = [
    (has_inputs(9, 12), "it has peepholes"),
    (has_inputs(17, 12), "it has a projection"),
    (has_inputs(20, 12), "it has layer norms"),
    (has_inputs(1, None), "takes 24 to 24 inputs"),
    (has_type(0, "FLOAT32"), "it computes in float"),
    (has_type(0, "INT16"), "is INT16, TFLM takes INT8"),
    (has_type(19, "INT8"), "is INT8, TFLM takes INT16"),
    (has_option("fusedActivationFunction", 1), "its activation must be tanh"),
    (has_option("cellClip", -1.0), "its cellClip must be at least 0"),
    (has_option("timeMajor", True), "shapes do not fit"),
    (has_shape(0, 1, 12), "TFLM takes 3 to 3 dimensions"),
    (has_shape(5, 2, 3), "shapes do not fit"),
    (has_shape(12, 1, 2), "shapes do not fit"),
    (has_shape(18, 1, 3), "shapes do not fit"),
    (is_no_variable(18), "state `state` is not a variable"),
    (has_scales(3, 0.01, 0.02), r"has no \(single, positive\) scale"),
    (has_scales(18, 0.1), "its output must have scale and zero point of state"),
    (has_scales(19, 0.001), "it must be a power of 2 up to 1"),
    (has_scales(0, 1e30), "its scales differ too much"),
]


def refused(name: str, damage: Damage, reason: str) -> None:
    model = load_model(SINGLE_OPERATORS[name])
    check_graph(model.subgraphs[0])
    damage(model.subgraphs[0].operators[0])
    with pytest.raises(ConversionError, match=f"{name} `y`: .*{reason}"):
        check_graph(model.subgraphs[0])


@pytest.mark.parametrize(("damage", "reason"), SVDF)
def test_svdf_is_refused(damage: Damage, reason: str) -> None:
    refused("SVDF", damage, reason)


@pytest.mark.parametrize(("damage", "reason"), LSTM)
def test_lstm_is_refused(damage: Damage, reason: str) -> None:
    refused("UNIDIRECTIONAL_SEQUENCE_LSTM", damage, reason)


@pytest.mark.parametrize(
    ("name", "count"), [("SVDF", 2 * 8 + 2 * 4), ("UNIDIRECTIONAL_SEQUENCE_LSTM", 4 * 4 * 2 * (3 + 2))]
)
def test_products_are_counted(name: str, count: int) -> None:
    batch = set_batch(load_model(SINGLE_OPERATORS[name]), 3)
    assert macs(batch.subgraphs[0].operators[0]) == 3 * count


@pytest.mark.parametrize("name", ["SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
def test_samples_of_a_batch_have_their_own_state(name: str) -> None:
    model = load_model(SINGLE_OPERATORS[name])
    shape = model.subgraphs[0].inputs[0].shape
    batch = set_batch(model, 3).to_bytes()
    x = np.random.default_rng(0).integers(-128, 128, (6, 3, *shape[1:])).astype(np.int8)
    for runtime in ("tflm", "litert"):
        together = np.concatenate([y for (y,) in run_frames(batch, runtime, [[frame] for frame in x])], 0)
        for k in range(3):
            alone = run_frames(model.to_bytes(), runtime, [[frame[k : k + 1]] for frame in x])
            np.testing.assert_array_equal(np.concatenate([y for (y,) in alone], 0), together[k::3])


def test_steps_that_come_first_are_not_a_batch() -> None:
    model = load_model(SINGLE_OPERATORS["UNIDIRECTIONAL_SEQUENCE_LSTM"])
    has_option("timeMajor", True)(model.subgraphs[0].operators[0])
    with pytest.raises(ConversionError, match="its first axis counts steps"):
        set_batch(model, 3)
