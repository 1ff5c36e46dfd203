/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_layers_loops.h"

const zo_layers zo_portable_layers = {backprop, add_gradients};
