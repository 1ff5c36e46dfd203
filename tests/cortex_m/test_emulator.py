"""Assumptions of the other tests about the emulators: output, exit status, faults, counting."""

import pytest

from cortex_m.emulator import (
    CORES,
    COUNTING_SOURCE,
    EmulatorError,
    build,
    compile_objects,
    counting_flags,
    each,
    run,
    section_sizes,
)

# A core of each compiler's.
EACH = each(("cortex-m4", "rv32imc"))

# Loops of known length, counted 2 n + 2 by hand: a load, n times subtract and branch, the return.
COUNTING = r"""
#include <stdio.h>
#include "counting.h"
static void loop(void* argument) {
#ifdef __riscv
  __asm__ volatile("lw t0, (%0)\n1: addi t0, t0, -1\n bnez t0, 1b" : : "r"(argument) : "t0");
#else
  __asm__ volatile(".syntax unified\n ldr r1, [%0]\n1: subs r1, #1\n bne 1b" : : "r"(argument) : "r1", "cc");
#endif
}
int main(void) {
  unsigned lengths[] = {1, 2, 1000, 1001, 100000};
  for (int i = 0; i < 5; ++i) printf("%u ", (unsigned)count_instructions(loop, &lengths[i], 128));
  return 0;
}
"""

ENDINGS = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  printf("said before the end\n");
#if ENDING == 1
  return 7;
#elif ENDING == 2 && defined(__riscv)
  __asm__ volatile("unimp");
#elif ENDING == 2
  __asm__ volatile("udf #0");
#elif ENDING == 3
  abort();
#elif ENDING == 4
  for (;;) free(malloc(100000) == NULL ? main : NULL);
#endif
  return 0;
}
"""


@pytest.mark.parametrize("name", each(CORES))
def test_counts_to_the_instruction(name, tmp_path):
    core = CORES[name]
    source = tmp_path / "counting_test.c"
    source.write_text(COUNTING)
    program = build(core, [source, COUNTING_SOURCE], tmp_path / "program", ["-O2", *counting_flags(core)])
    assert [int(count) for count in run(core, program, counting=True).split()] == [4, 6, 2002, 2004, 200002]


@pytest.mark.parametrize("name", each(("cortex-m0plus", "cortex-m4", "rv32imc")))
@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (0, None),
        (1, "status"),
        (2, "emulated Cortex-M: fault|RISCV fault"),
        (3, "emulated (Cortex-M|RISC-V): abort"),
        (4, "full"),
    ],
)
def test_every_end_is_told(name, ending, words, tmp_path):
    source = tmp_path / "ending.c"
    source.write_text(ENDINGS)
    program = build(CORES[name], [source], tmp_path / "program", ["-O1", f"-DENDING={ending}"])
    if words is None:
        assert run(CORES[name], program) == "said before the end\n"
        return
    with pytest.raises(EmulatorError, match=words) as caught:
        run(CORES[name], program)
    assert "said before the end" in str(caught.value)


@pytest.mark.parametrize("name", EACH)
def test_what_hangs_is_stopped(name, tmp_path):
    source = tmp_path / "endless.c"
    source.write_text('int main(void) { for (;;) __asm__ volatile(""); }\n')
    program = build(CORES[name], [source], tmp_path / "program")
    with pytest.raises(EmulatorError, match="did not end within 1 s"):
        run(CORES[name], program, timeout=1)


@pytest.mark.parametrize("name", EACH)
def test_what_does_not_compile_or_fit_is_told(name, tmp_path):
    source = tmp_path / "wrong.c"
    source.write_text("int main(void) { return unknown; }\n")
    with pytest.raises(EmulatorError, match="unknown"):
        build(CORES[name], [source], tmp_path / "program")
    source.write_text("volatile char big[8 << 20]; int main(void) { return big[5]; }\n")
    with pytest.raises(EmulatorError, match="DATA|ram"):
        build(CORES[name], [source], tmp_path / "program")


@pytest.mark.parametrize("name", EACH)
def test_sizes(name, tmp_path):
    source = tmp_path / "sizes.c"
    source.write_text("const int table[10] = {1}; int value = 3; int zero[5];\n")
    objects = compile_objects(CORES[name], [source], tmp_path)
    assert section_sizes(CORES[name], objects) == {"text": 40, "data": 4, "bss": 20}
