"""A program in C trains a generated folder's model, with the bits of one in C++."""

import subprocess
from pathlib import Path

import pytest

from cortex_m.emulator import CORES, run
from helpers.firmware_folders import ALGORITHMS, zo_model
from tflm_checkout.firmware_build import LIBRARIES, build_firmware, replace_main
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Nodes, Settings, Weights

LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
SETTINGS = {
    "node": Settings(tasks=(Nodes(queries=2),), batch_size=2, snapshot_every=1),
    "weight": Settings(tasks=(Weights(queries=2),), batch_size=2),
}

# Trains in C++, then leaves the rest to C.
MAIN = """
#include <stdio.h>

#include "zo_trainer.h"

extern "C" {
alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
const zo_sample_source* example_samples() { return &tflm_zo::kSamples; }
int main_of_c(void);
}

int main() {
  static tflm_zo::Trainer trainer;
  if (trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples) != ZO_OK) return 90;
  zo_report report;
  while (!trainer.done()) {
    if (trainer.TrainStep(&report) != ZO_OK) return 91;
    printf("cpp %ld\\n", static_cast<long>(report.mean_loss));
  }
  tflm_zo::Evaluation found;
  if (trainer.Evaluate(tflm_zo::kSamples, 0, tflm_zo::kSampleCount, &found) != ZO_OK) return 92;
  printf("cpp %lu %ld\\n", static_cast<unsigned long>(found.correct), static_cast<long>(found.loss));
  printf("cpp %08lx\\n", static_cast<unsigned long>(trainer.network().checksum()));
  return main_of_c();
}
"""

# Trains, is interrupted after two steps, resumes from its log in another run, and prints its results.
OF_C = """
#include <stdio.h>
#include <string.h>

#include "small_zo_trainer.h"

extern uint8_t arena[SMALL_ZO_ARENA_BYTES], workspace[SMALL_ZO_WORKSPACE_BYTES];
const small_zo_sample_source* example_samples(void);
int main_of_c(void);

static uint8_t memory[16384];

static bool Write(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  (void)context;
  memcpy(memory + offset, bytes, count);
  return true;
}

static int32_t Read(void* context, uint32_t offset, uint8_t* bytes, uint32_t count) {
  (void)context;
  memcpy(bytes, memory + offset, count);
  return (int32_t)count;
}

static bool Count(void* context, uint32_t tensor, const int8_t* weights, uint32_t count) {
  (void)tensor;
  (void)weights;
  *(uint32_t*)context += count;
  return true;
}

static small_zo_status Begin(void) {
  return small_zo_trainer_init(arena, SMALL_ZO_ARENA_BYTES, workspace, SMALL_ZO_WORKSPACE_BYTES,
                               example_samples());
}

@join@

int main_of_c(void) {
  const small_zo_log_store store = {Write, Read, NULL, NULL, 1, sizeof memory};
  small_zo_report report;
  memset(memory, 0xFF, sizeof memory);
  if (Begin() != SMALL_ZO_OK) return 1;
  if (small_zo_trainer_set_log(&store) != SMALL_ZO_OK) return 12;
  while (small_zo_trainer_steps() < 2u) {
    if (small_zo_trainer_step(&report) != SMALL_ZO_OK) return 2;
    printf("c %ld\\n", (long)report.mean_loss);
  }
  memset(arena, 0xA5, SMALL_ZO_ARENA_BYTES); /* a reset */
  if (Begin() != SMALL_ZO_OK || small_zo_trainer_import_log(&store) != SMALL_ZO_OK) return 3;
  if (small_zo_trainer_set_log(&store) != SMALL_ZO_OK) return 13;
  if (small_zo_trainer_steps() != 2u) return 4;
  while (!small_zo_trainer_is_done()) {
    if (small_zo_trainer_step(&report) != SMALL_ZO_OK) return 5;
    printf("c %ld\\n", (long)report.mean_loss);
  }
  small_zo_evaluation found;
  if (small_zo_trainer_evaluate(example_samples(), 0, SMALL_ZO_SAMPLES, &found) != SMALL_ZO_OK) return 6;
  printf("c %lu %ld\\n", (unsigned long)found.correct, (long)found.loss);
  printf("c %08lx\\n", (unsigned long)small_zo_trainer_checksum());
  /* The largest output of each sample, as the evaluation has counted it. */
  uint32_t right = 0;
  for (uint32_t i = 0; i < SMALL_ZO_SAMPLES; ++i) {
    static int8_t image[8 * 8];
    int8_t* const inputs[1] = {image};
    const int8_t* const given[1] = {image};
    int8_t output[4];
    int32_t label;
    if (!example_samples()->read(example_samples()->context, i, inputs, &label)) return 7;
    if (small_zo_trainer_predict(given, output) != SMALL_ZO_OK) return 8;
    int32_t best = 0;
    for (int32_t k = 1; k < 4; ++k) {
      if (output[k] > output[best]) best = k;
    }
    right += best == label;
  }
  uint32_t bytes = 0;
  const small_zo_weight_sink sink = {Count, &bytes};
  if (small_zo_trainer_export_weights(&sink) != SMALL_ZO_OK) return 9;
  printf("predicted %lu of %lu, exported %lu\\n", (unsigned long)right, (unsigned long)found.correct,
         (unsigned long)bytes);
  if (small_zo_trainer_export_log(&store) != SMALL_ZO_OK) return 10;
  if (small_zo_trainer_import_weights(&store) == SMALL_ZO_OK) return 11; /* a run is in progress */
  return Join();
}
"""

