/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* enables POSIX names beyond C99 */
#include "ops/tflite/zo_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* How often a thread looks for work before it sleeps, and for the others' end before it lets them
 * have its core: about 0.2 ms, longer than the pause between two invokes of a training run. */
enum { kLooks = 4000 };

struct zo_threads {
  zo_threads* next;
  int32_t count, users;
  pid_t process;
  pthread_mutex_t busy; /* held while somebody's work is done */
  /* The work to do. A ticket has the number of the run, 32 bits, of its parts, 16, and of the
   * taken ones, 16: a thread takes a part by replacing the whole, so it never takes one of a
   * later run by mistake. */
  uint64_t ticket;
  int32_t done; /* parts */
  void (*work)(void* context, int32_t part, int32_t thread);
  void* context;
  /* For threads that sleep. */
  pthread_mutex_t lock;
  pthread_cond_t woken;
  int32_t sleepers;
  bool ends;
  int32_t started; /* threads beside the caller */
  pthread_t own[kZoMostThreads - 1];
};

/* A thread's argument: its own number. */
typedef struct beginning {
  zo_threads* threads;
  int32_t number;
} beginning;

/* Threads that somebody in this process uses. */
static zo_threads* list;
static pid_t list_process; /* whose list it is */
static pid_t list_holder;  /* whose thread reads or changes it; 0: nobody's */

static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* as long as the other's pause; "yield" is next to nothing */
#endif
}

/* A mutex that survives forks. If another thread has the list during a fork, the new process has no
 * such thread: it takes the list over, and begins with an empty one. Handlers of pthread_atfork
 * would outlive a library that is closed. */
static pid_t hold_list(void) {
  const pid_t process = getpid();
  pid_t holder = 0;
  while (!__atomic_compare_exchange_n(&list_holder, &holder, process, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    if (holder != process) continue; /* the parent's, expected by the next comparison */
    holder = 0;
    sched_yield();
  }
  if (list_process != process) list = NULL;
  list_process = process;
  return process;
}

static void leave_list(void) { __atomic_store_n(&list_holder, 0, __ATOMIC_RELEASE); }

static uint64_t load_ticket(const zo_threads* self) { return __atomic_load_n(&self->ticket, __ATOMIC_SEQ_CST); }

static uint32_t run_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }

/* Takes parts of a run until none is left. */
static void help(zo_threads* self, uint32_t run, int32_t thread) {
  uint64_t ticket = load_ticket(self);
  for (;;) {
    const int32_t part = (int32_t)(ticket & 0xffffu), parts = (int32_t)(ticket >> 16 & 0xffffu);
    if (run_of(ticket) != run || part >= parts) return;
    if (!__atomic_compare_exchange_n(&self->ticket, &ticket, ticket + 1u, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      continue;
    }
    self->work(self->context, part, thread);
    __atomic_fetch_add(&self->done, 1, __ATOMIC_RELEASE);
    ticket = load_ticket(self);
  }
}

/* Waits for another run than this one; returns its number, or the same one if all ends. */
static uint32_t next_run(zo_threads* self, uint32_t last) {
  for (int looks = 0; looks < kLooks; ++looks) {
    const uint32_t run = run_of(load_ticket(self));
    if (run != last) return run;
    pause_briefly();
  }
  pthread_mutex_lock(&self->lock);
  __atomic_fetch_add(&self->sleepers, 1, __ATOMIC_SEQ_CST);
  while (run_of(load_ticket(self)) == last && !self->ends) {
    pthread_cond_wait(&self->woken, &self->lock);
  }
  __atomic_fetch_sub(&self->sleepers, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&self->lock);
  return run_of(load_ticket(self));
}

static void* live(void* given) {
  const beginning own = *(const beginning*)given;
  free(given);
  uint32_t last = 0;
  for (;;) {
    const uint32_t run = next_run(own.threads, last);
    if (run == last) return NULL;
    help(own.threads, run, own.number);
    last = run;
  }
}

static void wake(zo_threads* self) {
  pthread_mutex_lock(&self->lock);
  pthread_cond_broadcast(&self->woken);
  pthread_mutex_unlock(&self->lock);
}

static void end(zo_threads* self) {
  pthread_mutex_lock(&self->lock);
  self->ends = true;
  pthread_mutex_unlock(&self->lock);
  wake(self);
  for (int32_t i = 0; i < self->started; ++i) pthread_join(self->own[i], NULL);
  pthread_mutex_destroy(&self->busy);
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->woken);
  free(self);
}

static bool start_thread(zo_threads* self) {
  beginning* own = malloc(sizeof *own);
  if (own == NULL) return false;
  own->threads = self;
  own->number = self->started + 1;
  if (pthread_create(&self->own[self->started], NULL, live, own) != 0) {
    free(own);
    return false;
  }
  ++self->started;
  return true;
}

static zo_threads* start(int32_t count) {
  zo_threads* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->count = count;
  self->process = getpid();
  pthread_mutex_init(&self->busy, NULL);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->woken, NULL);
  while (self->started < count - 1) {
    if (!start_thread(self)) {
      end(self);
      return NULL;
    }
  }
  return self;
}

zo_threads* zo_threads_acquire(int32_t count) {
  if (count < 2 || count > kZoMostThreads) return NULL;
  (void)hold_list();
  zo_threads* found = list;
  while (found != NULL && found->count != count) found = found->next;
  if (found == NULL) {
    found = start(count);
    if (found != NULL) {
      found->next = list;
      list = found;
    }
  }
  if (found != NULL) ++found->users;
  leave_list();
  return found;
}

void zo_threads_release(zo_threads* threads) {
  if (threads == NULL) return;
  /* A fork's copy has no threads to join. */
  const bool is_last = threads->process == hold_list() && --threads->users == 0;
  if (is_last) {
    zo_threads** at = &list;
    while (*at != threads) at = &(*at)->next;
    *at = threads->next;
  }
  leave_list();
  if (is_last) end(threads);
}

void zo_threads_run(zo_threads* self, int32_t parts, void (*work)(void* context, int32_t part, int32_t thread),
                    void* context) {
  if (self->process != getpid() || pthread_mutex_trylock(&self->busy) != 0) {
    for (int32_t part = 0; part < parts; ++part) work(context, part, 0);
    return;
  }
  self->work = work;
  self->context = context;
  __atomic_store_n(&self->done, 0, __ATOMIC_RELAXED);
  uint32_t run = run_of(load_ticket(self)) + 1u;
  if (run == 0u) run = 1u; /* a thread begins with having seen run 0 */
  __atomic_store_n(&self->ticket, (uint64_t)run << 32 | (uint64_t)(uint32_t)parts << 16, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&self->sleepers, __ATOMIC_SEQ_CST) > 0) wake(self);
  help(self, run, 0);
  for (int looks = 0; __atomic_load_n(&self->done, __ATOMIC_ACQUIRE) < parts; ++looks) {
    if (looks < kLooks) {
      pause_briefly();
    } else {
      sched_yield();
    }
  }
  pthread_mutex_unlock(&self->busy);
}
