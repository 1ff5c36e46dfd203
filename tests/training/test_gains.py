"""Factors of steps, against the plain model's scales by the formulas of Poor Man's Training."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo import load_model
from tflm_zo.converters import read_metadata
from tflm_zo.training import Nodes, Settings, Weights
from tflm_zo.training.gains import task_gain
from tflm_zo.training.plan import LoweredTask, weight_task
from tflm_zo.training.plan import node_task as lowered
from tflm_zo.training.rules import Gradient

PLAIN = load_model(MODELS["small_cnn"]())
ZO = inject_all(MODELS["small_cnn"](), nodes="*")
METADATA = read_metadata(ZO)


def settings(*, estimator: Any = "antithetic", **factors: bool) -> Settings:
    nodes = Nodes(rule=Gradient(**factors), perturbation=2)
    weights = Weights(rule=Gradient(**factors), scope="layers")
    return Settings(tasks=(nodes, weights), batch_size=6, estimator=estimator)


def node_task(number: int, queries: int) -> LoweredTask:
    nodes = METADATA.nodes[number]
    return lowered(nodes, (nodes.trainable,), METADATA, queries)


def factors(task: LoweredTask, given: Any) -> list[Any]:
    """Returns the factors of a gradient estimate, for each tensor's channels."""
    made = task_gain(task, given, given.batch_size, ZO, METADATA)
    whole = made.gain.mantissa * 2.0**made.gain.exponent
    found = []
    for i, multiplier in zip(task.tensors, made.multipliers, strict=True):
        channels = METADATA.trainable[i].channels
        found.append(whole * (np.ones(channels) if multiplier is None else multiplier / 2.0**31))
    return found


def filter_scales(trainable: int) -> Any:
    """Returns filter scales of the ZO model: headroom changes them."""
    t = METADATA.trainable[trainable]
    tensors = ZO.subgraphs[t.segment].all_tensors()
    tensor = next(x for x in tensors if x.name == t.name and x.is_variable)
    assert tensor.quantization is not None
    return np.broadcast_to(np.asarray(tensor.quantization.scales, np.float64), t.channels)


def entering_and_leaving(trainable: int) -> tuple[float, float]:
    """Scales of a layer's input and of its output in the plain model."""
    name = METADATA.trainable[trainable].name
    (layer,) = (op for op in PLAIN.subgraphs[0].operators if any(x is not None and x.name == name for x in op.inputs))
    entering, leaving = layer.inputs[0], layer.outputs[0]
    assert entering is not None and entering.quantization is not None and leaving.quantization is not None
    return float(entering.quantization.scales[0]), float(leaving.quantization.scales[0])


@pytest.mark.parametrize("estimator, sides", [("antithetic", 2), ("one-sided", 1)])
@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_nodes(estimator: str, sides: int, aware: bool, norm: bool) -> None:
    """Compares dL/dw = dL/dy s s_a / s_y, a mean over samples, queries and sides of perturbations of mu LSB."""
    given = settings(estimator=estimator, quantization_aware=aware, gradient_norm=norm)
    for number, nodes in enumerate(METADATA.nodes):
        task = node_task(number, 3)
        s = filter_scales(nodes.trainable)
        entering, leaving = entering_and_leaving(nodes.trainable)
        expected = s * entering / leaving / (6 * 3 * sides * 2)
        if nodes.form == "mean":
            expected = expected / (nodes.geometry["out_h"] * nodes.geometry["out_w"])
        if aware:
            expected = expected / s**2
        if norm:
            expected = expected * 18 / (18 + nodes.count - 1)
        (found,) = factors(task, given)
        assert np.allclose(found, expected, rtol=1e-6, atol=0), nodes


@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_weights(aware: bool, norm: bool) -> None:
    """Gives tensors that are perturbed together one factor, and 1 / s^2 of each of their channels."""
    tensors = tuple(range(len(METADATA.trainable)))
    weights = sum(METADATA.trainable[i].size for i in tensors)
    task = weight_task(tensors, METADATA, 5)
    found = factors(task, settings(quantization_aware=aware, gradient_norm=norm))
    share = 30 / (30 + weights - 1) if norm else 1.0
    for i, own in zip(tensors, found, strict=True):
        expected = share / filter_scales(i) ** (2 if aware else 0)
        assert np.allclose(own, expected, rtol=1e-6, atol=share * 1e-9)
