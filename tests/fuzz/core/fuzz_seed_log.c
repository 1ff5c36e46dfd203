/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A seed log of any bytes, read as its readers do: the header, then records, each of which moves
 * weights. Checksums are corrected, because they detect accidents and not intent. An accepted log
 * is a run's: its settings pass the run's check, its control unit resumes from the last record, and
 * writes the same bytes.
 */
#include "fuzz_input.h"
#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_log.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/run/zo_control.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_little_endian.h"

enum { kWeights = 40 };

static void put_checksum(uint8_t* bytes, uint32_t size, uint32_t before) {
  zo_write_u32(bytes + size - 4u, zo_crc32(before, bytes, size - 4u));
}

static void write_header(fuzz_input* in, uint8_t* bytes) {
  const zo_log_header header = {{1, 2, 3}, take_between(in, 0, 3)};
  zo_control_settings s;
  memset(&s, 0, sizeof s);
  s.run_seed = take_u8(in);
  s.steps = take_between(in, 1, 9);
  s.samples = take_between(in, 1, 9);
  s.batch = take_between(in, 1, 2);
  s.parts = 1;
  s.queries = take_between(in, 1, 4);
  s.estimator = (uint32_t)take_flag(in);
  s.rule = take_between(in, 0, 2);
  s.distribution.kind = (uint8_t)take_between(in, 0, 3);
  s.distribution.mu = (uint16_t)(s.distribution.kind == ZO_GAUSSIAN ? 170 : 2);
  s.rate = take_between(in, 1, 1000000);
  s.schedule = take_between(in, 0, ZO_SCHEDULE_STEP);
  if (s.schedule == ZO_SCHEDULE_STEP) {
    s.decay = take_between(in, 0, 65536);
    s.decay_steps = take_between(in, 1, 3);
  }
  zo_log_write_header(&header, &s, bytes);
}

/* A measurement of any numbers comes back as it was written. */
static void measure(fuzz_input* in, uint32_t checksum) {
  uint8_t bytes[ZO_MEASUREMENT_BYTES];
  zo_measurement m, back;
  memset(&m, 0, sizeof m);
  memset(&back, 0, sizeof back);
  m.step = take_u8(in);
  m.samples = take_any(in);
  m.loss = (int64_t)((uint64_t)take_any(in) << 32 | take_u16(in));
  m.correct = take_u8(in);
  zo_measurement_write(&m, checksum, bytes);
  HOLDS(zo_measurement_read(bytes, checksum, &back) == ZO_OK && memcmp(&m, &back, sizeof m) == 0);
  HOLDS(zo_measurement_read(bytes, checksum + 1u, &back) != ZO_OK);
}

static void replay(fuzz_input* in, const zo_control_settings* s, uint32_t checksum) {
  int8_t* weights = make_int8(in, kWeights, 120);
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.weights = weights;
  tensor.size = kWeights;
  tensor.channels = tensor.inner = 1;
  tensor.limit = 120;
  const uint32_t size = zo_log_record_bytes(s->queries);
  int64_t mean_square = 0;
  uint32_t step = 0;
  for (; step < s->steps && step < 6u; ++step) {
    uint8_t* bytes = (uint8_t*)fuzz_allocate(size);
    fill_bytes(in, bytes, size);
    zo_write_u32(bytes, step);
    zo_write_u32(bytes + 8, take_any(in));
    zo_write_u32(bytes + 12, take_flag(in) ? take_any(in) : 0u);
    for (uint32_t q = 0; q < s->queries; ++q) zo_write_u32(bytes + 16 + 4 * q, take_any(in));
    if (take_u8(in) > 8u) put_checksum(bytes, size, checksum);
    zo_log_record record;
    const zo_status status = zo_log_read_record(bytes, s, checksum, &record);
    checksum = zo_log_checksum(bytes, size);
    free(bytes);
    if (status != ZO_OK) break;
    mean_square = record.mean_square;
    zo_query* items = (zo_query*)fuzz_allocate(sizeof(zo_query) * ZO_MAX_QUERIES);
    const uint32_t count = zo_control_items(s, step, record.coefficients, items);
    HOLDS(count >= 1u && count <= ZO_MAX_QUERIES);
    const zo_distribution d = zo_control_distribution(s, step);
    HOLDS(zo_update_s8(&tensor, d, NULL, items, count, NULL) == ZO_OK);
    HOLDS(is_within(weights, kWeights, 120));
    HOLDS(zo_control_rate(s, step, NULL) <= s->rate);
    free(items);
  }
  zo_control control;
  HOLDS(zo_control_init(&control, s, NULL) == ZO_OK);
  const zo_status resumed = zo_control_resume(&control, step, mean_square);
  HOLDS(resumed == ZO_OK);
  const uint32_t capacity = zo_control_words(s);
  int32_t* words = (int32_t*)fuzz_allocate(sizeof(int32_t) * capacity);
  int32_t losses[8];
  for (uint32_t calls = 0; resumed == ZO_OK && s->batch <= 8u && calls < 12u; ++calls) {
    zo_request request;
    zo_report report;
    if (zo_control_next(&control, words, capacity, &request) != ZO_OK || request.action == ZO_ACTION_DONE) {
      break;
    }
    for (uint32_t i = 0; i < s->batch; ++i) losses[i] = (int32_t)(take_any(in) >> 1);
    HOLDS(zo_control_report(&control, losses, s->batch, &report) == ZO_OK);
    if (report.step_done == 0u) continue;
    uint8_t* bytes = (uint8_t*)fuzz_allocate(size);
    zo_log_record record;
    zo_log_write_record(&control, report.mean_loss, checksum, bytes);
    HOLDS(zo_log_read_record(bytes, s, checksum, &record) == ZO_OK);
    checksum = zo_log_checksum(bytes, size);
    HOLDS(record.step == report.step && record.mean_square == control.mean_square);
    free(bytes);
  }
  free(words);
  free(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  uint8_t* bytes = (uint8_t*)fuzz_allocate(ZO_LOG_HEADER_BYTES);
  memset(bytes, 0, ZO_LOG_HEADER_BYTES);
  if (take_u8(&in) > 220u) {
    memcpy(bytes, in.at, in.left < ZO_LOG_HEADER_BYTES ? in.left : ZO_LOG_HEADER_BYTES);
  } else {
    write_header(&in, bytes);
    for (uint32_t damaged = take_u8(&in); damaged > 128u; damaged = take_u8(&in)) {
      const uint32_t at = take_between(&in, 0, ZO_LOG_HEADER_BYTES / 4u - 1u) * 4u;
      zo_write_u32(bytes + at, take_any(&in));
    }
    if (take_u8(&in) > 16u) put_checksum(bytes, ZO_LOG_HEADER_BYTES, 0);
  }
  zo_control_settings settings;
  zo_log_header header;
  if (zo_log_read_header(bytes, &header, &settings) == ZO_OK) {
    HOLDS(zo_control_settings_check(&settings) == ZO_OK);
    uint8_t* again = (uint8_t*)fuzz_allocate(ZO_LOG_HEADER_BYTES);
    zo_log_write_header(&header, &settings, again);
    HOLDS(memcmp(again, bytes, ZO_LOG_HEADER_BYTES) == 0);
    free(again);
    const uint32_t checksum = zo_log_checksum(bytes, ZO_LOG_HEADER_BYTES);
    measure(&in, checksum);
    replay(&in, &settings, checksum);
  }
  free(bytes);
  return 0;
}
