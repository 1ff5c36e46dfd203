/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The control unit of weight perturbation, and its log. */
#include "core_test.h"

static uint32_t random_bits(uint32_t most) { return random_shifted(32u - most, 31u); }

zo_control_settings random_settings(void) {
  zo_control_settings s;
  memset(&s, 0, sizeof s);
  s.run_seed = random_u32();
  s.steps = 1u + random_below(6);
  s.samples = 1u + random_bits(random_below(4) == 0 ? 32 : 6) / 2u;
  s.batch = 1u + random_below(4);
  s.parts = 1u + random_below(3);
  s.queries = random_below(4) == 0 ? ZO_MAX_QUERIES : 1u + random_below(4);
  s.estimator = random_below(2);
  s.rule = random_below(3);
  s.distribution = distributions[random_below(DISTRIBUTIONS)];
  s.rate = random_below(3) == 0 ? UINT32_C(0x7FFFFFFF) : random_bits(31) | 1u;
  s.final_rate = random_below(2) == 0 ? 0u : s.rate;
  s.schedule = random_below(ZO_SCHEDULE_STEP + 1u);
  s.warmup_steps = random_below(2) == 0 ? 0u : random_bits(32);
  s.decay = random_below(65537);
  s.decay_steps = 1u + random_below(3);
  s.clip = random_below(2) == 0 ? 0u : random_bits(32);
  s.gradient_norm = random_below(2) == 0 ? 0u : random_bits(32);
  s.blocks = random_below(3);
  return s;
}

static int32_t random_loss(int kind) {
  static const int32_t extremes[] = {INT32_MAX, INT32_MIN, INT32_MIN + 1, -1, 0, 1};
  if (kind == 0) return extremes[random_below(6)];
  if (kind == 1) return random_between(0, 20 << 16);
  /* The largest difference, always of one sign: twice INT32_MAX after a step of small ones. */
  return kind == 2 ? INT32_MAX : (int32_t)random_u32();
}

/* The moves of an invoke change a tensor like its command. */
static void check_moves(const zo_control* control, const int32_t* words) {
  zo_moves moves;
  zo_request request;
  CHECK(zo_control_next_moves(control, &moves, &request) == ZO_OK);
  array weights = make_array(40, 0, 100), fraction = make_array(40, 0, 100);
  array others = copy_array(&weights, 1), other_fraction = copy_array(&fraction, 1);
  zo_tensor own = tensor_of(&weights, &fraction, 3);
  zo_tensor other = tensor_of(&others, &other_fraction, 3);
  own.limit = other.limit = 100;
  const uint32_t block = random_below(4);
  uint32_t saturated = 0;
  const zo_status expected = zo_command_execute(words, ZO_OP_UPDATE, &other, block, NULL, &saturated);
  CHECK(expected == ZO_OK);
  CHECK(zo_command_execute(words, ZO_OP_PERTURB, &other, block, NULL, &saturated) == ZO_OK);
  CHECK(zo_moves_apply(&moves, &own, block) == ZO_OK);
  CHECK(same(&weights, &others) && same(&fraction, &other_fraction));
  free(weights.memory);
  free(fraction.memory);
  free(others.memory);
  free(other_fraction.memory);
}

/* A step that has just ended is taken back, and formed again of its measurements: the same record.
 *   c       the state behind the step, which stays
 *   before  the state before it */
static void check_decided(const zo_control* c, const zo_control* before, const zo_report* report, int32_t* words,
                          uint32_t capacity) {
  zo_control other = *c;
  const int64_t mean_square = before->mean_square;
  CHECK(zo_control_withdraw(&other, -1, words, capacity) == ZO_ERROR_ARGUMENT);
  CHECK(zo_control_withdraw(&other, mean_square, words, 1) == ZO_ERROR_CAPACITY);
  CHECK(memcmp(&other, c, sizeof other) == 0);
  zo_moves moves;
  zo_control by_moves = *c;
  CHECK(zo_control_withdraw(&other, mean_square, words, capacity) == ZO_OK);
  CHECK(zo_control_withdraw_moves(&by_moves, mean_square, &moves) == ZO_OK);
  CHECK(memcmp(&other, &by_moves, sizeof other) == 0 && moves.items == 0u);
  CHECK(other.step == before->step && other.mean_square == mean_square && other.pending == 0u);
  CHECK(zo_control_withdraw(&other, mean_square, words, capacity) == ZO_ERROR_ORDER);
  int64_t d[ZO_MAX_QUERIES];
  const zo_control_settings* s = c->settings;
  for (uint32_t q = 0; q < s->queries; ++q) {
    d[q] = zo_mean_difference(other.difference[q], (int64_t)s->batch * s->parts);
  }
  zo_report again;
  zo_control pending = *c;
  CHECK(zo_control_decide(&pending, d, 0, &again) == (c->step == s->steps ? ZO_ERROR_ARGUMENT : ZO_ERROR_ORDER));
  CHECK(memcmp(&pending, c, sizeof pending) == 0);
  d[s->queries - 1u] += 2 * ZO_MEAN_DIFFERENCE_MAX + 1;
  CHECK(zo_control_decide(&other, d, 0, &again) == ZO_ERROR_ARGUMENT);
  CHECK(memcmp(&other, &by_moves, sizeof other) == 0);
  d[s->queries - 1u] -= 2 * ZO_MEAN_DIFFERENCE_MAX + 1;
  CHECK(zo_control_decide(&other, d, report->mean_loss, &again) == ZO_OK);
  CHECK(memcmp(&again, report, sizeof again) == 0 && other.pending == 0u);
  CHECK(other.step == c->step && other.mean_square == c->mean_square);
  CHECK(memcmp(other.queries, c->queries, sizeof other.queries) == 0);
}

