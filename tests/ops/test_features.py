"""The C core without excluded features of zo_features.h: no warning, and they are refused."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from helpers.examples import slow_but

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "ops" / "core"
SOURCES = sorted(CORE.rglob("*.c"))
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", f"-I{ROOT}"]
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
FEATURES = re.findall(r"#ifndef (ZO_WITH_\w+)", (CORE / "zo_features.h").read_text())

pytestmark = pytest.mark.skipif(CC is None, reason="NO C COMPILER: the C core's features were not checked")

REFUSALS = r"""
#include <stdio.h>
#include <string.h>
#include "ops/core/run/zo_control.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_update.h"

static int8_t logits[2] = {1, 2};
static int32_t bias[1];
static int8_t* const weights = (int8_t*)bias;
static int32_t words[8], losses[1];
static zo_buffer loss_tensor(void* context, int32_t index) {
  zo_buffer b = {index == 0 ? (void*)logits : index == -1 ? (void*)losses : (void*)words, 0};
  (void)context;
  b.bytes = index == 0 ? 2 : 4;
  return b;
}
static zo_buffer weight_tensor(void* context, int32_t index) {
  zo_buffer b = {index < 2 ? (void*)words : (void*)weights, 0};
  (void)context;
  b.bytes = index < 0 ? 0 : index == 0 ? 32 : index == 1 ? 16 : index < 4 ? 4 : index == 4 ? 4 : 1;
  return b;
}
int main(void) {
  const zo_distribution signs = {ZO_RADEMACHER, 0, 2}, sparse = {ZO_SPARSE_UNIFORM, 9, 2},
                        gaussian = {ZO_GAUSSIAN, 0, 170}, coordinate = {ZO_COORDINATE, 0, 2};
  printf("%d %d %d %d\n", (int)zo_distribution_check(signs), (int)zo_distribution_check(sparse),
         (int)zo_distribution_check(gaussian), (int)zo_distribution_check(coordinate));
  const zo_perturb_term term = {1, 1};
  const zo_perturb_terms terms = {&term, 1};
  const zo_query query = {1, 65536};
  const int32_t multiplier[1] = {5};
  zo_tensor t;
  memset(&t, 0, sizeof t);
  t.weights = weights;
  t.size = 4;
  t.channels = 1;
  t.inner = 4;
  t.limit = 125;
  for (int i = 0; i < 2; ++i) {
    t.multiplier = i == 1 ? multiplier : NULL;
    printf("%d %d\n", (int)zo_perturb_s8(&t, signs, &terms),
           (int)zo_update_s8(&t, signs, NULL, &query, 1, NULL));
  }
  for (uint8_t kind = 0; kind < 4; ++kind) {
    const uint8_t options[20] = {1, kind, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0};
    printf("%d ", (int)zo_loss_op_check(options, 20, loss_tensor, NULL) == ZO_ERROR_OPTIONS);
  }
  for (uint8_t flags = 0; flags <= 16; flags = flags ? (uint8_t)(2 * flags) : 4) {
    const uint8_t options[20] = {1, flags, 2, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4};
    printf("%d ", (int)zo_weight_op_check(options, 20, weight_tensor, NULL) == ZO_ERROR_OPTIONS);
  }
  const uint8_t biases[20] = {1, 0, 2, 1, 1, 0, 1, 0, 0, 0, 0, 0x40, 1, 0, 0, 0, 1};
  printf("%d ", (int)zo_weight_op_check(biases, 20, weight_tensor, NULL));
  zo_control_settings s;
  memset(&s, 0, sizeof s);
  s.steps = s.samples = s.batch = s.parts = s.queries = s.rate = 1;
  s.distribution = signs;
  s.rule = ZO_STEP_NORMALIZED;
  printf("\n%d ", (int)zo_control_settings_check(&s));
  s.gradient_norm = 5;
  printf("%d ", (int)zo_control_settings_check(&s));
  s.gradient_norm = 0;
  s.estimator = ZO_ONE_SIDED;
  printf("%d ", (int)zo_control_settings_check(&s));
  s.estimator = ZO_ANTITHETIC;
  for (s.rule = 0; s.rule < 3; ++s.rule) printf("%d ", (int)zo_control_settings_check(&s));
  s.rule = ZO_STEP_NORMALIZED;
  for (s.schedule = 0; s.schedule <= ZO_SCHEDULE_STEP; ++s.schedule) {
    s.decay_steps = 1;
    printf("%d ", (int)zo_control_settings_check(&s));
  }
  s.schedule = ZO_SCHEDULE_CONSTANT;
  s.blocks = 2;
  printf("%d ", (int)zo_control_settings_check(&s));
  return 0;
}
"""


def refusals(folder, *flags):
    source, program = folder / "refusals.c", folder / "refusals"
    source.write_text(REFUSALS)
    subprocess.run([CC, *STRICT, *flags, source, *SOURCES, "-o", program], check=True, timeout=300)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.slow
# zo_status: 0 fine, 1 argument, 6 distribution.
def test_with_everything(tmp_path):
    assert refusals(tmp_path) == [
        [0, 0, 0, 0],
        [0, 0],
        [0, 0],
        [0, 0, 0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]


def test_without_anything(tmp_path):
    assert refusals(tmp_path, "-DZO_FEATURES=0") == [
        [0, 6, 6, 6],  # distributions but signs
        [0, 0],  # a plain tensor
        [1, 1],  # with multipliers
        # Losses but cross-entropy; a plain model, fractions, multipliers, masks of earlier versions; biases.
        [0, 1, 1, 1, 0, 0, 1, 1, 1],
        # A plain run, gradient norm, one-sided differences, rules but normalized steps, schedules, blocks.
        [0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1],
    ]


@pytest.mark.slow
def test_one_back(tmp_path):
    found = refusals(tmp_path, "-DZO_FEATURES=0", "-DZO_WITH_MULTIPLIERS=1", "-DZO_WITH_GAUSSIAN=1")
    assert found[0] == [0, 6, 0, 6]
    assert found[1:3] == [[0, 0], [0, 0]]


@cache
def sources_with_features():
    done = subprocess.run([CC, "-MM", f"-I{ROOT}", *SOURCES], check=True, capture_output=True, text=True)
    rules = done.stdout.replace("\\\n", " ").splitlines()
    return [source for source, rule in zip(SOURCES, rules, strict=True) if "zo_features.h" in rule]


@pytest.mark.parametrize("feature", slow_but(FEATURES[::20], FEATURES))
def test_each_alone_and_missing_compiles_without_a_warning(feature, tmp_path):
    assert len(FEATURES) == 28
    for flags in ([f"-D{feature}=0"], ["-DZO_FEATURES=0", f"-D{feature}=1"]):
        command = [CC, *STRICT, "-fsyntax-only", *flags, *sources_with_features()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")
