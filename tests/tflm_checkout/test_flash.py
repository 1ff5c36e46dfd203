# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What training takes of a Cortex-M4's flash beyond inference stays within what docs/costs.md says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from helpers.models import MODELS
from tflm_checkout.firmware_build import LIBRARIES
from tflm_checkout.flash import Flash, flash_of, inferring, training
from tflm_zo import load_model
from tflm_zo.training import algorithms

LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
#: Bytes at -Os, of LeNet-5 with the defaults of each algorithm.
BUDGETS = {"weight": 6_500, "node": 14 * 1024}
#: What only a run that asks for it may have: other algorithms, what a user calls besides, parts of libc.
FOREIGN = (
    "KeepBest",
    "RestoreBest",
    "ImportLog",
    "flash_store",
    "status_text",
    "command_",
    "printf",
    "fc_backprop",
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Flash:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    return inferring(load_model(MODELS["lenet5"]()), LIBRARY, tmp_path_factory.mktemp("plain") / "firmware")


@pytest.mark.parametrize("name", BUDGETS)
def test_flash_beyond_inference(name: str, plain: Flash, tmp_path: Path) -> None:
    settings = getattr(algorithms, name)(batch_size=16, learning_rate=1.0)
    folder = tmp_path / "firmware"
    whole = training(load_model(MODELS["lenet5"]()), settings, LIBRARY, folder)
    more = whole.minus(plain)
    assert 0 < more.total <= BUDGETS[name], dict(sorted(more.symbols.items(), key=lambda i: -i[1]))
    symbols = [symbol for part, symbol in more.symbols if part != "tables"]
    assert [s for s in symbols if any(word in s for word in FOREIGN)] == []
    assert any("TrainSlice" in symbol for symbol in symbols)
    # The map accounts for the program: what it has besides is the model, the program's own code and padding.
    size = ["arm-none-eabi-size", folder / "build" / "model"]
    said = subprocess.run(size, capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
    header = (folder / "model_zo_trainer.h").read_text()
    graphs = sum(map(int, re.findall(r"_model_data_size = (\d+);", header)))
    assert 0 <= int(said[0]) + int(said[1]) - graphs - whole.total < 3_000


def test_what_a_map_says() -> None:
    text = """Linker script and memory map
 .text.zo_divide
                0x00000100       0x36 libmodel_zo.a(model_zo_ops.c.obj)
 .text          0x00000200       0x10 CMakeFiles/model_example.dir/main.cc.obj
 .rodata.g_model_model_data
                0x00000300     0x1000 libmodel_zo.a(model_zo_model.cc.obj)
 .rodata.kInfo  0x00001300       0x4c libmodel_zo.a(model_zo_model.cc.obj)
 .text._ZN6tflite16MicroInterpreterC2Ev
                0x00001400       0x62 /gen/lib/libtensorflow-microlite.a(micro_interpreter.o)
 .bss.arena     0x20000000     0x4000 CMakeFiles/model_example.dir/main.cc.obj
"""
    found = flash_of(text)
    assert {part: found.of(part) for part in ("core", "tables", "TFLM")} == {
        "core": 0x36,
        "tables": 0x4C,
        "TFLM": 0x62,
    }
    assert found.total == 0x36 + 0x4C + 0x62
    assert found.minus(found).symbols == {}
