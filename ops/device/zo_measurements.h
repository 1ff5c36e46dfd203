/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The measurements of a trainer that keeps its best state: when one is due, how many there are, and
 * the best. The trainer keeps the weights of the best one.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_MEASUREMENTS_H_
#define TFLM_ZO_OPS_DEVICE_ZO_MEASUREMENTS_H_

#include "ops/device/zo_network.h"

namespace tflm_zo {

class Measurements {
 public:
  constexpr Measurements() = default;

  // Lets a run that has not begun measure by a yardstick.
  //
  //   steps  that the run has done
  //
  // Errors: ZO_ERROR_ORDER: it has begun; ZO_ERROR_ARGUMENT: no samples, or never;
  // ZO_ERROR_SAMPLE. Nothing has changed then.
  zo_status Begin(Network* network, uint32_t steps, const Yardstick& yardstick) {
    if (steps != 0 || count_ != 0) return ZO_ERROR_ORDER;
    if (yardstick.count == 0 || yardstick.every == 0) return ZO_ERROR_ARGUMENT;
    const zo_status status = network->DataChecksum(yardstick.source, yardstick.count, &data_checksum_);
    if (status == ZO_OK) yardstick_ = yardstick;
    return status;
  }

  const Yardstick& yardstick() const { return yardstick_; }
  // Steps between measurements; 0: the run measures nothing.
  uint32_t every() const { return yardstick_.every; }
  uint32_t count() const { return count_; }
  // Among the present ones, see zo_measurement.h.
  const zo_measurement& best() const { return best_; }

  // Whether the measurement after `step` of a run's `steps` is the next one.
  bool IsDue(uint32_t steps, uint32_t step) const {
    return zo_measurement_is_due(yardstick_.every, steps, step) != 0 &&
           zo_measurement_number(yardstick_.every, step) == count_;
  }

  // Whether the first measurement of a log, which is at `at` if it is complete, is of the same
  // samples. Errors: ZO_ERROR_LOG: it is not; ZO_ERROR_STORE.
  zo_status IsOwn(const LogStore& log, uint32_t at, uint32_t header_checksum) const {
    uint8_t bytes[ZO_MEASUREMENT_BYTES];
    zo_measurement first;
    const zo_status status = zo_store_read(&log, at, bytes, sizeof bytes);
    if (status == ZO_ERROR_STORE) return status;
    const bool is_other = status == ZO_OK && zo_measurement_read(bytes, header_checksum, &first) == ZO_OK &&
                          first.data_checksum != data_checksum_;
    return is_other ? ZO_ERROR_LOG : ZO_OK;
  }

  // The measurement of an evaluation by the yardstick after `step` steps.
  zo_measurement Of(uint32_t step, const Evaluation& found) const {
    return {step, found.samples, found.loss, found.correct, data_checksum_};
  }

  bool IsBetter(const zo_measurement& measured) const {
    return count_ == 0 || zo_measurement_is_better(&measured, &best_, first_correct_) != 0;
  }

  void Add(const zo_measurement& measured) {
    if (IsBetter(measured)) best_ = measured;
    if (count_ == 0) first_correct_ = measured.correct;
    count_ += 1;
  }

  // Forgets all measurements, for a log that is read from its beginning.
  void Rewind() { count_ = 0; }

 private:
  uint32_t data_checksum_ = 0;
  uint32_t count_ = 0;
  uint32_t first_correct_ = 0;
  Yardstick yardstick_ = {};
  zo_measurement best_ = {};
};

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_MEASUREMENTS_H_
