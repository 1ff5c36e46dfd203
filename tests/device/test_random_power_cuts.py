# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Runs whose power fails while their log is written, in every kind of store: nothing is lost but the step in
progress.

Whenever a run is over, the next kind of run begins in the same memory. TFLM_ZO_POWER_CUTS says how many cuts
there are for each store; `LITTLEFS_DIR`, a checkout of littlefs, adds those on littlefs.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from device.emulation import CACHED, DIRECT, OK, STORE, Device, needs_compiler
from device.powered import KINDS, NAMES, STORES, boot, check_end, interval, powered
from device.runs import STEPS

pytestmark = needs_compiler

CUTS = int(os.environ.get("TFLM_ZO_POWER_CUTS", "150"))


def train(made: Device, rng: np.random.Generator, operations: list[int]) -> bool:
    """Until power fails, after some operations of the memory; False: before that the run was over."""
    made.cut_power_in(1 + int(rng.exponential(rng.choice(operations))))
    while True:
        # Behind the last step a measurement may be left to do.
        status, report = made.train_step()
        if status != OK:
            assert status == STORE
            return True
        if not report.step_done:
            assert made.step == STEPS
            return False


@pytest.mark.parametrize("store", NAMES)
def test_nothing_is_lost_but_the_step_in_progress(store: str) -> None:
    rng, cuts, runs = np.random.default_rng(len(store)), 0, 0
    previous: Device | None = None
    while cuts < CUTS or runs < len(KINDS):
        run, reached = KINDS[runs % len(KINDS)], 0
        made = powered(run)
        made.begin_memory(STORES[store])
        if previous is not None:
            made.take_memory(previous)
            if rng.integers(2) == 0:  # while it is cleared, too
                assert made.mount() == OK
                made.cut_power_in(1 + int(rng.integers(20)))
                made.clear()
                made.power_on()
        assert boot(made, run, clears=bool(rng.integers(2))) == 0
        while train(made, rng, [2, 20] if STORES[store].kind in (DIRECT, CACHED) else [5, 50, 500]):
            cuts += 1
            done = made.step  # the last one is perhaps not in the log
            made.power_on()
            if rng.integers(4) == 0:  # while it is looked for, too
                made.cut_power_in(1)
                made.mount()
                made.power_on()
            step = boot(made, run)
            assert reached // interval(run) * interval(run) <= step <= done
            reached = max(reached, step)
            assert step >= (done - 1) // interval(run) * interval(run)
        made.power_on()
        assert made.mount() == OK
        check_end(made, run)
        previous, runs = made, runs + 1
    print(f"{store}: {cuts} cuts in {runs} runs")
