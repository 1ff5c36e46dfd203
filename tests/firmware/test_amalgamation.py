"""Joined sources: nothing is lost, nothing is there twice, and the order compiles."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.examples import slow_but
from helpers.firmware_folders import ALGORITHMS, firmware
from tflm_zo.converters import ConversionError
from tflm_zo.firmware.amalgamation import Unit, join
from tflm_zo.firmware.op_pack import of_model, op_pack_sources

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="NO gcc: NOTHING THAT IS JOINED WAS COMPILED")
COPYRIGHT = "/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0"


def header(name: str, body: str) -> str:
    guard = f"TFLM_ZO_{name.upper()}_H_"
    about = f"{COPYRIGHT}\n *\n * {name}.\n */\n"
    return f"{about}#ifndef {guard}\n#define {guard}\n\n{body}\n#endif /* {guard} */\n"


SOURCES = {
    "ops/a.h": header("a", "#include <stdint.h>\n\ntypedef struct a {\n  int32_t x;\n} a;\n"),
    "ops/b.h": header("b", '#include "ops/a.h"\n\nint b(const a* own);\n'),
    "ops/fast.h": header("fast", '#include "ops/a.h"\n\nstatic inline int once(int x) { return x + 1; }\n'),
    "ops/one.c": f'{COPYRIGHT} */\n#include "ops/b.h"\n\n#if ONE\n#include "ops/fast.h"\n#endif\n\n'
    '#if OTHER\n#include "ops/fast.h"\n#endif\n\n'
    "#if ONE || OTHER\nint b(const a* own) { return once(own->x); }\n"
    "#else\nint b(const a* own) { return own->x; }\n#endif\n",
    "ops/two.c": f'{COPYRIGHT} */\n#include <string.h>\n\n#include "ops/b.h"\n\nint two(void);\n'
    "int two(void) {\n  a own;\n  memset(&own, 0, sizeof own);\n  return b(&own);\n}\n",
}


def units() -> list[Unit]:
    return [
        Unit("whole.h", "All headers.", c_roots=["ops/b.h"], guard="WHOLE_H_"),
        Unit("whole.c", "All sources.", ["ops/two.c", "ops/one.c"], includes=("whole.h",)),
    ]


@needs_gcc
@pytest.mark.parametrize("defined", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_what_conditions_include_is_there_once(defined: tuple[int, int], tmp_path: Path) -> None:
    for path, text in join(units(), SOURCES).items():
        (tmp_path / path).write_text(text)
    own = [f"-DONE={defined[0]}", f"-DOTHER={defined[1]}"]
    (tmp_path / "main.cc").write_text('#include "whole.h"\nint main() { a own = {41}; return b(&own); }\n')
    flags = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", "-std=c99", *flags, *own, "-c", "whole.c"], cwd=tmp_path, check=True)
    subprocess.run(["g++", *flags, "main.cc", "whole.o", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == (42 if any(defined) else 41)


def test_each_piece_is_there_once() -> None:
    made = join(units(), SOURCES)
    for path in ("ops/a.h", "ops/b.h", "ops/one.c", "ops/two.c"):
        assert sum(text.count(f"/* --- {path} ---") for text in made.values()) == 1
    assert all(text.count("Copyright") == 1 for text in made.values())
    assert made["whole.h"].index("typedef struct a") < made["whole.h"].index("int b(")
    assert made["whole.c"].index("#include <string.h>") < made["whole.c"].index('#include "whole.h"')
    assert '#include "ops/' not in "".join(made.values())


@needs_gcc
def test_a_header_of_cpp_has_a_part_for_c(tmp_path: Path) -> None:
    inline = "namespace own { inline int f(int x) { return ::twice(x); } }\n"
    sources = {
        "ops/c.h": header("c", "#include <stdint.h>\n\nint32_t twice(int32_t x);\n"),
        "ops/cpp.h": header("cpp", '#include "ops/c.h"\n\n#include <new>\n\n' + inline),
        "ops/cpp.cc": f'{COPYRIGHT} */\n#include "ops/cpp.h"\n\nint32_t twice(int32_t x) {{ return 2 * x; }}\n',
    }
    whole = Unit("whole.h", "Both.", ["ops/cpp.h"], guard="WHOLE_H_", c_roots=["ops/c.h"])
    made = join([whole, Unit("whole.cc", "Both.", ["ops/cpp.cc"], includes=("whole.h",))], sources)
    for path, text in made.items():
        (tmp_path / path).write_text(text)
    (tmp_path / "main.c").write_text('#include "whole.h"\nint main(void) { return (int)twice(21); }\n')
    for command in (
        "gcc -std=c99 -Wall -Werror -c main.c",
        "g++ -Wall -Werror -c whole.cc",
        "g++ main.o whole.o -o main",
    ):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 42


def test_a_source_that_is_in_no_file_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"ops/three\.c: sources that no file of the folder has"):
        join(units(), {**SOURCES, "ops/three.c": f"{COPYRIGHT} */\nint three(void);\n"})


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_line_of_the_folder_is_the_op_packs(name: str) -> None:
    """But for the run's own settings, conditions of which a part is known, and functions made static."""
    made = firmware("cmake", name)
    sources = of_model(op_pack_sources(), "small")
    parts = ("ops.h", "ops_internal.h", "ops.c", "trainer.h", "trainer.cc", "tflm.cc")
    for part in parts:
        pieces = re.split(r"/\* --- (ops/\S+) -+ \*/\n", made.files[f"small_zo_{part}"])
        for path, text in zip(pieces[1::2], pieces[2::2], strict=True):
            if path.startswith("ops/model/"):
                continue
            # Conditional includes are in the place of the include.
            known = {line.strip() for line in sources[path].splitlines()}
            known |= {line.strip() for p in sources if p.endswith(".h") for line in sources[p].splitlines()}
            for line in text.splitlines():
                own = re.match(r"#(if|endif|ifdef|define \w+_(WITH_\w+|MAX_QUERIES|RUN_SETTINGS) )|}$|/\*$", line)
                assert (
                    own
                    or known & {line.strip(), line.removeprefix("static ")}
                    or "/* What this folder's run needs. */" in line
                    or (re.match(r" *(/\* \w+ \*/|{)", line))
                ), (path, line)


