"""Random walks of a network's weights, which measure how much noise the network bears."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model
from ..core import Rademacher, samples_in_order
from ..data import Data, to_real
from ..logs.replay import Replay
from ..runtime import Runtime
from .costs import run_costs
from .evaluation import evaluate, predict
from .lowering import lower
from .node_run import NodeRun
from .plan import trained_tensors
from .schedules import Constant
from .settings import Settings
from .tasks import Weights

# Walks of a length, whose shares are averaged: single ones go along few directions, and differ by a factor of
# 2 however many steps they have. Steps of each, in a layer-wise run of 32 samples: one sample's step goes along a
# single direction, which a network bears much worse than a run's many.
_WALKS: Final = 4
_STEPS: Final = 4
# Samples whose outputs are watched, at most.
_WATCHED: Final = 64
# Share of their mean square that the outputs of a network vary by at least, if it knows anything.
_LEAST_SPREAD: Final = 0.25
# Mean loss of a network that knows anything, in units of that of the frequencies of the classes, at most. It
# is 0.4 to 1.4 of LeNet-5, a DS-CNN and a ResNet-8, and 3.8 to 5.2 of the demo's, which has to learn anew.
_MOST_LOSS: Final = 2.0
# Of the orders in which samples, labels and losses are drawn: no run's own.
_DRAW: Final = 2**32 - 2
# Coefficients of an update are in 2^-16 LSB.
_ONE: Final = 2**16


class RandomWalks(ABC):
    """Random walks of a network's weights, each from the model's initial weights.

    Attributes:
        knows: False if the network has nothing worth keeping; set by `begin`.
        equivalents: forward equivalents so far.
    """

    def __init__(self, runtime: Runtime, data: Data) -> None:
        self._runtime = runtime
        self._data = data.take(slice(None, None, -(-len(data) // _WATCHED)))
        self._watched = list(self._data.inputs)
        self._all_labels = data.labels
        self.equivalents, self.knows = 0.0, True

    @property
    def cost(self) -> float:
        """Cost of the walks of one length, in forward equivalents."""
        return _WALKS * len(self._watched[0])

    def most(self, lengths: int) -> float:
        """Returns the largest cost of `begin` and of walks of `lengths` lengths, in forward equivalents."""
        return 2 * len(self._watched[0]) + lengths * self.cost

    def begin(self) -> None:
        """Records the outputs of the network before any walk."""
        self.restore()
        self.equivalents += len(self._watched[0])
        self._before = self._outputs()
        self._spread = float(((self._before - self._before.mean(0)) ** 2).sum())
        varies = self._spread > _LEAST_SPREAD * float((self._before**2).sum())
        self.knows = varies and not self._is_lost()

    def _is_lost(self) -> bool:
        """Returns whether a classifier is worse than the class frequencies alone."""
        loss = self._runtime.metadata.known_loss
        if not loss.of_samples:
            return False
        self.equivalents += len(self._watched[0])
        found, known = evaluate(self._runtime, self._data), self._all_labels[self._all_labels >= 0]
        shares = np.unique(known, return_counts=True)[1] / max(1, len(known))
        return found.labelled > 0 and found.loss > _MOST_LOSS * float(-(shares * np.log(shares)).sum())

    def restore(self) -> None:
        """Restores the model's initial weights."""
        self._runtime.execute(self._runtime.command(loss=False).restore())

    def _outputs(self) -> NDArray[np.float64]:
        loss = self._runtime.metadata.known_loss
        _, _, scale, zero_point = self._runtime.output_details(loss.output)
        return np.asarray(to_real(predict(self._runtime, self._watched), scale, zero_point), np.float64)

    def forgotten(self, length: float) -> float:
        """Returns the share F of the outputs that the network forgets on walks of a length, LSB (see rate.py)."""
        changed = 0.0
        for seed in range(_WALKS):
            self._walk(length, seed)
            changed += float(((self._outputs() - self._before) ** 2).sum())
        self.equivalents += self.cost
        return changed / _WALKS / self._spread if self._spread else float(changed > 0)

    @abstractmethod
    def _walk(self, length: float, seed: int) -> None:
        """Moves the model's initial weights by one walk."""


class NodeWalks(RandomWalks):
    """Walks of a few steps of a layer-wise run whose losses are random numbers."""

    def __init__(self, runtime: Runtime, model: Model, settings: Settings, data: Data) -> None:
        super().__init__(runtime, data)
        self._model, self._settings = model, settings
        costs = run_costs(settings, model, runtime.metadata)
        self._steps = settings.as_many_samples(_STEPS)
        used = min(self._steps * costs.minibatch, len(data))
        moved = data.take(samples_in_order(_DRAW, len(data), used))
        # Exact gradients read labels: those of other samples.
        self._moved = Data(moved.inputs, moved.labels[samples_in_order(_DRAW - 1, used, used)], data.steps)
        self._cost_of_walk = costs.until(self._steps, used) - self._steps * costs.queries

    @property
    def cost(self) -> float:
        """Cost of the walks of one length, in forward equivalents."""
        return super().cost + _WALKS * self._cost_of_walk

    def _walk(self, length: float, seed: int) -> None:
        self.restore()
        own = dataclasses.replace(_at_rate(self._settings, length / self._steps**0.5), seed=seed)
        lowered = lower(self._model, self._runtime.metadata, own, steps=self._steps, samples=len(self._moved))
        noise = np.random.Generator(np.random.PCG64(seed))
        run = NodeRun(self._runtime, self._model, lowered, self._moved, noise)
        for _ in range(self._steps):
            run.advance()


class WeightWalks(RandomWalks):
    """Walks of a few steps along random signs, which represent any distribution of perturbations."""

    def __init__(self, runtime: Runtime, model: Model, settings: Settings, data: Data) -> None:
        super().__init__(runtime, data)
        self._model = model
        self._trained = trained_tensors(settings, runtime.metadata)

    def _walk(self, length: float, seed: int) -> None:
        coefficient = round(_ONE * length / _STEPS**0.5)
        moved = Replay(self._model)
        steps = [[(_DRAW - seed * _STEPS - i, coefficient)] for i in range(_STEPS)]
        for number in self._trained:
            moved.move(number, Rademacher(), steps)
        self._runtime.write_weights(moved.weights, moved.fractions)


def _at_rate(settings: Settings, rate: float) -> Settings:
    """Returns the same settings with a constant rate, LSB, instead of their schedule."""
    # A rate of perturbed weights beside the run's is a multiple of it within bounds.
    tasks = [dataclasses.replace(t, learning_rate=None) if isinstance(t, Weights) else t for t in settings.tasks]
    return dataclasses.replace(
        settings,
        tasks=tuple(tasks),
        learning_rate=rate,
        schedule=Constant(),
        step_clip=min(2.0**8, settings.step_clip * max(1.0, rate)),
    )
