# SPDX-License-Identifier: Apache-2.0
"""The memory that backpropagation takes, by the equations of ElasticZO (arXiv 2501.04287, sec. 4)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..converters import Model
from ..converters.kernels import FILTER_OPERATORS
from ..converters.model import Operator

__all__ = ["Backpropagation", "backpropagation"]


@dataclass(frozen=True)
class Backpropagation:
    """Bytes that backpropagation of some layers takes.

    Attributes:
        float32: in float32, by stochastic gradient descent (eq. 2, or eq. 4 where the first layers are left).
        adam: in float32, by Adam, which keeps two moments of each gradient besides (eq. 5).
        int8: in int8 with 32-bit sums, as NITI trains (eq. 13, or eq. 15).
    """

    float32: int
    adam: int
    int8: int


def backpropagation(model: Model, trained: Collection[str], batch_size: int) -> Backpropagation:
    """Returns the memory that backpropagation of layers takes.

    All buffers are counted for the whole of a step, as the paper does: weights of all layers, activations of
    a minibatch, and, from the first trained layer on, errors of activations and gradients of weights.

    Args:
        model: a plain model, of one sample an invoke.
        trained: names of the filters that are trained.
        batch_size: samples of a minibatch.
    """
    (graph,) = model.subgraphs
    layers = graph.operators
    weights = gradients = activations = errors = sums = 0
    begun = False
    for op in layers:
        filters = _filter(op)
        own = op.outputs[0].size * batch_size
        activations += own
        is_trained = filters is not None and filters[0] in trained
        if filters is not None:
            weights += filters[1]
            sums += own  # eq. 13 to 15: the 32-bit sums of an activation
        if begun and filters is not None and op.inputs[0] is not None:
            sums += op.inputs[0].size * batch_size  # the 32-bit errors that a layer passes back
        begun = begun or is_trained
        if begun:
            errors += own
        if is_trained and filters is not None:
            gradients += filters[1]
    values = weights + gradients + activations + errors
    return Backpropagation(
        float32=4 * values, adam=4 * (values + 2 * gradients), int8=values + 4 * (sums + gradients)
    )


def _filter(op: Operator) -> tuple[str, int] | None:
    """Name of an operator's filter, and the number of its weights and biases."""
    filters = op.input(1)
    if op.builtin not in FILTER_OPERATORS or filters is None or not filters.is_constant:
        return None
    biases = op.input(2)
    return filters.name, filters.size + (0 if biases is None else biases.size)
