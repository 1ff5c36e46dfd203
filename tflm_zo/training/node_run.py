# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A run of node perturbation: what the control unit asks for, done in a runtime."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..control import StepReport
from ..converters import Model, ZoMetadata, ZoTrainable, step_multipliers
from ..native import LogitScale
from ..node_control import NodeAction, NodeControl, NodeRequest, NodeTask
from ..nodes import NodeLayer, NodeState
from ..runtime import Runtime
from ..seedlog import LogError, fingerprint
from ..snapshot_log import Snapshot, SnapshotLog, SnapshotWriter, data_checksum
from .costs import Costs, NodeCosts, credited, exact_tail, is_exact_head
from .node_settings import NodeSettings
from .run import Run
from .settings import SettingsError

__all__ = ["NodeRun"]

# Sums of products with an input are of 32 bits (D of zo_node_update.h).
_SUM_MAX: Final = 2**31 - 1


def _relative_scales(model: Model, trainable: ZoTrainable) -> NDArray[np.int16] | None:
    """Filter scales of a layer's outputs relative to the largest, Q15; None where they are one."""
    tensors = model.subgraphs[trainable.segment].all_tensors()
    quantization = next(t.quantization for t in tensors if t.name == trainable.name and t.is_variable)
    assert quantization is not None  # the rewriter has refused such a filter
    if len(quantization.scales) < 2:
        return None
    relative = quantization.scales.astype(np.float64) / float(quantization.scales.max())
    return np.minimum(np.rint(relative * 2**15), 2**15 - 1).astype(np.int16)


