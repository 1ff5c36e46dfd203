/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "counting.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef COUNTING_TICK_QUARTERS
#error "COUNTING_TICK_QUARTERS: instructions between two ticks of the clock, times four; emulator.py"
#endif

static void nothing(void* argument) { (void)argument; }

#ifdef __riscv

static uint32_t instructions_retired(void) {
  uint32_t count;
  __asm__ volatile(".option push\n .option arch, +zicsr\n csrr %0, minstret\n .option pop" : "=r"(count));
  return count;
}

/* Not inlined: the loop must be the same for every function. */
__attribute__((noinline, noclone)) static uint32_t ticks_of(void (*function)(void*), void* argument, uint32_t calls) {
  const uint32_t start = instructions_retired();
  for (uint32_t i = 0; i < calls; ++i) function(argument);
  return instructions_retired() - start;
}

#else

/* SysTick counts down from this. */
#define RELOAD 0x00FFFFFFu

static volatile uint32_t* const control = (volatile uint32_t*)0xE000E010u;
static volatile uint32_t* const reload = (volatile uint32_t*)0xE000E014u;
static volatile uint32_t* const current = (volatile uint32_t*)0xE000E018u;

/* Not inlined: the loop must be the same for every function. */
__attribute__((noinline, noclone)) static uint32_t ticks_of(void (*function)(void*), void* argument, uint32_t calls) {
  *reload = RELOAD;
  *current = 0;
  *control = 5u; /* on, the processor's clock, no interrupt */
  const uint32_t start = *current;
  for (uint32_t i = 0; i < calls; ++i) function(argument);
  const uint32_t end = *current;
  const uint32_t wrapped = *control & 0x10000u;
  *control = 0;
  if (wrapped != 0u && end > start) {
    fprintf(stderr, "counting: too many instructions\n");
    exit(1);
  }
  return (start - end) & RELOAD;
}

#endif

uint32_t count_instructions(void (*function)(void*), void* argument, uint32_t calls) {
  const uint64_t all = ticks_of(function, argument, calls);
  const uint64_t empty = ticks_of(nothing, NULL, calls);
  const uint64_t quarters = (all - empty) * COUNTING_TICK_QUARTERS;
  /* The empty function's own return instruction is one of the function's, too. */
  return (uint32_t)((quarters + 2u * calls) / (4u * (uint64_t)calls)) + 1u;
}
