"""The trainer's functions in C do the same as the methods of their names."""

import ctypes
from ctypes import byref
from typing import Any

import pytest

from device.emulation import ARGUMENT, MEMORY, OK, ORDER, Device, Samples, Store, needs_compiler
from device.runs import EACH_WEIGHT_RUN, STEPS, desktop, device, yardstick
from device.structs import Report, WeightSnapshot, Yardstick
from tflm_zo.core.loader import structs

pytestmark = needs_compiler


def memory(made: Device, arena_bytes: int | None = None) -> tuple[Any, ...]:
    """Returns the arguments of `init`."""
    arena, workspace = made.arena, made.workspace
    return (
        ctypes.c_void_p(arena.address),
        ctypes.c_size_t(arena.size if arena_bytes is None else arena_bytes),
        ctypes.c_void_p(workspace.address),
        ctypes.c_size_t(workspace.size),
        byref(made.source_of(made.samples)),
    )


def train(made: Device, steps: int) -> None:
    report = Report()
    while made.call_c("steps") < steps:
        assert made.call_c("step", byref(report)) == OK


@pytest.mark.parametrize("name", ["weight", "node", "exact head"])
def test_the_best_state(name: str) -> None:
    made, wanted, store = device(name), desktop(name, 1, 2), Store()
    log, best = made.log_of(store), structs.zo_measurement()
    measured = Samples(yardstick())
    by = Yardstick(made.source_of(measured), len(yardstick()), 2)
    assert made.call_c("keep_best", byref(by)) == ORDER  # before init
    assert made.call_c("settle") == ORDER
    assert made.call_c("step", byref(Report())) == ORDER
    assert made.call_c("is_done") & 0xFF == 0
    assert made.call_c("init", *memory(made)) == OK
    assert made.call_c("keep_best", byref(by)) == OK
    assert made.call_c("set_log", byref(log)) == OK
    train(made, 3)
    assert made.call_c("restore_best", byref(best)) == ORDER
    assert made.call_c("settle") == OK
    assert made.call_c("checksum") == wanted.states[3].checksum
    train(made, STEPS)
    assert made.call_c("restore_best", byref(best)) == OK
    assert made.call_c("checksum") == wanted.kept.checksum
    assert wanted.states[best.step].checksum == wanted.kept.checksum


@pytest.mark.parametrize("name", EACH_WEIGHT_RUN)
def test_a_snapshot(name: str) -> None:
    made, wanted, store, mark = device(name), desktop(name), Store(), ctypes.c_uint32()
    log, weights = made.log_of(store), Store(content=wanted.states[3].weights)
    assert made.call_c("init", *memory(made)) == OK
    assert made.call_c("set_log", byref(log)) == OK
    train(made, 3)
    assert made.call_c("snapshot_mark", byref(mark)) == OK
    train(made, 4)
    record = (len(wanted.log) - wanted.log[10]) // STEPS
    assert made.call_c("log_bytes") == wanted.log[10] + 4 * record
    assert made.call_c("init", *memory(made)) == OK
    snapshot = WeightSnapshot(made.log_of(weights), 3, mark.value)
    made.fail_invokes(*range(1, 9), before=True)  # the model's own weights are not set again
    assert made.call_c("import_log_from", byref(log), byref(snapshot)) == OK
    made.fail_invokes()
    assert (made.call_c("steps"), made.call_c("checksum")) == (4, wanted.states[4].checksum)


@pytest.mark.parametrize("name", ["weight", "node"])
def test_the_least_arena(name: str) -> None:
    made = device(name)
    least = made.call_c("least_arena_bytes", *memory(made))
    assert 0 < least <= made.arena_bytes and least % 16 == 0
    assert made.call_c("init", *memory(made, least)) == OK
    assert made.call_c("init", *memory(made, least - 16)) == MEMORY
    assert made.call_c("least_arena_bytes", *memory(made, least - 16)) == 0


@pytest.mark.parametrize("name", ["weight", "node"])
def test_memory_that_is_not_aligned(name: str) -> None:
    made = device(name)
    arena, size, workspace, room, source = memory(made)
    for beside in (1, 4, 8):
        moved = ctypes.c_void_p(made.arena.address + beside)
        assert made.call_c("init", moved, size, workspace, room, source) == ARGUMENT
        assert made.call_c("step", byref(Report())) == ORDER
    moved = ctypes.c_void_p(made.workspace.address + 4)
    assert made.call_c("init", arena, size, moved, room, source) == ARGUMENT
    assert made.call_c("settle") == ORDER
    assert made.call_c("init", arena, size, workspace, room, source) == OK
