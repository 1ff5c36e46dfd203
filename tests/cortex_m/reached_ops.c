/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The core's functions for weight ops and the loss, called as the glue of a runtime calls them:
 * linked to measure their flash. Not run.
 */
#include "ops/core/graph/zo_op.h"

static zo_buffer nothing(void* context, int32_t index) {
  const zo_buffer none = {NULL, 0};
  (void)context, (void)index;
  return none;
}

int main(void) {
  const uint8_t* volatile options = NULL;
  volatile size_t length = 0;
  volatile zo_opcode opcode = ZO_OP_UPDATE;
  int status = (int)zo_weight_op_check(options, length, nothing, NULL);
  status |= (int)zo_weight_op_run(opcode, options, length, nothing, NULL, NULL);
  status |= (int)zo_loss_op_check(options, length, nothing, NULL);
  return status | (int)zo_loss_op_run(options, length, nothing, NULL);
}
