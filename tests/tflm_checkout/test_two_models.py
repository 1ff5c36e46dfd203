"""Two models in one program: each folder's names are its own, so nothing of one is linked for the other."""

import re
import subprocess
from pathlib import Path

import pytest

from cortex_m.emulator import CORES, run
from helpers.firmware_folders import zo_model
from tflm_checkout.firmware_build import LIBRARIES, TFLM_DIR, build_firmware, cmake_options
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Cosine, Nodes, Settings, Weights

LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
#: Runs of different kinds, with different features and numbers of queries.
RUNS = {
    "first": ("node", Settings(tasks=(Nodes(queries=3),), batch_size=2)),
    "second": ("weight", Settings(tasks=(Weights(queries=2),), batch_size=2, schedule=Cosine())),
}

BOTH = """
#include <stdio.h>

#include "first_zo_trainer.h"
#include "second_zo_trainer.h"

namespace {

alignas(16) uint8_t first_arena[FIRST_ZO_ARENA_BYTES];
alignas(8) uint8_t first_workspace[FIRST_ZO_WORKSPACE_BYTES];
first_zo::Trainer first;
alignas(16) uint8_t second_arena[SECOND_ZO_ARENA_BYTES];
alignas(8) uint8_t second_workspace[SECOND_ZO_WORKSPACE_BYTES];
second_zo::Trainer second;

}  // namespace

int main() {
  if (first.Init(first_arena, sizeof first_arena, first_workspace, sizeof first_workspace,
                 first_zo::kSamples) != FIRST_ZO_OK ||
      second.Init(second_arena, sizeof second_arena, second_workspace, sizeof second_workspace,
                  second_zo::kSamples) != SECOND_ZO_OK) {
    return 1;
  }
  while (!first.done() || !second.done()) {  // in turns
    first_zo_report a;
    second_zo_report b;
    if (first.TrainStep(&a) != FIRST_ZO_OK || second.TrainStep(&b) != SECOND_ZO_OK) return 2;
    if (a.step_done) printf("first %ld\\n", static_cast<long>(a.mean_loss));
    if (b.step_done) printf("second %ld\\n", static_cast<long>(b.mean_loss));
  }
  first_zo::Evaluation of_first;  // which makes the memory have the weights of the last step
  second_zo::Evaluation of_second;
  if (first.Evaluate(first_zo::kSamples, 0, 1, &of_first) != FIRST_ZO_OK ||
      second.Evaluate(second_zo::kSamples, 0, 1, &of_second) != SECOND_ZO_OK) {
    return 3;
  }
  printf("first checksum %08lx\\n", static_cast<unsigned long>(first.network().checksum()));
  printf("second checksum %08lx\\n", static_cast<unsigned long>(second.network().checksum()));
  return 0;
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(both C CXX)
add_subdirectory(first)
add_subdirectory(second)
add_executable(both both.cc first/first_zo_samples.cc second/second_zo_samples.cc)
target_link_libraries(both PRIVATE first_zo second_zo ${TFLM_LIBRARY} m)
target_link_options(both PRIVATE -Wl,--gc-sections)
"""


def _run(*command: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_each_trains_as_it_does_alone(tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    core = CORES[LIBRARY.core]
    alone: dict[str, list[str]] = {}
    for name, (algorithm, settings) in RUNS.items():
        made = generate_firmware(zo_model(algorithm), settings, steps=4, samples=6, name=name)
        made.write(tmp_path / name)
        lines = run(core, build_firmware(LIBRARY, tmp_path / name, tmp_path / f"{name}.build")).splitlines()
        alone[name] = [line.split()[3] for line in lines if line.startswith("step ")]
        alone[name] += [line for line in lines if line.startswith("checksum ")]
        assert len(alone[name]) == 5
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "both.cc").write_text(BOTH)
    _run(
        *("cmake", "-S", tmp_path, "-B", tmp_path / "b"),
        *cmake_options(core, tmp_path / "first.build" / "startup.c.o"),
        f"-DTFLM_DIR={TFLM_DIR}",
        f"-DTFLM_LIBRARY={LIBRARY.path}",
    )
    _run("cmake", "--build", tmp_path / "b")
    lines = run(core, tmp_path / "b" / "both").splitlines()
    for name, expected in alone.items():
        assert [line.removeprefix(f"{name} ") for line in lines if line.startswith(name)] == expected

    # The folders' definitions are their own: not one name is in both libraries.
    defined = []
    for name in RUNS:
        (library,) = (tmp_path / "b" / name).glob(f"lib{name}_zo.a")
        symbols = _run("arm-none-eabi-nm", "--defined-only", "--extern-only", library)
        defined.append({m[1] for m in re.finditer(r"^[0-9a-f]+ [A-TX-Z] (\S+)$", symbols, re.M)})
    assert all(len(names) > 40 for names in defined)
    assert defined[0] & defined[1] == set()
