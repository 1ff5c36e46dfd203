"""The whole C core on emulated cores, without TFLM: tests/ops/core pass there, with the host's digest."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cortex_m.emulator import CORE_SOURCES, CORES, REPOSITORY, build, compile_objects, each, run
from tflm_zo.firmware import sizes

CORE_TEST = sorted((REPOSITORY / "tests" / "ops" / "core").glob("*.c"))
# An emulated core is some twenty times slower than the host.
THIN = "-DCORE_TEST_THIN=32"
HOST = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")


@cache
def on_the_host():
    with TemporaryDirectory(prefix="zo_core_test_") as folder:
        program = Path(folder) / "core_test"
        sources = [*CORE_TEST, *CORE_SOURCES]
        flags = ["-std=c99", "-DZO_PORTABLE", "-O2", THIN, f"-I{REPOSITORY}"]
        subprocess.run([HOST, *flags, *sources, "-o", program], check=True, timeout=300)
        return subprocess.run([program], check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.skipif(HOST is None, reason="NO C COMPILER: NOTHING TO COMPARE AN EMULATED CORE WITH")
@pytest.mark.parametrize("name", each(CORES, fast=()))
def test_same_bits_as_on_the_host(name, tmp_path):
    program = build(CORES[name], [*CORE_TEST, *CORE_SOURCES], tmp_path / "core_test", own=[THIN])
    said = run(CORES[name], program)
    assert "checks passed" in said
    assert said == on_the_host()


# --- structs, whose sizes the generator computes a workspace by -------------------------------------------


SIZES = {
    "zo_node_task": sizes.TASK_STRUCT,
    "zo_tensor": sizes.TENSOR_STRUCT,
    "zo_snapshot_task": sizes.SNAPSHOT_TASK_STRUCT,
}


@pytest.mark.parametrize("name", each(CORES))
def test_structs_have_the_sizes_that_the_generator_counts_with(name: str, tmp_path: Path) -> None:
    source = tmp_path / "sizes.c"
    checks = [f"typedef char of_{name}[sizeof({name}) == {size} ? 1 : -1];" for name, size in SIZES.items()]
    headers = ["ops/core/log/zo_snapshot_log.h", "ops/core/run/zo_node_settings.h"]
    lines = [f'#include "{header}"' for header in headers] + checks
    source.write_text("\n".join(lines) + "\n")
    compile_objects(CORES[name], [source], tmp_path)
