"""Binding to the control unit of layer-wise runs (``ops/core/run/zo_node_run.h``), the state machine that
firmware runs as well.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arguments import address
from .backward import Backward, BackwardProgram
from .control import StepReport
from .loader import CSettings, Struct, Tensor, call, constants, library, structs
from .node_layer import ModelLoss, NodeLayer, NodeRules, NodeState, NodeTask


def _scratch(layer: NodeLayer | None, workers: int | None) -> int:
    """Returns the size of an update's scratch memory, int32 values, with or without threads."""
    return 0 if layer is None else int(library().zo_node_scratch_values_of(layer.struct, workers))


class NodeAction(IntEnum):
    """Kind of the next action (``zo_node_action``)."""

    DONE = constants.ZO_NODE_DONE
    FORWARD = constants.ZO_NODE_FORWARD
    QUERY = constants.ZO_NODE_QUERY
    UPDATE = constants.ZO_NODE_UPDATE
    RESTORE = constants.ZO_NODE_RESTORE


class NodeRequest(NamedTuple):
    """The next request of the control unit.

    Attributes:
        action: kind of the action.
        step: number of the step.
        task: number of the task of QUERY, RESTORE and UPDATE.
        start_segment: first segment that FORWARD and QUERY run.
        first_sample: position of the part's first sample, see `NodeControl.samples`.
    """

    action: NodeAction
    step: int
    task: int
    start_segment: int
    first_sample: int


