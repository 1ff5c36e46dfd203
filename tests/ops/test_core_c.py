# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""core_test.c under the address and undefined-behaviour sanitizers, where there is a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "ops" / "core"
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")

pytestmark = pytest.mark.skipif(CC is None, reason="NO C COMPILER: the C core's own tests did not run")


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


# Perturbation has one implementation per instruction set (zo_add_signs.h).
PATHS = {"host": [], "portable": ["-DZO_PORTABLE"], "plain": ["-DZO_PORTABLE", "-U__BYTE_ORDER__"]}


def build(folder, name, *flags):
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror"]
    sources = [ROOT / "tests" / "ops" / "core_test.c", *sorted(CORE.glob("*.c"))]
    run([CC, "-std=c99", "-O2", *flags, *warnings, f"-I{CORE}", *sources, "-o", folder / name])
    return folder / name


def test_under_sanitizers_with_the_same_bits_on_every_path(tmp_path):
    sanitizers = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
        "-g",
    ]
    results = {name: run([build(tmp_path, name, *sanitizers, *flags)]) for name, flags in PATHS.items()}
    print(results["host"])
    digests = {name: result.rsplit(maxsplit=1)[-1] for name, result in results.items()}
    assert len(set(digests.values())) == 1, digests
