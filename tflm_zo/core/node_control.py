"""Binding to the control unit of layer-wise runs (``ops/core/run/zo_node_run.h``), the state machine that firmware runs
as well.
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
from .control import StepReport, samples_at
from .loader import CSettings, Struct, Tensor, call, constants, library, structs
from .node_layer import ModelLoss, NodeLayer, NodeRules, NodeState, NodeTask


class NodeAction(IntEnum):
    """Kind of the next action (``zo_node_action``)."""

    DONE = constants.ZO_NODE_DONE
    FORWARD = constants.ZO_NODE_FORWARD
    QUERY = constants.ZO_NODE_QUERY
    UPDATE = constants.ZO_NODE_UPDATE
    RESTORE = constants.ZO_NODE_RESTORE


class NodeRequest(NamedTuple):
    """The next request of the control unit."""

    action: NodeAction  #: kind of the action.
    step: int  #: number of the step.
    task: int  #: number of the task of QUERY, RESTORE and UPDATE.
    start_segment: int  #: first segment that FORWARD and QUERY run.
    first_sample: int  #: position of the part's first sample, see `NodeControl.samples`.


class NodeControl:
    """A run's state machine, with its buffers. Raises NativeError if the settings are out of range.

    Args:
        settings: settings of the run; ``clip`` is the largest step of a weight, unit 2^-16 LSB.
        first_segment: segment at which a forward pass begins.
        tasks: tasks of the run, at least one.
        rules: settings of layer-wise runs; None: the defaults.
        program: backward program that leads errors to tasks of the exact tail, or None.
        threads: number of threads. Does not affect results.
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
        self.minibatch = int(settings.batch) * int(settings.parts)  #: number of samples in a minibatch.
        self._batch = int(settings.batch)
        self.tasks, self.rules = tuple(tasks), NodeRules() if rules is None else rules
        self._tasks = (structs.zo_node_task * max(1, len(tasks)))()
        self._buffers: list[NDArray[Any]] = []
        self.backward = None if program is None else Backward(program, self.minibatch)
        self._led_back = -1  # step in which errors were led back last
        of_tasks = {} if program is None else program.of_tasks
        for i, (c, task) in enumerate(zip(self._tasks, tasks, strict=False)):
            self._fill(c, task, of_tasks.get(i))
        self.struct: Struct = structs.zo_node_run()  #: ``zo_node_run``.
        self._request, self._report = structs.zo_node_request(), structs.zo_report()
        whole = structs.zo_node_settings(settings, len(tasks), first_segment, **self.rules.numbers())
        call("zo_node_run_init", self.struct, whole, self._tasks)
        workers = library().zo_thread_workers_create(threads)
        self.struct.workers = workers
        self._release = weakref.finalize(self, library().zo_thread_workers_free, workers)
        # Of an update of any layer, int32 values.
        layers = [t.layer.struct for t in tasks if t.layer is not None]
        values = max((int(library().zo_node_scratch_values_of(layer, workers)) for layer in layers), default=0)
        self._scratch = np.empty(values, np.int32)

    def _fill(self, c: Any, task: NodeTask, field: int | None) -> None:
        layer, samples = task.layer, self.minibatch

        def buffer(shape: tuple[int, ...], dtype: type[np.generic]) -> int:
            array = np.zeros(shape, dtype)
            self._buffers.append(array)
            return int(array.ctypes.data)

        c.start_segment, c.queries = task.start_segment, task.queries
        c.mu, c.rate = task.mu, task.rate
        c.gain = task.gain.struct
        c.in_tail = int(task.in_tail)
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
    def settings(self) -> CSettings:
        """The run's settings."""
        settings: CSettings = self.struct.settings.common
        return settings

    @property
    def node_settings(self) -> Struct:
        """``zo_node_settings``."""
        settings: Struct = self.struct.settings
        return settings

    @property
    def step(self) -> int:
        """Number of finished steps."""
        return int(self.struct.step)

    @property
    def largest_loss(self) -> int:
        """Largest loss so far, unit 2^-16. It is part of a run's state, with step, states and weights."""
        return int(self.struct.largest_loss)

    @property
    def states(self) -> list[NodeState]:
        """The running means of the tasks."""
        return [NodeState.of(t.mean_square) for t in self._tasks]

    def resume(self, step: int, states: Sequence[NodeState], largest_loss: int) -> None:
        """Resumes after a number of complete steps, with the `states` and `largest_loss` of then. A wrong number of
        states raises ValueError, a wrong state or step NativeError. Then nothing has changed.
        """
        count = len(self._tasks)
        if len(states) != count:
            raise ValueError(f"`states` must have {count} elements, one for each task. Received: {len(states)}.")
        self._led_back = -1
        squares = (structs.zo_scale * count)(*(s.struct for s in states))
        call("zo_node_run_resume", self.struct, step, largest_loss, squares)

    def next(self) -> NodeRequest:
        """Returns the next request."""
        r = self._request
        call("zo_node_run_next", self.struct, r)
        return NodeRequest(NodeAction(r.action), r.step, r.task, r.start_segment, r.first_sample)

    def samples(self, first: int) -> NDArray[np.uint32]:
        """Returns the numbers of the training samples of an invoke, uint32 [batch]."""
        return samples_at(self.settings, first, self._batch)

    def _batch_of(self, name: str, array: NDArray[Any], size: int, dtype: type[np.generic] = np.int8) -> int:
        if array.size != self._batch * size:
            raise ValueError(f"`{name}` must have {self._batch} x {size} values. Received: {list(array.shape)}.")
        return address(name, array, dtype)

    def capture(self, task: int, inputs: NDArray[np.int8], outputs: NDArray[np.int8], nodes: NDArray[np.int8]) -> None:
        """Stores the activations of a forward pass for updates and queries, int8 [batch, ...] each."""
        layer = self._layer(task)
        read = self._batch_of("inputs", inputs, layer.input_bytes)
        computed = self._batch_of("outputs", outputs, layer.out_h * layer.out_w * layer.out_c)
        call("zo_node_run_capture", self.struct, task, read, computed, self._batch_of("nodes", nodes, layer.nodes))

    def capture_head(
        self, task: int, inputs: NDArray[np.int8], outputs: NDArray[np.int8], loss: ModelLoss, labels: NDArray[Any]
    ) -> None:
        """Stores an exact head's input, int8 [batch, ...], and its errors, the derivative of the loss by its outputs,
        int8 [batch, ...]. Labels are classes, int32 [batch]; or 0, 1 and -1 for each output; or int8 targets in the
        shape of the outputs.
        """
        layer = self._layer(task)
        read = self._batch_of("inputs", inputs, layer.input_bytes)
        computed = self._batch_of("outputs", outputs, layer.nodes)
        wanted = self._batch_of("labels", labels, *loss.labels(layer.nodes))
        call("zo_node_run_capture_head", self.struct, task, read, computed, loss.struct, wanted)

    def capture_inputs(self, task: int, inputs: NDArray[np.int8]) -> None:
        """Stores the input of a layer that receives errors from a backward program, int8 [batch, ...]."""
        data = self._batch_of("inputs", inputs, self._layer(task).input_bytes)
        call("zo_node_run_capture", self.struct, task, data, None, None)

    def lead_back(self, sources: Sequence[NDArray[np.int8] | None]) -> None:
        """Passes errors back to all tasks of the exact tail, after these were captured. `sources` are the weights or
        the activation [batch, ...] that each step of the program reads, or None.
        """
        if self.backward is None:
            raise ValueError("sources: the run has no backward program")
        found = self.backward.sources(self._batch, sources)
        if self.struct.part and self._led_back != self.step:  # others lead the first part back
            call("zo_backward_norms", self.backward.struct, found)
        call("zo_node_run_backward", self.struct, self.backward.struct, 0, len(self.backward.program.steps), found)
        self._led_back = self.step

    def capture_boundary(self, task: int, boundary: NDArray[np.int8]) -> None:
        """Stores the input activation of the first segment with perturbed weights, int8 [batch, ...]."""
        size = self.tasks[task].boundary_bytes
        call("zo_node_run_capture_boundary", self.struct, task, self._batch_of("boundary", boundary, size))

    @property
    def evaluations(self) -> int:
        """Number of remaining evaluations of the present task in this part: 0 before its queries, 1 for perturbed
        weights. Evaluations of nodes change no weight, so one invoke may run all of them.
        """
        return int(library().zo_node_run_evaluations(self.struct))

    def perturb(self, nodes: NDArray[np.int8]) -> None:
        """Writes the task's next perturbed nodes, int8 [evaluations * batch, ...], or the captured activation."""
        task = self.tasks[self.struct.task]
        if task.layer is None:
            self._batch_of("nodes", nodes, task.boundary_bytes)
            call("zo_node_run_perturb", self.struct, nodes.ctypes.data)
            return
        count, rest = divmod(nodes.size, self._batch * task.layer.nodes)
        if rest:
            size = f"{self._batch} x {task.layer.nodes}"
            raise ValueError(f"`nodes` must have {size} values for each evaluation. Received: {list(nodes.shape)}.")
        call("zo_node_run_perturb_all", self.struct, count, address("nodes", nodes, np.int8))

    def report(self, losses: NDArray[np.int32]) -> None:
        """Reports the losses of a forward pass, int32 [batch], or of evaluations, [evaluations * batch]."""
        data = address("losses", losses, np.int32)
        if losses.size == self._batch:
            call("zo_node_run_report", self.struct, data, losses.size, self._report)
            return
        count, rest = divmod(losses.size, self._batch)
        if rest:
            raise ValueError(f"`losses` must have {self._batch} values for each evaluation. Received: {losses.size}.")
        call("zo_node_run_report_all", self.struct, count, data, self._report)

    def update(self, tensors: ctypes.Array[Tensor]) -> StepReport | None:
        """Updates the weights of the present task, in its tensors: for a layer with nodes its filter, its biases or
        both, in this order. Returns the step's report after the last task, else None.
        """
        run, count, report = self.struct, len(tensors), self._report
        if self.tasks[run.task].layer is None:
            call("zo_node_run_update_weights", run, tensors, count, None, report)
        else:
            call("zo_node_run_update", run, tensors, count, self._scratch.ctypes.data, None, report)
        return StepReport.of(report) if report.step_done else None

    def perturb_weights(self, tensors: ctypes.Array[Tensor]) -> None:
        """Perturbs the weights of the task's tensors for the present query, or restores them (RESTORE)."""
        call("zo_node_run_perturb_weights", self.struct, tensors, len(tensors))

    def abandon(self, tensors: ctypes.Array[Tensor] | None = None) -> None:
        """Aborts the step in progress, and restores its task's weights. The next request restarts the step."""
        call("zo_node_run_abandon", self.struct, tensors, 0 if tensors is None else len(tensors))

    def _layer(self, task: int) -> NodeLayer:
        layer = self.tasks[task].layer
        if layer is None:
            raise ValueError(f"task: {task} has no layer, its weights are perturbed")
        return layer
