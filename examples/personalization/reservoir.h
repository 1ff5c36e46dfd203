// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// The samples that a device keeps of a labelled stream: a fixed number of them, as many of each
// class as of the others if it has met that many, and of each class the last ones.
#ifndef RESERVOIR_H_
#define RESERVOIR_H_

#include <stdint.h>
#include <string.h>

// Static in firmware: kSlots (kBytes + 8) + 4 kClasses bytes and a few words, constant-initialized.
template <uint32_t kSlots, uint32_t kBytes, uint32_t kClasses>
class Reservoir {
 public:
  constexpr Reservoir() = default;

  // Keeps a sample. Once all slots are taken, the oldest of a class makes room: of the sample's own
  // class if no other has more, else of the class that has most (the first of several).
  //
  //   input  int8 [kBytes]
  //   label  0 to kClasses - 1
  //
  // Returns false where the label is none of these: nothing has changed.
  bool Add(const int8_t* input, int32_t label) {
    if (label < 0 || static_cast<uint32_t>(label) >= kClasses) return false;
    const auto own = static_cast<uint32_t>(label);
    const uint32_t slot = used_ < kSlots ? used_++ : MakeRoom(own);
    memcpy(inputs_[slot], input, kBytes);
    labels_[slot] = own;
    arrivals_[slot] = arrived_++;
    counts_[own] += 1;
    return true;
  }

  // Slots that hold a sample: those before it.
  uint32_t used() const { return used_; }
  const int8_t* input(uint32_t slot) const { return inputs_[slot]; }
  int32_t label(uint32_t slot) const { return static_cast<int32_t>(labels_[slot]); }

 private:
  uint32_t MakeRoom(uint32_t own) {
    uint32_t victim = 0;
    for (uint32_t i = 1; i < kClasses; ++i) {
      if (counts_[i] > counts_[victim]) victim = i;
    }
    if (counts_[own] == counts_[victim]) victim = own;
    uint32_t oldest = kSlots;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (labels_[slot] != victim) continue;
      // By the number of later arrivals, which may wrap around.
      const uint32_t age = arrived_ - arrivals_[slot];
      if (oldest == kSlots || age > arrived_ - arrivals_[oldest]) oldest = slot;
    }
    counts_[victim] -= 1;
    return oldest;
  }

  int8_t inputs_[kSlots][kBytes] = {};
  uint32_t labels_[kSlots] = {};
  uint32_t arrivals_[kSlots] = {};
  uint32_t counts_[kClasses] = {};
  uint32_t used_ = 0;
  uint32_t arrived_ = 0;
};

#endif  // RESERVOIR_H_
