/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * In the place of a generated folder's, which looks at TFLM's operators: here there are none.
 */
#include "zo_trainer.h"

namespace tflm_zo {

zo_status Network::SelfTest(zo_self_test*) { return ZO_ERROR_OPTIONS; }

}  // namespace tflm_zo
