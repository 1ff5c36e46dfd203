"""The choice of a block of layers on a device: equal to the desktop's, with any failure on the way and after it."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from device.emulation import (
    ARGUMENT,
    LOG,
    MEMORY,
    OK,
    ORDER,
    RUNTIME,
    RUNTIME_FAILED,
    SAMPLE,
    STORE,
    Device,
    Samples,
    Store,
    needs_compiler,
)
from device.runs import STEPS, Desktop, generated, run_on_desktop, samples, yardstick
from helpers.models import MODELS
from tflm_zo import Model, inject, load_model
from tflm_zo.converters import read_metadata
from tflm_zo.firmware import BlockSearch
from tflm_zo.training import BlockChoice, Nodes, Settings, choose_block

pytestmark = needs_compiler
SETTINGS = Settings(tasks=(Nodes(queries=2),), batch_size=4, learning_rate=1.0, seed=9, snapshot_every=2)
SEARCH = BlockSearch(blocks=2, held_out=0.4, epochs=2)
DATA_SEED = 29
BLOCKS = (("conv",), ("fc",))


@cache
def zo_model() -> Model:
    zo = inject(MODELS["small_cnn"](), batch=2, trainable="nodes", nodes=("*",), headroom=0, replay=False)
    return load_model(zo.to_bytes())


@cache
def choice() -> BlockChoice:
    data = samples(DATA_SEED)
    found = choose_block(
        zo_model(),
        SETTINGS,
        data.inputs[0],
        data.labels,
        blocks=SEARCH.blocks,
        held_out=SEARCH.held_out,
        epochs=SEARCH.epochs,
        runtime=RUNTIME,
    )
    assert found.best == 1 and len(set(found.scores)) == 2  # not the first one
    return found


@cache
def desktop() -> Desktop:
    """Runs the chosen block on the desktop."""
    return run_on_desktop(zo_model(), dataclasses.replace(SETTINGS, layers=choice().layers), samples(DATA_SEED))


def of_block(state: bytes, block: int) -> bytes:
    """Selects the weights of a block's layers, then their fractions, from a desktop's state of all layers."""
    found = b""
    half = len(state) // 2  # the model's 16-bit updates: as many fractions as weights
    for part in (state[:half], state[half:]):
        at = 0
        for t in read_metadata(zo_model()).trainable:
            if t.layer in BLOCKS[block]:
                found += part[at : at + t.nbytes]
            at += t.nbytes
    return found


def weights(state: int) -> tuple[int, bytes]:
    """Returns the device's export after a step of the run of the chosen block."""
    return OK, of_block(desktop().states[state].weights, choice().best)


def device() -> Device:
    data = samples(DATA_SEED)
    made = Device(generated(zo_model(), SETTINGS, data, search=SEARCH), zo_model(), data)
    assert made.init() == OK
    return made


def probe(made: Device, block: int) -> None:
    """Probes this block. The result equals the desktop's."""
    status, found = made.probe()
    assert (status, found.block, found.score) == (OK, block, choice().scores[block])


def finish(made: Device) -> None:
    """Runs the remaining probes, and the run."""
    first = int.from_bytes(made.choice()[4:8], "little")
    for block in range(first, SEARCH.blocks):
        assert not made.chosen
        probe(made, block)
    assert made.chosen
    while made.step < STEPS:
        status, report = made.train_step()
        assert (status, report.mean_loss) == (OK, desktop().losses[report.step])
    assert made.export_weights() == weights(-1)


def test_choice_and_run_are_the_desktops() -> None:
    made, store = device(), Store()
    made.set_log(store)
    assert made.export_weights() == (OK, of_block(desktop().states[0].weights, 0))
    assert made.checksum() == desktop().states[0].checksum
    for block in range(SEARCH.blocks):
        probe(made, block)
        assert store.journal == []  # probes have no log
    assert made.probe()[0] == ORDER
    assert made.export_weights() == weights(0)
    assert made.checksum() == desktop().states[0].checksum
    finish(made)
    assert store.content(len(desktop().log)) == desktop().log


def failing(
    made: Device, fail: Callable[[int], Any], count: Callable[[], int], block: int
) -> Iterator[tuple[int, int]]:
    """Yields probes of a block in which one thing fails, until none does: its number, and the status."""
    number, gap = 1, 1
    while True:
        assert made.init() == OK
        for i in range(block):
            probe(made, i)
        before = made.choice()
        fail(number)
        status, found = made.probe()
        if count() < number:
            assert status == OK and number > 20
            return
        if status == OK:  # an operator that failed behind the weight ops, where the weights alone counted
            assert found.score == choice().scores[block]
            number += 1
            continue
        made.samples.fail_at(0)
        made.fail_invokes()
        assert (made.chosen, made.choice(), found.score) == (False, before, 0)
        yield number, status
        number += gap  # each of the first ones, and some of the others
        gap += number > 8


