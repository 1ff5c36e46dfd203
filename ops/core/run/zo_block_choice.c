/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_block_choice.h"

#include <string.h>

zo_status zo_block_choice_init(zo_block_choice* choice, uint32_t blocks) {
  if (choice == NULL || blocks == 0) return ZO_ERROR_ARGUMENT;
  memset(choice, 0, sizeof *choice);
  choice->blocks = blocks;
  return ZO_OK;
}

zo_status zo_block_choice_next(const zo_block_choice* choice, zo_block_request* request) {
  if (choice == NULL || request == NULL) return ZO_ERROR_ARGUMENT;
  const int done = choice->block == choice->blocks;
  request->action = done ? ZO_BLOCK_DONE : ZO_BLOCK_PROBE;
  request->block = done ? choice->best : choice->block;
  return ZO_OK;
}

zo_status zo_block_choice_report(zo_block_choice* choice, int64_t score) {
  if (choice == NULL) return ZO_ERROR_ARGUMENT;
  if (choice->block == choice->blocks) return ZO_ERROR_ORDER;
  if (choice->block == 0 || score > choice->score) {
    choice->best = choice->block;
    choice->score = score;
  }
  choice->block += 1;
  return ZO_OK;
}
