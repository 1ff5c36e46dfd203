/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Support of a program on an emulated RISC-V core beside picolibc, which has reset, faults and
 * system calls by semihosting: an abort or a full heap ends the emulator with exit status 1 and a
 * line that names it; and functions that C++ without its library may call.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

extern char __heap_start[];
extern char __heap_end[];

static void end_with(const char* text) __attribute__((noreturn));
static void end_with(const char* text) {
  fputs(text, stdout);
  _exit(1);
}

void abort(void) __attribute__((noreturn));
void abort(void) { end_with("emulated RISC-V: abort\n"); }

void* sbrk(ptrdiff_t increment) {
  static char* at = __heap_start;
  char* const before = at;
  if (increment > __heap_end - at) end_with("emulated RISC-V: heap is full\n");
  at += increment;
  return before;
}

void __cxa_pure_virtual(void);
void __cxa_pure_virtual(void) { end_with("emulated RISC-V: a pure virtual function was called\n"); }