@pytest.mark.parametrize("block", range(SEARCH.blocks))
def test_samples_that_cannot_be_read(block: int) -> None:
    made = device()
    for number, status in failing(made, made.samples.fail_at, lambda: made.samples.c.reads, block):
        assert status == SAMPLE
        if number % 5:
            probe(made, block)
        else:
            finish(made)


@pytest.mark.parametrize("before", [False, True], ids=["behind the weight ops", "before them"])
def test_invokes_that_fail(before: bool) -> None:
    made = device()
    block = SEARCH.blocks - 1  # the run follows its probe
    statuses = []
    for number, status in failing(made, lambda n: made.fail_invokes(n, before=before), lambda: made.invokes, block):
        statuses.append(status)
        if number % 5:
            probe(made, block)
        else:
            finish(made)
    assert set(statuses) == {RUNTIME_FAILED} and len(statuses) > 8


def test_the_end_of_the_last_probe() -> None:
    """Chooses no block if its run's weights cannot be set."""
    made = device()
    probe(made, 0)
    made.fail_invokes()
    probe(made, 1)
    invokes = made.invokes
    for number in (invokes, invokes - 1):
        assert made.init() == OK
        probe(made, 0)
        made.fail_invokes(number, before=True)
        assert made.probe()[0] == RUNTIME_FAILED
        made.fail_invokes()
        assert not made.chosen
        finish(made)


def test_a_reset_between_probes_and_after_them() -> None:
    made = device()
    for probes in range(SEARCH.blocks + 1):
        assert made.init() == OK
        for block in range(probes):
            probe(made, block)
        kept = made.choice()
        assert made.init() == OK
        assert made.resume(kept) == OK
        assert made.chosen == (probes == SEARCH.blocks)
        finish(made)


def test_power_cuts_in_the_run() -> None:
    """Tears each write of a run: after the reset it resumes from an earlier state, to the same end."""
    made, expected = device(), desktop()
    for block in range(SEARCH.blocks):
        probe(made, block)
    kept = made.choice()
    made.set_log(whole := Store())
    finish(made)
    assert whole.content(len(expected.log)) == expected.log
    found = set()
    for write in range(1, len(whole.journal) + 1):
        for arrives in (0, 5):
            store = Store()
            assert (made.init(), made.resume(kept)) == (OK, OK)
            made.set_log(store)
            store.fail_at(write, arrives)
            status = OK
            while status == OK and made.step < STEPS:
                status = made.train_step()[0]
            assert status == STORE
            store.fail_at(0)
            assert (made.init(), made.resume(kept)) == (OK, OK)
            if made.import_log(store) == OK:
                assert made.export_weights() == weights(made.step)
            else:
                assert made.step == 0
            found.add(made.step)
            made.set_log(store)
            finish(made)
            assert store.content(len(expected.log)) == expected.log
    assert found == {0, 2, 4, 6} - {STEPS} | ({STEPS} & found)


def test_what_is_refused() -> None:
    made = device()
    probe(made, 0)
    before, checksum = made.choice(), made.checksum()
    assert made.train_step()[0] == ORDER
    assert made.keep_best(Samples(yardstick()), 2) == ORDER
    assert made.import_weights(Store()) == ORDER
    assert made.export_log(Store()) == ORDER
    assert made.import_log(Store()) == ORDER
    numbers = np.frombuffer(before[:12], np.uint32)
    for at, value in ((0, 3), (1, 3), (2, 2)):  # blocks, probes done, the best of them
        wrong = numbers.copy()
        wrong[at] = value
        assert made.resume(wrong.tobytes() + before[12:]) == ARGUMENT
    assert (made.choice(), made.checksum()) == (before, checksum)
    probe(made, 1)
    assert made.import_log(Store()) == LOG
    finish(made)


def test_a_device_that_could_not_begin_a_run_has_none() -> None:
    """Leaves nothing of an earlier run in use after `Init` or `Resume` has failed."""
    made = device()
    kept = made.choice()

    def check_nothing() -> None:
        assert made.export_weights()[0] == ORDER
        assert made.set_log(Store()) == ORDER
        assert made.settle() == ORDER
        assert made.evaluate()[0] == ORDER
        assert made.train_step()[0] == ORDER
        assert made.import_log(Store()) == ORDER

    assert made.init(workspace_bytes=made.workspace_bytes - 8) == MEMORY
    check_nothing()
    assert made.init() == OK
    for block in range(SEARCH.blocks):
        probe(made, block)
    assert made.train_step()[0] == OK
    made.fail_invokes(1, before=True)
    assert made.resume(kept) == RUNTIME_FAILED
    made.fail_invokes()
    check_nothing()
    assert made.resume(kept) == OK
    finish(made)
