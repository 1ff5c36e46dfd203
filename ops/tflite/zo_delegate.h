/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of an external delegate, as the runtimes look them up.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_DELEGATE_H_
#define TFLM_ZO_OPS_TFLITE_ZO_DELEGATE_H_

#include <stddef.h>

struct TfLiteDelegate;

/* Returns null, after reporting why, if an option is unknown or has no valid value. */
struct TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                                     void (*report_error)(const char*));

void tflite_plugin_destroy_delegate(struct TfLiteDelegate* delegate);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_DELEGATE_H_ */
