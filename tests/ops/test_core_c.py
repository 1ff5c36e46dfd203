"""The C tests under the address and undefined-behaviour sanitizers, if there is a C compiler."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "ops" / "core"
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")

# `make test-c` runs them on this machine's own path; here are the others.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CC is None, reason="NO C COMPILER: the C core's own tests did not run"),
]


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


# Perturbation has one implementation per instruction set (zo_add_signs.h).
PATHS = {"host": [], "portable": ["-DZO_PORTABLE"], "plain": ["-DZO_PORTABLE", "-U__BYTE_ORDER__"]}


SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"]


def build(program, tests, *sources_and_flags, flags=SANITIZERS):
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror"]
    sources = [*sorted((ROOT / "tests" / "ops").glob(tests)), *sorted(CORE.rglob("*.c")), *sources_and_flags]
    run([CC, "-std=c99", "-O2", *flags, *warnings, f"-I{ROOT}", *sources, "-lm", "-o", program])
    return program


def portable_kernels():
    sources = sorted((ROOT / "ops" / "kernels").glob("*.c"))
    return [s for s in sources if not s.stem.endswith(("_avx2", "_avx512", "_neon", "_neon_dot"))]


def test_the_delegate_refuses_what_it_cannot_run(tmp_path):
    sources = [*sorted((ROOT / "ops" / "tflite").glob("*.c")), *portable_kernels()]
    print(run([build(tmp_path / "delegate", "delegate_test.c", "-DZO_PORTABLE", *sources)]))


def test_portable_kernels(tmp_path):
    said = run([build(tmp_path / "kernels", "kernels_*test.c", "-DZO_PORTABLE", *portable_kernels())])
    assert said.splitlines()[0] == "portable"


def test_the_same_bits_on_every_path(tmp_path):
    """Runs the portable path under sanitizers; `make test-c` has the host's."""
    flags = {name: SANITIZERS if name == "portable" else [] for name in PATHS}
    results = {
        name: run([build(tmp_path / name, "core/*.c", *path, flags=flags[name])]) for name, path in PATHS.items()
    }
    print(results["host"])
    digests = {name: result.rsplit(maxsplit=1)[-1] for name, result in results.items()}
    assert len(set(digests.values())) == 1, digests
