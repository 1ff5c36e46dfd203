"""The memory of activations and errors: nothing is overwritten before its last use."""

import dataclasses

import pytest

from helpers.models import MODELS
from helpers.models.node_networks import attention, other_operators, parts
from helpers.oracle.in_place import order
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.firmware.boundaries import Boundaries, boundaries_of, saving_memory
from tflm_zo.firmware.device_model import device_model
from tflm_zo.firmware.planning import plan_run
from tflm_zo.training import Exact, Nodes, Settings, inject_for
from tflm_zo.training.lowering import StepMemory
from tflm_zo.training.tasks import Task

SOURCES = {
    **{name: MODELS[name] for name in ("residual", "depthwise_separable", "lenet5", "small_cnn")},
    "other": other_operators,
    "parts": parts,
    "attention": attention,
}
TASKS: dict[str, tuple[Task, ...]] = {
    "exact": (Exact(last="all", parameters="all"),),
    "two": (Exact(last=2),),
    "nodes": (Nodes(queries=1),),
    "nodes and exact": (Nodes(queries=1), Exact(last=2)),
}


class Memory:
    """Bytes, each with the name of the buffer that was written last."""

    def __init__(self, size: int) -> None:
        self.owners: list[object] = [None] * size

    def write(self, owner: object, at: int, size: int) -> None:
        assert at + size <= len(self.owners)
        self.owners[at : at + size] = [owner] * size

    def read(self, owner: object, at: int, size: int) -> None:
        assert set(self.owners[at : at + size]) == {owner}


