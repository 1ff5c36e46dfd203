# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Structs and prototypes as the library declares them, against the headers."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tflm_zo.core import CSettings, library
from tflm_zo.core.declarations import Declarations
from tflm_zo.core.loader import constants, structs

CORE = Path(__file__).parents[2] / "ops" / "core"
# The kernels' headers stand for each other, one for each instruction set.
HEADERS = sorted(h for h in CORE.rglob("zo_*.h") if h.parent.name != "kernels")
STRUCTS: dict[str, Any] = vars(structs)


@pytest.mark.skipif(shutil.which("cc") is None, reason="NO C COMPILER: layouts were not compared")
def test_layouts_and_constants_are_the_compilers(tmp_path: Path) -> None:
    """A program prints them, by the names of the fields in Python."""
    asked = [f"sizeof({name})" for name in STRUCTS]
    expected = [ctypes.sizeof(struct) for struct in STRUCTS.values()]
    for name, struct in STRUCTS.items():
        for field, *_ in struct._fields_:
            asked += [f"offsetof({name}, {field})", f"sizeof((({name}*)0)->{field})"]
            expected += [getattr(struct, field).offset, getattr(struct, field).size]
    asked += [f"(size_t){name}" for name in vars(constants)]
    expected += vars(constants).values()
    lines = [f'#include "{header}"' for header in HEADERS]
    lines += ["#include <stdio.h>", "int main(void) {", *(f'printf("%zu\\n", {a});' for a in asked), "}"]
    (tmp_path / "layouts.c").write_text("\n".join(lines))
    program = str(tmp_path / "layouts")
    subprocess.run(
        ["cc", "-std=c99", "-DZO_KERNEL_SETS=1", f"-I{CORE.parents[1]}", f"{program}.c", "-o", program, "-w"],
        check=True,
    )
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in found.split()] == expected


def test_no_field_is_missing() -> None:
    """Every struct in Python has the headers' fields, in their order."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(h.read_text() for h in HEADERS), flags=re.DOTALL)
    for name, struct in STRUCTS.items():
        body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", text, re.DOTALL)
        assert body is not None, name
        fields = re.findall(r"(\w+)(?:\[\w+\])?\s*[,;]", body[1])
        assert [field for field, *_ in struct._fields_] == fields, name


def test_unknown_fields_are_refused() -> None:
    report = structs.zo_report()
    with pytest.raises(AttributeError):
        report.mean_lose = 1
    with pytest.raises(AttributeError):
        CSettings(learning_rate=1)


def test_structs_are_handed_over_by_their_own_type() -> None:
    with pytest.raises(ctypes.ArgumentError):
        library().zo_control_words(structs.zo_report())
    with pytest.raises(ctypes.ArgumentError):
        library().zo_distribution_reach(structs.zo_scale())


@pytest.mark.parametrize(
    ("at", "size", "whole"), [(8, 4, 12), (4, 2, 8), (4, 4, 16)], ids=["offset", "size", "struct"]
)
def test_another_layout_is_refused(at: int, size: int, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a compiler that packs or aligns structs otherwise would declare."""
    table = [("zo_pair", "struct", 0, whole), ("a", "uint32_t", 0, 4), ("b", "int32_t", at, size)]
    monkeypatch.setattr("tflm_zo.core.declarations._declared", lambda loaded: iter(table))
    with pytest.raises(ImportError, match="zo_pair: ctypes lays it out otherwise than the compiler"):
        Declarations(library())
    table[:] = [("zo_pair", "struct", 0, 8), ("a", "uint32_t", 0, 4), ("b", "int32_t", 4, 4)]
    assert ctypes.sizeof(Declarations(library()).structs["zo_pair"]) == 8
