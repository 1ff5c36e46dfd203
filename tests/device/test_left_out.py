# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Layers that a run leaves out take no RAM on a device, and change no bit of the run."""

from __future__ import annotations

import dataclasses

import pytest

from device.emulation import OK, Device, Store, needs_compiler
from device.runs import RUNS, STEPS, generated, run_on_desktop, samples, zo_model
from helpers.examples import slow_but
from tflm_zo.converters import read_metadata
from tflm_zo.firmware import Firmware

pytestmark = needs_compiler

#: Runs with the layers that each trains. The exact tail leads errors through layers that it does not train.
SOME = {
    "node": ("fc",),
    "exact head": ("fc",),
    "residual, every layer": ("block1/conv0", "fc"),
    "residual, exact tail": ("stem", "block0/conv1", "fc"),
    "biases, too": ("conv",),
    "residual, biases beside": ("fc",),
    "nodes and weights": ("conv",),
}


def firmware(name: str, layers: tuple[str, ...] | None) -> Firmware:
    return generated(zo_model(name), dataclasses.replace(RUNS[name][1], layers=layers), samples())


@pytest.mark.parametrize("name", slow_but(("exact head", "residual, exact tail"), SOME))
def test_the_run_is_the_desktops(name: str) -> None:
    settings = dataclasses.replace(RUNS[name][1], layers=SOME[name])
    expected = run_on_desktop(zo_model(name), settings, samples())
    made = Device(firmware(name, SOME[name]), zo_model(name), samples())
    assert made.init() == OK
    made.set_log(store := Store())
    assert made.checksum() == expected.states[0].checksum
    while made.step < STEPS:
        status, report = made.train_step()
        assert (status, report.mean_loss) == (OK, expected.losses[report.step])
        assert made.checksum() == expected.states[report.step + 1].checksum
    assert store.content(len(expected.log)) == expected.log
    # A reset in the middle of a run: the log leads back to where it was.
    assert made.init() == OK and made.import_log(store) == OK
    assert made.checksum() == expected.states[made.step].checksum


@pytest.mark.parametrize("name", slow_but(("exact head", "residual, exact tail"), SOME))
def test_ram_of_layers_that_are_left_out(name: str) -> None:
    whole, part = firmware(name, None), firmware(name, SOME[name])
    metadata = read_metadata(zo_model(name))
    if len({t.layer for t in metadata.trainable}) > len(SOME[name]):
        assert part.trainable_bytes < whole.trainable_bytes
        assert part.ram.arena.bytes <= whole.ram.arena.bytes
