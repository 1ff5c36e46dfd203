# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The sizes of structs by which the generator computes a workspace are those of a 32-bit target."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_m.emulator import CORES, compile_objects, each
from tflm_zo.firmware import sizes

SIZES = {
    "zo_node_task": sizes._TASK_STRUCT,
    "zo_tensor": sizes._TENSOR_STRUCT,
    "zo_snapshot_task": sizes._SNAPSHOT_TASK_STRUCT,
}


@pytest.mark.parametrize("name", each(CORES))
def test_structs_have_the_sizes_that_the_generator_counts_with(name: str, tmp_path: Path) -> None:
    source = tmp_path / "sizes.c"
    checks = [f"typedef char of_{name}[sizeof({name}) == {size} ? 1 : -1];" for name, size in SIZES.items()]
    headers = ["ops/core/log/zo_snapshot_log.h", "ops/core/run/zo_node_settings.h"]
    lines = [f'#include "{header}"' for header in headers] + checks
    source.write_text("\n".join(lines) + "\n")
    compile_objects(CORES[name], [source], tmp_path)
