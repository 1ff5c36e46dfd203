"""A device on an emulated core finds that its data have drifted, and trains: sums and score are the desktop's."""

from pathlib import Path

import numpy as np

import tflm_zo as zo
from cortex_m.emulator import CORES, run
from helpers.models import MODELS
from tflm_checkout.firmware_build import Library, build_firmware, on, replace_main
from tflm_zo import RunningMoments, load_model
from tflm_zo.converters import export_model
from tflm_zo.converters.channel_statistics import with_statistics
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.recalibration import channel_statistics_of, corrected_names
from tflm_zo.training import Nodes, Settings, inject_for

SETTINGS = Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=5, layers=("fc1",))
STEPS, OLD, NEW = 3, 8, 24

MAIN = """
#include <stdio.h>

#include "zo_trainer.h"

namespace {

constexpr uint32_t kOld = 8;  // samples of the old data, which come first
alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
int64_t sums[2 * ZO_DRIFT_CHANNELS];
tflm_zo::Trainer trainer;

uint32_t Score(uint32_t first, uint32_t end) {
  for (int64_t& sum : sums) sum = 0;
  zo_drift drift = {&zo_old_data, sums, 0};
  static int8_t input[ZO_INPUT_0_BYTES], output[ZO_OUTPUT_BYTES];
  int8_t* const inputs[1] = {input};
  for (uint32_t i = first; i < end; ++i) {
    if (!tflm_zo::kSamples.read(tflm_zo::kSamples.context, i, inputs, nullptr)) return UINT32_MAX;
    if (trainer.Predict(inputs, output, &drift) != ZO_OK) return UINT32_MAX;
  }
  printf("sums");
  for (const int64_t sum : sums) printf(" %ld", static_cast<long>(sum));
  const uint32_t score = zo_drift_score(&drift);
  printf("\\nscore %lu of %lu\\n", static_cast<unsigned long>(score), static_cast<unsigned long>(drift.samples));
  return score;
}

}  // namespace

int main() {
  if (trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples) != ZO_OK) return 90;
  const uint32_t threshold = 2 * Score(0, kOld);
  if (Score(kOld, tflm_zo::kSampleCount) <= threshold) return 91;
  zo_report report;
  while (!trainer.done()) {
    if (trainer.TrainStep(&report) != ZO_OK) return 92;
  }
  Score(kOld, tflm_zo::kSampleCount);
  return 0;
}
"""


def data(count: int, seed: int, gain: float) -> Data:
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(0, gain, (count, 28, 28, 1)), -128, 127).astype(np.int8)
    return Data([x], rng.integers(0, 10, count).astype(np.int32))


@on("cortex-m4-cmsis_nn", "cortex-m0plus-reference", "cortex-m55-cmsis_nn")
def test_sums_and_score_are_the_desktops(library: Library, tmp_path: Path) -> None:
    plain = load_model(MODELS["lenet5"]())
    plain = with_statistics(plain, channel_statistics_of(plain, data(100, 1, 30).inputs[0]))
    zo_model = inject_for(plain, SETTINGS, batch=2)
    old, new = data(OLD, 2, 30), data(NEW, 3, 60)
    samples = Data([np.concatenate([old.inputs[0], new.inputs[0]])], np.concatenate([old.labels, new.labels]))
    made = generate_firmware(zo_model, SETTINGS, steps=STEPS, samples=OLD + NEW, name="small", data=samples)
    made.write(tmp_path / "out")
    example = run(CORES[library.core], build_firmware(library, tmp_path / "out", tmp_path / "example")).splitlines()
    replace_main(tmp_path / "out", MAIN)
    lines = run(CORES[library.core], build_firmware(library, tmp_path / "out", tmp_path / "b")).splitlines()

    plain = export_model(zo_model, batch=1)
    number = corrected_names(plain).index(made.drift_layer)
    expected, scores = [], []
    for x in (old, new, new):  # training changes no layer up to it
        moments = RunningMoments(plain, number)
        moments.add(x.inputs[0], runtime="tflm")
        expected.append(" ".join(map(str, ["sums", *moments.moments.sums, *moments.moments.squares])))
        scores.append(zo.drift(plain, moments).score)
    assert [line for line in lines if line.startswith("sums")] == expected
    found = [line.split() for line in lines if line.startswith("score")]
    assert [int(words[3]) for words in found] == [OLD, NEW, NEW]
    for words, score in zip(found, scores, strict=True):
        assert abs(int(words[1]) / 256 - score) <= 1 / 256

    # The example has all samples in one drift.
    moments = RunningMoments(plain, number)
    moments.add(samples.inputs[0], runtime="tflm")
    (line,) = (line for line in example if line.startswith("drift: "))
    assert abs(int(line.split()[1]) / 256 - zo.drift(plain, moments).score) <= 1 / 256
