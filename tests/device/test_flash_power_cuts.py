# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Runs whose log is on raw flash, and whose power fails while it is written: nothing is lost but the step in
progress.

Whenever a run is over, the next kind of run begins on the same part. TFLM_ZO_POWER_CUTS says how many cuts
there are for each part.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from device.emulation import LOG, OK, STORE, Device, Samples, needs_compiler
from device.runs import RUNS, STEPS, WEIGHT_RUNS, desktop, device, yardstick
from tflm_zo.logs.padding import unpadded

pytestmark = needs_compiler

CUTS = int(os.environ.get("TFLM_ZO_POWER_CUTS", "60"))
#: Name, seed of the samples, steps between measurements.
KINDS = (
    ("weight", 1, 0),
    ("node", 1, 0),
    ("weight, segments", 1, 4),
    ("exact head", 1, 2),
    ("weight, blocks", 1, 0),
    ("nodes and weights", 1, 0),
)
#: Sectors, bytes of one, bytes of a page, unit: a serial flash, parts that program 4, 8 and 32 bytes at once.
PARTS = {
    "serial": (6, 4096, 256, 1),
    "words": (7, 2048, 256, 4),
    "doublewords": (8, 2048, 128, 8),
    "flashwords": (24, 1024, 64, 32),
}


def interval(name: str) -> int:
    """Steps that a run may have to do again."""
    return 1 if name in WEIGHT_RUNS else RUNS[name][1].snapshot_every


def boot(made: Device, run: tuple[str, int, int]) -> int:
    """After a reset; returns the step from which the run goes on."""
    assert made.init() == OK
    if run[2]:
        assert made.keep_best(Samples(yardstick()), run[2]) == OK
    assert made.mount_flash() == OK
    status = made.import_flash_log()
    assert status in (OK, LOG)
    made.set_flash_log()
    assert status == OK or made.step == 0
    assert made.export_weights() == (OK, desktop(*run).states[made.step].weights)
    return made.step


def train(made: Device, rng: np.random.Generator) -> bool:
    """Until power fails; False: before that the run was over."""
    made.cut_power_in(1 + int(rng.exponential(rng.choice([5, 50, 500]))))
    while True:
        # Behind the last step a measurement may be left to do.
        status, report = made.train_step()
        if status != OK:
            assert status == STORE
            return True
        if not report.step_done:
            assert made.step == STEPS
            return False


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_lost_but_the_step_in_progress(part: str) -> None:
    rng, cuts, runs, previous = np.random.default_rng(len(part)), 0, 0, None
    while cuts < CUTS or runs < len(KINDS):
        run = KINDS[runs % len(KINDS)]
        made, reached = device(*run[:2]), 0
        made.begin_flash(*PARTS[part])
        if previous is not None:
            made.take_flash(previous)
        assert boot(made, run) == 0
        while train(made, rng):
            cuts += 1
            done = made.step  # the last one is perhaps not in the log
            made.power_on()
            if rng.integers(4) == 0:  # while it is looked for, too
                made.cut_power_in(1)
                made.mount_flash()
                made.power_on()
            step = boot(made, run)
            assert reached // interval(run[0]) * interval(run[0]) <= step <= done
            reached = max(reached, step)
            assert step >= (done - 1) // interval(run[0]) * interval(run[0])
        made.power_on()
        expected = desktop(*run)
        assert made.export_weights() == (OK, expected.states[-1].weights)
        assert made.mount_flash() == OK
        assert unpadded(made.flash_content(2 * len(expected.log)))[: len(expected.log)] == expected.log
        assert made.flash_faults == 0
        previous, runs = made, runs + 1
    print(f"{part}: {cuts} cuts in {runs} runs")
