/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Runs all tests of the core. */
#include "core_test.h"

int main(void) {
  test_stream();
  test_perturb();
  test_a_million_restores();
  test_update();
  test_update_errors();
  test_losses();
  test_calibration();
  test_sum_losses();
  test_commands();
  for (uint32_t tensors = 1; tensors <= kMaxTensors; ++tensors) {
    for (uint32_t mode = 0; mode < 4; ++mode) {
      test_weight_op(tensors, mode * ZO_OPTION_FRACTION);
    }
  }
  test_loss_op();
  test_sum_loss_op();
  test_control();
  test_log_header();
  test_many_blocks();
  test_measurements();
  test_bits();
  test_nodes();
  test_node_tail();
  test_node_sizes_that_wrap();
  test_a_command_of_many_items();
  test_snapshot_sizes();
  test_flash_store();
  test_link();
  test_fleet();
  test_node_run();
  test_weight_task();
  printf("core_test: %lu checks passed, digest %08" PRIx32 "\n", checks, digest);
  return 0;
}
