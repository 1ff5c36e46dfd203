"""An autoencoder on an emulated core is trained and calibrated: the desktop's threshold, which its log keeps."""

from pathlib import Path

import numpy as np
import pytest

from cortex_m.emulator import CORES, run
from helpers.firmware_folders import ALGORITHMS
from helpers.models import MODELS
from tflm_checkout.firmware_build import Library, build_firmware, on, replace_main
from tflm_zo import Settings, Trainer, calibrate, load_model
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Nodes, Weights, inject_for

SETTINGS = {
    "node": Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=5, snapshot_every=1),
    "weight": Settings(tasks=(Weights(queries=2),), batch_size=2, seed=3, learning_rate=20.0),
}
STEPS, SAMPLES, PERCENTILE = 5, 33, 90

MAIN = """
#include <stdio.h>
#include <string.h>

#include "zo_trainer.h"

namespace {

alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
uint8_t memory[16384];

bool Write(void*, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  memcpy(memory + offset, bytes, count);
  return true;
}

int32_t Read(void*, uint32_t offset, uint8_t* bytes, uint32_t count) {
  memcpy(bytes, memory + offset, count);
  return static_cast<int32_t>(count);
}

constexpr tflm_zo::LogStore kLog = {Write, Read, nullptr, nullptr, 1, sizeof memory};
tflm_zo::Trainer trainer;

}  // namespace

int main() {
  if (trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples) != ZO_OK) return 90;
  if (trainer.SetLog(&kLog) != ZO_OK) return 91;
  zo_report report;
  while (!trainer.done()) {
    if (trainer.TrainStep(&report) != ZO_OK) return 92;
  }
  static int32_t largest[4];
  zo_calibration normal = {largest, 4, 0};
  int32_t threshold = 0, again = 0;
  if (trainer.Calibrate(tflm_zo::kSamples, tflm_zo::kSampleCount, &normal) != ZO_OK) return 93;
  if (trainer.KeepThreshold(normal, 9000, &threshold) != ZO_OK) return 94;
  memset(arena, 0xA5, sizeof arena);  // a reset
  if (trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples) != ZO_OK) return 95;
  if (trainer.ImportLog(kLog) != ZO_OK || trainer.SetLog(&kLog) != ZO_OK) return 96;
  if (trainer.ReadThreshold(&again) != ZO_OK || again != threshold) return 97;
  uint32_t anomalies = 0;
  for (uint32_t i = 0; i < tflm_zo::kSampleCount; ++i) {
    int8_t input[24], target[24];
    int8_t* const inputs[1] = {input};
    const int8_t* const given[1] = {input};
    if (!tflm_zo::kSamples.read(tflm_zo::kSamples.context, i, inputs, target)) return 98;
    int32_t loss = 0;
    if (trainer.Score(given, target, &loss) != ZO_OK) return 99;
    anomalies += loss > threshold;
  }
  printf("threshold %ld anomalies %lu\\n", static_cast<long>(threshold), static_cast<unsigned long>(anomalies));
  printf("log");
  for (uint32_t i = 0; i < sizeof memory; ++i) printf("%s%02x", i % 64 == 0 ? "\\n" : "", memory[i]);
  printf("\\nend\\n");
  return 0;
}
"""


@on("cortex-m4-cmsis_nn")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_threshold_is_the_desktops(algorithm: str, library: Library, tmp_path: Path) -> None:
    settings = SETTINGS[algorithm]
    zo = load_model(inject_for(load_model(MODELS["autoencoder"]()), settings, loss="mse", batch=2).to_bytes())
    rng = np.random.default_rng(7)
    data = Data([rng.integers(-128, 128, (SAMPLES, 24), np.int8)], rng.integers(-40, 40, (SAMPLES, 24), np.int8))
    log = tmp_path / "run.zolog"
    Trainer(zo, settings, runtime="tflm").fit(data, steps=STEPS, log=log, keep="last")
    expected = calibrate(zo, data, percentile=PERCENTILE, log=log, runtime="tflm")
    assert expected.above == 3

    made = generate_firmware(zo, settings, steps=STEPS, samples=SAMPLES, name="small", data=data)
    made.write(tmp_path / "out")
    replace_main(tmp_path / "out", MAIN)
    lines = run(CORES[library.core], build_firmware(library, tmp_path / "out", tmp_path / "b")).splitlines()
    assert f"threshold {expected.threshold} anomalies 3" in lines
    stored = bytes.fromhex("".join(lines[lines.index("log") + 1 : lines.index("end")]))
    assert stored[: len(log.read_bytes())] == log.read_bytes()
