/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_kernel_set.h"

#include <string.h>

#include "ops/kernels/zo_portable.h"
/* ZO_PORTABLE leaves the others out, for tests. */
#if defined(__x86_64__) && !defined(ZO_PORTABLE)
#define HAS_X86 1
#include "ops/kernels/zo_x86.h"
#elif defined(__aarch64__) && !defined(ZO_PORTABLE)
#define HAS_ARM 1
#include "ops/kernels/zo_arm.h"
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

typedef struct choice {
  zo_kernel_set set;
  bool (*is_possible)(void);
} choice;

static bool always(void) { return true; }

#if defined(HAS_X86)
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }

static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#elif defined(HAS_ARM)
static bool has_dot_products(void) {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & 1ul << 20) != 0u; /* HWCAP_ASIMDDP */
#elif defined(__APPLE__)
  return true;
#else
  return false;
#endif
}
#endif

/* The best first. */
static const choice kChoices[] = {
#if defined(HAS_X86)
    {{"avx512-vnni",
      {4, false, 0x80},
      zo_avx512_gemm,
      zo_avx512_pack,
      zo_avx512_dots,
      zo_avx512_dense,
      32,
      zo_avx512_depthwise,
      zo_avx2_add,
      &zo_avx2_weights,
      &zo_avx512_layers},
     has_avx512},
    {{"avx2",
      {2, true, 0},
      zo_avx2_gemm,
      zo_pack_twos,
      zo_avx2_dots,
      NULL,
      16,
      zo_avx2_depthwise,
      zo_avx2_add,
      &zo_avx2_weights,
      &zo_avx2_layers},
     has_avx2},
#elif defined(HAS_ARM)
    {{"neon-dot",
      {4, false, 0},
      zo_neon_dot_gemm,
      zo_pack_fours,
      zo_neon_dot_dots,
      NULL,
      8,
      zo_neon_depthwise,
      zo_neon_add,
      &zo_neon_weights,
      &zo_portable_layers},
     has_dot_products},
    {{"neon",
      {2, true, 0},
      zo_neon_gemm,
      zo_pack_twos,
      zo_neon_dots,
      NULL,
      8,
      zo_neon_depthwise,
      zo_neon_add,
      &zo_neon_weights,
      &zo_portable_layers},
     always},
#endif
    {{"portable",
      {2, true, 0},
      zo_portable_gemm,
      zo_pack_twos,
      zo_portable_dots,
      NULL,
      8,
      zo_portable_depthwise,
      zo_portable_add,
      NULL,
      &zo_portable_layers},
     always},
};

const char* const zo_kernel_set_names[] = {
#if defined(HAS_X86)
    "avx512-vnni",
    "avx2",
#elif defined(HAS_ARM)
    "neon-dot",
    "neon",
#endif
    "portable",
    NULL,
};

const zo_kernel_set* zo_kernel_set_of(const char* name) {
  for (size_t i = 0; i < sizeof kChoices / sizeof kChoices[0]; ++i) {
    const choice* c = &kChoices[i];
    if ((name == NULL || strcmp(name, c->set.name) == 0) && c->is_possible()) return &c->set;
  }
  return NULL;
}
