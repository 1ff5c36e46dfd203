# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Integer backpropagation through the whole network: the accuracy of an int8 trainer with a backward pass.

Every forward pass is the int8 model's, bit for bit, with the int8 weights of that step; errors are int8 with
one scale per tensor and step (benchmarks/numpy_simulation). Two update rules:

* "standardized" (fully quantized training on Cortex-M, Deutel et al.): the gradient of each filter minus its
  mean, divided by its standard deviation, times a rate, which decays to zero. Weights have a fraction byte;
  without it steps are rounded at random.
* "rounded" (NITI, and ElasticZO-INT8's tail): the gradient of each filter, rounded pseudo-stochastically to a
  few bits, is subtracted from the int8 weights; fewer and fewer bits in the course of the run.

Scales, and biases with them, stay as they are.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.converters import load_model
from tflm_zo.core import library, logit_scale
from tflm_zo.data import to_levels

sys.path.append(str(Path(__file__).parents[1]))  # the package beside this folder

from numpy_simulation import Backward, Network  # noqa: E402
from numpy_simulation.backward import to_bits  # noqa: E402

if TYPE_CHECKING:
    from tasks import Task

__all__ = ["Settings", "adapt", "train"]

BATCH = 32
# A backward pass, errors and gradients, is worth two forward passes.
EQUIVALENTS = 3

_LIMIT = 127 << 8  # of weights, unit 2^-8 LSB


@dataclass(frozen=True)
class Settings:
    """How weights are updated.

    Attributes:
        rule: "standardized" or "rounded".
        rate: of the standardized gradient: the first step of a weight one standard deviation away, in LSB of
            the filter's finest channel.
        fraction: whether weights have 16 bits between steps.
        bits: of a rounded gradient's magnitude, one figure for each part of the run, all as long.
    """

    rule: str = "standardized"
    rate: float = 2.0
    fraction: bool = True
    bits: tuple[int, ...] = (5, 4, 3)

    def __post_init__(self) -> None:
        if self.rule not in ("standardized", "rounded"):
            raise ValueError(f"rule: expected 'standardized' or 'rounded', got {self.rule!r}")
        if not self.bits or not 0 < self.rate < math.inf:
            raise ValueError("expected a positive rate and bits for at least one part of the run")


class _Filter:
    """A filter while it is trained: 16 bits per weight, unit 2^-8 LSB."""

    def __init__(self, weights: NDArray[np.int8], scales: NDArray[Any], axis: int) -> None:
        self.in_256ths = weights.astype(np.int64) << 8
        # Steps are equal in real size: finer channels move by more LSB.
        shape = np.ones(weights.ndim, int)
        shape[axis] = len(scales)
        real = scales.astype(np.float64)
        self._factors = np.rint(real.min() / real * 2**7).astype(np.int64).reshape(shape)

    @property
    def weights(self) -> NDArray[np.int8]:
        """int8, as the forward pass reads them."""
        return ((self.in_256ths + 128) >> 8).astype(np.int8)

    def standardized(self, gradient: NDArray[np.int64], rate: int, random: Any) -> None:
        """Applies one step; rate in 2^-8 LSB; without a fraction ``random`` rounds."""
        values, _ = to_bits(gradient, 15)
        values = values - int(values.sum()) // values.size
        deviation = math.isqrt(int((values * values).sum()) // values.size)
        if deviation == 0:
            return
        divisor = deviation << 7
        step = (rate * values * self._factors + divisor // 2) // divisor
        if random is not None:
            step = ((step + random.integers(0, 256, step.shape)) >> 8) << 8
        self._subtract(step)

    def rounded(self, gradient: NDArray[np.int64], bits: int) -> None:
        """Applies one step of at most 2^bits - 1 LSB."""
        self._subtract(to_bits(gradient, bits)[0] << 8)

    def _subtract(self, step: NDArray[np.int64]) -> None:
        self.in_256ths = np.clip(self.in_256ths - step, -_LIMIT, _LIMIT)


def _errors(logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float) -> NDArray[np.int16]:
    """Computes softmax minus one-hot label of each sample, unit 2^-15."""
    errors = np.empty(logits.shape, np.int16)
    scales, addresses = logit_scale(scale), (labels.ctypes.data, errors.ctypes.data)
    status = library().zo_cross_entropy_error_s8(logits.ctypes.data, *logits.shape, scales, *addresses)
    assert status == 0
    return errors


def train(network: Network, x: NDArray[np.int8], y: NDArray[Any], steps: int, seed: int, settings: Settings) -> None:
    """Trains the network's own weights.

    Args:
        network: its ``weights`` are replaced.
        x: int8 [samples, ...].
        y: classes [samples].
        steps: of BATCH samples each; samples are drawn in rounds.
        seed: of the order and of random rounding.
        settings: of the update.
    """
    backward = Backward(network)
    filters = {}
    for node in network.nodes:
        if node.filter is not None:
            tensor = node.operator.inputs[1]
            assert tensor is not None and tensor.quantization is not None
            quantization = tensor.quantization
            filters[node.filter] = _Filter(
                network.weights[node.filter],
                quantization.scales,
                quantization.axis if quantization.is_per_channel else 0,
            )
    labels = np.asarray(y, np.int32)
    random, order = np.random.default_rng(seed), np.empty(0, int)
    for step in range(steps):
        if len(order) < BATCH:
            order = np.concatenate([order, random.permutation(len(y))])
        chosen, order = order[:BATCH], order[BATCH:]
        activations = network.activations(x[chosen])
        logits = activations[network.nodes[-1].output].reshape(len(chosen), -1)
        errors = _errors(logits, np.ascontiguousarray(labels[chosen]), network.logit_scale)
        rate = round(256 * settings.rate * (1 - step / steps))
        bits = settings.bits[step * len(settings.bits) // steps]
        for name, gradient in backward.gradients(activations, errors).items():
            if settings.rule == "rounded":
                filters[name].rounded(gradient.sums, bits)
            else:
                filters[name].standardized(gradient.sums, rate, None if settings.fraction else random)
            network.weights[name] = filters[name].weights


def adapt(task: Task, budget: float, seed: int, settings: Settings | None = None) -> dict[str, float]:
    """Adapts a task's model and measures its accuracy.

    Args:
        task: of tasks.py; its model is a chain of layers that numpy_simulation knows.
        budget: forward equivalents; a backward pass counts as two forward passes.
        seed: of the run.
        settings: of the update; None: the best ones on validation data.

    Returns:
        Accuracies in percent: "before", "validation", "test" and, if the task has an old domain, "old";
        the number of "steps", and the forward "equivalents" that they took.

    Raises:
        UnsupportedError: the model has a layer without a forward or backward pass here.
    """
    model = load_model(task.model)
    network = Network(model)
    quantization = model.subgraphs[0].inputs[0].quantization
    assert quantization is not None

    def levels(x: NDArray[Any]) -> NDArray[np.int8]:
        return np.asarray(to_levels(x, quantization.scale, quantization.zero_point), np.int8)

    def accuracy(part: tuple[NDArray[Any], NDArray[Any]]) -> float:
        x, y = levels(part[0]), part[1]
        right = sum(
            int((network.logits(x[at : at + 100]).argmax(1) == y[at : at + 100]).sum()) for at in range(0, len(x), 100)
        )
        return 100 * right / len(x)

    before = accuracy(task.test)
    steps = max(1, int(budget / EQUIVALENTS / BATCH))
    train(network, levels(task.adapt[0]), task.adapt[1], steps, seed, settings or Settings())
    result = {"before": before, "validation": accuracy(task.validation), "test": accuracy(task.test)}
    if task.old is not None:
        result["old"] = accuracy(task.old)
    return result | {"steps": steps, "equivalents": float(EQUIVALENTS * BATCH * steps)}
