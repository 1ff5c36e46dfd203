/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/core/graph/zo_op.h"

/* Node inputs. */
enum { kState = 0, kCommand = 1, kValue = 1, kInitial = 2 };
/* Node outputs, as a zo_buffer_source counts them. */
enum { kRead = -1 };
/* Layout of the options. */
enum { kStateVersion = 0, kOptionKind = 1, kOptionFill = 2, kOptionBytes = 4 };

static int is_sized(zo_buffer buffer) { return buffer.bytes > 0u && buffer.bytes != ZO_NO_SIZE; }

zo_status zo_state_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  if (options == NULL || length < kOptionBytes || options[kStateVersion] != ZO_OPTIONS_VERSION ||
      options[kOptionKind] > ZO_STATE_ASSIGN) {
    return ZO_ERROR_OPTIONS;
  }
  const zo_buffer state = source(context, kState);
  const zo_buffer second = source(context, kCommand);
  if (!is_sized(state) || !is_sized(second)) return ZO_ERROR_ARGUMENT;
  if (options[kOptionKind] == ZO_STATE_ASSIGN) return second.bytes == state.bytes ? ZO_OK : ZO_ERROR_ARGUMENT;
  const zo_buffer initial = source(context, kInitial);
  const zo_buffer read = source(context, kRead);
  const int fits = second.bytes >= sizeof(int32_t) && (read.bytes == 0u || read.bytes == state.bytes) &&
                   (initial.bytes == 0u || (is_sized(initial) && state.bytes % initial.bytes == 0u));
  return fits ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_state_op_run(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  const zo_status status = zo_state_op_check(options, length, source, context);
  if (status != ZO_OK) return status;
  const zo_buffer state = source(context, kState);
  const zo_buffer second = source(context, kCommand);
  if (state.data == NULL || second.data == NULL) return ZO_ERROR_ARGUMENT;
  if (options[kOptionKind] == ZO_STATE_ASSIGN) {
    memcpy(state.data, second.data, state.bytes);
    return ZO_OK;
  }
  if ((zo_command_flags((const int32_t*)second.data) & ZO_FLAG_CONTINUE) == 0u) {
    const zo_buffer initial = source(context, kInitial);
    memset(state.data, options[kOptionFill], state.bytes);
    for (uint32_t at = 0; initial.data != NULL && at < state.bytes; at += initial.bytes) {
      memcpy((uint8_t*)state.data + at, initial.data, initial.bytes);
    }
  }
  const zo_buffer read = source(context, kRead);
  if (read.data != NULL) memcpy(read.data, state.data, state.bytes);
  return ZO_OK;
}
