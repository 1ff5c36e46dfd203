/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Counts the instructions that a function takes on an emulated core. The emulator must run with
 * emulator.py's `counting`: then time passes by the instruction, and SysTick or RISC-V's counter of
 * instructions counts it.
 */
#ifndef TFLM_ZO_TESTS_CORTEX_M_COUNTING_H_
#define TFLM_ZO_TESTS_CORTEX_M_COUNTING_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Instructions of one call of function(argument), from the call to the return, rounded.
 *
 * It is called `calls` times; the loop around the calls, counted with an empty function, is taken
 * off. With 128 calls or more the result is exact to the instruction if every call takes the same
 * path. All calls together may take 5 * 10^8 instructions; beyond that the program ends with an
 * error. */
uint32_t count_instructions(void (*function)(void*), void* argument, uint32_t calls);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_TESTS_CORTEX_M_COUNTING_H_ */
