/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_dense_sums.h"

#if ZO_DENSE_CHANNELS == 3u
#include "ops/core/kernels/zo_dense_sums_mve.h"
#elif ZO_DENSE_CHANNELS == 8u
#include "ops/core/kernels/zo_dense_sums_dsp.h"
#endif
