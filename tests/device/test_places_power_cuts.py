# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Power is cut at every operation of a memory while a run is sent to its two places and while the device
goes back: it has one of the two runs afterwards, to the bit, whatever the memory programs at once.
"""

from __future__ import annotations

from collections import Counter

import pytest

from device.emulation import CACHED, DIRECT, OK, RING, Device, Memory, needs_compiler
from device.runs import STEPS, desktop, device
from device.test_weights import run_from
from helpers.examples import slow_but
from tflm_zo.link import Link, Load, PlaceKind, deploy, revert

pytestmark = needs_compiler

NAMES = ("weight", "node")
MEMORIES = {
    "flash": Memory(RING, 12, 4096, 256, 1),
    "flash of words": Memory(RING, 24, 2048, 256, 4),
    "flash of doublewords": Memory(RING, 24, 2048, 128, 8),
    "flash of flashwords": Memory(RING, 64, 1024, 64, 32),
    "words": Memory(DIRECT, 12, 2048, 2048, 4),
    "units of 8": Memory(DIRECT, 12, 2048, 2048, 8),
    "cached units of 16": Memory(CACHED, 12, 2048, 2048, 16),
    "units of 32": Memory(DIRECT, 12, 2048, 2048, 32),
}
#: At each operation; of how many one is gone on from to the end.
CUTS, SAMPLED = 24, 53


class Line:
    """The host's port; the device answers at once, until its memory fails for good."""

    def __init__(self, made: Device) -> None:
        self._made, self._sent, self._come = made, bytearray(), bytearray()

    def begin(self) -> None:
        """The device starts again."""
        assert self._made.init() == OK
        assert self._made.mount() == OK
        assert self._made.begin_link(None, self._sent.extend, places=True, buffer_bytes=80) == OK

    @property
    def in_waiting(self) -> int:
        return len(self._come)

    def read(self, size: int = 1, /) -> bytes:
        data = bytes(self._come[:size])
        del self._come[:size]
        return data

    def write(self, data: bytes, /) -> int:
        self._sent.clear()
        self._made.serve(data)
        self._come += self._sent
        return len(data)

    def close(self) -> None:
        self._come.clear()


def weights_of(made: Device) -> bytes:
    status, found = made.export_weights()
    assert status == OK
    return found


def train(made: Device, steps: int) -> None:
    while made.step < steps:
        assert made.train_step()[0] == OK


@pytest.mark.parametrize("memory", slow_but(("flash of doublewords", "words"), MEMORIES))
@pytest.mark.parametrize("name", NAMES)
def test_one_of_two_runs(name: str, memory: str) -> None:
    wanted, given = desktop(name, 2), desktop(name).states[-1].weights
    load = Load(PlaceKind.WEIGHTS, given)
    made = device(name, 2)
    made.begin_memory(MEMORIES[memory])
    line, outcomes = Line(made), Counter[tuple[str, int]]()
    line.begin()
    train(made, 2)

    def send(link: Link) -> None:
        assert deploy(link, link.hello(), load).place == 2

    def back(link: Link) -> None:
        assert revert(link, link.hello()).place == 1

    for action, runs in (
        (send, (wanted.states[2].weights, given)),
        (back, (given, wanted.states[2].weights)),
    ):
        assert weights_of(made) == runs[0]
        with Link(lambda: line, timeout=2) as link:
            made.record_operations()
            action(link)
            assert weights_of(made) == runs[1]
            for operation in [n for n in range(made.operations) for _ in range(CUTS)]:
                made.cut_power_at(operation)
                line.begin()
                outcomes[action.__name__, runs.index(weights_of(made))] += 1
                if sum(outcomes.values()) % SAMPLED == 0:
                    if weights_of(made) == runs[0]:
                        action(link)
                    assert weights_of(made) == runs[1]
            # Of the last operation perhaps not all has arrived.
            if weights_of(made) == runs[0]:
                action(link)
    train(made, STEPS)
    assert weights_of(made) == wanted.states[-1].weights
    with Link(lambda: line, timeout=2) as link:
        assert revert(link, link.hello()).place == 2
    train(made, STEPS)
    assert weights_of(made) == run_from(name, given).states[-1].weights
    assert made.memory_faults == 0
    print(name, memory, dict(outcomes))
    assert outcomes["send", 0] > 4 * CUTS and outcomes["back", 0] > 0
