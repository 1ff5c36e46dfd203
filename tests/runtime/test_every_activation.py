"""Every activation of every model: LiteRT, with each kernel set, and constant or changeable filters, and TFLM."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.examples import REAL_MODELS
from helpers.graphs import with_filters_as_inputs
from helpers.interpreters import KERNELS, random_inputs, require, run_plain
from helpers.models import MODELS
from tflm_zo import exact_delegate, load_model
from tflm_zo.converters import Model, set_batch
from tflm_zo.converters.model.schema import DTYPES, TensorType

BATCH = 20
ALL_MODELS = [pytest.param(make, id=name) for name, make in MODELS.items()] + REAL_MODELS


def possible_kernels() -> list[str]:
    """Lists the kernel sets that this machine can run."""
    found = []
    for name in KERNELS:
        try:
            exact_delegate(kernels=name)
        except ValueError:
            continue
        found.append(name)
    return found


def with_every_output(data: bytes) -> Model:
    model = set_batch(load_model(data), BATCH)
    graph = model.subgraphs[0]
    graph.outputs = [tensor for op in graph.operators for tensor in op.outputs]
    model.signatures = None
    return model


def with_saturating_biases(model: Model) -> Model:
    """Copies a model with the ends of int32 as biases, every other one of each kind, so that sums wrap."""
    result = model.copy()
    for op in result.subgraphs[0].operators:
        if op.code.name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") and len(op.inputs) > 2:
            bias = op.inputs[2]
            if bias is not None and bias.type == TensorType.INT32:
                ends = np.array([2**31 - 1, -(2**31)], np.int32)
                bias.set_data(np.resize(ends, bias.shape))
    return result


def extreme_inputs(graph: Any, number: int) -> list[NDArray[Any]]:
    """Yields inputs all low, all high, or each value one of the two ends."""
    rng = np.random.default_rng(number)
    result = []
    for tensor in graph.inputs:
        dtype = np.dtype(DTYPES[tensor.type])
        ends = (
            np.array([-1e3, 1e3], dtype)
            if dtype.kind == "f"
            else np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        )
        chosen = rng.integers(0, 2, tensor.shape)
        chosen[0], chosen[1] = 0, 1
        result.append(ends[chosen])
    return result


def check(model: Model, random: int, extreme: int) -> None:
    """Compares all outputs for so many batches of each kind."""
    data, graph = model.to_bytes(), model.subgraphs[0]
    shapes = [(t.shape, DTYPES[t.type]) for t in graph.inputs]
    batches = [random_inputs(shapes, i) for i in range(random)] + [extreme_inputs(graph, i) for i in range(extreme)]
    changeable, filters = with_filters_as_inputs(model)
    for inputs in batches:
        expected = run_plain(data, "tflm", inputs)
        for kernels in possible_kernels():
            for own, given in ((data, inputs), (changeable.to_bytes(), inputs + filters)):
                found = run_plain(own, "litert", given, kernels)
                for tensor, a, b in zip(graph.outputs, found, expected, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=f"{kernels}, {len(given)} inputs: {tensor.name}")


@pytest.mark.parametrize(("random", "extreme"), [(1, 1), pytest.param(50, 5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", ALL_MODELS)
def test_every_activation(make: Any, random: int, extreme: int) -> None:
    require("tflm")
    check(with_every_output(make()), random, extreme)


@pytest.mark.slow
@pytest.mark.parametrize("make", ALL_MODELS)
def test_saturating_biases(make: Any) -> None:
    require("tflm")
    check(with_saturating_biases(with_every_output(make())), 2, 2)
