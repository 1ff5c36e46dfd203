/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Reset of an emulated Cortex-M: enables the coprocessors (FPU and MVE if there are any) and
 * enters newlib's semihosting start-up code.
 */
#include <stdint.h>

extern uint32_t __stack_top[];
extern void _start(void);

void Reset_Handler(void);
void Fault_Handler(void);

/* newlib calls these around the constructors; crti.o, which has them, is not linked. */
void _init(void);
void _fini(void);
void _init(void) {}
void _fini(void) {}

void Reset_Handler(void) {
  volatile uint32_t* const cpacr = (volatile uint32_t*)0xE000ED88u;
  *cpacr |= 0xFu << 20;
  __asm volatile("dsb\n isb");
  _start();
}

void Fault_Handler(void) {
  /* Semihosting SYS_EXIT with an error: the emulator stops instead of hanging. */
  __asm volatile("mov r0, #0x18\n mov r1, #0\n bkpt 0xAB");
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) const void* const vectors[16] = {
    __stack_top,          (void*)Reset_Handler, (void*)Fault_Handler, (void*)Fault_Handler,
    (void*)Fault_Handler, (void*)Fault_Handler, (void*)Fault_Handler,
};
