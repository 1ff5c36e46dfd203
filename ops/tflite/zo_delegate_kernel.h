/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The operators that the delegate has taken over, of one graph and without others between them.
 * TFLite calls that a delegate kernel.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_DELEGATE_KERNEL_H_
#define TFLM_ZO_OPS_TFLITE_ZO_DELEGATE_KERNEL_H_

#include "ops/abi/tflite_c_api.h"
#include "ops/core/graph/zo_op.h"
#include "ops/kernels/zo_kernel_set.h"

#define ZO_CUSTOM_NAME_PREFIX "TFLM_ZO_"

/* Settings of a delegate: its data_. See zo_delegate.c. */
typedef struct zo_delegate_settings {
  TfLiteDelegate delegate; /* first, so that freeing it frees the settings */
  zo_directory* directory;
  const zo_directory* weights;
  bool exact;
  const zo_kernel_set* kernels;
} zo_delegate_settings;

/* An op whose custom name begins with the prefix. */
bool zo_delegate_is_custom(const TfLiteRegistration* registration);

/* Such an op that this op pack has. */
bool zo_delegate_knows(const TfLiteRegistration* registration);

/* Runs the operators; of a delegate whose data_ are its settings. */
TfLiteRegistration zo_delegate_kernel(void);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_DELEGATE_KERNEL_H_ */