# A trainer of weight perturbation may be part of a fleet; others have no such function.
JOIN = {
    "node": "static int Join(void) { return 0; }",
    "weight": """
static small_zo_fleet fleet;
static small_zo_link host;
static uint8_t frame[80];
static bool Send(void* context, const uint8_t* bytes, uint32_t count) {
  (void)context;
  (void)bytes;
  (void)count;
  return true;
}

static int Join(void) {
  if (Begin() != SMALL_ZO_OK) return 20;
  const uint32_t before = small_zo_trainer_checksum();
  small_zo_trainer_join_fleet(&fleet);
  host.buffer = frame;
  host.buffer_bytes = sizeof frame;
  host.to.write = Send;
  host.fingerprint = small_zo_trainer_fingerprint();
  if (small_zo_link_begin(&host) != SMALL_ZO_OK) return 21;
  if (small_zo_link_add_fleet(&host, &fleet) != SMALL_ZO_OK) return 22;
  fleet.is_evaluating = true; /* as where it is asked to */
  while (small_zo_fleet_is_evaluating(&fleet)) small_zo_fleet_work(&fleet);
  if (fleet.failure != SMALL_ZO_OK || fleet.answer.samples != 2u) return 23;
  return small_zo_trainer_steps() == 0u && small_zo_trainer_checksum() == before ? 0 : 24;
}
""",
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_c_and_cpp_give_the_same_bits(algorithm: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    core = CORES[LIBRARY.core]
    model = zo_model(algorithm)
    made = generate_firmware(model, SETTINGS[algorithm], steps=5, samples=6, name="small")
    made.write(tmp_path / "out")
    replace_main(tmp_path / "out", MAIN)
    (tmp_path / "of_c.c").write_text(OF_C.replace("@join@", JOIN[algorithm]))
    flags = [*core.flags, "-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
    command = ["arm-none-eabi-gcc", *flags, f"-I{tmp_path / 'out'}", "-c", tmp_path / "of_c.c"]
    subprocess.run([*command, "-o", tmp_path / "of_c.o"], check=True)
    program = build_firmware(LIBRARY, tmp_path / "out", tmp_path / "b", objects=[tmp_path / "of_c.o"])
    lines = run(core, program).splitlines()
    cpp, c = ([line.split(" ", 1)[1] for line in lines if line.startswith(f"{of} ")] for of in ("cpp", "c"))
    assert cpp == c and len(c) == 7
    (said,) = (line for line in lines if line.startswith("predicted "))
    predicted, of, exported = (int(word.strip(",")) for word in said.split() if word.strip(",").isdigit())
    assert predicted == of and exported == made.trainable_bytes
