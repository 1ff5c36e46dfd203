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


def refused(name: str, damage: Damage, reason: str) -> None:
    model = load_model(SINGLE_OPERATORS[name])
    check_graph(model.subgraphs[0])
    damage(model.subgraphs[0].operators[0])
    with pytest.raises(ConversionError, match=f"{name} `y`: .*{reason}"):
        check_graph(model.subgraphs[0])


@pytest.mark.parametrize(("damage", "reason"), SVDF)
def test_svdf_is_refused(damage: Damage, reason: str) -> None:
    refused("SVDF", damage, reason)


@pytest.mark.parametrize(("name", "count"), [("SVDF", 2 * 8 + 2 * 4)])
def test_products_are_counted(name: str, count: int) -> None:
    batch = set_batch(load_model(SINGLE_OPERATORS[name]), 3)
    assert macs(batch.subgraphs[0].operators[0]) == 3 * count


@pytest.mark.parametrize("name", ["SVDF"])
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
