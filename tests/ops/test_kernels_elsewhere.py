"""The kernels on Arm, and on an old x86 without AVX2, in user-mode QEMU."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")
FLAGS = {
    "_neon_dot": ("-march=armv8.2-a+dotprod",),
    "_avx2": ("-mavx2",),
    "_avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni"),
}
ARM = ("aarch64-linux-gnu-gcc", "qemu-aarch64", ("_avx2", "_avx512"))
X86 = ("x86_64-linux-gnu-gcc", "qemu-x86_64", ("_neon", "_neon_dot"))


def build(compiler: str, without: tuple[str, ...], folder: Path) -> Path:
    """tests/ops/kernels_test.c with all kernels of an architecture and the portable core."""
    objects = []
    for source in sorted((ROOT / "ops" / "kernels").glob("*.c")):
        if source.stem.endswith(without):
            continue
        own = next((flags for end, flags in FLAGS.items() if source.stem.endswith(end)), ())
        target = folder / f"{source.stem}.o"
        subprocess.run(
            [compiler, "-std=c99", "-O2", *WARNINGS, *own, f"-I{ROOT}", "-c", source, "-o", target], check=True
        )
        objects.append(target)
    program = folder / "kernels_test"
    test = [f"-I{ROOT}", f"-I{ROOT}/tests/ops", *(ROOT / "tests" / "ops").glob("kernels_*test.c")]
    test += sorted((ROOT / "ops" / "core").rglob("*.c"))
    subprocess.run([compiler, "-std=c99", "-O2", *test, *objects, "-static", "-lm", "-o", program], check=True)
    return program


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "processor", "sets", "missing"),
    [
        pytest.param(ARM, "max", ["neon-dot", "neon", "portable"], [], id="arm"),
        pytest.param(ARM, "cortex-a53", ["neon", "portable"], ["neon-dot"], id="arm-without-dot-products"),
        pytest.param(X86, "Nehalem", ["portable"], ["avx512-vnni", "avx2"], id="x86-without-avx2"),
    ],
)
def test_kernels(
    architecture: tuple[str, str, tuple[str, ...]], processor: str, sets: list[str], missing: list[str], tmp_path: Path
) -> None:
    compiler, emulator, without = architecture
    for program in (compiler, emulator):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)")
    built = build(compiler, without, tmp_path)
    done = subprocess.run([emulator, "-cpu", processor, built], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("***") and "checks" not in line] == sets
    assert [line.split()[-1] for line in lines if line.startswith("***")] == missing
