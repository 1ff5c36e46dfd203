# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a build for size computes instead of having tables of it is the same, bit for bit."""

from __future__ import annotations

import ctypes
import subprocess
import zlib
from pathlib import Path

import pytest

from helpers.oracle.fixed_losses import exp2_negative, log2

CORE = Path(__file__).parents[2] / "ops/core"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("small") / "small.so"
    sources = [CORE / "math/zo_log2.c", CORE / "log/zo_crc32.c"]
    flags = ["-std=c99", "-Os", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run(["gcc", *flags, f"-I{CORE.parents[1]}", *sources, "-o", library], check=True, timeout=60)
    loaded = ctypes.CDLL(str(library))
    loaded.zo_exp2_negative.restype = loaded.zo_log2.restype = loaded.zo_crc32.restype = ctypes.c_uint32
    loaded.zo_log2.argtypes = [ctypes.c_uint64]
    return loaded


def test_exponentials(small: ctypes.CDLL) -> None:
    around = [i * 2**18 + d for i in range(64) for d in (0, 1, 2**17, 2**18 - 1)]
    for x in [*around, *(x + 5 * 2**24 for x in around), 31 * 2**24 - 1]:
        assert small.zo_exp2_negative(x) == exp2_negative(x), x


def test_logarithms(small: ctypes.CDLL) -> None:
    around = [2**30 + i * 2**24 + d for i in range(64) for d in (0, 1, 2**23, 2**24 - 1)]
    for x in [*around, *(x << 7 for x in around), 2**62 - 1]:
        assert small.zo_log2(x) == log2(x), x


def test_checksums(small: ctypes.CDLL) -> None:
    data = bytes(i * 37 % 256 for i in range(1000))
    assert small.zo_crc32(0, data, len(data)) == zlib.crc32(data)
    assert small.zo_crc32(zlib.crc32(data[:300]), data[300:], 700) == zlib.crc32(data)