class NodeControl:
    """A run's state machine, with its buffers.

    Args:
        settings: settings of the run; ``clip`` is the largest step of a weight, unit 2^-16 LSB.
        first_segment: segment at which a forward pass begins.
        tasks: tasks of the run, at least one.
        rules: settings of layer-wise runs; None: the defaults.
        program: backward program that leads errors to tasks of the exact tail, or None.
        threads: number of threads. Does not affect results.

    Attributes:
        tasks, rules: tasks and rules of the run.
        sums: differences over the minibatch so far for each task that perturbs weights, int64 [queries].

    Raises:
        NativeError: the settings are out of range.
    """

    def __init__(
        self,
        settings: CSettings,
        first_segment: int,
        tasks: Sequence[NodeTask],
        rules: NodeRules | None = None,
        program: BackwardProgram | None = None,
        threads: int = 1,
    ) -> None:
        self._samples = int(settings.batch) * int(settings.parts)
        self._batch = int(settings.batch)
        self.tasks, self.rules = tuple(tasks), NodeRules() if rules is None else rules
        self._tasks = (structs.zo_node_task * max(1, len(tasks)))()
        self._buffers: list[NDArray[Any]] = []
        self.backward = None if program is None else Backward(program, self._samples)
        self._led_back = -1  # step in which errors were led back last
        of_tasks = {} if program is None else program.of_tasks
        for i, (c, task) in enumerate(zip(self._tasks, tasks, strict=False)):
            self._fill(c, task, of_tasks.get(i))
        self._run, self._request, self._report = (structs.zo_node_run(), structs.zo_node_request(), structs.zo_report())
        whole = structs.zo_node_settings(settings, len(tasks), first_segment, **self.rules.numbers())
        call("zo_node_run_init", self._run, whole, self._tasks)
        workers = library().zo_thread_workers_create(threads)
        self._run.workers = workers
        self._release = weakref.finalize(self, library().zo_thread_workers_free, workers)
        # Of any filter; errors that come back through a layer need one for each of its inputs.
        self._scratch_values = max((_scratch(t.layer, None) for t in tasks), default=0)
        values = max((_scratch(t.layer, workers) for t in tasks), default=0)
        self._scratch = np.empty(values, np.int32)

    def _fill(self, c: Any, task: NodeTask, field: int | None) -> None:
        layer, samples = task.layer, self._samples

        def buffer(shape: tuple[int, ...], dtype: type[np.generic]) -> int:
            array = np.zeros(shape, dtype)
            self._buffers.append(array)
            return int(array.ctypes.data)

        c.start_segment, c.queries = task.start_segment, task.queries
        c.mu, c.rate = task.mu, task.rate
        c.gain = task.gain.struct
        c.following = task.following_number
        c.kind = task.kind
        if layer is None:
            c.boundary_bytes = task.boundary_bytes
            c.sums = buffer((max(1, task.queries),), np.int64)
            if task.boundary_bytes:
                c.nodes = buffer((self._batch, task.boundary_bytes), np.int8)
            return
        c.layer = layer.struct
        if task.keeps_inputs:
            c.inputs = buffer((samples, layer.input_bytes), np.int8)
        if field is not None:
            assert self.backward is not None
            errors, exponents = self.backward.fields[field]
            c.errors, c.exponents = errors.ctypes.data, exponents.ctypes.data
        if task.in_tail:
            return
        c.routes = buffer((samples, layer.route_bytes), np.uint8)
        if task.shared:
            return
        c.nodes = buffer((self._batch, layer.nodes), np.int8)
        if task.queries:
            c.differences = buffer((task.queries, samples), np.int32)
        elif field is None:
            c.errors = buffer((samples, layer.nodes), np.int16)

    @property
    def minibatch(self) -> int:
        """Number of samples in a minibatch."""
        return self._samples

    @property
    def buffer_bytes(self) -> int:
        """Memory outside the arena on a device (pairs, nodes, differences, scratch), bytes."""
        backward = 0 if self.backward is None else self.backward.buffer_bytes
        scratch = self._scratch_values * self._scratch.itemsize
        return sum(b.nbytes for b in self._buffers) + scratch + backward

    @property
    def settings(self) -> CSettings:
        """The run's settings."""
        settings: CSettings = self._run.settings.common
        return settings

    @property
    def node_settings(self) -> Struct:
        """``zo_node_settings``."""
        settings: Struct = self._run.settings
        return settings

    @property
    def struct(self) -> Struct:
        """``zo_node_run``."""
        run: Struct = self._run
        return run

    @property
    def step(self) -> int:
        """Number of finished steps."""
        return int(self._run.step)

    @property
    def largest_loss(self) -> int:
        """Largest loss so far, unit 2^-16. It is part of a run's state, with step, states and weights."""
        return int(self._run.largest_loss)

    @property
    def states(self) -> list[NodeState]:
        """The running means of the tasks."""
        return [NodeState.of(t.mean_square) for t in self._tasks]

    def resume(self, step: int, states: Sequence[NodeState], largest_loss: int) -> None:
        """Resumes after a number of complete steps.

        Args:
            step: number of complete steps.
            states: running means, one for each task.
            largest_loss: largest loss of the steps so far, unit 2^-16.

        Raises:
            ValueError: the numbers of states and tasks differ.
            NativeError: the run has fewer steps, or a state is not valid. Nothing has changed.
        """
        if len(states) != len(self._tasks):
            raise ValueError(
                f"`states` must have {len(self._tasks)} elements, one for each task. Received: {len(states)}."
            )
        self._led_back = -1
        squares = (structs.zo_scale * len(states))(*(s.struct for s in states))
        call("zo_node_run_resume", self._run, step, largest_loss, squares)

    def next(self) -> NodeRequest:
        """Returns the next request."""
        r = self._request
        call("zo_node_run_next", self._run, r)
        return NodeRequest(NodeAction(r.action), r.step, r.task, r.start_segment, r.first_sample)

    def samples(self, first: int) -> NDArray[np.uint32]:
        """Returns the numbers of the training samples of an invoke, uint32 [batch]."""
        numbers = np.empty(self._batch, np.uint32)
        library().zo_samples_at(self.settings, first, numbers.size, numbers.ctypes.data)
        return numbers

    def _batch_of(self, name: str, array: NDArray[Any], size: int, dtype: type[np.generic] = np.int8) -> int:
        if array.size != self._batch * size:
            raise ValueError(f"`{name}` must have {self._batch} x {size} values. Received: {list(array.shape)}.")
        return address(name, array, dtype)

    def capture(self, task: int, inputs: NDArray[np.int8], outputs: NDArray[np.int8], nodes: NDArray[np.int8]) -> None:
        """Stores the activations of a forward pass for updates and queries, int8 [batch, ...] each."""
        layer = self._layer(task)
        call(
            "zo_node_run_capture",
            self._run,
            task,
            self._batch_of("inputs", inputs, layer.input_bytes),
            self._batch_of("outputs", outputs, layer.out_h * layer.out_w * layer.out_c),
            self._batch_of("nodes", nodes, layer.nodes),
        )

    def capture_head(
        self, task: int, inputs: NDArray[np.int8], outputs: NDArray[np.int8], loss: ModelLoss, labels: NDArray[Any]
    ) -> None:
        """Stores an exact head's input and its errors, the derivative of the loss by its outputs.

        Args:
            task: number of the task.
            inputs: int8 [batch, ...].
            outputs: input of the loss, int8 [batch, ...].
            loss: the model's loss.
            labels: labels for the loss: classes, int32 [batch]; or 0, 1 and -1 for each output; or int8
                targets in the shape of the outputs.
        """
        layer = self._layer(task)
        call(
            "zo_node_run_capture_head",
            self._run,
            task,
            self._batch_of("inputs", inputs, layer.input_bytes),
            self._batch_of("outputs", outputs, layer.nodes),
            loss.struct,
            self._batch_of("labels", labels, *loss.labels(layer.nodes)),
        )

    def backpropagate(self, task: int, weights: NDArray[np.int8], scales: NDArray[np.int16] | None) -> None:
        """Computes a task's errors from those of the following task, after both were captured.

        Args:
            task: number of the task.
            weights: weights of the following task, int8.
            scales: filter scales of the following task's outputs relative to the largest, int16, Q15; None
                for one scale.
        """
        following = self.tasks[task].following
        if following is None:
            raise ValueError(f"task: {task} is followed by the loss")
        layer = self._layer(following)
        if weights.size != layer.weights:
            raise ValueError(f"`weights` must have {layer.weights} values. Received: {weights.size}.")
        if scales is not None and scales.shape != (layer.out_c,):
            raise ValueError(f"`scales` must have the shape [{layer.out_c}]. Received: {list(scales.shape)}.")
        call(
            "zo_node_run_backpropagate",
            self._run,
            task,
            address("weights", weights, np.int8),
            None if scales is None else address("scales", scales, np.int16),
            self._scratch.ctypes.data,
        )

    def capture_inputs(self, task: int, inputs: NDArray[np.int8]) -> None:
        """Stores the input of a layer that receives errors from a backward program, int8 [batch, ...]."""
        data = self._batch_of("inputs", inputs, self._layer(task).input_bytes)
        call("zo_node_run_capture", self._run, task, data, None, None)

    def lead_back(self, sources: Sequence[NDArray[np.int8] | None]) -> None:
        """Passes errors back to all tasks of the exact tail, after these were captured.

        Args:
            sources: the weights or the activation [batch, ...] that each step of the program reads, or None.
        """
        if self.backward is None:
            raise ValueError("sources: the run has no backward program")
        found = self.backward.sources(self._batch, sources)
        if self._run.part and self._led_back != self.step:  # others lead the first part back
            call("zo_backward_norms", self.backward.struct, found)
        call("zo_node_run_backward", self._run, self.backward.struct, found)
        self._led_back = self.step

    def capture_boundary(self, task: int, boundary: NDArray[np.int8]) -> None:
        """Stores the input activation of the first segment with perturbed weights, int8 [batch, ...]."""
        size = self.tasks[task].boundary_bytes
        call("zo_node_run_capture_boundary", self._run, task, self._batch_of("boundary", boundary, size))

    @property
    def evaluations(self) -> int:
        """Number of remaining evaluations of the present task in this part: 0 before its queries, 1 for
        perturbed weights. Evaluations of nodes change no weight, so one invoke may run all of them.
        """
        return int(library().zo_node_run_evaluations(self._run))

    def perturb(self, nodes: NDArray[np.int8]) -> None:
        """Writes the perturbed nodes of the present task's next evaluations, int8 [evaluations * batch, ...],
        or, for perturbed weights, the captured activation, int8 [batch, ...].
        """
        task = self.tasks[self._run.task]
        if task.layer is None:
            self._batch_of("nodes", nodes, task.boundary_bytes)
            call("zo_node_run_perturb", self._run, nodes.ctypes.data)
            return
        count, rest = divmod(nodes.size, self._batch * task.layer.nodes)
        if rest:
            raise ValueError(
                f"`nodes` must have {self._batch} x {task.layer.nodes} values for each evaluation. "
                f"Received: {list(nodes.shape)}."
            )
        call("zo_node_run_perturb_all", self._run, count, address("nodes", nodes, np.int8))

    def report(self, losses: NDArray[np.int32]) -> None:
        """Reports the losses of a forward pass, int32 [batch], or of evaluations, [evaluations * batch]."""
        data = address("losses", losses, np.int32)
        if losses.size == self._batch:
            call("zo_node_run_report", self._run, data, losses.size, self._report)
            return
        count, rest = divmod(losses.size, self._batch)
        if rest:
            raise ValueError(f"`losses` must have {self._batch} values for each evaluation. Received: {losses.size}.")
        call("zo_node_run_report_all", self._run, count, data, self._report)

    def update(self, tensors: ctypes.Array[Tensor]) -> StepReport | None:
        """Updates the weights of the present task. Returns the step's report after the last task, else None.

        Args:
            tensors: tensors of the task, see `weight_tensors`; for a layer with nodes its filter, its biases
                or both, in this order.
        """
        run, count = self._run, len(tensors)
        if self.tasks[run.task].layer is None:
            call("zo_node_run_update_weights", run, tensors, count, None, self._report)
        else:
            scratch = self._scratch.ctypes.data
            call("zo_node_run_update", run, tensors, count, scratch, None, self._report)
        return self._finished()

    def perturb_weights(self, tensors: ctypes.Array[Tensor]) -> None:
        """Perturbs weights for the present query, or restores them (RESTORE).

        Args:
            tensors: tensors of the task, see `weight_tensors`.
        """
        call("zo_node_run_perturb_weights", self._run, tensors, len(tensors))

    def abandon(self, tensors: ctypes.Array[Tensor] | None = None) -> None:
        """Aborts the step in progress. It starts again with the next request.

        Args:
            tensors: tensors of the present task, to restore perturbed weights.
        """
        call("zo_node_run_abandon", self._run, tensors, 0 if tensors is None else len(tensors))

    def _layer(self, task: int) -> NodeLayer:
        layer = self.tasks[task].layer
        if layer is None:
            raise ValueError(f"task: {task} has no layer, its weights are perturbed")
        return layer

    def _finished(self) -> StepReport | None:
        if not self._report.step_done:
            return None
        return StepReport(self._report.step, self._report.mean_loss / 65536, self._report.rate / 65536)
