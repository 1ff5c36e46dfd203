/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/zo_types.h"

const char* zo_status_text(zo_status status) {
  switch (status) {
    case ZO_OK:
      return "ok";
    case ZO_ERROR_ARGUMENT:
      return "null pointer, zero size or inconsistent tensor shapes";
    case ZO_ERROR_COMMAND:
      return "zo_command has no magic word or a wrong length; fill it with zeros for inference";
    case ZO_ERROR_OPCODE:
      return "unknown instruction in zo_command";
    case ZO_ERROR_ORDER:
      return "instructions must come in the order RESTORE, REPLAY, UPDATE, PERTURB";
    case ZO_ERROR_BLOCK:
      return "block number outside the model";
    case ZO_ERROR_DISTRIBUTION:
      return "unknown distribution or parameter out of range";
    case ZO_ERROR_HEADROOM:
      return "perturbation exceeds the model's headroom";
    case ZO_ERROR_QUERIES:
      return "more seeds than the model was built for";
    case ZO_ERROR_COEFFICIENT:
      return "sum of |coefficient| * max |z| exceeds 2^30";
    case ZO_ERROR_FACTOR:
      return "perturbation factor not allowed";
    case ZO_ERROR_CAPACITY:
      return "command does not fit its buffer";
    case ZO_ERROR_LABEL:
      return "label outside the range of classes";
    case ZO_ERROR_OPTIONS:
      return "custom options malformed or of a newer version";
    case ZO_ERROR_MEMORY:
      return "arena or buffer too small";
    case ZO_ERROR_RUNTIME:
      return "the interpreter failed";
    case ZO_ERROR_SAMPLE:
      return "no such sample";
    case ZO_ERROR_LOG:
      return "log damaged, or of another model or run";
    case ZO_ERROR_STORE:
      return "log or weights cannot be written or read";
    case ZO_ERROR_KERNEL:
      return "an operator computes other bytes than the desktop";
    default:
      return "unknown status";
  }
}
