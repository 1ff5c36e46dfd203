/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* ZO_COORDINATE, coordinate-wise gradient estimation (DeepZero): a direction moves one weight of
 * each tensor (zo_stream.h says which), so these functions take whole tensors instead of tiles.
 * The arguments are checked ones. */
#ifndef TFLM_ZO_OPS_CORE_PAPERS_ZO_COORDINATE_H_
#define TFLM_ZO_OPS_CORE_PAPERS_ZO_COORDINATE_H_

#include "ops/core/zo_types.h"

/* Adds perturbations to a tensor's weights, as zo_perturb_s8 does. */
void zo_perturb_coordinates_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* terms);

/* Applies one step, as zo_update_s8 does, to the weights that it moves; returns how many of them it
 * has clipped. */
uint32_t zo_update_coordinates_s8(const zo_tensor* tensor, const zo_query* queries, uint32_t count);

#endif /* TFLM_ZO_OPS_CORE_PAPERS_ZO_COORDINATE_H_ */
