/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_moves.h"

#include <string.h>

#include "ops/core/graph/zo_command.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_workers.h"

static zo_perturb_terms terms_of(const zo_term_list* list) {
  zo_perturb_terms terms;
  terms.terms = list->terms;
  terms.count = list->count;
  return terms;
}

#if !ZO_KERNEL_SETS /* desktops write commands */
static int is_of(uint32_t wanted, uint32_t block) { return wanted == ZO_ALL_BLOCKS || wanted == block; }

zo_status zo_moves_apply(const zo_moves* m, const zo_tensor* tensor, uint32_t block) {
  if (ZO_WITH_CHECKS && (m == NULL || tensor == NULL)) return ZO_ERROR_ARGUMENT;
  const int perturbs = m->perturb.count > 0u && is_of(m->block, block);
  const zo_perturb_terms terms = terms_of(&m->perturb);
  zo_status status = ZO_OK;
  /* The update moves nothing if the perturbation would be refused. */
  if (ZO_WITH_CHECKS && perturbs) status = zo_perturb_check(m->distribution, &terms);
  if (status == ZO_OK && m->items > 0u && is_of(m->update_block, block)) {
    const zo_perturb_terms restore = terms_of(&m->restore);
    status = zo_update_s8(tensor, m->update_distribution, &restore, m->queries, m->items, NULL);
  }
  return status == ZO_OK && perturbs ? zo_perturb_s8(tensor, m->distribution, &terms) : status;
}

#endif

zo_status zo_moves_write(const zo_moves* m, uint32_t flags, int32_t* words, uint32_t capacity) {
  zo_command_writer writer;
  zo_status status = zo_command_begin(&writer, words, capacity, flags);
  if (status == ZO_OK && m->items > 0u) {
    const zo_perturb_terms restore = terms_of(&m->restore);
    status = zo_command_update(&writer, m->update_block, m->update_distribution, &restore, m->queries, m->items);
  }
  if (status == ZO_OK && m->perturb.count > 0u) {
    const zo_perturb_terms terms = terms_of(&m->perturb);
    status = zo_command_perturb(&writer, m->block, m->distribution, &terms);
  }
  if (status == ZO_OK) {
    memset(words + writer.length, 0, (capacity - writer.length) * sizeof(int32_t));
  }
  return status;
}
