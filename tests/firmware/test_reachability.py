"""A generated folder has only the files that its run reaches, and a program reads one short header of it."""

import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from device.runs import RUNS, generated, samples, zo_model
from helpers.examples import slow_but
from helpers.firmware_folders import ALGORITHMS, firmware
from tflm_zo.converters import ConversionError
from tflm_zo.firmware import Firmware
from tflm_zo.firmware.op_pack import op_pack_sources
from tflm_zo.firmware.reachability import constants, identifiers, reached, resolve, written

INTERPRETER = Path(__file__).parents[2] / "examples/own_interpreter"
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="NO gcc: NO FOLDER WAS COMPILED")
KINDS = ("weight", "node", "residual, exact tail")
#: Of the op pack's lines in C, with every feature.
MOST = {"weight": 0.6, "node": 0.72, "residual, exact tail": 0.8}


@cache
def made(kind: str) -> Firmware:
    return generated(zo_model(kind), RUNS[kind][1], samples())


def op_pack(kind: str) -> list[str]:
    return [made(kind).files[f"small_zo_ops{of}"] for of in (".h", "_internal.h", ".c")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_public_header_is_short(kind: str) -> None:
    header = op_pack(kind)[0]
    assert len(header.splitlines()) <= 600
    for name in ("status_text", "flash_store_mount", "places_mount", "link_serve", "trainer_step"):
        assert f"small_zo_{name}(" in header
    assert ("small_zo_fleet_work(" in header) == (kind == "weight")
    # Nothing of the arithmetic, nor of instruction sets.
    assert not re.search(r"zo_tensor\b|zo_perturb|zo_query|MVE|DSP", header)


@pytest.mark.parametrize("kind", KINDS)
def test_much_of_the_op_pack_is_left_out(kind: str) -> None:
    whole = sum(t.count("\n") for p, t in op_pack_sources().items() if p.startswith("ops/core/"))
    assert sum(text.count("\n") for text in op_pack(kind)) < MOST[kind] * whole


@pytest.mark.parametrize("kind", KINDS)
def test_every_operator_of_the_resolver_is_registered(kind: str) -> None:
    files = made(kind).files
    called = set(re.findall(r"tflite::(Register_SMALL_ZO_\w+)\(", files["small_zo_op_resolver.h"]))
    for path, end in (("small_zo_trainer.h", ";"), ("small_zo_tflm.cc", " {")):
        found = set(re.findall(rf"^TFLMRegistration (\w+)\(\){end}$", files[path], re.M))
        assert called <= found and called, path
        if kind != "weight":  # whose program may have an interpreter of its own
            assert found == called, path


@needs_gcc
@pytest.mark.parametrize("kind", slow_but(KINDS[:2], KINDS))
def test_other_functions_are_static(kind: str, tmp_path: Path) -> None:
    for path, text in made(kind).files.items():
        if path.startswith("small_zo_ops"):
            (tmp_path / path).write_text(text)
    strict = ["-Wall", "-Wextra", "-Wmissing-prototypes", "-Werror"]
    subprocess.run(["gcc", "-std=c99", *strict, "-c", "small_zo_ops.c"], cwd=tmp_path, check=True)
    said = subprocess.run(["nm", "small_zo_ops.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    symbols = set(re.findall(r" [TRDB] (\w+)", said.stdout))
    header, internal, _ = op_pack(kind)
    rest = [t for p, t in made(kind).files.items() if p.endswith((".cc", "trainer.h", "resolver.h"))]
    if kind == "weight":  # calls of a program with an interpreter of its own
        rest += [(INTERPRETER / name).read_text().replace("model_", "small_") for name in ("main.cc", "README.md")]
    used = identifiers(header).union(*map(identifiers, rest))
    # Inline functions of the internal header call others.
    mentions = Counter(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", internal, flags=re.DOTALL)))
    # Each of these has several definitions, of which the core chooses one.
    several = {f"small_zo_{name}" for name in ("add_products", "row_squares", "gaussian_quantiles")}
    assert len(symbols) > 50
    assert {name for name in symbols - used if mentions[name] < 2} <= several


# --- conditions ---------------------------------------------------------------------------------------------


CONDITIONS = """\
#if A
a
#elif B
b
#else
c
#endif
#if !A && X
d
#elif X || B
e
#endif
#ifdef A
f
#if X
g
#endif
#else
h
#endif
#if defined(X) || B > 1
i
#endif
#ifndef NEVER
j
#endif
#if (B + 1 > 1) || A == 1u && B >= 1 && !(A < 1)
k
#elif X != 1
l
#endif
"""


@pytest.mark.parametrize("b", [0, 1])
@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("x", [None, 0, 1])
@needs_gcc
def test_conditions_that_are_known_change_nothing(a: int, b: int, x: int | None, tmp_path: Path) -> None:
    def preprocessed(text: str) -> list[str]:
        given = [f"-DA={a}", f"-DB={b}", *([] if x is None else [f"-DX={x}"])]
        done = subprocess.run(["gcc", "-E", "-P", *given, "-"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    resolved = written(resolve(CONDITIONS, {"A": a, "B": b, "NEVER": None}))
    assert preprocessed(resolved) == preprocessed(CONDITIONS)
    left = re.findall(r"#.*\b(?:A|NEVER)\b.*", resolved)
    assert {re.sub(r"^#\w+ ", "", line) for line in left} <= {"!A && X", CONDITIONS.split("#if ")[-1].split("\n")[0]}


def test_macros_that_follow_from_others_are_known() -> None:
    sources = {
        "ops/a.c": """\
#include "ops/a.h"
#if NEVER
#include "ops/never.h"
#elif X
#include "ops/x.h"
#endif
""",
        "ops/a.h": """\
#ifndef TFLM_ZO_A_H_
#define TFLM_ZO_A_H_
#if A
#define ZO_B 3u
#else
#define ZO_B 0
#endif
#define ZO_C (ZO_B > 2u && !NEVER)
#if X
#define ZO_SOMETIMES 1
#endif
#ifndef ZO_OWN
#define ZO_OWN 1
#endif
#define ZO_SIZE (ZO_B * 4)
#endif /* TFLM_ZO_A_H_ */
""",
        "ops/x.h": "#define ZO_FAST 1\n",
        "ops/never.h": "#define ZO_NEVER 1\n",
    }
    known: dict[str, int | None] = {"A": 1, "NEVER": None}
    assert constants(sources, known) == {**known, "ZO_B": 3, "ZO_C": 1}


@needs_gcc
@pytest.mark.parametrize("name", slow_but(("node",), ALGORITHMS))
def test_a_platform_without_arm_cores_has_no_code_for_them(name: str, tmp_path: Path) -> None:
    def lines(platform: str) -> list[str]:
        (tmp_path / platform).mkdir()
        files = {Path(path).name: text for path, text in firmware(platform, name).files.items()}
        for part in ("small_zo_ops.c", "small_zo_ops.h", "small_zo_ops_internal.h"):
            (tmp_path / platform / part).write_text(files[part])
        strict = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
        subprocess.run(["gcc", *strict, "-O1", "-c", "small_zo_ops.c"], cwd=tmp_path / platform, check=True)
        command = ["gcc", "-E", "-P", "-U__SSE2__", "small_zo_ops.c"]
        read = subprocess.run(command, cwd=tmp_path / platform, capture_output=True, text=True, check=True)
        assert ("__ARM" in files["small_zo_ops.c"]) == (platform != "esp-idf")
        return [line.removeprefix("static ") for line in read.stdout.splitlines()]

    every, without = lines("cmake"), lines("esp-idf")
    assert set(without) <= set(every)
    assert len(without) > 0.95 * len(every)


@pytest.mark.parametrize("text", ["int f(void) {\n", "#if A\nint a;\n", "/* never closed\n", "#endif\n"])
def test_sources_of_another_layout_are_refused(text: str) -> None:
    with pytest.raises(ConversionError, match="install tflm_zo again"):
        reached({"ops/x.c": text}, {"f"})
