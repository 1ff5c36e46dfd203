"""Samples, invokes, memory that fail: a status, and the weights of a complete step, from which the run goes on."""

import itertools
from collections.abc import Callable

import pytest

from device.emulation import (
    LABEL,
    LOG,
    MEMORY,
    OK,
    RING,
    RUNTIME_FAILED,
    SAMPLE,
    STORE,
    Device,
    Samples,
    Store,
    needs_compiler,
)
from device.powered import KINDS, STORES, Kind, boot, check_end, interval, powered
from device.runs import (
    CLASSES,
    EACH_RUN,
    EACH_WEIGHT_RUN,
    RECOMPUTING,
    RUNS,
    SEGMENTED_WEIGHTS,
    STEPS,
    WEIGHT_RUNS,
    desktop,
    device,
    train,
    yardstick,
)
from helpers.examples import slow_but

pytestmark = needs_compiler


def started(made: Device, name: str, step: int) -> Device:
    """Begins a run anew, up to a step."""
    made.samples.fail_at(0)
    made.fail_invokes()
    assert made.init() == OK
    train_to(made, name, step)
    return made


def train_to(made: Device, name: str, step: int) -> None:
    """Steps as on the desktop."""
    while made.step < step:
        status, report = made.train_step()
        assert (status, report.mean_loss) == (OK, desktop(name).losses[report.step])


def check(made: Device, name: str, step: int) -> None:
    """Checks that the state is that after a step, and that the run ends like the desktop's."""
    states = desktop(name).states
    made.fail_invokes()
    assert made.step == step
    assert made.export_weights() == (OK, states[step].weights)
    train_to(made, name, STEPS)
    assert made.export_weights() == (OK, states[-1].weights)


def check_each(name: str, made: Device, fail: Callable[[int], None], expected: int) -> None:
    """Lets each thing in a step fail, one after the other: each failure meets another step than the last one."""
    states = desktop(name).states
    for number in itertools.count(1):
        if number == 1 or made.step == STEPS:
            started(made, name, 1)
        step = made.step
        fail(number)
        status, report = made.train_step()
        made.samples.fail_at(0)
        made.fail_invokes()
        if status == OK:
            break
        assert (status, report.step_done) == (expected, 0)
        assert made.step == step
        # Between updates activations may be computed again, from the sample: the next call goes on with the step.
        if name not in RECOMPUTING or status not in (RUNTIME_FAILED, SAMPLE):
            assert made.export_weights() == (OK, states[step].weights)
        train_to(made, name, step + 1)
        if number == 1 or made.step == STEPS:
            check(made, name, made.step)
    assert number > 3


@pytest.mark.parametrize("name", EACH_RUN)
def test_each_sample_that_cannot_be_read(name: str) -> None:
    made = device(name)
    check_each(name, made, made.samples.fail_at, SAMPLE)


@pytest.mark.parametrize("before", [False, True], ids=["behind the weight ops", "before them"])
@pytest.mark.parametrize("name", EACH_RUN)
def test_each_invoke_that_fails(name: str, before: bool) -> None:
    made = device(name)
    check_each(name, made, lambda number: made.fail_invokes(number, before=before), RUNTIME_FAILED)


@pytest.mark.parametrize("before", [False, True], ids=["behind the weight ops", "before them"])
@pytest.mark.parametrize("name", EACH_WEIGHT_RUN)
def test_invokes_that_fail_while_a_step_is_given_up(name: str, before: bool) -> None:
    made = device(name)
    failed = 0
    for first, times in itertools.product(range(1, 12), (2, 3, 5)):
        started(made, name, 1)
        made.fail_invokes(*range(first, first + times), before=before)
        status, _ = made.train_step()
        if status == OK:
            continue
        failed += 1
        assert status == RUNTIME_FAILED
        while (status := made.settle()) != OK:
            assert status == RUNTIME_FAILED
        check(made, name, 1)
    assert failed > 4


@pytest.mark.parametrize("name", EACH_WEIGHT_RUN)
def test_a_pending_update_needs_no_invoke(name: str) -> None:
    made = device(name)
    for step in (1, 3, STEPS):
        started(made, name, step)
        made.fail_invokes(*range(1, 9), before=True)
        # Again, because an update that is settled is not pending any more.
        assert [made.settle(), made.settle(), made.invokes] == [OK, OK, 0]
        check(made, name, step)


