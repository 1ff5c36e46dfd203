# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""SPSA on an int8 network, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .network import Network

__all__ = ["Simulation"]

Directions = Callable[[int], dict[str, NDArray[np.int8]]]


class Simulation:
    """The step of `algorithms.weight()`: antithetic, one Rademacher query, normalized, 16-bit weights.

    With the loss difference d = L(w + mu z) - L(w - mu z) of a minibatch and the running mean of d^2,

        c = -rate * clip(d / rms(d))        unit 2^-16 LSB, an integer
        W = clip(W + c z)                   unit 2^-8 LSB, an integer; w = W rounded

    Args:
        network: whose weights are trained, all of them.
        headroom: distance of the weights from ±127, LSB, mu at least.
        mu: size of the perturbation, LSB.
        clip: of |d| / rms(d).
        batch: samples per forward pass.
        directions: z of a step by filter name, int8 ±1 in the filters' shapes; None: NumPy's generator.

    Attributes:
        weights: int8, by filter name.
        fractions: W - 256 w, int8, by filter name.
        coefficient: of the last step, unit 2^-16 LSB.
    """

    def __init__(
        self,
        network: Network,
        *,
        headroom: int = 2,
        mu: int = 1,
        clip: float = 3.0,
        batch: int = 32,
        directions: Directions | None = None,
    ) -> None:
        self.network, self.headroom, self.mu, self.clip, self.batch = network, headroom, mu, clip, batch
        self._directions = directions or self._random_directions
        self._rng = np.random.default_rng(0)
        self._in_256ths = {name: w.astype(np.int32) << 8 for name, w in network.weights.items()}
        self.weights = {name: w.copy() for name, w in network.weights.items()}
        self._steps = 0
        self._mean_square = 0.0
        self.coefficient = 0

    @property
    def fractions(self) -> dict[str, NDArray[np.int8]]:
        """See the class."""
        return {
            name: (in_256ths - (self.weights[name].astype(np.int32) << 8)).astype(np.int8)
            for name, in_256ths in self._in_256ths.items()
        }

    def _random_directions(self, step: int) -> dict[str, NDArray[np.int8]]:
        return {
            name: self._rng.integers(0, 2, w.shape, np.int8) * np.int8(2) - np.int8(1)
            for name, w in self.weights.items()
        }

    def loss(self, x: NDArray[np.int8], y: NDArray[Any], weights: dict[str, NDArray[np.int8]] | None = None) -> float:
        """Computes the mean cross-entropy in nats.

        Args:
            x: int8 [samples, ...].
            y: class of each sample.
            weights: by filter name; None: the present ones.
        """
        weights = self.weights if weights is None else weights
        total = 0.0
        for at in range(0, len(x), self.batch):
            logits = self.network.logits(x[at : at + self.batch], weights) * self.network.logit_scale
            logits -= logits.max(1, keepdims=True)
            chosen = logits[np.arange(len(logits)), y[at : at + self.batch]]
            total += float((np.log(np.exp(logits).sum(1)) - chosen).sum())
        return total / len(x)

    def step(self, x: NDArray[np.int8], y: NDArray[Any], rate: float = 2.0) -> None:
        """Applies one step on a minibatch.

        Args:
            x: int8 [minibatch, ...].
            y: class of each sample.
            rate: LSB.
        """
        directions = self._directions(self._steps)
        moves = {name: np.int8(self.mu) * z for name, z in directions.items()}
        plus = self.loss(x, y, {name: w + moves[name] for name, w in self.weights.items()})
        minus = self.loss(x, y, {name: w - moves[name] for name, w in self.weights.items()})
        self.coefficient = round(-rate * self._normalized(plus - minus) * 2**16)
        limit = 127 - self.headroom << 8
        for name, z in directions.items():
            in_256ths = self._in_256ths[name]
            in_256ths += (self.coefficient * z.astype(np.int32) + 128) >> 8
            np.clip(in_256ths, -limit, limit, out=in_256ths)
            self.weights[name] = ((in_256ths + 128) >> 8).astype(np.int8)
        self._steps += 1

    def _normalized(self, d: float) -> float:
        self._mean_square += (d * d - self._mean_square) / (32 if self._mean_square else 1)
        if self._mean_square == 0.0:
            return 0.0
        return max(-self.clip, min(self.clip, d / float(np.sqrt(self._mean_square))))
