/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The backward program of an exact tail, as the generator knows it, and its memory.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_BACKWARD_TAIL_H_
#define TFLM_ZO_OPS_DEVICE_ZO_BACKWARD_TAIL_H_

#include <string.h>

#include "ops/core/run/zo_node_backward.h"
#include "ops/device/zo_carver.h"
#include "ops/device/zo_network.h"

namespace tflm_zo {

// zo_error_field without its memory.
struct ErrorFieldInfo {
  uint32_t count;
  int32_t at;  // see Network::place; -1: it is kept for each sample of the minibatch
};

// Segments that run again between two steps of the program, see Network::Rerun.
struct Rerun {
  uint16_t when;  // twice the number of the steps before, plus 1 if updates after these come first
  uint8_t first;
  uint8_t end;
};

// zo_backward without its memory.
struct BackwardInfo {
  const zo_backward_step* steps;
  const uint16_t* reads;  // of each step: tensor that has the weights (LAYER), or segment that the
                          // activation enters that it looks at
  const ErrorFieldInfo* fields;
  uint32_t step_count;
  uint32_t field_count;
  const Rerun* reruns;  // in the order of their steps
  uint32_t rerun_count;
};

struct BackwardTail {
  zo_backward program;
  const BackwardInfo* info;
  const int8_t** sources;
  uint32_t done;    // steps of the part, or of the sample, in progress
  uint32_t reruns;  // of them

  // Takes the memory of a program, but for its scratch. Null if there is no memory.
  static BackwardTail* Take(const BackwardInfo& info, uint32_t samples, const Network* network, Carver* carver) {
    BackwardTail* tail = carver->Take<BackwardTail>(1);
    zo_error_field* fields = carver->Take<zo_error_field>(info.field_count);
    uint32_t* norms = carver->Take<uint32_t>(info.step_count);
    const int8_t** sources = carver->Take<const int8_t*>(info.step_count);
    int8_t* exponents = carver->Take<int8_t>(info.field_count);
    for (uint32_t i = 0; i < info.field_count; ++i) {
      const ErrorFieldInfo& from = info.fields[i];
      zo_error_field field = {};
      field.count = from.count;
      field.kept = from.at < 0;
      if (from.at < 0) {
        field.errors = carver->Take<int16_t>(samples * from.count);
        field.exponents = carver->Take<int8_t>(samples);
      } else if (network != nullptr && exponents != nullptr) {
        field.errors = reinterpret_cast<int16_t*>(network->place(from.at));
        field.exponents = exponents + i;
      }
      if (carver->fits() && fields != nullptr) fields[i] = field;
    }
    if (!carver->fits() || tail == nullptr) return nullptr;
    *tail = {{info.steps, fields, info.step_count, info.field_count, norms, nullptr}, &info, sources, 0, 0};
    return tail;
  }

  // Called before the first step.
  void Begin() { done = reruns = 0; }

  // Lets the next step read a copy of its filter, which is updated before.
  void CopyFilter(int8_t* copy, size_t bytes) {
    memmove(copy, sources[done], bytes);  // a repeated update has the copy already
    sources[done] = copy;
  }

  // Lets a step read the bits of its mask instead of the activation, which may be gone then.
  void KeepBits(uint32_t step, const int8_t* outputs, int8_t* bits) {
    const zo_backward_step& own = info->steps[step];
    zo_mask_bits(program.fields[own.to].count, outputs, own.low, own.high, reinterpret_cast<uint8_t*>(bits));
    sources[step] = bits;
  }

  // Does steps up to `end`, of the part that has been captured.
  zo_status LeadBack(const zo_node_run& run, Network* network, const Feed& feed, uint32_t end) {
    for (uint32_t i = 0; done == 0 && i < info->step_count; ++i) {
      const uint32_t kind = info->steps[i].kind;
      sources[i] = nullptr;
      if (kind == ZO_BACKWARD_LAYER) sources[i] = network->tensor(info->reads[i]).weights;
      if (zo_backward_looks(kind)) sources[i] = network->kept(info->reads[i]);
    }
    for (;;) {
      const bool waits = reruns < info->rerun_count && info->reruns[reruns].when <= 2 * end;
      const uint32_t next = waits ? info->reruns[reruns].when / 2 : end;
      zo_status status = next > done ? zo_node_run_backward(&run, &program, done, next, sources) : ZO_OK;
      done = next;
      if (status != ZO_OK || !waits) return status;
      status = network->Rerun(feed, info->reruns[reruns].first, info->reruns[reruns].end);
      if (status != ZO_OK) return status;
      ++reruns;
    }
  }
};

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_BACKWARD_TAIL_H_
