"""The measurement of the learning rate of a run for which the user gives none (docs/training.md).

The greater part of a step is noise, and networks differ in how much of it they bear. So the run walks a few steps along
its own noise, by forward passes alone: weight perturbation along random directions of all weights, and a run that
trains layers one by one along its own steps, whose losses are replaced by random numbers (these go along outer products
of credits and inputs, which have the inputs' mean in common, so that a narrow layer behind a ReLU forgets thirty times
as soon as along random signs). A network has then forgotten the share

    F = E |y' - y|^2 / E |y - E y|^2

of its outputs y, which is 1 for a network that has one answer to everything. W is the walk, LSB by root mean square
over the weights of a layer, at which F = 1/2. The rate of layers one by one is 1 LSB where F < 1/2 after a walk of 1
LSB, else W^2 / 16 LSB, of minibatches of 32 (`Settings.chosen_rate`). Where all gradients are exact, and a greater part
of a step is signal, it is 0.6 W. Weight perturbation has W / 24 of the rate of networks that have forgotten less than
half after 24 LSB.

The square follows from noise in equilibrium: a step of a rate r adds r^2 to the squared distance of a weight from its
place without noise, and learning reduces the distance by a share proportional to r, so the squared distance settles at
a multiple of r for any number of steps. Bounds and factors are of validation data (docs/results.md).

A network that has nothing worth keeping takes the rate of one that bears the longest walk: one of random weights, whose
outputs hardly depend on its samples (E |y - E y|^2 < E |y|^2 / 4), and a classifier whose mean loss is more than twice
that of one answer to all samples, the frequencies of the classes. With exact gradients, it takes 0.6 W or 0.1 LSB,
which is more, and 0.1 LSB if the budget does not pay for the longest measurement: the walk says little about it, and
deep networks go silent at the highest rate (VWW's, which learns another task at 0.05 and 0.1 LSB, and not at 0.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from ..converters import Model
from ..data import Data
from ..runtime import Runtime
from .costs import run_costs
from .length import most_budget_steps
from .random_walks import NodeWalks, RandomWalks, WeightWalks
from .settings import Settings

# Share of its outputs that a network may forget along a walk.
_FORGOTTEN: Final = 0.5
# Square of the walk, LSB^2, at which the rate of a run of layers one by one is 1 LSB; the rate of one whose
# gradients are all exact, as a share of the walk, and at least if the network has nothing worth keeping.
_SQUARE: Final = 16.0
_SHARE_OF_EXACT: Final = 0.6
_LEAST_OF_LOST: Final = 0.1
# The longest walks that are tried, LSB, of layers one by one and of weight perturbation; they are halved so
# many times at most.
_LONGEST: Final = 1.0
_LONGEST_OF_WEIGHTS: Final = 24.0
_HALVINGS: Final = 6
# A budget of less than so many times the cost of the longest measurement, which is three times that of most,
# is for steps alone.
_LEAST_BUDGET: Final = 0.5


def with_measured_rate(
    runtime: Runtime, model: Model, settings: Settings, data: Data, steps: int, budget: float | None = None
) -> tuple[Settings, int, float]:
    """Measures the learning rate if the settings give none. Returns the settings with the rate, the number of steps,
    and the cost of the measurement in forward equivalents. The runtime gets the model's initial weights at the end.
    `budget`, the largest cost of measurement and steps in forward equivalents, may reduce the number of steps; if it is
    very small, nothing is measured. Raises SettingsError if the final rate is above the measured one.
    """
    if not settings.measures_rate:
        return settings, steps, 0.0
    of_weights = settings.perturbs_weights_alone
    walks = (WeightWalks if of_weights else NodeWalks)(runtime, model, settings, data)
    costs = run_costs(settings, model, runtime.metadata)
    if budget is not None and budget < _LEAST_BUDGET * walks.most(1 + _HALVINGS):
        return settings, steps, 0.0
    longest = _LONGEST_OF_WEIGHTS if of_weights else _LONGEST
    by_exact = settings.tasks == (settings.exact,)
    affords = budget is None or budget >= walks.most(1 + _HALVINGS)
    borne = _borne(walks, longest, by_exact and affords)
    if budget is not None:
        most = most_budget_steps(settings, len(data), careful=borne < longest)
        steps = max(1, min(steps, most, costs.affordable(budget - walks.equivalents, len(data))))
    rate = settings.chosen_rate(steps, max(1, len(runtime.metadata.blocks)))
    if by_exact and not walks.knows and not affords:
        rate = _LEAST_OF_LOST
    elif borne < longest:
        if by_exact:
            rate = max(_SHARE_OF_EXACT * borne, 0.0 if walks.knows else _LEAST_OF_LOST)
        else:
            rate *= borne / longest if of_weights else borne**2 / _SQUARE
        rate = float(f"{rate:.2g}")
    settings.check_final_rate(rate, "that was measured")
    return dataclasses.replace(settings, learning_rate=rate), steps, walks.equivalents


def _borne(walks: RandomWalks, longest: float, always: bool) -> float:
    """Returns the length of the walk, LSB, that the network bears, at most `longest`, which, unless `always` is True, a
    network has that has nothing worth keeping. Restores the weights.
    """
    try:
        walks.begin()
        return _bearable(walks.forgotten, longest) if always or walks.knows else longest
    finally:  # also where Ctrl-C comes in between
        walks.restore()


def _bearable(forgotten: Callable[[float], float], longest: float) -> float:
    """Returns the length of the walk, LSB, at which the share becomes `_FORGOTTEN`; `longest` if it is less there. It
    halves the length until the share is small enough, and interpolates between the last two by a power law.
    """
    walk, found = longest, forgotten(longest)
    for _ in range(_HALVINGS):
        if found < _FORGOTTEN:
            break
        before, walk = found, walk / 2
        found = forgotten(walk)
    if walk == longest or found >= _FORGOTTEN:
        return walk
    low = max(found, _FORGOTTEN / 16)  # of a share that jumps
    return float(walk * (_FORGOTTEN / low) ** (1 / np.log2(before / low)))
