/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of trainable weights, to compare runs without moving the weights, and of other bytes.
 */
#ifndef TFLM_ZO_OPS_CORE_WEIGHTS_ZO_CHECKSUM_H_
#define TFLM_ZO_OPS_CORE_WEIGHTS_ZO_CHECKSUM_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Continues the FNV-1a-32 `hash` of earlier bytes with these; ZO_FNV1A_BEGIN to begin with. */
#define ZO_FNV1A_BEGIN UINT32_C(2166136261)
uint32_t zo_fnv1a(uint32_t hash, const void* bytes, uint32_t count);

/* Checksum of one tensor: fmix(FNV-1a-32 over the weights' bytes, then the
 * fraction's bytes if there is one, started from fmix(2166136261 ^ stream)).
 * The checksum of a model is the sum of its tensors' modulo 2^32, so it does
 * not depend on how the model is cut into segments. */
uint32_t zo_checksum(const zo_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_WEIGHTS_ZO_CHECKSUM_H_ */