# For size, some loops are other functions.
@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("flag", slow_but(["-Os"], ["-O0", "-DZO_PORTABLE", "-DZO_FEATURES=0", "-Os"]))
def test_the_whole_core_compiles_as_one_source(flag: str, tmp_path: Path) -> None:
    """Compiles every feature on this machine: no two statics, macros or types of the core share a name."""
    sources = {p: t for p, t in op_pack_sources().items() if p.startswith("ops/core/")}
    everything = [
        Unit("all.h", "All.", [p for p in sources if p.endswith(".h") and "/kernels/" not in p], guard="ALL_H_"),
        Unit("all.c", "All.", [p for p in sources if p.endswith(".c")], includes=("all.h",)),
    ]
    for path, text in join(everything, sources).items():
        (tmp_path / path).write_text(text)
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wmissing-prototypes", "-Werror"]
    subprocess.run(["gcc", "-std=c99", *warnings, flag, "-c", "all.c"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_header_of_others_is_read_as_c(name: str) -> None:
    """C++ reads the folder's header: arm_mve.h, for one, overloads functions, which C's linkage forbids."""
    (text,) = (text for path, text in firmware("cmake", name).files.items() if path.endswith("_zo_ops.h"))
    parts = re.findall(r'extern "C" \{\n#endif\n(.*?)\n#ifdef __cplusplus\n\}', text, re.DOTALL)
    assert len(parts) == 1
    assert not re.search(r"^#\s*include\b", parts[0], re.MULTILINE)
