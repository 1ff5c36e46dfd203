/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/log/zo_log_store.h"

#include <stddef.h>

static bool has_range(const zo_log_store* store, uint32_t offset, uint32_t count) {
  return offset <= store->bytes && count <= store->bytes - offset;
}

zo_status zo_store_read(const zo_log_store* store, uint32_t offset, void* bytes, uint32_t count) {
  if (store == NULL || bytes == NULL) return ZO_ERROR_ARGUMENT;
  if (!has_range(store, offset, count)) return ZO_ERROR_LOG;
  const int32_t found = store->read(store->context, offset, (uint8_t*)bytes, count);
  if (found < 0) return ZO_ERROR_STORE;
  return (uint32_t)found == count ? ZO_OK : ZO_ERROR_LOG;
}

bool zo_store_write(const zo_log_store* store, uint32_t offset, const void* bytes, uint32_t count) {
  return has_range(store, offset, count) && store->write(store->context, offset, (const uint8_t*)bytes, count);
}
