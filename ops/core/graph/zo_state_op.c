/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/core/graph/zo_op.h"

/* Node inputs. */
enum { kStateTensor = 0, kStateCommand = 1, kStateValue = 1, kStateInitial = 2 };
/* Node outputs, as a zo_buffer_source counts them. */
enum { kStateRead = -1 };
/* Layout of the options. */
enum { kStateVersion = 0, kStateKind = 1, kStateFill = 2, kStateBytes = 4 };

static int is_sized_state(zo_buffer buffer) { return buffer.bytes > 0u && buffer.bytes != ZO_NO_SIZE; }

zo_status zo_state_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  if (options == NULL || length < kStateBytes || options[kStateVersion] != ZO_OPTIONS_VERSION ||
      options[kStateKind] > ZO_STATE_ASSIGN) {
    return ZO_ERROR_OPTIONS;
  }
  const zo_buffer state = source(context, kStateTensor);
  const zo_buffer second = source(context, kStateCommand);
  if (!is_sized_state(state) || !is_sized_state(second)) return ZO_ERROR_ARGUMENT;
  if (options[kStateKind] == ZO_STATE_ASSIGN) return second.bytes == state.bytes ? ZO_OK : ZO_ERROR_ARGUMENT;
  const zo_buffer initial = source(context, kStateInitial);
  const zo_buffer read = source(context, kStateRead);
  const int fits = second.bytes >= sizeof(int32_t) && (read.bytes == 0u || read.bytes == state.bytes) &&
                   (initial.bytes == 0u || (is_sized_state(initial) && state.bytes % initial.bytes == 0u));
  return fits ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_state_op_run(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  const zo_status status = zo_state_op_check(options, length, source, context);
  if (status != ZO_OK) return status;
  const zo_buffer state = source(context, kStateTensor);
  const zo_buffer second = source(context, kStateCommand);
  if (state.data == NULL || second.data == NULL) return ZO_ERROR_ARGUMENT;
  if (options[kStateKind] == ZO_STATE_ASSIGN) {
    memcpy(state.data, second.data, state.bytes);
    return ZO_OK;
  }
  if ((zo_command_flags((const int32_t*)second.data) & ZO_FLAG_CONTINUE) == 0u) {
    const zo_buffer initial = source(context, kStateInitial);
    memset(state.data, options[kStateFill], state.bytes);
    for (uint32_t at = 0; initial.data != NULL && at < state.bytes; at += initial.bytes) {
      memcpy((uint8_t*)state.data + at, initial.data, initial.bytes);
    }
  }
  const zo_buffer read = source(context, kStateRead);
  if (read.data != NULL) memcpy(read.data, state.data, state.bytes);
  return ZO_OK;
}
