"""Power is cut at every operation of a store's memory, in three runs that follow one another in it, or at random:
TFLM_ZO_POWER_CUTS is the number of cuts for each store. `LITTLEFS_DIR`, a checkout of littlefs, adds its stores."""

import os
from collections.abc import Iterator

import numpy as np
import pytest

from device.emulation import CACHED, DIRECT, HIDDEN, OK, STORE, Device, Memory, needs_compiler
from device.powered import KINDS, NAMES, STORES, Kind, boot, check_end, interval, powered, train_to_the_end
from device.runs import STEPS

pytestmark = needs_compiler

RUNS_IN_A_ROW: dict[str, tuple[Kind, ...]] = {
    "kinds": (("node", 1, 0), ("weight, segments", 1, 4), ("exact head", 2, 2)),
    # In twice the memory, since the network is larger.
    "exact": (
        ("exact, computed again", 1, 0),
        ("residual, exact, least memory", 1, 0),
        ("exact, computed again", 2, 2),
    ),
}
#: Of how many cuts one is trained to the end.
SAMPLED = 37


def cuts(memory: Memory, runs: str = "kinds") -> Iterator[tuple[Device, Kind, int, int]]:
    """Yields each cut of three runs: the started device, its run, complete steps before the cut, the step found."""
    previous = None
    for run in RUNS_IN_A_ROW[runs]:
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


@pytest.mark.parametrize("runs", RUNS_IN_A_ROW)
@pytest.mark.parametrize("store", NAMES)
def test_nothing_is_lost_but_the_step_in_progress(store: str, runs: str) -> None:
    found, memory = {run: list[int]() for run in RUNS_IN_A_ROW[runs]}, STORES[store]
    if runs == "exact":
        memory = memory._replace(sectors=2 * memory.sectors)
    for made, run, done, step in cuts(memory, runs):
        assert done // interval(run) * interval(run) <= step <= done + 1
        found[run].append(step)
        if len(found[run]) % SAMPLED == 0:
            train_to_the_end(made)
            check_end(made, run)
    for run, steps in found.items():
        assert len(set(steps)) >= STEPS // interval(run) // 2 + 1  # torn bytes may have arrived
    print(f"{store}, {runs}: {sum(map(len, found.values()))} cuts")


@pytest.mark.parametrize("unit", [4, 8, 32])
def test_padding_is_what_keeps_the_step_before(unit: int) -> None:
    """Loses both if the log does not know the memory's units: new bytes share units with earlier ones."""
    found = [cut for _ in range(10) for cut in cuts(Memory(HIDDEN, 8, 2048, 2048, unit))]
    lost = [1 for _, run, done, step in found if step < done // interval(run) * interval(run)]
    assert bool(lost) == (unit > 4)  # but for slots, everything is a multiple of 4 bytes
    print(f"units of {unit}: {len(lost)} of {len(found)} cuts lose more than the step in progress")


# --- again and again, at random ---------------------------------------------------------------------------


CUTS = int(os.environ.get("TFLM_ZO_POWER_CUTS", "150"))


def train(made: Device, rng: np.random.Generator, operations: list[int]) -> bool:
    """Trains until power fails, after some operations of the memory; False: the run was over before that."""
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


@pytest.mark.slow
@pytest.mark.parametrize("store", NAMES)
def test_many_cuts_lose_nothing_but_the_step_in_progress(store: str) -> None:
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
