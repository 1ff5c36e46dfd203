"""A layer-wise run: it executes the requests of the core's control unit in a runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model
from ..core import (
    BackwardStep,
    Measurement,
    NodeAction,
    NodeControl,
    NodeRequest,
    NodeState,
    Snapshot,
    SnapshotLogHeader,
    StepReport,
    TaskEntry,
    best_of,
    make_tensor,
    weight_tensors,
    write_step_record,
)
from ..data import Data
from ..logs import Log, LogError, data_checksum
from ..logs.replay import Arrays, replay_log
from ..runtime import Runtime
from .costs import sides_of
from .executors import together_at_most
from .lowering import LoweredRun
from .plan import model_loss
from .run import Run


class NodeRun(Run):
    """A layer-wise run, see `Run`, of a model that was injected with nodes. Activations before the first trained layer
    are computed once for each sample and kept. Losses from `noise`, if given, replace the network's; queries then do
    not run it.
    """

    _control: NodeControl

    def __init__(
        self, runtime: Runtime, model: Model, lowered: LoweredRun, data: Data, noise: np.random.Generator | None = None
    ) -> None:
        super().__init__(runtime, model, lowered)
        metadata = runtime.metadata
        self._inputs, self._labels, self._noise = list(data.inputs), data.labels, noise
        self._tasks, self._first, self._program = lowered.tasks, lowered.first_segment, lowered.program
        self._tensors = [metadata.trainable[i] for i in lowered.tensors]
        self._limit = 127 - metadata.headroom
        self._multipliers = lowered.multipliers
        self._loss = model_loss(metadata.known_loss)
        self._control = NodeControl(
            lowered.settings, self._first, self._tasks, lowered.rules, self._program, threads=runtime.threads
        )
        # Memory for the input of each task's queries.
        self._entering: list[NDArray[np.int8] | None] = [None] * len(self._tasks)
        self._weights: dict[int, Any] = {}
        self._words = runtime.command().words
        self._checksum = data_checksum([*self._inputs, self._labels])
        used = min(len(data), self.total * lowered.minibatch)
        self._prefix = _Prefix(runtime, self._first, self._inputs, used) if self._first else None
        self._between_steps = False  # weights and state are those of a whole step
        self._resumed_best: Snapshot | None = None

    @property
    def step(self) -> int:
        """Number of complete steps."""
        return self._control.step

    # --- weights --------------------------------------------------------------------------------------------

    def _views(self) -> list[NDArray[np.int8]]:
        """Returns views of the tensors' weights and biases as bytes, followed by views of the fractions."""
        views = [self._runtime.weight_views(t.name) for t in self._tensors]
        return [w.view(np.int8) for w, _ in views] + [f for _, f in views if f is not None]

    def _remember(self) -> None:
        """Saves the state after a step, for `roll_back`, in one assignment."""
        control = self._control
        self._saved = self.step, [v.copy() for v in self._views()], control.states, control.largest_loss
        self._between_steps = True

    def begin(self) -> None:
        """Restores the model's initial weights."""
        self._load(None)
        self._remember()

    # --- steps ----------------------------------------------------------------------------------------------

    def advance(self) -> StepReport:
        """Runs one step and appends it to the log."""
        self._between_steps = False
        while True:
            request = self._control.next()
            if request.action == NodeAction.FORWARD:
                self._forward(request)
            elif request.action == NodeAction.QUERY:
                self._query(request)
            elif request.action == NodeAction.RESTORE:
                self._control.perturb_weights(self._weights_of(request.task))
            elif (report := self._control.update(self._weights_of(request.task))) is not None:
                break
        # Its record is there before the step counts: a full disk leaves the step before.
        if self._writer is not None:
            loss = round(report.loss * 65536)
            self._writer.append(lambda owner: write_step_record(report.step, loss, owner))
        self._remember()
        # A measurement comes before the snapshot of its step, so that a run that is resumed there has it.
        if self._writer is not None and self._writer.is_due(self.step) and not self.measures_now:
            self._writer.snapshot(self._control, self._views())
        return report

    def add_measurement(self, measurement: Measurement) -> None:
        """Appends a measurement of the weights after the last complete step to the log."""
        super().add_measurement(measurement)
        self._write_best()
        if self._writer is not None and self.step and self._writer.is_due(self.step):
            self._writer.snapshot(self._control, self._views())

    def _write_best(self) -> None:
        """Appends the weights to the log if they are the best measured ones."""
        best = best_of(self.measurements)
        if self._writer is None or best is None or not best.step:  # the model has those before the first step
            return
        if best.step == self.step and self._writer.best_step != best.step:
            self._writer.best_snapshot(self._control, self.measurements.index(best), self._views())

    def best_state(self) -> tuple[Measurement, Arrays, Arrays] | None:
        """Returns the best measurement in the log of a resumed run, with its weights and fractions, or None."""
        if self._resumed_log is None:
            return None
        log = Log.read(self._resumed_log, layerwise=True)
        best = log.best_until(self.step)
        return None if best is None else (best, *replay_log(self._model, log, best.step))

    def _forward(self, request: NodeRequest) -> None:
        runtime, control, first = self._runtime, self._control, self._first
        chosen = control.samples(request.first_sample)
        inputs, labels = [x[chosen] for x in self._inputs], self._labels[chosen]
        entering = None if self._prefix is None else self._prefix.of(chosen)
        runtime.feed(inputs, labels)
        runtime.invoke(self._words, start=first, boundary=entering, checked=True)
        self.forwards += runtime.batch

        def at(segment: int) -> NDArray[Any]:
            return runtime.boundary(segment) if segment else inputs[0]

        for i, task in enumerate(self._tasks):
            nodes = task.nodes
            if nodes is None:
                if task.start_segment:
                    entering_it = at(task.start_segment)
                    control.capture_boundary(i, entering_it)
                    if self._entering[i] is None:
                        self._entering[i] = np.empty_like(entering_it)
                continue
            if task.in_tail:
                control.capture_inputs(i, at(nodes.input_segment))
                continue
            read = at(nodes.node_segment)
            if task.is_exact:
                control.capture_head(i, at(nodes.input_segment), read, self._loss, labels)
            else:
                control.capture(i, at(nodes.input_segment), at(nodes.output_segment), read)
            if self._entering[i] is None and task.queries:
                self._entering[i] = self._room(i, read)
        if self._program is not None:
            control.lead_back([self._source(step, at) for step in self._program.steps])
        control.report(self._losses())

    def _source(self, step: BackwardStep, at: Callable[[int], NDArray[Any]]) -> NDArray[np.int8] | None:
        """Returns the weights or the activation that a step of the backward program reads."""
        if step.tensor is not None:
            return self._runtime.weight_views(self._runtime.metadata.trainable[step.tensor].name)[0]
        return None if step.segment is None else at(step.segment)

    def _query(self, request: NodeRequest) -> None:
        entering = self._entering[request.task]  # None: the network's inputs are where they were fed
        if self._tasks[request.task].nodes is None:
            if entering is not None:
                self._control.perturb(entering)
            self._control.perturb_weights(self._weights_of(request.task))
            self._rerun(request.start_segment, entering)
        else:
            assert entering is not None
            # As many evaluations as one invoke takes.
            entering = entering[: self._control.evaluations * self._runtime.batch]
            self._control.perturb(entering)
            self._rerun(request.start_segment, entering)
        self._control.report(self._losses())

    def _rerun(self, start: int, entering: NDArray[np.int8] | None) -> None:
        if self._noise is not None:
            return
        self._runtime.invoke(self._words, start=start, boundary=entering, keep=False, checked=True)
        self.forwards += self._runtime.batch if entering is None else len(entering)

    def _room(self, task: int, read: NDArray[np.int8]) -> NDArray[np.int8]:
        """Allocates the input of a task's queries, [samples, ...], for all evaluations of one invoke."""
        evaluations = sides_of(self._lowered.settings) * self._tasks[task].queries
        parts = -(-evaluations // together_at_most(len(read), read[:1].nbytes))
        each = -(-evaluations // parts)
        return np.empty((each * len(read), *read.shape[1:]), read.dtype)

    def _losses(self) -> NDArray[np.int32]:
        if self._noise is not None:
            return self._noise.integers(0, 2**16, self._runtime.batch, dtype=np.int32)
        return self._runtime.losses()

    def _weights_of(self, task: int) -> Any:
        """Returns the tensors of a task. They are cached, since the runtime does not move them."""
        if task in self._weights:
            return self._weights[task]
        tensors = []
        for t in (self._runtime.metadata.trainable[i] for i in self._tasks[task].tensors):
            weights, fraction = self._runtime.weight_views(t.name)
            tensors.append(
                make_tensor(
                    weights,
                    fraction,
                    self._multipliers[t.name],
                    t.channels,
                    t.inner,
                    t.stream,
                    self._limit,
                )
            )
        self._weights[task] = weight_tensors(tensors)
        return self._weights[task]

    def roll_back(self) -> None:
        """Restores the weights and the log of the last complete step after an interruption."""
        step, saved, states, largest = self._saved
        for view, values in zip(self._views(), saved, strict=True):
            view[:] = values
        self._control.resume(step, states, largest)
        if self._writer is not None:
            self._writer.keep(step, len(self.measurements))
        self._between_steps = True

    # --- log ------------------------------------------------------------------------------------------------

    def _load(self, snapshot: Snapshot | None) -> None:
        """Restores the weights and the state of a snapshot; None: those before the first step."""
        self._runtime.execute(self._runtime.command(loss=False).restore())
        self.measurements = []
        if snapshot is None:
            self._control.resume(0, [NodeState()] * len(self._tasks), 0)
            return
        at = 0
        for view in self._views():
            view[:] = snapshot.weights[at : at + view.size]
            at += view.size
        self._control.resume(snapshot.step, snapshot.states, snapshot.largest_loss)

    def _entries(self) -> list[TaskEntry]:
        return [TaskEntry.of(task, task.tensors) for task in self._tasks]

    def _check(self, log: Log) -> None:
        same = list(log.tasks) == self._entries() and log.rules == self._control.rules
        self._check_log(log, same and log.interval == self._lowered.interval)
        if log.data_checksum != self._checksum:
            raise LogError(
                "the log is of a run on other data: node perturbation is repeated from the data, so they "
                "must be the same, in the same order, and as many held out"
            )

    def resume(self, log: Path) -> int:
        """Restores the weights and the state that a log records."""
        old = Log.read(log, layerwise=True)
        self._check(old)
        self._load(old.snapshot)
        # Without a snapshot the log is written anew.
        self.measurements = [m for m in old.measurements if 0 < self.step >= m.step]
        self._resumed_log, self._resumed_best = log, old.best_slot
        self._remember()
        return self.step

    def _header(self) -> SnapshotLogHeader:
        return SnapshotLogHeader(
            self._control.node_settings,
            tuple(self._entries()),
            self._mark,
            self._lowered.interval,
            sum(v.size for v in self._views()),
            self._checksum,
            self.measure_every,
        )

    def open_log(self, log: Path, kept: int | None, *, replace: bool, sync_every: float | None) -> None:
        """Opens the log for writing."""
        super().open_log(log, kept, replace=replace, sync_every=sync_every)
        if kept and self._resumed_best is not None:
            self._own_log().best_step = self._resumed_best.step

    def close_log(self) -> None:
        """Appends a snapshot of the last complete step, syncs the log to the disk and closes it."""
        writer = self._writer
        if writer is None:
            return
        try:
            if self._between_steps:
                self._write_best()
            self._writer = None
            if self._between_steps and self.step > writer.snapshot_step:
                writer.snapshot(self._control, self._views())
        finally:
            self._writer = None
            writer.close()

    def log_bytes(self) -> bytes:
        """Returns the log up to the last complete step."""
        writer = self._own_log()
        if self.step > writer.snapshot_step:
            writer.snapshot(self._control, self._views())
        return super().log_bytes()

    def steps_of_copy(self, log: Path) -> int:
        """Returns the number of steps in an earlier copy of this run's log."""
        old = Log.read(log, layerwise=True)
        self._check(old)
        kept = 0 if old.snapshot is None else old.snapshot.step
        # As many of this run's, and the same: it has done them.
        if old.losses[:kept].tolist() != self.resumed_losses(0)[:kept].tolist():
            raise LogError("the log is not of this run")
        return kept


class _Prefix:
    """Cache of the activations that enter a segment, for at most `used` samples. Earlier weights are constant."""

    def __init__(self, runtime: Runtime, first: int, inputs: list[NDArray[Any]], used: int) -> None:
        self._runtime, self._first, self._inputs, self._used = runtime, first, inputs, used
        # By the segments that they enter, in the order in which samples are used first, and where there each
        # sample is; -1: nowhere yet.
        self._kept: dict[int, NDArray[np.int8]] = {}
        self._row = np.empty(len(inputs[0]), np.int64)
        self.forget()

    def forget(self) -> None:
        """Empties the cache after a change of the samples."""
        self._row[:], self._count = -1, 0

    def of(self, chosen: NDArray[np.uint32]) -> dict[int, NDArray[np.int8]]:
        """Returns the activations of samples by the segment that they enter, int8 [samples, ...]."""
        new = np.unique(chosen[self._row[chosen] < 0])
        if len(new):
            self._compute(new)
        return {k: kept[self._row[chosen]] for k, kept in self._kept.items()}

    def _compute(self, new: NDArray[np.uint32]) -> None:
        runtime = self._runtime
        # As many as are missing to a whole batch are run twice.
        runtime.feed([x[np.resize(new, runtime.batch)] for x in self._inputs], None)
        runtime.invoke(stop=self._first)
        at, self._count = self._count, self._count + len(new)
        for k in runtime.metadata.entering(self._first):
            values = runtime.boundary(k)
            if k not in self._kept:
                self._kept[k] = np.empty((self._used, *values.shape[1:]), values.dtype)
            self._kept[k][at : self._count] = values[: len(new)]
        self._row[new] = np.arange(at, self._count)
