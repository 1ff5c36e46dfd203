/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Support of a program on an emulated Cortex-M below the C library: vectors, reset, and the
 * library's system calls by semihosting. A fault, an abort or a full heap ends the emulator with
 * exit status 1 and a line that names it, instead of letting it hang.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/* Kept free for the stack: the heap ends below. */
#define STACK_BYTES 0x8000u

extern uint32_t __stack_top[];
extern uint32_t __bss_start__[];
extern uint32_t __bss_end__[];
extern char __heap_start[];

int main(void);
void exit(int status) __attribute__((noreturn));
void __libc_init_array(void);

/* newlib calls these around the constructors; crti.o, which has them, is not linked. */
void _init(void);
void _fini(void);
void _init(void) {}
void _fini(void) {}

/* --- semihosting ----------------------------------------------------------- */

enum { kOpen = 0x01, kWrite = 0x05, kWriteString = 0x04, kExit = 0x20 };

static int semihosting(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void _exit(int status) {
  const uint32_t application_exit[2] = {0x20026u, (uint32_t)status};
  semihosting(kExit, application_exit);
  for (;;) {
  }
}

static void end_with(const char* text) {
  semihosting(kWriteString, text);
  _exit(1);
}

/* --- system calls of newlib -------------------------------------------------- */

int _write(int file, const char* bytes, int count);
void* _sbrk(ptrdiff_t increment);
int _read(int file, char* bytes, int count);
int _close(int file);
int _fstat(int file, struct stat* status);
int _isatty(int file);
int _lseek(int file, int offset, int whence);
int _kill(int process, int signal);
int _getpid(void);

int _write(int file, const char* bytes, int count) {
  static int console = -1;
  (void)file;
  if (console < 0) {
    static const char name[] = ":tt";
    const uint32_t open_for_writing[3] = {(uint32_t)name, 4, sizeof name - 1};
    console = semihosting(kOpen, open_for_writing);
  }
  const uint32_t arguments[3] = {(uint32_t)console, (uint32_t)bytes, (uint32_t)count};
  return count - semihosting(kWrite, arguments);
}

void* _sbrk(ptrdiff_t increment) {
  static char* at = __heap_start;
  char* const before = at;
  const uint32_t end = (uint32_t)__stack_top - STACK_BYTES;
  if ((uint32_t)at + (uint32_t)increment > end) end_with("emulated Cortex-M: heap is full\n");
  at += increment;
  return before;
}

int _read(int file, char* bytes, int count) { return (void)file, (void)bytes, (void)count, 0; }
int _close(int file) { return (void)file, -1; }
int _lseek(int file, int offset, int whence) { return (void)file, (void)offset, (void)whence, 0; }
int _isatty(int file) { return (void)file, 1; }
int _getpid(void) { return 1; }

int _fstat(int file, struct stat* status) {
  (void)file;
  memset(status, 0, sizeof *status);
  status->st_mode = S_IFCHR;
  return 0;
}

int _kill(int process, int signal) {
  (void)process, (void)signal;
  end_with("emulated Cortex-M: abort\n");
  return -1;
}

/* --- reset --------------------------------------------------------------------- */

void Reset_Handler(void);
void Fault_Handler(void);

void Reset_Handler(void) {
#if __ARM_ARCH > 6
  /* Coprocessors 10 and 11, the FPU and MVE, if there are any. */
  volatile uint32_t* const access = (volatile uint32_t*)0xE000ED88u;
  *access |= 0xFu << 20;
  __asm__ volatile("dsb\n isb" ::: "memory");
#endif
  memset(__bss_start__, 0, (size_t)((char*)__bss_end__ - (char*)__bss_start__));
  __libc_init_array();
  exit(main());
}

void Fault_Handler(void) { end_with("emulated Cortex-M: fault\n"); }

__attribute__((section(".vectors"), used)) const void* const vectors[16] = {
    __stack_top,          (void*)Reset_Handler, (void*)Fault_Handler, (void*)Fault_Handler,
    (void*)Fault_Handler, (void*)Fault_Handler, (void*)Fault_Handler, (void*)Fault_Handler,
};
