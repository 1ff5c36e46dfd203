# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Steps done in slices, with answers between them: the desktop's log and weights."""

from __future__ import annotations

import numpy as np
import pytest

from device.emulation import OK, ORDER, RUNTIME_FAILED, Device, Samples, Store, needs_compiler
from device.runs import EACH_RUN, EACH_WEIGHT_RUN, STEPS, WEIGHT_RUNS, desktop, device, samples, yardstick
from helpers.examples import slow_but

pytestmark = needs_compiler


#: Shortcuts carry to trained layers what others have computed.
WITHOUT_ROOM = ("residual, behind a prefix",)


def finish(made: Device, name: str, store: Store, *, answers: bool = True, fails: bool = False) -> int:
    """Trains to the end in slices; returns how many there were."""
    expected, slices, rng = desktop(name), 0, np.random.default_rng(3)
    other, held_out = Samples(samples(8, 3)), Samples(yardstick())
    while made.step < STEPS:
        if fails and rng.integers(3) == 0:
            made.fail_invokes(int(rng.integers(1, 4)), before=bool(rng.integers(2)))
        status, report = made.train_slice()
        assert status in (OK, RUNTIME_FAILED) if fails else status == OK
        slices += status == OK
        is_in_step = status == OK and not report.step_done  # a slice that fails gives its step up
        if not answers:
            continue
        status, _ = made.evaluate(of=other)
        while fails and status == RUNTIME_FAILED:  # a call that has failed is repeated
            status, _ = made.evaluate(of=other)
        refused = name in WITHOUT_ROOM and not report.step_done
        assert status == (ORDER if refused else OK)
        made.fail_invokes()
        assert made.evaluate(of=held_out)[0] == status
        weights = made.export_weights()
        assert weights[0] == OK
        if name in WEIGHT_RUNS:
            assert weights[1] == expected.states[made.step].weights
        if slices == 1 and is_in_step:
            assert made.keep_best(held_out, 1) == ORDER and made.import_weights(Store()) == ORDER
            assert name in WEIGHT_RUNS or made.export_log(Store()) == ORDER
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert store.content(len(expected.log)) == expected.log
    return slices


@pytest.mark.parametrize("name", EACH_RUN)
def test_slices_lead_where_steps_do(name: str) -> None:
    made, store = device(name), Store()
    made.set_log(store)
    slices = finish(made, name, store)
    assert slices >= 2 * STEPS
    print(f"{name}: {slices} slices")


@pytest.mark.parametrize("name", slow_but(["weight, segments"], WEIGHT_RUNS))
def test_invokes_that_fail_between_slices(name: str) -> None:
    made, store = device(name), Store()
    made.set_log(store)
    finish(made, name, store, fails=True)


@pytest.mark.parametrize("name", ["weight, segments", "node", "nodes and weights"])
def test_power_fails_between_slices(name: str) -> None:
    made, store = device(name), Store()
    made.set_log(store)
    for count in range(1, 200):
        assert made.train_slice()[0] == OK
        if count % 23 == 0:
            before = made.step
            assert made.init() == OK and made.import_log(store) == OK
            assert made.step == before if name in WEIGHT_RUNS else made.step <= before
            made.set_log(store)
    finish(made, name, store)


@pytest.mark.parametrize("name", EACH_WEIGHT_RUN)
def test_weights_of_the_step_in_progress_are_nobodys(name: str) -> None:
    """After a slice the weights in memory are a query's; they are so again once something else was done."""
    made, differ = device(name), 0
    whole = made.checksum()
    while not made.train_slice()[1].step_done:
        moved = made.checksum()
        differ += moved != whole
        assert made.settle() == OK and made.checksum() == whole
    assert differ > 0