@pytest.mark.parametrize("name", slow_but(["weight, segments"], SEGMENTED_WEIGHTS))
def test_every_place_where_an_evaluation_fails(name: str) -> None:
    made = device(name)
    for number in range(1, 8):
        started(made, name, 2)
        made.fail_invokes(number, before=True)
        assert made.evaluate(0, 2)[0] in (OK, RUNTIME_FAILED)
        check(made, name, 2)


@pytest.mark.parametrize("name", EACH_RUN)
def test_labels_out_of_range(name: str) -> None:
    made = device(name)
    started(made, name, 1)
    right = made.samples.labels.copy()
    for wrong in (-2, CLASSES, -(2**31), 2**31 - 1):
        made.samples.labels[:] = wrong
        status, report = made.train_step()
        made.samples.labels[:] = right
        assert (status, report.step_done) == (LABEL, 0)
        assert made.export_weights() == (OK, desktop(name).states[1].weights)
    check(made, name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH_RUN)
def test_memory_that_is_too_small(name: str) -> None:
    made = device(name)
    assert made.init(workspace_bytes=made.workspace_bytes - 1) == MEMORY
    least = made.arena_bytes
    while made.init(arena_bytes=least - 16) == OK:
        least -= 16
    for size in {*range(0, least - 16, 97), *range(max(0, least - 64), least - 15)}:
        assert made.init(arena_bytes=size) == MEMORY
    assert made.init(arena_bytes=least) == OK
    check(made, name, 0)


def check_reads(made: Device, store: Store, read: Callable[[], int], check: Callable[[], None]) -> None:
    """Lets each read of a store fail: the call reports it, writes nothing, and succeeds when repeated."""
    content, number = store.content(len(store.bytes)), 0
    while True:
        number += 1 if number < 8 else 61
        store.fail_read_at(number)
        status, done = read(), store.c.reads < number
        store.fail_read_at(0)
        assert status == (OK if done else STORE)
        assert store.content(len(content)) == content
        assert read() == OK
        check()
        if done:
            return


@pytest.mark.parametrize(
    "run",
    slow_but(
        [("weight", 2), ("nodes and weights", 0), ("exact head", 2)],
        [*((name, 0) for name in RUNS), *((name, 2) for name in ("weight", "node", "exact head"))],
    ),
    ids=lambda run: f"{run[0]}-{run[1]}",
)
def test_each_read_of_a_log_that_fails(run: tuple[str, int]) -> None:
    """Does not take a failed read for the end of the log, which would overwrite the rest."""
    name, every = run
    made, store, wanted = device(name), Store(), desktop(name, 1, every)

    def boot() -> int:
        assert made.init() == OK
        if every:
            assert made.keep_best(Samples(yardstick()), every) == OK
        status = made.import_log(store)
        made.set_log(store)
        return status

    def check_step(steps: int) -> None:
        assert made.step == steps
        assert made.export_weights() == (OK, wanted.states[steps].weights)

    assert boot() == LOG
    train(made, STEPS - 1)
    assert boot() == OK
    reached = made.step
    check_reads(made, store, boot, lambda: check_step(reached))
    while made.train_step()[1].step_done:
        pass
    check_step(STEPS)
    check_reads(made, store, boot, lambda: check_step(STEPS))
    if every:
        check_reads(made, store, lambda: made.restore_best()[0], lambda: check_kept(made, wanted.kept.weights))
    assert store.content(len(wanted.log)) == wanted.log


def check_kept(made: Device, weights: bytes) -> None:
    assert made.export_weights() == (OK, weights)


@pytest.mark.parametrize(
    "store", slow_but(["flash", "flash of doublewords"], (name for name in STORES if STORES[name].kind == RING))
)
@pytest.mark.parametrize("run", slow_but(KINDS[:1] + KINDS[-1:], KINDS), ids=lambda run: run[0])
def test_flash_that_fails_loses_nothing(run: Kind, store: str) -> None:
    """Hides a single failure. Behind a lasting one the log is exported, without a mount."""
    made, failed = powered(run), {1: 0, 3000: 0}
    for after, operations in itertools.product((0, 1, 7, 25, 60), failed):
        made.begin_memory(STORES[store])
        assert boot(made, run, clears=True) == 0
        made.fail_memory(after, operations)
        while True:
            status, report = made.train_step()
            if status == OK and not report.step_done:
                break
            while status != OK:
                assert status == STORE
                failed[operations] += 1
                status = made.export_stored_log()
        if operations == 1 or run[0] in WEIGHT_RUNS:
            check_end(made, run)
        else:  # the export of a layer-wise run is a snapshot more
            assert made.memory_faults == 0
        assert boot(made, run) // interval(run) == STEPS // interval(run)
    assert failed[1] == 0 and failed[3000] > 5