class NodeRun(Run):
    """See `Run`. The network before the first layer that is trained is run once per sample and kept.

    Args:
        runtime: the loaded model, which was injected with nodes.
        model: the same model.
        settings: how to train.
        total: steps.
        inputs: all training samples, one array per input.
        labels: of all.

    Raises:
        SettingsError: settings that the model does not fit.
    """

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        settings: NodeSettings,
        total: int,
        inputs: list[NDArray[Any]],
        labels: NDArray[Any],
    ) -> None:
        metadata = runtime.metadata
        self._runtime, self._mark, self._settings = runtime, fingerprint(model), settings
        self._inputs, self._labels = inputs, labels
        self._nodes = metadata.nodes
        self._tensors = [metadata.trainable[n.trainable] for n in self._nodes]
        self._limit = 127 - metadata.head_room
        self._costs = NodeCosts(Costs(model, metadata), settings, metadata)
        self._first = self._costs.first_segment
        self._control = NodeControl(
            settings.as_integers(steps=total, samples=len(labels), batch=metadata.batch),
            self._first,
            [self._task(i) for i in range(len(self._nodes))],
        )
        self._filter_scales = [_relative_scales(model, t) for t in self._tensors]
        loss = metadata.loss
        assert loss is not None  # nodes need one
        self._scale = LogitScale.of(loss.scale) if loss.of_classes else None
        multipliers = step_multipliers(model)
        self._multipliers = [multipliers.get(t.name) for t in self._tensors]
        # Of each task: where perturbed nodes are written.
        self._perturbed: list[NDArray[np.int8] | None] = [None] * len(self._nodes)
        self._words = runtime.command().words
        self._writer: SnapshotWriter | None = None
        self._checksum = data_checksum([*inputs, labels])
        self._prefix: NDArray[np.int8] | None = None
        self._between_steps = False  # weights and state are those of a whole step
        self.total, self.forwards, self.losses = total, 0, []

    @staticmethod
    def check(settings: NodeSettings, metadata: ZoMetadata) -> None:
        """Raises SettingsError where a model does not fit the settings."""
        if not metadata.nodes:
            raise SettingsError(
                "the model carries no nodes: inject it with nodes, or train with TrainSettings"
            )
        layers = [metadata.trainable[n.trainable].layer for n in metadata.nodes]
        for nodes, layer in zip(metadata.nodes, layers, strict=True):
            most = _SUM_MAX // (255 * credited(nodes)) // metadata.batch * metadata.batch
            if settings.batch_size > most:
                raise SettingsError(
                    f"batch_size: expected at most {most}, the samples that sums over the "
                    f"{credited(nodes)} positions of layer {layer} hold, got {settings.batch_size}"
                )
        if isinstance(settings.queries, Mapping):
            unknown = [name for name in settings.queries if name not in layers]
            if unknown:
                raise SettingsError(
                    f"queries: no layer {unknown[0]!r} carries nodes; there are {', '.join(layers)}"
                )
        if settings.head == "exact":
            loss = metadata.loss
            if loss is None or not loss.of_classes:
                raise SettingsError("head: exact needs a softmax cross-entropy, the model has another loss")
            if not any(is_exact_head(n) for n in metadata.nodes):
                raise SettingsError(
                    "head: exact needs a last FULLY_CONNECTED layer that carries nodes and whose outputs the "
                    f"loss reads; the layers with nodes are {', '.join(layers)}"
                )
            tail = exact_tail(settings, metadata.nodes)
            if len(tail) < settings.tail:
                names = ", ".join(layers[i] for i in reversed(tail))
                raise SettingsError(
                    f"tail: expected at most {len(tail)}, the FULLY_CONNECTED layers with nodes at the end "
                    f"that feed each other ({names}), got {settings.tail}"
                )

    def _task(self, number: int) -> NodeTask:
        nodes, tail = self._nodes[number], self._costs.tail
        following = tail[tail.index(number) - 1] if number in tail[1:] else None
        return NodeTask(
            NodeLayer.of(nodes),
            nodes.node_segment,
            self._costs.queries(nodes),
            self._settings.mu,
            following=following,
        )

    @property
    def buffer_bytes(self) -> int:
        """What a device keeps of a minibatch besides the arena."""
        return self._control.buffer_bytes

    @property
    def step(self) -> int:
        """Whole steps done."""
        return self._control.step

    @property
    def equivalents(self) -> float:
        """Forward equivalents of the whole steps done, and of the prefix."""
        return self._costs.until(self.step, len(self._labels))

    # --- weights --------------------------------------------------------------------------------------------

    def _views(self) -> list[NDArray[np.int8]]:
        """The tasks' weights, then their fractions, where they are."""
        views = [self._runtime.weight_views(t.name) for t in self._tensors]
        return [w for w, _ in views] + [f for _, f in views if f is not None]

    def _remember(self) -> None:
        """After each step: what an interruption goes back to, in one assignment."""
        self._saved = self.step, [v.copy() for v in self._views()], self._control.states
        self._between_steps = True

    def begin(self) -> None:
        """Sets the weights that the model starts with."""
        self._load(None)
        self._prepare()

    def _prepare(self) -> None:
        self._remember()
        if self._first and self._prefix is None:
            self._prefix = self._run_prefix()

    def _run_prefix(self) -> NDArray[np.int8]:
        """What enters the first segment that is trained, of all samples."""
        runtime, count = self._runtime, len(self._labels)
        kept = []
        for at in range(0, count, runtime.batch):
            rows = np.minimum(np.arange(at, at + runtime.batch), count - 1)
            runtime.feed([x[rows] for x in self._inputs], None)
            runtime.invoke(stop=self._first)
            kept.append(runtime.boundary(self._first)[: count - at].copy())
        return np.concatenate(kept)

    # --- steps ----------------------------------------------------------------------------------------------

    def advance(self) -> StepReport:
        """Does one step and writes it to the log."""
        self._between_steps = False
        while True:
            request = self._control.next()
            if request.action == NodeAction.FORWARD:
                self._forward(request)
            elif request.action == NodeAction.QUERY:
                self._query(request)
            elif (report := self._update(request)) is not None:
                break
        # Its record is there before the step counts: a full disk leaves the step before.
        if self._writer is not None:
            self._writer.append(report.step, report.loss)
        self.losses.append(report.loss)  # a loss too many is cut off
        self._remember()
        if self._writer is not None and self._writer.is_due:
            self._writer.snapshot(self._views())
        return report

    def _forward(self, request: NodeRequest) -> None:
        runtime, control, first = self._runtime, self._control, self._first
        chosen = control.samples(request.first_sample)
        inputs, labels = [x[chosen] for x in self._inputs], self._labels[chosen]
        runtime.feed(inputs, labels)
        entering = inputs[0] if self._prefix is None else self._prefix[chosen]
        runtime.invoke(self._words, start=first, boundary=None if first == 0 else entering, checked=True)
        self.forwards += runtime.batch

        def at(segment: int) -> NDArray[Any]:
            return entering if segment == first else runtime.boundary(segment)

        tail = self._costs.tail
        head = tail[0] if tail else None
        for i, n in enumerate(self._nodes):
            if not control.is_active(i):
                continue
            nodes = at(n.node_segment)
            if i != head:
                control.capture(i, at(n.input_segment), at(n.output_segment), nodes)
            else:
                assert self._scale is not None  # the trainer has refused other losses
                control.capture_head(i, at(n.input_segment), nodes, self._scale, labels)
            if self._perturbed[i] is None:
                self._perturbed[i] = np.empty_like(nodes)
        for following, i in itertools.pairwise(tail):
            weights, _ = runtime.weight_views(self._tensors[following].name)
            control.backpropagate(i, weights, self._filter_scales[following])
        control.report(runtime.losses())

    def _query(self, request: NodeRequest) -> None:
        perturbed = self._perturbed[request.task]
        assert perturbed is not None  # the forward pass comes first
        self._control.perturb(perturbed)
        self._runtime.invoke(self._words, start=request.start_segment, boundary=perturbed, checked=True)
        self.forwards += self._runtime.batch
        self._control.report(self._runtime.losses())

    def _update(self, request: NodeRequest) -> StepReport | None:
        tensor = self._tensors[request.task]
        weights, fraction = self._runtime.weight_views(tensor.name)
        return self._control.update(
            weights, fraction, self._multipliers[request.task], tensor.stream, self._limit
        )

    def settle(self) -> None:
        """Nothing is ever pending between steps."""

    def roll_back(self) -> None:
        """After an interruption anywhere: weights and log of the last whole step."""
        step, saved, states = self._saved
        for view, values in zip(self._views(), saved, strict=True):
            view[:] = values
        self._control.resume(step, states)
        self.losses = self.losses[:step]
        if self._writer is not None:
            self._writer.keep(step)
        self._between_steps = True

    # --- log ------------------------------------------------------------------------------------------------

    def _load(self, snapshot: Snapshot | None) -> None:
        """Weights and state of a snapshot; None: those before the first step."""
        self._runtime.invoke(self._runtime.command(loss=False).restore())
        if snapshot is None:
            self._control.resume(0, [NodeState()] * len(self._nodes))
            return
        at = 0
        for view in self._views():
            view[:] = snapshot.weights[at : at + view.size]
            at += view.size
        self._control.resume(snapshot.step, snapshot.states)

    def _check(self, log: SnapshotLog) -> None:
        own = self._control
        entries = [(t.queries, t.mu, t.period, t.rate) for t in own.tasks]
        if log.fingerprint != self._mark:
            raise LogError("the log is of another model: its fingerprint differs from this ZO model's")
        if (
            log.settings.as_bytes() != own.settings.as_bytes()
            or [(t.queries, t.mu, t.period, t.rate) for t in log.tasks] != entries
            or log.interval != self._settings.snapshot_every
        ):
            raise LogError("the log is of a run with other settings, data or number of steps")
        if log.data_checksum != self._checksum:
            raise LogError(
                "the log is of a run on other data: node perturbation is repeated from the data, so they "
                "must be the same, in the same order"
            )

    def resume(self, log: Path) -> int | None:
        """Sets weights and state to what a log leads to."""
        old = SnapshotLog.read(log)
        self._check(old)
        self._load(old.snapshot)
        self.losses = old.losses[: self.step].tolist()
        self._prepare()
        return self.step

    def open_log(self, log: Path, kept: int | None, *, replace: bool, sync_every: float | None) -> None:
        """`sync_every` is of no use here: snapshots are brought to the disk, and only they count."""
        self._writer = SnapshotWriter(
            log,
            self._control,
            [n.trainable for n in self._nodes],
            self._mark,
            self._settings.snapshot_every,
            sum(v.size for v in self._views()),
            self._checksum,
            resume=kept is not None and kept > 0,
            replace=replace or kept is not None,
        )

    @property
    def has_log(self) -> bool:
        """Whether a log is open."""
        return self._writer is not None

    def close_log(self) -> None:
        """Brings the log to the disk, with a snapshot of the last whole step, and closes it."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            if self._between_steps and self.step > writer.snapshot_step:
                writer.snapshot(self._views())
        finally:
            writer.close()

    def log_bytes(self) -> bytes:
        """The log up to the last whole step."""
        if self._writer is None:
            raise ValueError("there is no log to copy: give fit a log")
        if self.step > self._writer.snapshot_step:
            self._writer.snapshot(self._views())
        return self._writer.whole(self.step)

    def at_checkpoint(
        self, log: Path, measure: Callable[[], dict[str, float]]
    ) -> tuple[int, dict[str, float]]:
        """What `measure` gives with the weights of an earlier state of this run."""
        old = SnapshotLog.read(log)
        self._check(old)
        kept = 0 if old.snapshot is None else old.snapshot.step
        # As many of this run's, and the same: it has done them.
        if old.losses[:kept].tolist() != self.losses[:kept]:
            raise LogError("the log is not of this run")
        saved, states, step = [v.copy() for v in self._views()], self._control.states, self.step
        try:
            self._load(old.snapshot)
            return kept, measure()
        finally:
            for view, values in zip(self._views(), saved, strict=True):
                view[:] = values
            self._control.resume(step, states)
