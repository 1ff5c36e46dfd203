/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/log/zo_log_fields.h"

#include <string.h>

#include "ops/core/zo_little_endian.h"

/* Words of a log have several fields where these are small; nothing but these two functions knows
 * it. */
enum { kWords = ZO_LOG_SETTINGS_BYTES / 4 };

static const uint8_t magic[ZO_LOG_MAGIC_BYTES] = {0x5A, 0x4F, 0x4C, 0x4F, 0x47, 0x0D, 0x0A, 0x1A};

void zo_log_write_magic(uint8_t* bytes) { memcpy(bytes, magic, sizeof magic); }

/* Not memcmp: the core calls nothing but memcpy and memset. */
int zo_log_has_magic(const uint8_t* bytes) {
  for (uint32_t i = 0; i < sizeof magic; ++i) {
    if (bytes[i] != magic[i]) return 0;
  }
  return 1;
}

void zo_log_write_settings(const zo_control_settings* s, uint8_t* bytes) {
  const uint32_t distribution =
      (uint32_t)s->distribution.kind << 24 | (uint32_t)s->distribution.p_zero << 16 | s->distribution.mu;
  const uint32_t stage_p_zero = s->stage_p_zero[0] | s->stage_p_zero[1] << 8;
  const uint32_t words[kWords] = {
      s->run_seed,       s->steps,          s->samples,     s->batch, s->parts,         s->queries,
      s->estimator,      s->rule,           distribution,   s->rate,  s->final_rate,    s->schedule,
      s->warmup_steps,   s->decay,          s->decay_steps, s->clip,  s->gradient_norm, s->blocks,
      s->stage_steps[0], s->stage_steps[1], stage_p_zero}; /* the last two words are reserved: 0 */
  for (uint32_t i = 0; i < kWords; ++i) zo_write_u32(bytes + 4u * i, words[i]);
}

zo_status zo_log_read_settings(const uint8_t* bytes, zo_control_settings* settings) {
  if (bytes == NULL || settings == NULL) return ZO_ERROR_ARGUMENT;
  uint32_t words[kWords];
  for (uint32_t i = 0; i < kWords; ++i) words[i] = zo_read_u32(bytes + 4u * i);
  memset(settings, 0, sizeof *settings);
  settings->run_seed = words[0];
  settings->steps = words[1];
  settings->samples = words[2];
  settings->batch = words[3];
  settings->parts = words[4];
  settings->queries = words[5];
  settings->estimator = words[6];
  settings->rule = words[7];
  settings->distribution.kind = (uint8_t)(words[8] >> 24);
  settings->distribution.p_zero = (uint8_t)(words[8] >> 16);
  settings->distribution.mu = (uint16_t)words[8];
  settings->rate = words[9];
  settings->final_rate = words[10];
  settings->schedule = words[11];
  settings->warmup_steps = words[12];
  settings->decay = words[13];
  settings->decay_steps = words[14];
  settings->clip = words[15];
  settings->gradient_norm = words[16];
  settings->blocks = words[17];
  settings->stage_steps[0] = words[18];
  settings->stage_steps[1] = words[19];
  settings->stage_p_zero[0] = words[20] & 0xFFu;
  settings->stage_p_zero[1] = words[20] >> 8;
  return (words[21] | words[22]) == 0u ? ZO_OK : ZO_ERROR_OPTIONS;
}
