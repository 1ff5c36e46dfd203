# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Whichever compiler, level and flags a device's program is built with, its run is the desktop's."""

from __future__ import annotations

import shutil

import pytest

from device.compiled import GCC, GXX, build
from device.emulation import OK, Device, Store, needs_compiler
from device.runs import RUNS, STEPS, desktop, generated, samples, zo_model

pytestmark = needs_compiler

ABI = ("-funsigned-char", "-fshort-enums")
#: LLVM's linker plugin is no part of GNU's linker, so clang has no -flto here.
BUILDS = [
    ("gcc", ("-O3", "-flto", *ABI)),
    ("clang", ("-O2", *ABI)),
    *(
        (compiler, flags)
        for compiler in ("gcc", "clang")
        for flags in (("-O0", "-funsigned-char"), ("-Os",), ("-O2", "-fshort-enums"), ("-O3",))
    ),
]
#: The first one with the build that the fast tests have.
NAMES = ("nodes and weights", "weight", "residual, exact tail")
CASES = [
    pytest.param(
        *build,
        name,
        marks=() if build == BUILDS[i] and i == 0 else pytest.mark.slow,
        id=f"{build[0]}{''.join(build[1])}-{name}",
    )
    for i, name in enumerate(NAMES)
    for build in BUILDS
]


@pytest.mark.parametrize(("compiler", "flags", "name"), CASES)
def test_the_same_bits(compiler: str, flags: tuple[str, ...], name: str) -> None:
    tools = (GCC, GXX) if compiler == "gcc" else (shutil.which("clang"), shutil.which("clang++"))
    if None in tools:
        pytest.skip(f"NO {compiler}: NO DEVICE WAS BUILT WITH IT")
    expected, model, store = desktop(name), zo_model(name), Store()
    firmware = generated(model, RUNS[name][1], samples())
    made = Device(firmware, model, samples(), path=build(firmware, flags, tools))
    assert made.init() == OK
    made.set_log(store)
    reports = [made.train_step() for _ in range(STEPS)]
    assert [(status, report.mean_loss) for status, report in reports] == [(OK, x) for x in expected.losses]
    assert store.content(len(expected.log)) == expected.log
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert made.checksum() == expected.states[-1].checksum
