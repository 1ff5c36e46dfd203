/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The one function of ESP-IDF that esp-tflite-micro calls: a clock, for times that nobody reads
 * here.
 */
#ifndef TFLM_ZO_TESTS_ESP_TIMER_H_
#define TFLM_ZO_TESTS_ESP_TIMER_H_

#include <stdint.h>

static inline int64_t esp_timer_get_time(void) { return 0; }

#endif /* TFLM_ZO_TESTS_ESP_TIMER_H_ */
