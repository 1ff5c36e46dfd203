/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_lstm.h"

#include <string.h>

#include "ops/core/kernels/zo_products.h"

/* Sigmoids of i / 24, unit 2^-16, as TFLM has them: no formula gives all of them. */
static const uint16_t kSigmoids[256] = {
    32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149, 40794, 41432, 42064, 42688,
    43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369, 47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409,
    51865, 52311, 52745, 53169, 53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433,
    57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110,
    61279, 61441, 61599, 61750, 61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186,
    63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090, 64148, 64204, 64257, 64308,
    64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652, 64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900,
    64926, 64950, 64974, 64997, 65019, 65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208,
    65221, 65234, 65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360, 65367,
    65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433, 65438, 65442, 65445, 65449,
    65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474, 65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491,
    65493, 65495, 65497, 65498, 65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513,
    65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524,
    65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530,
    65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532, 65532, 65533, 65533, 65533,
    65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535};

/* The sigmoid of the absolute value of x / 24 / 2^bits, unit 2^-(16 + bits). */
static int32_t sigmoid_of_size(int32_t x, uint32_t bits) {
  const uint32_t size = (uint32_t)(x < 0 ? -x : x), at = size >> bits;
  if (at >= 255u) return bits == 8u ? 0xFFFF << 8 : 0x7FFF << 10;
  const uint32_t low = kSigmoids[at], rest = size & ((1u << bits) - 1u);
  return (int32_t)((low << bits) + rest * (kSigmoids[at + 1u] - low));
}

/* The sigmoid of x in unit 2^-12, unit 2^-15. */
static int32_t sigmoid(int32_t x) {
  const int32_t value = sigmoid_of_size(3 * x, 9);
  return (x >= 0 ? value + (1 << 9) : (1 << 25) - value + (1 << 9) - 1) >> 10;
}

/* The hyperbolic tangent of x in unit 2^power, unit 2^-15: 2 sigmoid(2 x) - 1. */
static int32_t hyperbolic_tangent(int32_t x, int32_t power) {
  const int32_t shift = power + 12; /* to 2^-12; a shift to the right rounds half up */
  const int32_t wide = shift >= 0 ? x * (3 << shift) : zo_floor_shift(3 * x + (1 << (-shift - 1)), (uint32_t)-shift);
  const int32_t value = sigmoid_of_size(wide, 8) - (1 << 23);
  return zo_floor_shift(wide >= 0 ? value + (1 << 7) : -value + (1 << 7) - 1, 8);
}

static int32_t saturate(int32_t value) { return zo_clamp(value, INT16_MIN, INT16_MAX); }

/* A gate of a unit; `h` is that of the step before. */
static int32_t gate_of(const zo_lstm* s, const zo_lstm_tensors* t, int gate, ptrdiff_t unit, const int8_t* x,
                       const int8_t* h) {
  const uint32_t input = zo_products(t->input[gate] + unit * s->depth, x, s->input_zero_point, s->depth);
  const uint32_t hidden = zo_products(t->hidden[gate] + unit * s->units, h, s->hidden_zero_point, s->units);
  const int32_t biased = (int32_t)(input + (uint32_t)t->bias[gate][unit]);
  const int32_t sum = saturate(saturate(zo_requantize(biased, s->input[gate])) +
                               saturate(zo_requantize((int32_t)hidden, s->hidden[gate])));
  return gate == kZoCellGate ? hyperbolic_tangent(sum, -12) : sigmoid(sum);
}

/* One step of one sample. */
static void lstm_step(const zo_lstm* s, const zo_lstm_tensors* t, const int8_t* x, const int8_t* h, int16_t* cell,
                      int8_t* y) {
  for (int32_t unit = 0; unit < s->units; ++unit) {
    int32_t gates[kZoGates];
    for (int gate = 0; gate < kZoGates; ++gate) gates[gate] = gate_of(s, t, gate, unit, x, h);
    const int32_t kept = saturate(zo_requantize(gates[kZoForgetGate] * cell[unit], s->kept));
    const int32_t added = saturate(zo_requantize(gates[kZoInputGate] * gates[kZoCellGate], s->added));
    int32_t value = saturate(kept + added);
    if (s->clips) value = zo_clamp(value, -s->clip, s->clip);
    cell[unit] = (int16_t)value;
    const int32_t product = hyperbolic_tangent(value, s->cell_power) * gates[kZoOutputGate];
    const int32_t level = zo_requantize(product, s->output), offset = s->hidden_zero_point;
    y[unit] = (int8_t)(zo_clamp(level, INT8_MIN - offset, INT8_MAX - offset) + offset);
  }
}

void zo_lstm_run(const zo_lstm* s, const zo_lstm_tensors* t, int32_t first, int32_t count) {
  for (ptrdiff_t sample = first; sample < (ptrdiff_t)first + count; ++sample) {
    int8_t* own = t->h + sample * s->units;
    const int8_t* h = own;
    for (ptrdiff_t step = 0; step < s->steps; ++step) {
      const ptrdiff_t row = s->time_major ? step * s->samples + sample : sample * s->steps + step;
      int8_t* y = t->y + row * s->units;
      lstm_step(s, t, t->x + row * s->depth, h, t->cell + sample * s->units, y);
      h = y; /* in place of a copy, since units read h of all units */
    }
    memcpy(own, h, (size_t)s->units);
  }
}
