"""The op pack in a build of a real TFLM checkout: host and emulated Cortex-M.

Set TFLM_DIR to a checkout in which TFLM's own Makefile has built libtensorflow-microlite.a:

    make -f tensorflow/lite/micro/tools/make/Makefile BUILD_TYPE=release microlite
    make -f … TARGET=cortex_m_generic TARGET_ARCH=cortex-m3 BUILD_TYPE=release microlite
    make -f … TARGET=cortex_m_generic TARGET_ARCH=cortex-m55 OPTIMIZED_KERNEL_DIR=cmsis_nn … microlite

Each library that is there is tested: the same source as on the desktop is compiled against TFLM's headers,
and a training run of the desktop is repeated, loss by loss and checksum by checksum.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import tflm_zo
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.spsa import spsa_commands

REPOSITORY = Path(__file__).parents[2]
HERE = Path(__file__).parent
TFLM_DIR = os.environ.get("TFLM_DIR") or None
BATCH = 1
_objects = TemporaryDirectory(prefix="zo_op_pack_")


@dataclass(frozen=True)
class Target:
    """A build of TFLM's library, and how to build and run a program for it."""

    library: str
    compiler: str
    flags: tuple[str, ...] = ()
    board: str | None = None


TARGETS = {
    "host": Target("linux_x86_64_release_gcc", ""),
    "cortex-m3": Target(
        "cortex_m_generic_cortex-m3_release_gcc",
        "arm-none-eabi-",
        ("-mcpu=cortex-m3", "-mthumb", "-mfloat-abi=soft", "-funsigned-char"),
        "mps2-an385",
    ),
    "cortex-m55-cmsis-nn": Target(
        "cortex_m_generic_cortex-m55_release_cmsis_nn_gcc",
        "arm-none-eabi-",
        ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-funsigned-char"),
        "mps3-an547",
    ),
}


def _c_array(name: str, kind: str, values: np.ndarray, dimensions: str) -> str:
    numbers = ",".join(str(int(v)) for v in values.reshape(-1))
    return f"alignas(16) const {kind} {name}{dimensions} = {{{numbers}}};\n"


def _run(command: list[str | Path], **kwargs: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


def _flags(target: Target) -> list[str]:
    # The defines are those of TFLM's Makefile for BUILD_TYPE=release.
    defines = ["-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS"]
    return [*target.flags, "-O2", *defines, "-ffunction-sections", "-fdata-sections"]


def _compile_cc(target: Target, source: Path, folder: Path) -> Path:
    assert TFLM_DIR is not None
    downloads = Path(TFLM_DIR) / "tensorflow/lite/micro/tools/make/downloads"
    paths = [folder, REPOSITORY, TFLM_DIR, *(downloads / d for d in ("flatbuffers/include", "gemmlowp", "ruy"))]
    options = ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
    compiled = folder / f"{source.name}.o"
    includes = [f"-I{path}" for path in paths]
    _run([target.compiler + "g++", *_flags(target), *options, *includes, "-c", source, "-o", compiled])
    return compiled


@lru_cache
def _op_pack(target: Target) -> list[Path]:
    folder = Path(_objects.name) / target.library
    folder.mkdir()
    sources = sorted((REPOSITORY / "ops/core").rglob("*.c"))
    if target.board:
        sources.append(HERE / "startup.c")
    strict = ["-std=c99", f"-I{REPOSITORY}", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    objects = []
    for source in sources:
        objects.append(folder / f"{source.name}.o")
        _run([target.compiler + "gcc", *_flags(target), *strict, "-c", source, "-o", objects[-1]])
    return [*objects, _compile_cc(target, REPOSITORY / "ops/tflm/zo_ops.cc", folder)]


def _build(target: Target, library: Path, folder: Path) -> Path:
    objects = [*_op_pack(target), _compile_cc(target, HERE / "harness.cc", folder)]
    program = folder / "program"
    link: list[str | Path] = [target.compiler + "g++", *target.flags, *objects, library, "-Wl,--gc-sections"]
    if target.board:
        crt = _run([target.compiler + "gcc", *target.flags, "-print-file-name=rdimon-crt0.o"]).strip()
        link += ["-T", HERE / "cortex_m.ld", "-specs=rdimon.specs", "-nostartfiles", crt]
    _run([*link, "-lm", "-o", program])
    return program


def _execute(target: Target, program: Path) -> list[str]:
    if target.board is None:
        return _run([program], timeout=120).splitlines()
    emulator = ["qemu-system-arm", "-M", target.board, "-nographic", "-semihosting"]
    return _run([*emulator, "-kernel", program], timeout=300).splitlines()


@pytest.mark.parametrize("model", ["small_cnn", "depthwise_separable", "residual"])
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("update_bits", [8, 16])
def test_same_run_as_on_the_desktop(name: str, model: str, update_bits: int, tmp_path: Path) -> None:
    target = TARGETS[name]
    if TFLM_DIR is None:
        pytest.skip("TFLM_DIR is not set: nothing was checked against a TFLM checkout")
    library = Path(TFLM_DIR) / "gen" / target.library / "lib/libtensorflow-microlite.a"
    if not library.is_file():
        pytest.skip(f"{library} is not built: nothing was checked for {name}")
    for tool in [f"{target.compiler}g++"] + (["qemu-system-arm"] if target.board else []):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: nothing was checked for {name}")

    zo_model = inject_all(MODELS[model](), batch=BATCH, update_bits=update_bits, max_queries=4)
    runtime = tflm_zo.runtime.load(zo_model, "tflm")
    rng = np.random.default_rng(7)
    shape, dtype, _, _ = runtime.input_details()
    x = rng.integers(-128, 128, shape).astype(dtype)
    labels = rng.integers(0, runtime.metadata.loss.elements, BATCH).astype(np.int32)
    runtime.set_inputs(x)
    runtime.set_labels(labels)
    commands, expected = [], []
    for words in spsa_commands(runtime, steps=5, queries=4, learning_rate=50.0, seed=3):
        commands.append(words.copy())
        status = runtime.status()
        losses = " ".join(str(int(v)) for v in runtime.losses())
        expected.append(f"invoke {losses} | {status.steps} {status.saturated} {status.checksum}")

    table = np.array(commands)
    (tmp_path / "case_data.h").write_text(
        "#include <cstdint>\n"
        + _c_array("kModel", "unsigned char", np.frombuffer(zo_model.to_bytes(), np.uint8), "[]")
        + _c_array("kInput", "int8_t", x, "[]")
        + _c_array("kLabels", "int32_t", labels, "[]")
        + _c_array("kCommands", "int32_t", table, f"[{len(table)}][{table.shape[1]}]")
        + f"constexpr int kInvokes = {len(table)};\nconstexpr int kBatch = {BATCH};\n"
        + "constexpr int kArenaBytes = 65536;\n"
    )
    lines = _execute(target, _build(target, library, tmp_path))

    assert [line for line in lines if line.startswith("invoke")] == expected
    assert f"directory {len(runtime.metadata.trainable)}" in lines
    assert "refused 1 untouched 1" in lines
    assert "exit 0" in lines
