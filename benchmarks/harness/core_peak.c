/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * How many int8 multiply-accumulates a second one core can do, by the instruction that a kernel set
 * multiplies with: twelve independent sums in registers, no memory. Prints 10^9 a second.
 *
 *   core_peak avx512-vnni|avx2|neon-dot|neon
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { kSums = 12, kLoops = 2000000, kRounds = 7 };

/* A function of kLoops loops, each of one instruction (or two) for every sum. */
#define PEAK(name, instructions, bytes, constraint, clobbered, text)                 \
  __attribute__((target(instructions))) static void name(void) {                     \
    typedef int vector __attribute__((vector_size(bytes)));                          \
    vector sum[kSums] = {{0}}, x = {1}, w = {2};                                     \
    for (int loop = 0; loop < kLoops; ++loop) {                                      \
      _Pragma("GCC unroll 12") for (int i = 0; i < kSums; ++i) __asm__ volatile(     \
          text : "+" constraint(sum[i]) : constraint(x), constraint(w) : clobbered); \
    }                                                                                \
  }

/* clang-format off: it takes the constraints for labels */
#if defined(__x86_64__)
PEAK(avx512_vnni, "avx512f,avx512vnni", 64, "v", "cc", "vpdpbusd %2, %1, %0")
/* Products of pairs, and their sums: two instructions. */
PEAK(avx2, "avx2", 32, "x", "xmm15", "vpmaddwd %2, %1, %%ymm15\n\tvpaddd %%ymm15, %0, %0")
#elif defined(__aarch64__)
PEAK(neon_dot, "arch=armv8.2-a+dotprod", 16, "w", "cc", "sdot %0.4s, %1.16b, %2.16b")
PEAK(neon, "arch=armv8-a", 16, "w", "cc", "smlal %0.4s, %1.4h, %2.4h")
#endif
/* clang-format on */

static const struct {
  const char* name;
  void (*run)(void);
  int products; /* that an instruction adds up */
} kPeaks[] = {
#if defined(__x86_64__)
    {"avx512-vnni", avx512_vnni, 64},
    {"avx2", avx2, 16},
#elif defined(__aarch64__)
    {"neon-dot", neon_dot, 16},
    {"neon", neon, 4},
#endif
    {NULL, NULL, 0}};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char** arguments) {
  for (int p = 0; count == 2 && kPeaks[p].name != NULL; ++p) {
    if (strcmp(arguments[1], kPeaks[p].name) != 0) continue;
    double best = 1e9;
    for (int round = 0; round < kRounds; ++round) { /* other load slows down some, never all */
      const double begin = seconds();
      kPeaks[p].run();
      const double taken = seconds() - begin;
      if (taken < best) best = taken;
    }
    printf("%.3f\n", 1e-9 * kLoops * kSums * kPeaks[p].products / best);
    return 0;
  }
  return 1;
}
