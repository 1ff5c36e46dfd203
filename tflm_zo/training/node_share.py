# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A worker's share of a layer-wise run: some parts of each minibatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import NodeAction, NodeState
from .node_run import NodeRun
from .shares import Replica

__all__ = ["Found", "NodeShare", "State"]


@dataclass(frozen=True)
class State:
    """A run after a whole step: what a step that depends on data leads to.

    Attributes:
        step: whole steps done.
        weights: weights, biases and fractions of the trained tensors, as bytes, one tensor after the other.
        states: running means of the tasks.
        largest_loss: largest loss of the steps so far, unit 2^-16.
    """

    step: int
    weights: NDArray[np.int8]
    states: list[NodeState]
    largest_loss: int


@dataclass(frozen=True)
class Found:
    """What some parts of a minibatch have led to.

    Attributes:
        losses: losses of each part before anything is perturbed, int32 [batch], unit 2^-16.
        evidence: what `NodeControl.evidence` has of their samples.
        sums: their share of `NodeControl.sums`.
    """

    losses: list[NDArray[np.int32]]
    evidence: list[NDArray[Any]]
    sums: list[NDArray[np.int64]]


class NodeShare(NodeRun, Replica):
    """A replica of a layer-wise run. It passes those parts of a minibatch forward that it is told to, and
    asks their queries; weights come from the run that updates them. See `NodeRun` for arguments.
    """

    _at: State  # that it has gone to last

    def parts(self, state: State | None, first: int, last: int) -> Found:
        """Passes parts of the next step's minibatch forward and asks their queries.

        Args:
            state: the run after its last whole step; None: it is this one's.
            first: number of the first part.
            last: number behind the last one, > `first`.
        """
        self._take(state)
        control, batch = self._control, self._runtime.batch
        begin = control.step * control.minibatch
        losses: list[NDArray[np.int32]] = []
        nothing = np.zeros(batch, np.int32)
        while True:
            request = control.next()
            part = (request.first_sample - begin) // batch
            if request.action == NodeAction.UPDATE or part >= last:
                break
            if request.action == NodeAction.RESTORE:
                control.perturb_weights(self._weights_of(request.task))
            elif part < first and request.action == NodeAction.FORWARD:  # another worker's
                control.report(nothing)
            elif part < first:
                self._pass_over(request)
            elif request.action == NodeAction.FORWARD:
                self._forward(request)
                losses.append(self._losses().copy())
            else:
                self._query(request)
        rows = slice(first * batch, last * batch)
        return Found(
            losses, [found.copy() for found in control.evidence(rows)], [sums.copy() for sums in control.sums]
        )

    def _take(self, state: State | None) -> None:
        """Goes to a state; without one, to the beginning of the step that this replica has last worked on."""
        if state is None:
            state = self._at
        at = 0
        for view in self._views():
            view[:] = state.weights[at : at + view.size]
            at += view.size
        self._at = state
        self._control.resume(state.step, state.states, state.largest_loss)
