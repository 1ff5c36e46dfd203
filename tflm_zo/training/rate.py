# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The learning rate of a run that trains layers one by one, measured before its first step.

The greater part of a step is noise, and networks differ in how much of it they bear: noise moves weights
along outer products of credits and inputs, which have the inputs' mean in common, so that a narrow layer
behind a ReLU forgets thirty times as soon as along random signs. So the run walks a few steps, whose losses
are replaced by random numbers, by forward passes alone. A network has then forgotten the share

    F = E |y' - y|^2 / E |y - E y|^2

of its outputs y, which is 1 for a network that has one answer to everything. A network that has forgotten
less than half after a walk of 1 LSB, by root mean square over the weights of a layer, takes a rate of 1 LSB.
Of a network that bears less, the walk W is found at which F = 1/2, and the run has

    rate = W^2 / 16    LSB

A network that has nothing worth keeping takes 1 LSB: one of random weights, whose outputs hardly depend on
its samples (E |y - E y|^2 < E |y|^2 / 4), and a classifier whose mean loss is more than twice that of one
answer to all samples, the frequencies of the classes.

The square is that of noise in equilibrium: a step of a rate r adds r^2 to the square of the distance that
noise has moved a weight, and what is learned takes a share of that distance back, which is proportional to r,
so the square settles at a multiple of r whatever the number of steps. Bound and multiple are of
validation data. Networks that forget half after 2.5 to 3.6 (LeNet-5) and 4.1 LSB (DS-CNN)
learn the better the higher their rate is, up to 1 LSB: LeNet-5 at 0.3, 0.5, 1 LSB 93.8, 94.5, 95.2 % of
rotated digits. The last block of a ResNet-8 forgets half after 0.5 to 0.7 LSB, and learns fog, noise and the
dark best at 0.03 LSB: at 0.015, 0.03, 0.06, 0.1, 1 LSB 73.5, 74.3, 72.0, 68.7, 57.3 % in fog.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model
from ..core import samples_in_order
from ..data import Data, to_real
from ..runtime import Runtime
from .checks import SettingsError
from .costs import Costs, NodeCosts
from .evaluation import evaluate, predict
from .node_run import NodeRun
from .settings import Settings
from .tasks import Weights

__all__ = ["with_measured_rate"]

# Share of its outputs that a network may forget along a walk, and the square of the walk, LSB^2, at which a
# rate is 1 LSB.
_FORGOTTEN: Final = 0.5
_SQUARE: Final = 16.0
# Share of their mean square that the outputs of a network vary by at least, if it knows anything.
_LEAST_SPREAD: Final = 0.25
# Mean loss of a network that knows anything, in units of that of the frequencies of the classes, at most. It
# is 0.4 to 1.4 of the networks above, and 3.8 to 5.2 of the demo's, which has to learn anew.
_MOST_LOSS: Final = 2.0
# Walks of a length, whose shares are averaged: single ones go along few directions, and differ by a factor of
# 2 however many steps they have. Steps of each, of a whole minibatch.
_WALKS: Final = 4
_STEPS: Final = 4
# Samples whose outputs are watched, at most.
_WATCHED: Final = 64
# The longest walk, LSB, is halved so many times at most.
_LONGEST: Final = 1.0
_HALVINGS: Final = 6
# A run of less than so many times the cost of the longest measurement, which is three times that of most, has
# 1 LSB.
_LEAST_RUN: Final = 0.5
# Of the orders in which samples, labels and losses are drawn: no run's own.
_DRAW: Final = 2**32 - 2


class _NoiseRun(NodeRun):
    """A run that learns nothing: queries are answered with random losses, without running the network."""

    def draw_from(self, draw: np.random.Generator) -> None:
        """Sets the source of the random losses."""
        self._draw = draw

    def _rerun(self, start: int, entering: NDArray[np.int8] | None) -> None:
        pass

    def _losses(self) -> NDArray[np.int32]:
        return self._draw.integers(0, 2**16, self._runtime.batch, dtype=np.int32)


