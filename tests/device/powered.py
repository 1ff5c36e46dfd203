"""Runs with their logs in memory whose power fails, and the state of a device when it starts again."""

from functools import cache
from typing import Any

import pytest

from device.compiled import LITTLEFS
from device.emulation import CACHED, DIRECT, LOG, OK, RING, Device, Memory, Samples
from device.emulation import LITTLEFS as ON_LITTLEFS
from device.runs import RUNS, STEPS, WEIGHT_RUNS, desktop, device, yardstick
from helpers.examples import slow_but

#: Name, seed of the samples, steps between measurements.
Kind = tuple[str, int, int]
KINDS: tuple[Kind, ...] = (
    ("weight", 1, 0),
    ("node", 1, 0),
    ("weight, segments", 1, 4),
    ("exact head", 1, 2),
    ("weight, blocks", 1, 0),
    ("nodes and weights", 1, 0),
    ("exact, computed again", 1, 2),
)

_ON_LITTLEFS = {
    # Files of a block; files that are small enough to be kept with their names.
    "littlefs": Memory(ON_LITTLEFS, 48, 1024, 128, 16, 1024),
    "littlefs, small files": Memory(ON_LITTLEFS, 128, 1024, 128, 16, 120),
}
_STORES = {
    # A serial flash, parts that program 4, 8 and 32 bytes at once.
    "flash": Memory(RING, 6, 4096, 256, 1),
    "flash of words": Memory(RING, 7, 2048, 256, 4),
    "flash of doublewords": Memory(RING, 8, 2048, 128, 8),
    "flash of flashwords": Memory(RING, 24, 1024, 64, 32),
    # Written bytes are safe at once, or when they are synced.
    "bytes": Memory(DIRECT, 8, 2048, 2048, 1),
    "words": Memory(DIRECT, 8, 2048, 2048, 4),
    "units of 8": Memory(DIRECT, 8, 2048, 2048, 8),
    "units of 16": Memory(DIRECT, 8, 2048, 2048, 16),
    "units of 32": Memory(DIRECT, 8, 2048, 2048, 32),
    "cached units of 8": Memory(CACHED, 8, 2048, 2048, 8),
    **_ON_LITTLEFS,
}
STORES: dict[str, Memory] = _STORES
_NO_LITTLEFS = pytest.mark.skipif(
    LITTLEFS is None, reason="NO CHECKOUT OF LITTLEFS IN LITTLEFS_DIR: ITS STORE WAS NOT TESTED"
)
#: `make test` has one of each kind; those of littlefs are skipped if there is no checkout of it.
NAMES: list[Any] = [
    *slow_but(
        ("flash", "flash of doublewords", "words", "cached units of 8"),
        [name for name in STORES if name not in _ON_LITTLEFS],
    ),
    *(pytest.param(name, marks=_NO_LITTLEFS) for name in _ON_LITTLEFS),
]


@cache
def powered(run: Kind) -> Device:
    """Makes the device of a run, once."""
    return device(*run[:2])


def interval(run: Kind) -> int:
    """Steps that a run may have to do again."""
    return 1 if run[0] in WEIGHT_RUNS else RUNS[run[0]][1].steps_between_snapshots


def boot(made: Device, run: Kind, *, clears: bool = False) -> int:
    """Boots after a reset; returns the step from which the run resumes. If it begins, it may clear the store."""
    assert made.init() == OK
    if run[2]:
        assert made.keep_best(Samples(yardstick()), run[2]) == OK
    assert made.mount() == OK
    status = made.import_stored_log()
    assert status in (OK, LOG)
    made.set_stored_log()
    assert status == OK or made.step == 0
    if status == LOG and clears:
        assert made.clear() == OK
    assert made.export_weights() == (OK, desktop(*run).states[made.step].weights)
    return made.step


def check_end(made: Device, run: Kind) -> None:
    """Checks that the run is over, with the weights and the log of an undisturbed one."""
    expected = desktop(*run)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert made.stored_log(len(expected.log)) == expected.log
    assert made.memory_faults == 0


def train_to_the_end(made: Device) -> None:
    """Steps, and the measurement that may be left behind the last one."""
    while True:
        status, report = made.train_step()
        assert status == OK
        if not report.step_done:
            assert made.step == STEPS
            return