def executed(model, settings, memory=None, limit=None, copies=None):
    """Executes a step as firmware does: what it writes and reads."""
    metadata = read_metadata(model)
    plan = plan_run(model, settings, steps=1, samples=8)
    device = device_model(model, dataclasses.replace(plan, memory=memory or plan.memory))
    if limit is not None:
        device = saving_memory(model, metadata, device, limit)
    placed, program, batch = boundaries_of(model, metadata, device), plan.program, metadata.batch
    if copies is not None:
        placed = Boundaries(model, metadata, device, copies=copies)
    offsets = [*placed.at.values(), *placed.passing.values(), *placed.fields.values(), *placed.filters.values()]
    assert all(at % 8 == 0 for at in (*offsets, *(at for at, _ in placed.bits.values())))
    again, reruns = device.plan.memory.recomputed, list(placed.reruns)
    overlaps, copies, updated, bits = [], {}, set(), {}
    memory, streams = Memory(placed.shared + placed.bytes), program is not None and plan.minibatch == 1

    def invoke(k=-1):
        memory.write("activations of an invoke", 0, min(placed.shared, device.heads[k]))

    def size(k):
        port = metadata.segments[k].input_index("boundary")
        return model.subgraphs[k].inputs[0 if port is None else port].size

    parts = range(int(plan.settings.parts))

    def boundary(k, do, part=0):
        part *= k in placed.of_parts
        do(("boundary", k, part), placed.at[k] + part * size(k), size(k))

    def field(f, do):
        if f in placed.fields:
            do(("field", f), placed.fields[f], 2 * program.fields[f])

    def errors(step):
        """Reads and writes errors in the order of the C functions."""
        field(step.source, memory.read)  # for the exponent
        source, target = (placed.fields.get(f) for f in (step.source, step.target))
        sizes, layer = [2 * program.fields[f] for f in (step.source, step.target)], step.layer
        if source is None or target is None or step.source == step.target:
            return field(step.target, memory.write)
        if source + sizes[0] <= target or target + sizes[1] <= source:
            return field(step.target, memory.write)
        owners = ("field", step.source), ("field", step.target)
        if step.kind in ("factors", "levels", "slice"):
            n = {"blocks": 1, "pitch": 0, "offset": 0, "length": program.fields[step.target], **step.numbers}
            read = [n["offset"] + i * n["pitch"] + j for i in range(n["blocks"]) for j in range(n["length"])]
            for written, at in enumerate(read):
                memory.read(owners[0], source + 2 * at, 2)
                memory.write(owners[1], target + 2 * written, 2)
            return None
        assert step.kind in ("layer", "average_pool")
        numbers = step.pool.numbers() if layer is None else layer.struct.numbers()
        in_c, out_c = (numbers["channels"],) * 2 if layer is None else (layer.in_c, layer.out_c)
        for position, outputs in order(numbers):
            for output in outputs:
                memory.read(owners[0], source + 2 * out_c * output, 2 * out_c)
            memory.write(owners[1], target + 2 * in_c * position, 2 * in_c)
        overlaps.append(step)
        return None

    def steps(begin, end, part=0):
        """Does steps, after the segments that run again before them, and then those of an update."""
        for number, step in enumerate(program.steps[begin:end], begin):
            while reruns and reruns[0].when <= 2 * number + 1:
                rerun(*reruns.pop(0)[1:])
            if number in bits:
                memory.read(*bits.pop(number))
            elif step.segment is not None:
                boundary(step.segment, memory.read, part)
            if step.tensor in copies:
                memory.read(*copies.pop(step.tensor))
            else:
                assert step.tensor is None or step.tensor not in updated
            if step.kind == "add":
                field(step.target, memory.read)
            errors(step)
        while reruns and reruns[0].when <= 2 * end:
            rerun(*reruns.pop(0)[1:])

    def rerun(first, end):
        if first:
            boundary(first, memory.read)
        for k in range(first, end):
            assert not {i for i in updated if metadata.trainable[i].segment == k}
            invoke(k)
            for skipped in metadata.segments[k].skips:
                boundary(skipped, memory.read)
            if k + 1 in placed.at:
                assert k + 1 in again
                boundary(k + 1, memory.write)

    own = [(i, t) for i, t in enumerate(plan.tasks) if t.nodes is not None]
    for part in parts:
        for k, segment in enumerate(metadata.segments):
            invoke()
            if k in placed.at and k and k not in again:
                boundary(k, memory.write, part)
            elif k in again and k in placed.passing:
                memory.write(("passing", k), placed.passing[k], size(k))
            for skipped in segment.skips:
                if skipped in placed.at and skipped not in again:
                    boundary(skipped, memory.read, part)
                    continue
                if skipped not in placed.at:
                    memory.write(("passing", skipped), placed.passing[skipped], size(skipped))  # as it entered
                memory.read(("passing", skipped), placed.passing[skipped], size(skipped))
        for _, task in own:
            if task.nodes.output_segment:
                boundary(task.nodes.output_segment, memory.read, part)
            if task.keeps_inputs and not task.nodes.input_segment and not placed.shared:
                boundary(0, memory.write, part)
        if program is not None:
            field(0, memory.write)
        if program is not None and not streams:
            for _ in range(batch):
                field(0, memory.write)  # kept for each sample
                steps(0, len(program.steps), part)
        for _, task in own:
            for k in metadata.entering(task.start_segment) if task.queries else ():
                boundary(k, memory.read, part)
    done = 0
    for i, task in reversed(own):
        if streams and i in placed.updates:
            update = placed.updates[i]
            steps(done, update.steps)
            done = update.steps
            if update.copied:
                assert update.copied == task.layer.weights and program.steps[done].tensor == task.tensors[0]
                copies[task.tensors[0]] = ("filter", i), placed.filters[i], update.copied
                memory.write(*copies[task.tensors[0]])
            field(program.of_tasks[i], memory.read)
        for part in parts if task.keeps_inputs else ():
            if placed.shared and task.nodes.input_segment == 0:
                boundary(0, memory.write)
            boundary(task.nodes.input_segment, memory.read, part)
        if i in placed.bits:
            (at, number), k = placed.bits[i], task.nodes.input_segment
            count = size(k)
            assert program.steps[number].kind == "mask" and program.steps[number].segment == k
            bits[number] = ("bits", number), at, -(-count // 8)
            for byte in range(bits[number][2]):
                rest = range(8 * byte, min(8 * byte + 8, count))
                memory.read(("boundary", k, 0), placed.at[k] + rest[0], len(rest))
                memory.write(bits[number][0], at + byte, 1)
        updated.update(task.tensors)
    assert not reruns and not copies and not bits
    return placed, len(overlaps)


def execute(model, settings, memory=None, limit=None):
    return executed(model, settings, memory, limit)[0]


@pytest.mark.parametrize("minibatch", [1, 2, 4])
@pytest.mark.parametrize("tasks", TASKS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_step_reads_what_it_wrote(name, tasks, minibatch):
    settings = Settings(tasks=TASKS[tasks], batch_size=minibatch)
    batch = 2 if minibatch == 2 and name not in ("other", "parts", "attention") else 1
    execute(inject_for(load_model(SOURCES[name]()), settings, batch=batch), settings)


def test_one_sample_takes_little():
    """A network of equal layers has errors of little more than one layer at a time."""
    settings = Settings(tasks=(Exact(last="all"),), batch_size=1)
    model = inject_for(load_model(MODELS["depthwise_separable"]()), settings, batch=1)
    placed, tail = execute(model, settings), read_metadata(model).tail
    kept = sum(size for k, size in _activations(model) if k in placed.at)
    assert placed.bytes <= kept + 2 * max(field.count for field in tail.fields) * 1.5


@pytest.mark.parametrize("memory", [StepMemory(), StepMemory(True)])
@pytest.mark.parametrize("name", ["residual", "depthwise_separable", "other", "attention"])
def test_errors_are_written_over_those_that_a_layer_reads(name, memory):
    """Copies of filters are made even where they save nothing."""
    settings = Settings(tasks=(Exact(last="all", parameters="all"),), batch_size=1)
    model = inject_for(load_model(SOURCES[name]()), settings, batch=1)
    placed, overlaps = executed(model, settings, memory, copies=True)
    # In the arena's memory the residual network has room for all of them.
    assert (overlaps > 0 or (memory.shares_arena and name == "residual")) and (placed.filters or name == "attention")


def _activations(model):
    segments = read_metadata(model).segments
    ports = ((k, s.input_index("boundary") or 0) for k, s in enumerate(segments))
    return [(k, model.subgraphs[k].inputs[port].size) for k, port in ports]


@pytest.mark.parametrize("name", SOURCES)
def test_memory_is_saved_step_by_step(name):
    """Less memory up to the least, and each time a step that reads what it wrote."""
    settings = Settings(tasks=(Exact(last="all", parameters="all"),), batch_size=1)
    model = inject_for(load_model(SOURCES[name]()), settings, batch=1)
    usual, shares = execute(model, settings), execute(model, settings, StepMemory(True))
    least = execute(model, settings, limit=0)
    assert least.bytes <= shares.bytes <= usual.bytes
    for limit in range(least.bytes, usual.bytes + 1, max(1, (usual.bytes - least.bytes) // 5)):
        assert execute(model, settings, limit=limit).bytes <= limit
    assert execute(model, settings, limit=usual.bytes).shared == 0
    assert shares.shared > 0 and (least.reruns or name in ("small_cnn", "parts", "attention", "other", "lenet5"))


def test_a_part_that_is_kept_is_not_computed_again():
    settings = Settings(tasks=(Exact(last="all"),), batch_size=1)
    model = inject_for(load_model(MODELS["depthwise_separable"]()), settings, batch=1)
    placed = execute(model, settings, StepMemory(recomputed=(2, 4)))
    assert [(r.first, r.end) for r in placed.reruns] == [(3, 4), (1, 2)]
    placed = execute(model, settings, StepMemory(recomputed=(1, 2, 3)))
    assert [(r.first, r.end) for r in placed.reruns] == [(0, 3)]