void test_control(void) {
  const uint8_t segments[] = {3, 1, 2};
  for (int round = 0; round < ROUNDS(3000); ++round) {
    const zo_control_settings s = random_settings();
    const zo_limits allowed = {127u, s.queries, s.blocks > 0u ? s.blocks : 1u};
    const int small = zo_distribution_reach(s.distribution) <= 127;
    const uint32_t capacity = zo_control_words(&s);
    int32_t* words = (int32_t*)allocate(4u * capacity);
    int32_t* losses = (int32_t*)allocate(4u * s.batch * s.parts);
    const uint32_t bytes = zo_log_record_bytes(s.queries);
    uint8_t* record = (uint8_t*)allocate(bytes);
    zo_control c;
    CHECK(zo_control_init(&c, &s, random_below(4) == 0 ? NULL : segments) == ZO_OK);
    if (random_below(4) == 0) {
      const int64_t squares[] = {0, 1, 31, INT64_C(1) << 60, INT64_MAX};
      const uint32_t step = random_below(s.steps);
      CHECK(zo_control_resume(&c, step, squares[random_below(5)]) == ZO_OK);
    }
    const uint32_t first = c.step;
    zo_control at_step = c; /* before the step in progress */
    uint32_t invokes = 0, done = 0, pending;
    zo_request request;
    zo_report report;
    while (zo_control_next(&c, words, capacity, &request) == ZO_OK && request.action == ZO_ACTION_INVOKE) {
      const zo_control before = c;
      zo_request other;
      CHECK(zo_control_next(&c, words, 1, &other) == ZO_ERROR_CAPACITY);
      CHECK(memcmp(&c, &before, sizeof c) == 0);
      CHECK(zo_control_next(&c, words, capacity, &request) == ZO_OK); /* as often as one likes */
      CHECK(memcmp(&c, &before, sizeof c) == 0);
      if (small) CHECK(zo_command_check(words, capacity, &allowed) == ZO_OK);
      if (small && random_below(8) == 0) check_moves(&c, words);
      for (uint32_t i = 0; i < capacity; ++i) digest = digest * 31u + (uint32_t)words[i];
      CHECK(request.start_segment <= 3u);
      const int kind = (int)random_below(4);
      const uint32_t left = s.parts - c.part;
      const uint32_t together = 1u + random_below(left); /* parts that are reported at once */
      for (uint32_t i = 0; i < together * s.batch; ++i) {
        CHECK(zo_sample_at(c.settings, request.first_sample + i) < s.samples);
        losses[i] = random_loss(kind);
      }
      CHECK(zo_control_report(&c, losses, s.batch + 1u, &report) == ZO_ERROR_ARGUMENT);
      CHECK(zo_control_report_all(&c, 0, losses, &report) == ZO_ERROR_ARGUMENT);
      CHECK(zo_control_report_all(&c, left + 1u, losses, &report) == ZO_ERROR_ARGUMENT);
      CHECK(memcmp(&c, &before, sizeof c) == 0);
      zo_control at_once = before;
      zo_report same;
      CHECK(zo_control_report_all(&at_once, together, losses, &same) == ZO_OK);
      for (uint32_t i = 0; i < together; ++i) {
        CHECK(zo_control_report(&c, losses + (size_t)i * s.batch, s.batch, &report) == ZO_OK);
      }
      CHECK(memcmp(&c, &at_once, sizeof c) == 0 && memcmp(&report, &same, sizeof same) == 0);
      invokes += together;
      if (!report.step_done) continue;
      ++done;
      CHECK(report.step + 1u == c.step && report.rate <= s.rate);
      CHECK(c.mean_square >= 0);
      CHECK(zo_step_check(s.distribution, c.queries, s.queries) == ZO_OK);
      zo_query items[ZO_MAX_QUERIES];
      int32_t coefficients[ZO_MAX_QUERIES];
      for (uint32_t q = 0; q < s.queries; ++q) coefficients[q] = c.queries[q].coefficient;
      const uint32_t count = zo_control_items(&s, report.step, coefficients, items);
      CHECK(count == s.queries && zo_step_check(s.distribution, items, count) == ZO_OK);
      const uint32_t before_it = random_u32();
      zo_log_write_record(&c, report.mean_loss, before_it, record);
      zo_log_record back;
      CHECK(zo_log_read_record(record, &s, before_it, &back) == ZO_OK);
      CHECK(zo_log_read_record(record, &s, ~before_it, &back) == ZO_ERROR_OPTIONS);
      CHECK(zo_log_read_record(record, &s, before_it, &back) == ZO_OK);
      CHECK(back.step == report.step && back.mean_loss == report.mean_loss);
      CHECK(back.mean_square == c.mean_square);
      for (uint32_t q = 0; q < s.queries; ++q) {
        CHECK(back.coefficients[q] == c.queries[q].coefficient);
      }
      flip_a_bit(record, bytes);
      CHECK(zo_log_read_record(record, &s, before_it, &back) == ZO_ERROR_OPTIONS);
      check_decided(&c, &at_step, &report, words, capacity);
      if (random_below(3) == 0) {
        CHECK(zo_control_settle(&c, words, capacity, &pending) == ZO_OK && pending == 1u);
        if (small) CHECK(zo_command_check(words, capacity, &allowed) == ZO_OK);
        CHECK(zo_control_settle(&c, words, capacity, &pending) == ZO_OK && pending == 0u);
        CHECK(words[1] == 0);
      }
      at_step = c;
    }
    CHECK(request.action == ZO_ACTION_DONE && c.step == s.steps && done == s.steps - first);
    CHECK(invokes == done * s.parts * (s.estimator == ZO_ANTITHETIC ? 2u * s.queries : s.queries + 1u));
    CHECK(zo_control_report(&c, losses, s.batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_control_settle(&c, words, capacity, &pending) == ZO_OK);
    (void)zo_control_rate(&s, UINT32_MAX, NULL);
    (void)zo_sample_at(c.settings, UINT32_MAX);
    free(words);
    free(losses);
    free(record);
  }
  /* The longest run and the largest numbers. */
  zo_control_settings s = random_settings();
  s.steps = UINT32_MAX;
  s.batch = s.parts = 1;
  s.samples = UINT32_MAX;
  s.rate = INT32_MAX;
  s.gradient_norm = s.warmup_steps = s.clip = UINT32_MAX;
  s.decay = 65536;
  s.decay_steps = 1;
  for (s.schedule = 0; s.schedule <= ZO_SCHEDULE_STEP; ++s.schedule) {
    for (s.final_rate = 0; s.final_rate < 2u; ++s.final_rate) {
      zo_control c;
      CHECK(zo_control_init(&c, &s, NULL) == ZO_OK);
      CHECK(zo_control_rate(&s, 0, NULL) <= s.rate && zo_control_rate(&s, UINT32_MAX, NULL) <= s.rate);
      CHECK(zo_sample_at(c.settings, UINT32_MAX - 1u) < s.samples);
    }
  }
}

void test_log_header(void) {
  enum { kReserved = 116 };
  uint8_t* bytes = (uint8_t*)allocate(ZO_LOG_HEADER_BYTES);
  zo_log_header header, back;
  for (int round = 0; round < ROUNDS(1000); ++round) {
    zo_control_settings s = random_settings();
    zo_control_settings read;
    for (size_t i = 0; i < sizeof header; ++i) ((uint8_t*)&header)[i] = (uint8_t)random_u32();
    zo_log_write_header(&header, &s, bytes);
    CHECK(zo_log_read_header(bytes, &back, &read) == ZO_OK);
    CHECK(memcmp(&s, &read, sizeof s) == 0 && memcmp(&header, &back, sizeof header) == 0);
    flip_a_bit(bytes, ZO_LOG_HEADER_BYTES);
    CHECK(zo_log_read_header(bytes, &back, &read) == ZO_ERROR_OPTIONS);
    /* Settings that init refuses are refused with a valid checksum, too; all others are read
     * completely. */
    zo_log_write_header(&header, &s, bytes);
    const uint32_t at = 32u + 4u * random_below(23); /* of a field, drawn before its value */
    put_u32(bytes + at, random_bits(32));
    put_u32(bytes + ZO_LOG_HEADER_BYTES - 4, zo_crc32(0, bytes, ZO_LOG_HEADER_BYTES - 4));
    const zo_status status = zo_log_read_header(bytes, &back, &read);
    const zo_status expected = zo_control_settings_check(&read);
    const int reserved = at >= kReserved && (bytes[at] | bytes[at + 1u] | bytes[at + 2u] | bytes[at + 3u]) != 0;
    CHECK(status == (reserved || (expected == ZO_OK && read.queries != s.queries) ? ZO_ERROR_OPTIONS : expected));
    if (status == ZO_OK) {
      uint8_t again[ZO_LOG_HEADER_BYTES];
      zo_log_write_header(&back, &read, again);
      CHECK(memcmp(again, bytes, sizeof again) == 0);
    }
  }
  free(bytes);
}

/* No more blocks than a command can name. */
void test_many_blocks(void) {
  zo_control_settings s = random_settings();
  s.blocks = ZO_BLOCKS_MAX;
  CHECK(zo_control_settings_check(&s) == ZO_OK);
  int32_t words[ZO_COMMAND_HEADER_WORDS + ZO_INSTRUCTION_HEADER_WORDS];
  zo_command_writer writer;
  CHECK(zo_command_begin(&writer, words, sizeof words / sizeof words[0], 0) == ZO_OK);
  CHECK(zo_command_restore(&writer, ZO_BLOCKS_MAX - 1u) == ZO_OK);
  CHECK(zo_command_restore(&writer, ZO_BLOCKS_MAX) == ZO_ERROR_BLOCK);
  s.blocks = ZO_BLOCKS_MAX + 1u;
  CHECK(zo_control_settings_check(&s) == ZO_ERROR_ARGUMENT);
}

void test_measurements(void) {
  uint8_t bytes[ZO_MEASUREMENT_BYTES];
  for (int round = 0; round < ROUNDS(1000); ++round) {
    zo_measurement m, back;
    m.step = random_u32();
    m.samples = random_u32();
    m.loss = (int64_t)((uint64_t)random_u32() << 32 | random_u32());
    m.correct = random_u32();
    m.data_checksum = random_u32();
    const uint32_t checksum = random_u32();
    zo_measurement_write(&m, checksum, bytes);
    CHECK(zo_measurement_read(bytes, checksum ^ 1u, &back) == ZO_ERROR_OPTIONS);
    CHECK(zo_measurement_read(bytes, checksum, &back) == ZO_OK);
    CHECK(back.step == m.step && back.samples == m.samples && back.loss == m.loss);
    CHECK(back.correct == m.correct && back.data_checksum == m.data_checksum);
    flip_a_bit(bytes, sizeof bytes);
    CHECK(zo_measurement_read(bytes, checksum, &back) == ZO_ERROR_OPTIONS);
  }
  /* A smaller sum is better, with as many right outputs as the first measurement had or more. */
  for (uint32_t i = 0; i < 27u; ++i) {
    zo_measurement m = {9, 20, (int64_t)(i % 3u) - 1, 4u + i / 3u % 3u, 0};
    const zo_measurement best = {3, 20, 0, 4u + i / 9u, 0};
    CHECK(zo_measurement_is_better(&m, &best, 5) == (i % 3u == 0u && i / 3u % 3u >= 1u));
    m.loss *= INT64_C(1) << 40;
    CHECK(zo_measurement_is_better(&m, &best, 0) == (i % 3u == 0u));
  }
  /* Records lie one behind the other in the order in which a run writes them. */
  for (uint32_t steps = 1; steps < 14u; ++steps) {
    for (uint32_t every = 0; every < 16u; ++every) {
      uint32_t at = 100, number = 0;
      for (uint32_t step = 0; step <= steps; ++step) {
        const int due = every > 0u && (step == 0u || step == steps || step % every == 0u);
        CHECK(zo_measurement_is_due(every, steps, step) == due);
        if (due) {
          CHECK(zo_measurement_number(every, step) == number++);
          CHECK(zo_measurement_at(100, 12, every, 0, step) == at);
          at += ZO_MEASUREMENT_BYTES;
        }
        if (step == steps) break;
        CHECK(zo_step_record_at(100, 12, every, 1, step) == at);
        at += 12u;
      }
    }
  }
  /* Beyond 32 bits. */
  CHECK(zo_step_record_at(100, 24, 0, 1, UINT32_MAX) == 100u + 24u * (uint64_t)UINT32_MAX);
  CHECK(zo_measurement_at(100, 12, 1, 32, UINT32_MAX) == 100u + 64u * (uint64_t)UINT32_MAX);
}
