/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* zo_dense_sums with the DSP extension (Cortex-M4, M7, M33): two samples of a column are a word,
 * which smlad multiplies by a word of two errors. Four columns of all samples are unpacked once,
 * then two channels at a time have eight sums in registers. zo_dense_sums.c includes this file. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_DSP_H_

#include <string.h>

/* Four columns of two samples, which lie in two words, as four words, for either half of the
 * channels: a word has the first two columns of both samples (pkhbt), another one the last two
 * (pkhtb), and bytes 0 and 2 or 1 and 3 of these are a column. `less` is minus the zero point, in
 * either half of the word. */
#define ZO_DENSE_UNPACK                     \
  "pkhbt %[t], %[a], %[b], lsl #16\n\t"     \
  "pkhtb %[b], %[b], %[a], asr #16\n\t"     \
  "sxtab16 %[a], %[less], %[t]\n\t"         \
  "sxtab16 %[t], %[less], %[t], ror #8\n\t" \
  "strd %[a], %[t], [%[to], %[second]]\n\t" \
  "strd %[a], %[t], [%[to]], #8\n\t"        \
  "sxtab16 %[a], %[less], %[b]\n\t"         \
  "sxtab16 %[b], %[less], %[b], ror #8\n\t" \
  "strd %[a], %[b], [%[to], %[second]]\n\t" \
  "strd %[a], %[b], [%[to]], #8\n\t"

static inline void unpack_words(uint32_t* to, uint32_t a, uint32_t b, uint32_t less) {
  uint32_t t;
  __asm__ volatile(ZO_DENSE_UNPACK
                   : [to] "+r"(to), [a] "+r"(a), [b] "+r"(b), [t] "=&r"(t)
                   : [less] "r"(less), [second] "i"(sizeof(zo_dense_half))
                   : "memory");
}

/* Four columns of all samples; the last one may be alone. */
static inline void unpack_columns(uint32_t* to, const zo_dense_inputs* inputs, const int8_t* row, uint32_t less) {
  uint32_t pairs = inputs->samples / 2u, a, b, t;
  if (pairs > 0u) {
    __asm__ volatile(
        "1:\n\t"
        "ldr %[b], [%[row], %[apart]]\n\t"
        "ldr %[a], [%[row]]\n\t"
        "add %[row], %[row], %[apart], lsl #1\n\t" ZO_DENSE_UNPACK
        "subs %[pairs], #1\n\t"
        "bne 1b"
        : [row] "+r"(row), [to] "+r"(to), [pairs] "+r"(pairs), [a] "=&r"(a), [b] "=&r"(b), [t] "=&r"(t)
        : [apart] "r"(inputs->apart), [less] "r"(less), [second] "i"(sizeof(zo_dense_half))
        : "cc", "memory");
  }
  if (inputs->samples % 2u != 0u) {
    memcpy(&a, row, sizeof a);
    unpack_words(to, a, 0, less);
  }
}

/* The last columns, fewer than four, byte by byte: nothing behind them is read. */
static void unpack_rest(uint32_t* to, const zo_dense_inputs* inputs, const int8_t* row, uint32_t columns,
                        uint32_t less) {
  for (uint32_t b = 0; b < inputs->samples; b += 2u) {
    int8_t two[2][ZO_DENSE_COLUMNS] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    uint32_t words[2];
    for (uint32_t j = 0; j < columns; ++j) {
      two[0][j] = row[j];
      if (b + 1u < inputs->samples) two[1][j] = row[inputs->apart + j];
    }
    memcpy(words, two, sizeof words);
    unpack_words(to, words[0], words[1], less);
    row += 2u * inputs->apart;
    to += ZO_DENSE_COLUMNS;
  }
}

/* clang-format off */

/* Products of a column, and of the next one, of two samples with the errors of two channels. */
#define ZO_DENSE_FOUR(s0, s1, s4, s5)                    \
  "smlad %[" s0 "], %[x], %[e], %[" s0 "]\n\t"           \
  "smlad %[" s1 "], %[y], %[e], %[" s1 "]\n\t"           \
  "smlad %[" s4 "], %[x], %[f], %[" s4 "]\n\t"           \
  "smlad %[" s5 "], %[y], %[f], %[" s5 "]\n\t"

#define ZO_DENSE_FIRST_FOUR(s0, s1, s4, s5)              \
  "smuad %[" s0 "], %[x], %[e]\n\t"                      \
  "smuad %[" s1 "], %[y], %[e]\n\t"                      \
  "smuad %[" s4 "], %[x], %[f]\n\t"                      \
  "smuad %[" s5 "], %[y], %[f]\n\t"

/* Those of all four columns. Columns and errors are so many bytes from the begin of the half. */
#define ZO_DENSE_PAIR(four, columns, more_columns, errors)      \
  "ldrd %[x], %[y], [%[half], #" columns "]\n\t"                \
  "ldrd %[e], %[f], [%[half], #" errors "]\n\t"                 \
  four("s0", "s1", "s4", "s5")                                  \
  "ldrd %[x], %[y], [%[half], #" more_columns "]\n\t"           \
  four("s2", "s3", "s6", "s7")