class _Walks:
    """Random walks of a network's weights, each from the weights that the model starts with.

    Attributes:
        costs: costs of the run.
        knows: False if the network has nothing worth keeping; set by `begin`.
        equivalents: forward equivalents of what was done so far.
    """

    def __init__(self, runtime: Runtime, model: Model, settings: Settings, data: Data) -> None:
        self._runtime, self._model, self._settings = runtime, model, settings
        self._data = data.take(slice(None, None, -(-len(data) // _WATCHED)))
        self._watched = list(self._data.inputs)
        self._all_labels = data.labels
        used = min(_STEPS * settings.batch_size, len(data))
        self._moved = data.take(samples_in_order(_DRAW, len(data), used))
        # Exact gradients read labels: those of other samples.
        self._labels = self._moved.labels[samples_in_order(_DRAW - 1, used, used)]
        metadata = runtime.metadata
        self.costs = NodeCosts(Costs(model, metadata), settings, metadata)
        self._cost = _WALKS * (self.costs.without_queries(_STEPS, used) + len(self._watched[0]))
        self.equivalents, self.knows = 0.0, True

    @property
    def most(self) -> float:
        """Forward equivalents of the longest measurement."""
        return len(self._watched[0]) + (1 + _HALVINGS) * self._cost

    def begin(self) -> None:
        """Keeps the outputs of the network that did not walk."""
        self.restore()
        self.equivalents += len(self._watched[0])
        self._before = self._outputs()
        self._spread = float(((self._before - self._before.mean(0)) ** 2).sum())
        varies = self._spread >= _LEAST_SPREAD * float((self._before**2).sum())
        self.knows = varies and not self._is_lost()

    def _is_lost(self) -> bool:
        """Returns whether a classifier's answers are worse than none."""
        loss = self._runtime.metadata.loss
        assert loss is not None  # a trainer has refused such a model
        if not loss.of_classes:
            return False
        self.equivalents += len(self._watched[0])
        found, known = evaluate(self._runtime, self._data), self._all_labels[self._all_labels >= 0]
        shares = np.unique(known, return_counts=True)[1] / max(1, len(known))
        return found.labelled > 0 and found.loss > _MOST_LOSS * float(-(shares * np.log(shares)).sum())

    def restore(self) -> None:
        """Sets the weights that the model starts with."""
        self._runtime.invoke(self._runtime.command(loss=False).restore())

    def _outputs(self) -> NDArray[np.float64]:
        loss = self._runtime.metadata.loss
        assert loss is not None  # a trainer has refused such a model
        _, _, scale, zero_point = self._runtime.output_details(loss.output)
        return np.asarray(to_real(predict(self._runtime, self._watched), scale, zero_point), np.float64)

    def forgotten(self, walk: float) -> float:
        """Returns the share F of its outputs that the network forgets along walks of a length, LSB."""
        settings, moved = _walking(self._settings, walk / _STEPS**0.5), self._moved
        changed = 0.0
        for seed in range(_WALKS):
            self.restore()
            own = dataclasses.replace(settings, seed=seed)
            run = _NoiseRun(self._runtime, self._model, own, _STEPS, list(moved.inputs), self._labels)
            run.draw_from(np.random.Generator(np.random.PCG64(seed)))
            for _ in range(_STEPS):
                run.advance()
            changed += float(((self._outputs() - self._before) ** 2).sum())
        self.equivalents += self._cost
        return changed / _WALKS / self._spread


def _measured_rate(walks: _Walks) -> float:
    """Returns the rate at the first step of a run, LSB, two significant digits.

    Args:
        walks: walks of the run's network; its weights are afterwards those that the model starts with.
    """
    walks.begin()
    walk = _bearable(walks.forgotten) if walks.knows else _LONGEST
    rate = 1.0 if walk == _LONGEST else walk**2 / _SQUARE
    walks.restore()
    return float(f"{rate:.2g}")


def with_measured_rate(
    runtime: Runtime, model: Model, settings: Settings, data: Data, steps: int
) -> tuple[Settings, float]:
    """Returns the settings of a run, with the measured rate where none is given, and what measuring it cost,
    in forward equivalents. A run that costs little more than the measurement stays at 1 LSB.

    Args:
        runtime: the loaded model, whose weights are afterwards those that the model starts with.
        model: model that the runtime has loaded.
        settings: settings of the run.
        data: all training samples.
        steps: number of steps of the whole run.

    Raises:
        SettingsError: the final rate is above the measured one.
    """
    if not settings.measures_rate:
        return settings, 0.0
    walks = _Walks(runtime, model, settings, data)
    if walks.costs.until(steps, len(data)) < _LEAST_RUN * walks.most:
        return settings, 0.0
    rate = _measured_rate(walks)
    if settings.final_learning_rate > rate:
        raise SettingsError(
            f"final_learning_rate: expected at most {rate:g}, the rate that was measured, got "
            f"{settings.final_learning_rate:g}; give learning_rate, too"
        )
    return dataclasses.replace(settings, learning_rate=rate), walks.equivalents


def _walking(settings: Settings, rate: float) -> Settings:
    """Returns the settings of a run at a constant rate, LSB."""
    usual = Settings()
    # A rate of perturbed weights beside the run's is a multiple of it within bounds.
    tasks = [
        dataclasses.replace(t, learning_rate=None) if isinstance(t, Weights) else t for t in settings.tasks
    ]
    return dataclasses.replace(
        settings,
        tasks=tuple(tasks),
        learning_rate=rate,
        final_learning_rate=usual.final_learning_rate,
        schedule="constant",
        warmup_steps=0,
        decay=usual.decay,
        decay_steps=usual.decay_steps,
        step_clip=min(2.0**8, settings.step_clip * max(1.0, rate)),
    )


def _bearable(forgotten: Callable[[float], float]) -> float:
    """Returns the walk, LSB, at which the share that is forgotten becomes `_FORGOTTEN`, or `_LONGEST` where
    it is less there. Walks are halved until it is; it counts as a power of the walk between the last two.
    """
    walk, found = _LONGEST, forgotten(_LONGEST)
    for _ in range(_HALVINGS):
        if found < _FORGOTTEN:
            break
        before, walk = found, walk / 2
        found = forgotten(walk)
    if walk == _LONGEST or found >= _FORGOTTEN:
        return walk
    low = max(found, _FORGOTTEN / 16)  # of a share that jumps
    return float(walk * (_FORGOTTEN / low) ** (1 / np.log2(before / low)))
