/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Fields that the headers of all logs begin with. */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_LOG_FIELDS_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_LOG_FIELDS_H_

#include "ops/core/run/zo_control.h"

/* "ZOLOG", and bytes that text transfers change. */
#define ZO_LOG_MAGIC_BYTES 8

void zo_log_write_magic(uint8_t* bytes);
int zo_log_has_magic(const uint8_t* bytes);

/* The settings as words, in the order of a header. */
#define ZO_LOG_SETTINGS_BYTES (4 * 23)

void zo_log_write_settings(const zo_control_settings* settings, uint8_t* bytes);
/* Errors: ZO_ERROR_ARGUMENT; ZO_ERROR_OPTIONS: a reserved word is not 0. */
zo_status zo_log_read_settings(const uint8_t* bytes, zo_control_settings* settings);

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_LOG_FIELDS_H_ */
