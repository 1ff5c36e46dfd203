/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The control unit's functions for firmware that trains by weight perturbation and writes a seed
 * log: linked to measure their flash. Not run.
 */
#include "ops/core/log/zo_log.h"
#include "ops/core/run/zo_control.h"

static zo_control control;
static uint8_t log_bytes[256];
static int32_t words[64], losses[1];

int main(void) {
  static const zo_control_settings settings = {0};
  static const zo_log_header header = {{0}, 0};
  const zo_control_settings* volatile run = &settings;
  zo_request request;
  zo_report report;
  uint32_t pending = 0;
  int status = (int)zo_control_init(&control, run, NULL);
  zo_log_write_header(&header, run, log_bytes);
  while (zo_control_next(&control, words, 64, &request) == ZO_OK) {
    losses[0] = (int32_t)zo_sample_at(run, request.first_sample);
    status |= (int)zo_control_report(&control, losses, 1, &report);
    status |= (int)zo_control_abandon(&control, 0, words, 64);
    zo_log_write_record(&control, report.mean_loss, 0, log_bytes);
  }
  return status | (int)zo_control_settle(&control, words, 64, &pending);
}
