/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Threads that divide work: every part is done once, by one thread at a time of each number, with
 * other callers at the same time, after sleep, and in a process that has been forked.
 */
#define _POSIX_C_SOURCE 200809L /* enables POSIX names beyond C99 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "ops/tflite/zo_threads.h"

unsigned long checks;

enum { kMostParts = 40, kRuns = 3000 };

/* The notes of a run. Each part and each thread writes its own places. */
typedef struct noted {
  int32_t times[kMostParts];
  int32_t thread[kMostParts];
  int32_t inside[8]; /* parts that a thread of this number is in */
  int32_t met;       /* another part in which a thread of the same number was */
} noted;

static void note(void* context, int32_t part, int32_t thread) {
  noted* n = (noted*)context;
  if (__atomic_fetch_add(&n->inside[thread], 1, __ATOMIC_SEQ_CST) != 0) n->met = 1;
  ++n->times[part];
  n->thread[part] = thread;
  __atomic_fetch_sub(&n->inside[thread], 1, __ATOMIC_SEQ_CST);
}

static bool is_done(const noted* n, int32_t parts, int32_t threads) {
  bool right = n->met == 0;
  for (int32_t i = 0; i < kMostParts; ++i) {
    right = right && n->times[i] == (i < parts ? 1 : 0);
    right = right && n->thread[i] >= 0 && n->thread[i] < threads;
  }
  return right;
}

static bool run(zo_threads* threads, int32_t parts, int32_t count) {
  noted n;
  memset(&n, 0, sizeof n);
  zo_threads_run(threads, parts, note, &n);
  return is_done(&n, parts, count);
}

static void test_every_part_is_done_once(void) {
  for (int32_t count = 2; count <= 7; ++count) {
    zo_threads* threads = zo_threads_acquire(count);
    CHECK(threads != NULL);
    for (int i = 0; i < kRuns; ++i) CHECK(run(threads, 1 + i % kMostParts, count));
    zo_threads_release(threads);
  }
}

static void test_threads_that_sleep_are_woken(void) {
  const struct timespec long_enough = {0, 5000000};
  zo_threads* threads = zo_threads_acquire(3);
  for (int i = 0; i < 10; ++i) {
    nanosleep(&long_enough, NULL);
    CHECK(run(threads, 5, 3));
  }
  zo_threads_release(threads);
}

static void test_the_same_number_is_shared(void) {
  zo_threads *one = zo_threads_acquire(2), *other = zo_threads_acquire(2);
  zo_threads* more = zo_threads_acquire(3);
  CHECK(one == other && one != more);
  zo_threads_release(one);
  CHECK(run(other, 9, 2) && run(more, 9, 3));
  zo_threads_release(other);
  zo_threads_release(more);
  CHECK(zo_threads_acquire(1) == NULL);
  CHECK(zo_threads_acquire(-1) == NULL);
  CHECK(zo_threads_acquire(kZoMostThreads + 1) == NULL);
  zo_threads_release(NULL);
}

static void* run_often(void* context) {
  int bad = 0;
  for (int i = 0; i < kRuns; ++i) bad += !run((zo_threads*)context, 1 + i % kMostParts, 3);
  return bad == 0 ? NULL : context;
}

static void test_two_callers_at_once(void) {
  zo_threads* threads = zo_threads_acquire(3);
  pthread_t other;
  CHECK(pthread_create(&other, NULL, run_often, threads) == 0);
  CHECK(run_often(threads) == NULL);
  void* result;
  CHECK(pthread_join(other, &result) == 0 && result == NULL);
  zo_threads_release(threads);
}

/* A fork has the memory, but not the threads. */
static inline void test_a_fork_has_threads_of_its_own(void) {
  zo_threads* threads = zo_threads_acquire(2);
  CHECK(run(threads, 4, 2));
  const pid_t child = fork();
  if (child == 0) {
    zo_threads* own = zo_threads_acquire(2);
    const bool right = own != threads && run(own, 4, 2) && run(threads, 4, 1);
    zo_threads_release(threads);
    zo_threads_release(own);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(run(threads, 4, 2));
  zo_threads_release(threads);
}

static int stops;

/* Takes and releases threads as interpreters do. */
static void* use_and_leave(void* context) {
  while (__atomic_load_n(&stops, __ATOMIC_ACQUIRE) == 0) {
    zo_threads_release(zo_threads_acquire(3));
  }
  return context;
}

/* Nobody in the fork finishes the work of another thread of its parent. A child that hangs is ended
 * by its alarm. It starts no thread: sanitizers have locks of their own for that. */
static inline void test_a_fork_needs_no_thread_of_its_parent(void) {
  zo_threads* threads = zo_threads_acquire(2);
  pthread_t other;
  CHECK(pthread_create(&other, NULL, use_and_leave, NULL) == 0);
  for (int i = 0; i < 200; ++i) {
    const struct timespec a_while = {0, 200000};
    nanosleep(&a_while, NULL);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      zo_threads_release(threads);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  __atomic_store_n(&stops, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(other, NULL) == 0);
  zo_threads_release(threads);
}

int main(void) {
  test_every_part_is_done_once();
  test_threads_that_sleep_are_woken();
  test_the_same_number_is_shared();
  test_two_callers_at_once();
#if !defined(__SANITIZE_THREAD__) /* which knows no threads in a fork of several */
  test_a_fork_has_threads_of_its_own();
  test_a_fork_needs_no_thread_of_its_parent();
#endif
  printf("%lu checks passed\n", checks);
  return 0;
}
