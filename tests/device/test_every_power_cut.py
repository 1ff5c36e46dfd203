# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Power is cut at every operation of a store's memory, in three runs that follow one another in it.

The operations of a run are recorded once. Memory in which they are done up to one that is torn is what a
device finds after a power cut there, so each is tried without training again. Some of the runs then go on to
the end. `LITTLEFS_DIR`, a checkout of littlefs, adds its stores.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from device.emulation import HIDDEN, Device, Memory, needs_compiler
from device.powered import NAMES, STORES, Kind, boot, check_end, interval, powered, train_to_the_end
from device.runs import STEPS

pytestmark = needs_compiler

RUNS_IN_A_ROW: tuple[Kind, ...] = (("node", 1, 0), ("weight, segments", 1, 4), ("exact head", 2, 2))
#: Of how many cuts one is trained to the end.
SAMPLED = 37


def cuts(memory: Memory) -> Iterator[tuple[Device, Kind, int, int]]:
    """Each cut of three runs: the device that has started again, its run, whole steps that were done before
    the cut, and the step that was found."""
    previous = None
    for run in RUNS_IN_A_ROW:
        made, ends = powered(run), list[int]()  # operations up to the end of each step
        made.begin_memory(memory)
        if previous is not None:
            made.take_memory(previous)
        assert boot(made, run) == 0
        made.record_operations()
        while made.train_step()[1].step_done:
            ends.append(made.operations)
        check_end(made, run)
        for operation in range(made.operations):
            made.cut_power_at(operation)
            yield made, run, sum(end <= operation for end in ends), boot(made, run)
        train_to_the_end(made)
        check_end(made, run)
        previous = made


@pytest.mark.parametrize("store", NAMES)
def test_nothing_is_lost_but_the_step_in_progress(store: str) -> None:
    found = {run: list[int]() for run in RUNS_IN_A_ROW}
    for made, run, done, step in cuts(STORES[store]):
        assert done // interval(run) * interval(run) <= step <= done + 1
        found[run].append(step)
        if len(found[run]) % SAMPLED == 0:
            train_to_the_end(made)
            check_end(made, run)
    for run, steps in found.items():
        assert len(set(steps)) >= STEPS // interval(run) // 2 + 1  # what is torn may have arrived
    print(f"{store}: {sum(map(len, found.values()))} cuts")


@pytest.mark.parametrize("unit", [4, 8, 32])
def test_padding_is_what_keeps_the_step_before(unit: int) -> None:
    """In memory whose units the log is not told of, what is written shares them with what was written before,
    and a cut loses both."""
    found = [cut for _ in range(10) for cut in cuts(Memory(HIDDEN, 8, 2048, 2048, unit))]
    lost = [1 for _, run, done, step in found if step < done // interval(run) * interval(run)]
    assert bool(lost) == (unit > 4)  # but for slots, everything is a multiple of 4 bytes
    print(f"units of {unit}: {len(lost)} of {len(found)} cuts lose more than the step in progress")
