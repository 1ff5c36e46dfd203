"""The memory that a device has for activations at boundaries and for errors, which share it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import cached_property
from typing import NamedTuple

from ..converters.kernels import macs
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..converters.segments import entering_tensor
from ..core import BackwardProgram
from ..training.lowering import LoweredRun, StepMemory
from .device_model import DeviceModel
from .places import Buffer, Sharing, end_of

__all__ = ["Boundaries", "Rerun", "aligned", "boundaries_of", "saving_memory", "updates_of", "updates_on_the_way"]


def updates_on_the_way(plan: LoweredRun) -> bool:
    """Returns whether each layer of an exact tail is updated as soon as its errors have passed back through it, which
    runs with one sample in a minibatch do. Errors of two layers are in memory then, not of all.
    """
    return plan.program is not None and plan.minibatch == 1


# Of the sets of activations that are computed again: how many are looked at with their neighbours, and placed.
_LOOKED_AT, _PLACED = 24, 16


class Update(NamedTuple):
    """When a device updates the layer of a task of the exact tail."""

    steps: int  # of the backward program that come before it
    copied: int = 0  # bytes of the filter, if the next step reads it as it was before


def updates_of(plan: LoweredRun, copies: bool) -> dict[int, Update]:
    """Returns the update of each task of the exact tail, by the task's number. The last task is updated first.

    Errors pass back through a layer by its old weights, so the step comes before the update, whose gradient reads the
    same errors. If a copy of the filter is smaller than what is saved when the step writes over them, it comes first.
    """
    program, found, so_far = plan.program, dict[int, Update](), 0
    if program is None:
        return found
    # The last step that changes a field, the last one that reads or changes it, and the step that reads a filter.
    changes = {step.target: number for number, step in enumerate(program.steps, 1)}
    lasts = {field: i for i, step in enumerate(program.steps, 1) for field in (step.source, step.target)}
    reads = {step.tensor: number for number, step in enumerate(program.steps, 1) if step.tensor is not None}
    for i in sorted(program.of_tasks, reverse=True):
        task = plan.tasks[i]
        assert task.nodes is not None and task.layer is not None  # it is exact
        read, copied = reads.get(task.nodes.trainable, 0) if task.keeps_inputs else 0, 0  # else biases alone move
        so_far = max(so_far, changes.get(program.of_tasks[i], 0))
        if so_far < read:
            saved = _shared(program, read - 1) if lasts[program.of_tasks[i]] == read else 0
            saved += task.layer.input_bytes if plan.memory.shares_arena else 0  # bits of a mask are left of them
            copied = task.layer.weights if copies and read > 1 and saved > task.layer.weights else 0
            so_far = read - 1 if copied else read
        found[i] = Update(so_far, copied)
    return found


def _shared(program: BackwardProgram, number: int) -> int:
    """Returns the bytes of errors that a step writes over those that it reads."""
    step = program.steps[number]
    source, target, lead = program.fields[step.source], program.fields[step.target], step.lead
    return 0 if lead is None else 2 * (source + target - max(source + max(lead, 0), target))


class Rerun(NamedTuple):
    """Segments that a device runs again, to compute their inputs and the input of the segment behind them."""

    when: int  # twice the number of the backward program's steps before, plus 1 if updates after these come first
    first: int  # the first of the segments
    end: int  # the segment behind the last one


class InfeasibleError(ValueError):
    """Activations cannot be computed again from those that are kept."""


class Boundaries:
    """The memory for input activations of segments, and for the errors of a backward program that are not kept for a
    minibatch. Buffers that are not needed at the same time share it.

    A step consists of the forward pass, which executes segment k at time k, the pass of errors back, which executes
    step i of the program at time K + 1 + i for K segments, and all else that a step does.

    Attributes:
        at: offset of each activation that is kept, by the segment's number.
        of_parts: segments whose input is kept for each part of a minibatch, one part behind the other.
        passing: offset of each that later segments read, in a run that keeps nothing: the place where it is
            kept, unless such a run begins at the segment or before it.
        fields: offset of each field of errors that is not kept for each sample, by its number.
        filters: offset of each copy of a filter, by the number of the task that updates it.
        bits: offset of the bits of each mask that outlive the activation, and the number of their step, by the number
            of the task after whose update the activation is gone.
        shared: bytes of the arena's activations, which belong to boundaries between invokes; the others follow them.
        bytes: bytes of the others.
        least: bytes that they take at least.
        reruns: segments that run again, in the order of their steps.
        limits: segments with the end of the activations of it and those before it, where boundaries rely on it.

    Raises:
        InfeasibleError: activations that are not kept cannot be computed again.
    """

    def __init__(
        self, model: Model, metadata: ZoMetadata, device: DeviceModel, *, copies: bool = False, placed: bool = True
    ) -> None:
        self._model, self._metadata, self._plan = model, metadata, device.plan
        self._forward = len(metadata.segments)
        self._end = self._forward + 1 + (0 if self._plan.program is None else len(self._plan.program.steps))
        self.updates = updates_of(self._plan, copies)
        self._inputs = {t.nodes.input_segment for t in self._plan.tasks if t.keeps_inputs and t.nodes is not None}
        self.of_parts = self._inputs if int(self._plan.settings.parts) > 1 else set[int]()
        self._errors, leads = self._fields()
        uses, skipping = self._uses(), {k: n for n, s in enumerate(metadata.segments) for k in s.skips}
        again = self._plan.memory.recomputed
        self.reruns = self._reruns(uses, again)
        begins, whens = dict[int, float](), [r.when for r in self.reruns]
        for r in self.reruns:
            begins |= dict.fromkeys(range(r.first + 1, r.end + 1), self._time(r.when))
            begins[r.end] += 1 / 16 if whens.count(r.when) == 1 else 0  # it is written behind all invokes
        if self._plan.memory.shares_arena and 0 in uses:
            begins[0] = min(uses[0])  # the sample is read again for the update
        begins |= dict.fromkeys(self.of_parts, 0)  # a part's forward pass comes after the one of the part before
        # Queries of perturbed weights may run from segment 0 on while inputs are kept for exact gradients.
        from_0 = any(t.queries and not t.start_segment for t in self._plan.tasks)
        first = 0 if from_0 else min(_starts(self._plan), default=self._forward)
        bits = self._bits(uses)
        own = [("at", k, begins.get(k, k), bits[k][0] if k in bits else max(times)) for k, times in uses.items()]
        own += [("passing", k, 0, self._end) for k in skipping if k not in uses or k >= first]
        own += [("passing", k, k, last) for k, last in skipping.items() if k in again and k < first]
        buffers = [Buffer(kind, k, aligned(self._bytes_entering(kind, k)), *times) for kind, k, *times in own]
        for b in buffers.copy():
            if b.kind == "at" and b.number in bits:
                time, step, _ = bits[b.number]
                mask = Buffer("bits", b.number, aligned(-(-b.size // 8)), time, self._forward + step)
                buffers, leads = [*buffers, mask], {**leads, (b, mask): 0}
        self.shared = device.heads[-1] if self._plan.memory.shares_arena else 0
        ends = {r: device.heads[r.end - 1] for r in self.reruns if self.shared}
        self.limits = {r.end - 1: end for r, end in ends.items() if end < self.shared}
        runs = [Buffer("arena", r.end, end, self._time(r.when), self._time(r.when)) for r, end in ends.items()]
        runs += [Buffer("arena", self._forward, self.shared, 0, self._forward)] if self.shared else []
        self._sharing = Sharing([*buffers, *self._errors], dict.fromkeys(runs, 0), leads)
        self.least = max(0, self._sharing.most()[0] - self.shared)
        if not placed:
            return
        places, kinds = self._sharing.places(), ("at", "passing", "field", "filter", "bits")
        self.bytes = end_of(places) - self.shared
        of_kinds = ({b.number: at for b, at in places.items() if b.kind == kind} for kind in kinds)
        self.at, passing, self.fields, self.filters, masks = of_kinds
        self.passing = {k: passing[k] if k in passing else self.at[k] for k in skipping}
        self.bits = {task: (masks[k], step - 1) for k, (_, step, task) in bits.items()}

    @property
    def beside(self) -> int:
        """Bytes of the workspace that they take: if they share the arena, they lie there as a whole."""
        return 0 if self.shared else self.bytes

    @property
    def crowded(self) -> set[int]:
        """Segments whose kept input is there when most memory is needed. Others are not worth computing again."""
        _, time = self._sharing.most()
        return {b.number for b in self._sharing.buffers if b.kind == "at" and b.first <= time <= b.last}

    @cached_property
    def rerun_macs(self) -> int:
        """Multiply-accumulates of the segments that run again."""
        again = (k for r in self.reruns for k in range(r.first, r.end))
        return sum(macs(op) for k in again for op in self._model.subgraphs[k].operators)

    def _uses(self) -> dict[int, list[float]]:
        """Returns the segments whose input is kept, in rising order, with the times of its uses."""
        plan, metadata, forward = self._plan, self._metadata, self._forward
        found: dict[int, list[float]] = {}

        def use(segment: int, time: float) -> None:
            found.setdefault(segment, []).append(time)

        for start in _starts(plan):
            for k in metadata.entering(start):
                use(k, self._end)
        own = {i: u.steps + 0.25 for i, u in self.updates.items()} if updates_on_the_way(plan) else {}
        for i, task in enumerate(plan.tasks):
            if task.start_segment:
                use(task.start_segment, forward if task.is_exact else self._end)
            if task.nodes is None:
                continue
            if task.nodes.output_segment:
                use(task.nodes.output_segment, forward)
            if task.keeps_inputs:
                use(task.nodes.input_segment, forward + own[i] if i in own else self._end)
        for number, step in enumerate(() if plan.program is None else plan.program.steps, 1):
            if step.segment is not None:
                # Of several samples, the first steps of the last one come after the last steps of the first one.
                use(step.segment, forward + number if metadata.batch == 1 else self._end)
        if 0 not in self._inputs:
            found.pop(0, None)
        for number, segment in enumerate(metadata.segments):
            for k in segment.skips:
                if k in found and k not in plan.memory.recomputed:
                    use(k, number)
        return dict(sorted(found.items()))

    def _reruns(self, uses: dict[int, list[float]], again: tuple[int, ...]) -> list[Rerun]:
        """Returns the segments that run again, and adds the uses of the activations from which they do. Activations
        that are computed again between two that are kept are computed together.
        """
        found, groups, last = list[Rerun](), dict[int, list[int]](), 0
        for k in uses:
            if k in again:
                groups.setdefault(last, []).append(k)
            else:
                last = k
        for kept, members in groups.items():
            first = min(time for k in members for time in uses[k])
            latest, end = math.ceil(2 * (first - self._forward)) - 1, members[-1]
            # The latest of a few times at which errors take least memory: an invoke needs the arena.
            when = min(range(latest, max(0, latest - 4), -1), key=self._live, default=0)
            segments = range(kept, end)
            reads = {k for s in segments for k in self._metadata.segments[s].skips if k < kept} | {kept} - {0}
            if when < 1 or reads - (uses.keys() - set(again)):
                raise InfeasibleError
            found.append(Rerun(when, kept, end))
            for k in reads:
                uses[k].append(self._time(when))
        return sorted(found)

    def _bits(self, uses: dict[int, list[float]]) -> dict[int, tuple[float, int, int]]:
        """Returns activations of which only the bits of a mask are kept behind an update, the last that reads them:
        its time, the number of the mask's step and that of the task.
        """
        found = dict[int, tuple[float, int, int]]()
        if self._plan.program is None or not self._plan.memory.shares_arena:
            return found
        nodes = {i: self._plan.tasks[i].nodes for i in sorted(self.updates, reverse=True) if self.updates[i].steps}
        tasks = {(n.input_segment, self._forward + self.updates[i].steps + 0.25): i for i, n in nodes.items() if n}
        for number, step in enumerate(self._plan.program.steps, 1):
            k = step.segment
            if step.kind == "mask" and k is not None:
                before, last = sorted([0, *uses[k]])[-2:]
                if last == self._forward + number and (k, before) in tasks:
                    found[k] = before, number, tasks[k, before]
        return found

    def _time(self, when: int) -> float:
        return self._forward + when / 2 + 0.125  # before an update, at a quarter

    def _live(self, when: int) -> int:
        time = self._time(when)
        return sum(b.size for b in self._errors if b.first <= time <= b.last)

    def _fields(self) -> tuple[list[Buffer], dict[tuple[Buffer, Buffer], int]]:
        """Returns the fields of errors that are not kept for each sample and the copies of filters, and the pairs of
        fields the second one of which a step may write over the first one, as `Sharing` has them.
        """
        program, forward = self._plan.program, self._forward
        if program is None:
            return [], {}
        lives: dict[int, tuple[float, float]] = {0: (forward, forward)}
        for number, step in enumerate(program.steps, forward + 1):
            for field in (step.source, step.target):
                lives[field] = lives.get(field, (number, number))[0], number
        copies = list[Buffer]()
        for task, (steps, copied) in self.updates.items():
            first, last = lives.get(program.of_tasks[task], (forward, forward))
            lives[program.of_tasks[task]] = first, max(last, time := forward + steps + 0.25)
            copies += [Buffer("filter", task, aligned(copied), time, forward + steps + 1)] if copied else []
        kept = frozenset[int]() if updates_on_the_way(self._plan) else program.kept
        own = {f: Buffer("field", f, aligned(2 * program.fields[f]), *lives[f]) for f in lives if f not in kept}
        over = [step for step in program.steps if step.lead is not None and {step.source, step.target} <= own.keys()]
        pairs = {(own[step.source], own[step.target]): aligned(2 * (step.lead or 0)) for step in over}
        return [*own.values(), *copies], {(a, b): lead for (a, b), lead in pairs.items() if a.last == b.first}

    def _bytes_entering(self, kind: str, segment: int) -> int:
        parts = int(self._plan.settings.parts) if kind == "at" and segment in self.of_parts else 1
        if segment == 0:  # input 0 of the network
            readers = (t.layer for t in self._plan.tasks if t.nodes is not None and t.nodes.input_segment == 0)
            return parts * self._metadata.batch * max(layer.input_bytes for layer in readers if layer is not None)
        return parts * entering_tensor(self._model, self._metadata, segment).size  # int8


def boundaries_of(model: Model, metadata: ZoMetadata, device: DeviceModel) -> Boundaries:
    """Returns the smaller memory: with copies of filters or without."""
    return min(_ways(model, metadata, device), key=lambda b: b.bytes)


def _ways(model: Model, metadata: ZoMetadata, device: DeviceModel, **own: bool) -> list[Boundaries]:
    ways = (False, True) if updates_on_the_way(device.plan) else (False,)
    return [Boundaries(model, metadata, device, copies=copies, **own) for copies in ways]


def _starts(plan: LoweredRun) -> set[int]:
    """Returns the first segments of runs that keep no activations, except segment 0."""
    if plan.tasks:
        return {t.start_segment for t in plan.tasks if t.queries} - {0}
    return set(plan.block_segments) - {0} if plan.settings.blocks else set()


def aligned(size: int) -> int:
    """Returns a size, rounded up to a multiple of 8 bytes."""
    return -(-size // 8) * 8


def saving_memory(model: Model, metadata: ZoMetadata, device: DeviceModel, limit: int) -> DeviceModel:
    """Returns a device that saves as much memory in a step that its boundaries take at most `limit` bytes, if possible.

    Errors share the arena first. Then inputs of segments are computed again, those first that save most; it takes less
    than another forward pass.
    """

    def saves(memory: StepMemory) -> DeviceModel:
        return dataclasses.replace(device, plan=dataclasses.replace(device.plan, memory=memory))

    best = saves(StepMemory())
    if not updates_on_the_way(device.plan) or boundaries_of(model, metadata, best).bytes <= limit:
        return best
    present = boundaries_of(model, metadata, best := saves(StepMemory(True)))
    known: dict[tuple[int, ...], Boundaries | None] = {(): present}
    waiting: list[tuple[int, ...]] = [()]

    def cheapest(enough: int) -> list[tuple[int, ...]]:
        costs = {again: (max(b.least, enough), b.rerun_macs) for again, b in known.items() if b is not None}
        return sorted(costs, key=costs.__getitem__)

    for _ in range(_LOOKED_AT if present.bytes > limit else 0):
        if not (left := [again for again in cheapest(0) if again in waiting]):
            break
        waiting.remove(left[0])
        looked_at = known[left[0]]
        assert looked_at is not None
        possible = sorted(looked_at.crowded - {0})
        # One, or two that follow each other: an activation alone may save nothing.
        for changed in [*((k,) for k in possible), *itertools.pairwise(possible)]:
            again = tuple(sorted(set(left[0]) ^ set(changed)))
            if again in known:
                continue
            try:
                ways = _ways(model, metadata, saves(StepMemory(True, again)), placed=False)
                known[again] = min(ways, key=lambda b: b.least)
                waiting.append(again)
            except InfeasibleError:
                known[again] = None
    for again in cheapest(limit)[:_PLACED] + cheapest(0)[:_PLACED]:
        if (rough := known[again]) is not None and rough.least < present.bytes > limit:
            made = boundaries_of(model, metadata, other := saves(StepMemory(True, again)))
            best, present = (other, made) if made.bytes < present.bytes else (best, present)
    return best