/* Forms four sums of two channels, the first ones of a half or the last, which begin with `skip`:
 * of up to eight samples, then of up to eight more. It is unrolled, and its other operands are in
 * the half, because sums, columns and errors take all registers but one. */
#define ZO_DENSE_TWO_CHANNELS(half_block, skip, e0, e1, e2, e3, e4, e5, e6, e7)                 \
  do {                                                                                          \
    uint32_t s0, s1, s2, s3, s4, s5, s6, s7, x, y, e, f;                                        \
    __asm__ volatile(                                                                           \
        ZO_DENSE_PAIR(ZO_DENSE_FIRST_FOUR, "0", "8", e0)                                        \
        ZO_DENSE_PAIR(ZO_DENSE_FOUR, "16", "24", e1)                                            \
        ZO_DENSE_PAIR(ZO_DENSE_FOUR, "32", "40", e2)                                            \
        ZO_DENSE_PAIR(ZO_DENSE_FOUR, "48", "56", e3)                                            \
        "ldr %[x], [%[half], %[more]]\n\t"                                                      \
        "cmp %[x], #0\n\t"                                                                      \
        "beq 1f\n\t"                                                                            \
        ZO_DENSE_PAIR(ZO_DENSE_FOUR, "64", "72", e4)                                            \
        ZO_DENSE_PAIR(ZO_DENSE_FOUR, "80", "88", e5)                                            \
        ZO_DENSE_PAIR(ZO_DENSE_FOUR, "96", "104", e6)                                           \
        ZO_DENSE_PAIR(ZO_DENSE_FOUR, "112", "120", e7)                                          \
        "1:\n\t"                                                                                \
        "ldrd %[x], %[y], [%[half], %[sums]]\n\t"                                               \
        skip                                                                                    \
        "strd %[s0], %[s1], [%[x]]\n\t"                                                         \
        "strd %[s2], %[s3], [%[x], #8]\n\t"                                                     \
        "add %[x], %[x], %[y]\n\t"                                                              \
        "strd %[s4], %[s5], [%[x]]\n\t"                                                         \
        "strd %[s6], %[s7], [%[x], #8]"                                                         \
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [s4] "=&r"(s4),       \
          [s5] "=&r"(s5), [s6] "=&r"(s6), [s7] "=&r"(s7), [x] "=&r"(x), [y] "=&r"(y),           \
          [e] "=&r"(e), [f] "=&r"(f)                                                            \
        : [half] "r"(half_block), [more] "i"(offsetof(zo_dense_half, more)),                    \
          [sums] "i"(offsetof(zo_dense_half, sums))                                             \
        : "cc", "memory");                                                                      \
  } while (0)

/* Four sums of each of the half's channels. */
#define ZO_DENSE_FOUR_CHANNELS(half_block)                                                      \
  ZO_DENSE_TWO_CHANNELS(half_block, "", "128", "144", "160", "176", "192", "208", "224", "240");  \
  ZO_DENSE_TWO_CHANNELS(half_block, "add %[x], %[x], %[y], lsl #1\n\t", "136", "152", "168",    \
                        "184", "200", "216", "232", "248")

/* clang-format on */

void zo_dense_sums(int32_t* sums, uint32_t apart, uint32_t count, uint32_t channels, zo_dense_block* block,
                   const zo_dense_inputs* inputs, int adds) {
  const uint32_t less = ((uint32_t)-inputs->zero_point & 0xFFFFu) * UINT32_C(0x00010001);
  zo_dense_half* const end = block->halves + (channels + 3u) / 4u;
  int32_t added[ZO_DENSE_CHANNELS][ZO_DENSE_COLUMNS];
  for (zo_dense_half* half = block->halves; half != end; ++half) {
    const uint32_t first = 4u * (uint32_t)(half - block->halves);
    half->more = inputs->samples > ZO_DENSE_SAMPLES / 2u;
    half->sums = adds ? added[first] : sums + first * apart;
    half->apart = (uint32_t)sizeof *sums * (adds ? ZO_DENSE_COLUMNS : apart);
  }
  const int8_t* row = inputs->first;
  for (uint32_t left = count; left > 0u; row += ZO_DENSE_COLUMNS) {
    const uint32_t columns = left < ZO_DENSE_COLUMNS ? left : ZO_DENSE_COLUMNS;
    if (columns == ZO_DENSE_COLUMNS) {
      unpack_columns(block->halves[0].columns[0], inputs, row, less);
    } else {
      unpack_rest(block->halves[0].columns[0], inputs, row, columns, less);
    }
    left -= columns;
    for (zo_dense_half* half = block->halves; half != end; ++half) {
      ZO_DENSE_FOUR_CHANNELS(half);
      if (!adds) half->sums += ZO_DENSE_COLUMNS;
    }
    if (!adds) continue;
    for (uint32_t i = 0; i < channels; ++i) {
      for (uint32_t j = 0; j < columns; ++j) sums[i * apart + j] += added[i][j];
    }
    sums += ZO_DENSE_COLUMNS;
  }
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_DSP_H_ */
