/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/math/zo_log2.h"

/* Both functions interpolate linearly between the 65 points of zo_log2.h: from tables, or, in a
 * build for size, computed, which takes half a kilobyte less and more time. */
#if !defined(__OPTIMIZE_SIZE__)

/* round(2^30 * 2^(-i / 64)) */
static const uint32_t exp2_table[65] = {
    1073741824u, 1062175491u, 1050733751u, 1039415261u, 1028218693u, 1017142735u, 1006186087u, 995347464u, 984625594u,
    974019220u,  963527098u,  953147997u,  942880699u,  932724001u,  922676710u,  912737649u,  902905651u, 893179563u,
    883558244u,  874040567u,  864625413u,  855311680u,  846098274u,  836984114u,  827968132u,  819049271u, 810226483u,
    801498734u,  792865000u,  784324269u,  775875538u,  767517817u,  759250125u,  751071493u,  742980960u, 734977579u,
    727060411u,  719228525u,  711481005u,  703816941u,  696235434u,  688735596u,  681316545u,  673977412u, 666717336u,
    659535466u,  652430958u,  645402981u,  638450708u,  631573326u,  624770026u,  618040012u,  611382493u, 604796689u,
    598281827u,  591837143u,  585461881u,  579155293u,  572916640u,  566745190u,  560640218u,  554601009u, 548626854u,
    542717053u,  536870912u,
};

/* round(2^26 * log2(1 + i / 64)) */
static const uint32_t log2_table[65] = {
    0u,        1501079u,  2979239u,  4435170u,  5869532u,  7282953u,  8676036u,  10049359u, 11403474u, 12738911u,
    14056177u, 15355762u, 16638134u, 17903742u, 19153019u, 20386381u, 21604229u, 22806948u, 23994909u, 25168470u,
    26327977u, 27473761u, 28606143u, 29725435u, 30831934u, 31925930u, 33007703u, 34077521u, 35135648u, 36182335u,
    37217828u, 38242363u, 39256169u, 40259469u, 41252479u, 42235408u, 43208457u, 44171825u, 45125701u, 46070271u,
    47005714u, 47932205u, 48849915u, 49759007u, 50659643u, 51551977u, 52436163u, 53312346u, 54180672u, 55041278u,
    55894303u, 56739877u, 57578130u, 58409188u, 59233172u, 60050204u, 60860398u, 61663868u, 62460725u, 63251078u,
    64035030u, 64812686u, 65584145u, 66349506u, 67108864u,
};

static uint32_t exp2_point(uint32_t i) { return exp2_table[i]; }

static uint32_t log2_point(uint32_t i) { return log2_table[i]; }

#else

/* 2^32 2^(-a / 8) and 2^32 2^(-b / 64), changed by a few units at most, so that each of the 64
 * products is that of a point, rounded. */
static const uint32_t eighths[8] = {4294967295u, 3938502376u, 3611622603u, 3311872530u,
                                    3037000500u, 2784941737u, 2553802833u, 2341847524u};
static const uint32_t sixty_fourths[8] = {4294967295u, 4248701966u, 4202935003u, 4157661043u,
                                          4112874773u, 4068570940u, 4024744348u, 3981389855u};

/* round(2^30 * 2^(-i / 64)), i <= 64 */
static uint32_t exp2_point(uint32_t i) {
  const uint64_t product = (uint64_t)eighths[i / 8u % 8u] * sixty_fourths[i % 8u];
  return (((uint32_t)(product >> 33) + 1u) >> 1) >> (i / 64u);
}

/* round(2^26 * log2(1 + i / 64)), i <= 64: each squaring of a number from 1 to 2 doubles its
 * logarithm, whose next bit is whether it has come to 2. */
static uint32_t log2_point(uint32_t i) {
  uint64_t x = (uint64_t)(64u + i) << 25; /* unit 2^-31 */
  uint32_t bits = 0;
  for (uint32_t n = 0; n < 28u; ++n) { /* one before the point, one to round by */
    const uint32_t bit = (uint32_t)(x >> 32);
    const uint32_t one_to_two = (uint32_t)(x >> bit);
    bits = 2u * bits + bit;
    x = ((uint64_t)one_to_two * one_to_two) >> 31;
  }
  return (bits + 1u) >> 1;
}

#endif

uint32_t zo_exp2_negative(uint32_t x) {
  const uint32_t index = (x >> 18) & 63u;
  const uint32_t rest = (x & UINT32_C(0x3FFFF)) >> 2; /* 16 bits */
  const uint32_t point = exp2_point(index);
  const uint32_t slope = (point - exp2_point(index + 1u)) >> 8; /* 16 bits */
  return (point - ((slope * rest) >> 8)) >> (x >> 24);
}

uint32_t zo_log2(uint64_t x) {
  uint32_t whole = 0;
  while (x >= (UINT64_C(1) << 31)) {
    x >>= 1;
    ++whole;
  }
  const uint32_t fraction = (uint32_t)x & UINT32_C(0x3FFFFFFF); /* 30 bits */
  const uint32_t index = fraction >> 24;
  const uint32_t rest = (fraction & UINT32_C(0xFFFFFF)) >> 8; /* 16 bits */
  const uint32_t point = log2_point(index);
  const uint32_t slope = (log2_point(index + 1u) - point) >> 5; /* 16 bits */
  return (whole << 26) + point + ((slope * rest) >> 11);
}
