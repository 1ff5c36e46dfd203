"""The memory that a device has for activations at boundaries and for errors, which share it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import NamedTuple

from ..converters.kernels import macs
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..converters.segments import entering_tensor
from ..training.lowering import LoweredRun, StepMemory
from .arena import first_gap
from .device_model import DeviceModel

__all__ = ["Boundaries", "Rerun", "aligned", "saving_memory", "steps_before_update", "updates_on_the_way"]


def updates_on_the_way(plan: LoweredRun) -> bool:
    """Returns whether each layer of an exact tail is updated as soon as its errors have passed back through it, which
    runs with one sample in a minibatch do. Errors of two layers are in memory then, not of all.
    """
    return plan.program is not None and plan.minibatch == 1


def steps_before_update(plan: LoweredRun) -> dict[int, int]:
    """Returns the number of the backward program's steps before the update of each task of the exact tail, by the
    task's number. The last task is updated first.
    """
    program, found, so_far = plan.program, dict[int, int](), 0
    if program is None:
        return found
    # The last step that changes a field, and the step that reads a filter.
    changes = {step.target: number for number, step in enumerate(program.steps, 1)}
    reads = {step.tensor: number for number, step in enumerate(program.steps, 1) if step.tensor is not None}
    for task in sorted(program.of_tasks, reverse=True):
        nodes = plan.tasks[task].nodes
        assert nodes is not None  # it is exact
        so_far = max(so_far, changes.get(program.of_tasks[task], 0), reads.get(nodes.trainable, 0))
        found[task] = so_far
    return found


class Rerun(NamedTuple):
    """Segments that a device runs again, to compute their inputs and the input of the segment behind them."""

    before: int  # number of the backward program's step before which they run
    first: int  # the first of the segments
    end: int  # the segment behind the last one


class _Buffer(NamedTuple):
    """A buffer, and the first and the last time at which it is needed."""

    kind: str  # "at", "passing" or "field"
    number: int  # of a segment or a field
    size: int  # bytes, a multiple of 8
    first: float
    last: float


class InfeasibleError(ValueError):
    """Activations cannot be computed again from those that are kept."""


class Boundaries:
    """The memory for input activations of segments, and for the errors of a backward program that are not kept for a
    minibatch. Buffers that are not needed at the same time share it.

    A step consists of the forward pass, which executes segment k at time k, the pass of errors back, which executes
    step i of the program at time K + 1 + i for K segments, and all else that a step does.

    Attributes:
        at: offset of each activation that is kept, by the segment's number.
        passing: offset of each that later segments read, in a run that keeps nothing: the place where it is
            kept, unless such a run begins at the segment or before it.
        fields: offset of each field of errors that is not kept for each sample, by its number.
        shared: bytes of the arena to which the lowest offsets belong; the others follow them in the workspace.
        bytes: bytes of the workspace.
        reruns: segments that run again, in the order of their steps.

    Raises:
        InfeasibleError: activations that are not kept cannot be computed again.
    """

    def __init__(self, model: Model, metadata: ZoMetadata, device: DeviceModel) -> None:
        self._model, self._metadata, self._plan = model, metadata, device.plan
        self._forward = len(metadata.segments)
        self._end = self._forward + 1 + (0 if self._plan.program is None else len(self._plan.program.steps))
        self._before = steps_before_update(self._plan)
        uses, skipping = self._uses(), sorted({k for s in metadata.segments for k in s.skips})
        again = self._plan.memory.recomputed
        self.reruns = [] if not again else self._reruns(uses, again)
        of_reruns = {k: r.before + self._forward + 0.5 for r in self.reruns for k in range(r.first + 1, r.end + 1)}
        first = min(_starts(self._plan), default=self._forward)
        own = [("at", k, of_reruns.get(k, k) if k in again else k, max(times)) for k, times in uses.items()]
        own += [("passing", k, 0, self._end) for k in skipping if k not in uses or k >= first]
        buffers = [_Buffer(kind, k, aligned(self._bytes_entering(k)), since, until) for kind, k, since, until in own]
        buffers += self._fields()
        self.shared = device.head if self._plan.memory.shares_arena else 0
        invokes = [(0.0, float(self._forward)), *((r.before + self._forward + 0.5,) * 2 for r in self.reruns)]
        places = self._places = _places(buffers, self.shared, invokes)
        self.at = {b.number: at for b, at in places.items() if b.kind == "at"}
        self.fields = {b.number: at for b, at in places.items() if b.kind == "field"}
        passing = {b.number: at for b, at in places.items() if b.kind == "passing"}
        self.passing = {k: passing[k] if k in passing else self.at[k] for k in skipping}
        self.bytes = max([self.shared, *(at + b.size for b, at in places.items())]) - self.shared

    @property
    def crowded(self) -> set[int]:
        """Segments whose kept input is there beside the buffer that ends last. Others are not worth computing again."""
        last = [b for b, at in self._places.items() if at + b.size == self.shared + self.bytes]
        there = (b for b in self._places for top in last if b.first <= top.last and top.first <= b.last)
        return {b.number for b in there if b.kind == "at"}

    @property
    def rerun_macs(self) -> int:
        """Multiply-accumulates of the segments that run again."""
        again = (k for r in self.reruns for k in range(r.first, r.end))
        return sum(macs(op) for k in again for op in self._model.subgraphs[k].operators)

    def _uses(self) -> dict[int, list[float]]:
        """Returns the segments whose input is kept, in rising order, with the times of its uses."""
        plan, metadata, forward = self._plan, self._metadata, self._forward
        found: dict[int, list[float]] = {}

        def use(segment: int, time: int) -> None:
            found.setdefault(segment, []).append(time)

        for start in _starts(plan):
            for k in metadata.entering(start):
                use(k, self._end)
        own = self._before if updates_on_the_way(plan) else {}
        stays = int(plan.settings.parts) == 1  # a minibatch of one invoke has its inputs where they are kept
        for i, task in enumerate(plan.tasks):
            use(task.start_segment, forward if task.is_exact else self._end)
            if task.nodes is None:
                continue
            use(task.nodes.output_segment, forward)
            if task.keeps_inputs:
                use(task.nodes.input_segment, forward + own[i] if i in own else self._end if stays else forward)
        for number, step in enumerate(() if plan.program is None else plan.program.steps, 1):
            if step.segment is not None:
                # Of several samples, the first steps of the last one come after the last steps of the first one.
                use(step.segment, forward + number if metadata.batch == 1 else self._end)
        if not (stays and any(t.keeps_inputs and t.nodes and t.nodes.input_segment == 0 for t in plan.tasks)):
            found.pop(0, None)
        for number, segment in enumerate(metadata.segments):
            for k in segment.skips:
                if k in found:
                    use(k, number)
        return dict(sorted(found.items()))

    def _reruns(self, uses: dict[int, list[float]], again: tuple[int, ...]) -> list[Rerun]:
        """Returns the segments that run again, and adds the uses of the activations from which they do. Activations
        that are computed again between two that are kept are computed together.
        """
        found = list[Rerun]()
        for kept, group in itertools.groupby(_with_last_kept(uses, again), lambda pair: pair[0]):
            members = [k for _, k in group]
            first = min(time for k in members for time in uses[k])
            before, end = int(first) - self._forward - 1, members[-1]
            segments = range(kept, end)
            inputs = {
                port.index for k in segments for port in self._metadata.segments[k].inputs if port.role == "input"
            }
            skips = {k for s in segments for k in self._metadata.segments[s].skips if k < kept}
            if before < 0 or kept not in uses or inputs - ({0} if kept == 0 else set()) or skips - uses.keys():
                raise InfeasibleError
            for k in {kept, *skips}:
                uses[k].append(first - 0.5)
            found.append(Rerun(before, kept, end))
        return sorted(found)

    def _fields(self) -> list[_Buffer]:
        """Returns the fields of errors that are not kept for each sample."""
        program, forward = self._plan.program, self._forward
        if program is None:
            return []
        lives = {0: (forward, forward)}
        for number, step in enumerate(program.steps, forward + 1):
            for field in (step.source, step.target):
                lives[field] = lives.get(field, (number, number))[0], number
        for task, steps in self._before.items():
            first, last = lives.get(program.of_tasks[task], (forward, forward))
            lives[program.of_tasks[task]] = first, max(last, forward + steps)
        kept = frozenset[int]() if updates_on_the_way(self._plan) else program.kept
        return [
            _Buffer("field", f, aligned(2 * program.fields[f]), *life) for f, life in lives.items() if f not in kept
        ]

    def _bytes_entering(self, segment: int) -> int:
        if segment == 0:  # input 0 of the network
            readers = (t.layer for t in self._plan.tasks if t.nodes is not None and t.nodes.input_segment == 0)
            return self._metadata.batch * max(layer.input_bytes for layer in readers if layer is not None)
        return entering_tensor(self._model, self._metadata, segment).size  # int8


def _starts(plan: LoweredRun) -> set[int]:
    """Returns the first segments of runs that keep no activations, except segment 0."""
    if plan.tasks:
        return {t.start_segment for t in plan.tasks if t.queries} - {0}
    return set(plan.block_segments) - {0} if plan.settings.blocks else set()


def _with_last_kept(uses: Mapping[int, object], again: tuple[int, ...]) -> list[tuple[int, int]]:
    """Returns each activation that is computed again, after the last one before it that is kept; 0: the inputs."""
    found, last = list[tuple[int, int]](), 0
    for k in uses:
        if k in again:
            found.append((last, k))
        else:
            last = k
    return found


def aligned(size: int) -> int:
    """Returns a size, rounded up to a multiple of 8 bytes."""
    return -(-size // 8) * 8


def _places(buffers: list[_Buffer], shared: int, invokes: list[tuple[float, float]]) -> dict[_Buffer, int]:
    """Returns the offsets of buffers: the largest first, each at the lowest offset at which no other buffer of the same
    time lies. `shared` bytes at the beginning are not there during invokes.
    """
    placed = dict[_Buffer, int]()
    for b in sorted(buffers, key=lambda b: (-b.size, b.kind, b.number)):
        taken = [(at, at + o.size) for o, at in placed.items() if o.first <= b.last and b.first <= o.last]
        is_free = not any(first <= b.last and b.first <= last for first, last in invokes)
        at = first_gap(taken, b.size) if is_free else shared
        fits = is_free and not at < shared < at + b.size
        placed[b] = at if fits else first_gap(taken, b.size, shared)
    return placed


def saving_memory(model: Model, metadata: ZoMetadata, device: DeviceModel, limit: int) -> DeviceModel:
    """Returns a device that saves as much memory in a step that its boundaries take at most `limit` bytes, if possible.

    Errors share the arena first. Then inputs of segments are computed again, those first that save most; it takes less
    than another forward pass.
    """

    def saves(memory: StepMemory) -> DeviceModel:
        return dataclasses.replace(device, plan=dataclasses.replace(device.plan, memory=memory))

    best = saves(StepMemory())
    if not updates_on_the_way(device.plan) or (placed := Boundaries(model, metadata, best)).bytes <= limit:
        return best
    skips = {k for s in metadata.segments for k in s.skips}
    best, known = saves(StepMemory(True)), {}
    present = Boundaries(model, metadata, best)
    while present.bytes > limit:
        possible = sorted(present.crowded - skips - {0})
        # One, or two that follow each other: an activation alone may save nothing.
        for changed in [*((k,) for k in possible), *itertools.pairwise(possible)]:
            again = tuple(sorted(set(best.plan.memory.recomputed) ^ set(changed)))
            if again not in known:
                other = saves(StepMemory(True, again))
                try:
                    made = Boundaries(model, metadata, other)
                    known[again] = made.bytes, made.rerun_macs, other, made
                except InfeasibleError:
                    known[again] = placed.bytes, 0, best, placed
        if not known:
            break
        size, _, other, made = min(known.values(), key=lambda found: found[:2])
        if size >= present.bytes:
            break
        best, present = other, made
    return best
