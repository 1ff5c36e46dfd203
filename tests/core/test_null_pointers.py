"""Every function of the core that has a status, with a null pointer in each place and counts of 0."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "ops" / "core"
# Kernels stand for each other, one for each instruction set, and have no status.
HEADERS = sorted(h for h in CORE.rglob("zo_*.h") if h.parent.name != "kernels")
#: A read beyond its structs, or an address taken from null, ends the process.
FLAGS = "-std=c11 -O0 -w -fsanitize=address,undefined -fno-sanitize-recover=all".split()
#: Arrays of no elements, which functions without a status take, too.
EMPTY = [
    "zo_crc32(0, NULL, 0)",
    "zo_fnv1a(0, NULL, 0)",
    "zo_samples_at(NULL, 0, 0, NULL)",
    "zo_step_biases(NULL, NULL, 0, (void*)memory[0])",
    "zo_perturb_biases(NULL, 0, 0, (zo_distribution){0}, 1)",
    "zo_subtract_rounded(NULL, NULL, 0, 0, 0)",
]

#: clang's also sees sums of a null pointer and 0.
CC = shutil.which("clang") or shutil.which("cc")

pytestmark = pytest.mark.skipif(CC is None, reason="NO C COMPILER: null pointers were not tried")


def fallible() -> dict[str, list[str]]:
    """Returns parameters of the functions that return a status, by name."""
    text = "\n".join(h.read_text() for h in HEADERS)
    # Functions that the desktop's library alone has are none of the core's.
    text = re.sub(r"/\*.*?\*/|^#if ZO_KERNEL_SETS$.*?^#endif$|^#.*?$", "", text, flags=re.S | re.M)
    found = re.findall(r"^zo_status (zo_\w+)\(([^;{}]*)\);", text, re.M)
    return {name: [one.strip() for one in given.split(",")] for name, given in found}


def calls(name: str, parameters: list[str]) -> list[str]:
    """Yields calls with a null pointer in each place, and one with null pointers alone."""
    pointers = [i for i, one in enumerate(parameters) if "*" in one or one.startswith("zo_buffer_")]
    made = []
    for null in [*([i] for i in pointers), pointers]:
        values = []
        for i, parameter in enumerate(parameters):
            of = parameter.rsplit(" ", 1)[0].removeprefix("const ")
            if i in pointers:
                values.append("NULL" if i in null else f"(void*)memory[{i}]")
            else:
                values.append(f"({of}){{0}}" if of.startswith("zo_") else "0")
        made.append(f"{name}({', '.join(values)})")
    return made


@pytest.mark.slow
def test_null_pointers_are_refused(tmp_path: Path) -> None:
    """Structs are zero: those of a run that has begun are in tests/ops/core."""
    functions = fallible()
    assert len(functions) > 70
    tried = [call for name, given in functions.items() for call in calls(name, given)] + EMPTY
    # A control without settings has not been made.
    tried = [call for call in tried if not re.match(r"zo_control_\w+\(\(void\*\)", call)]
    lines = [f'#include "{header}"' for header in HEADERS]
    lines += [
        "#include <stdio.h>",
        "#include <string.h>",
        "static _Alignas(64) unsigned char memory[12][8192];",
        "int main(void) {",
        # A call may leave something, which would be another's struct.
        *(
            f"  memset(memory, 0, sizeof memory); puts({call!r}); fflush(stdout); (void){call};".replace("'", '"')
            for call in tried
        ),
        "}",
    ]
    (tmp_path / "null.c").write_text("\n".join(lines))
    command = [CC, *FLAGS, f"-I{ROOT}", "null.c", *CORE.rglob("*.c"), "-o", "null"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "null"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout.splitlines()[-1] + "\n" + done.stderr
