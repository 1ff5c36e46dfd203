/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Status of every function that can fail.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_STATUS_H_
#define TFLM_ZO_OPS_CORE_ZO_STATUS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Anything but ZO_OK means that no weight and no state of a run has changed: arguments are checked
 * first. Functions that read or write a store (zo_flash_store.h, zo_places.h), or several tensors,
 * document the state that an error leaves. A null pointer is ZO_ERROR_ARGUMENT unless the function
 * says that it may be null. Functions without a status require pointers that are not null. */
typedef enum zo_status {
  ZO_OK = 0,
  ZO_ERROR_ARGUMENT = 1,     /* null pointer, zero size, inconsistent shape */
  ZO_ERROR_COMMAND = 2,      /* zo_command has no magic or a wrong length */
  ZO_ERROR_OPCODE = 3,       /* unknown instruction */
  ZO_ERROR_ORDER = 4,        /* instructions not in RESTORE..PERTURB order */
  ZO_ERROR_BLOCK = 5,        /* block number outside the model */
  ZO_ERROR_DISTRIBUTION = 6, /* unknown distribution or parameter */
  ZO_ERROR_HEADROOM = 7,     /* perturbation larger than the headroom */
  ZO_ERROR_QUERIES = 8,      /* more seeds than the model was built for */
  ZO_ERROR_COEFFICIENT = 9,  /* sum of |coefficients| would overflow */
  ZO_ERROR_FACTOR = 10,      /* perturbation factor k not allowed */
  ZO_ERROR_CAPACITY = 11,    /* command does not fit its buffer */
  ZO_ERROR_LABEL = 12,       /* label outside [0, classes) */
  ZO_ERROR_OPTIONS = 13,     /* custom options malformed or too new */
  ZO_ERROR_MEMORY = 14,      /* arena or buffer too small */
  ZO_ERROR_RUNTIME = 15,     /* the interpreter has failed */
  ZO_ERROR_SAMPLE = 16,      /* the source has no such sample */
  ZO_ERROR_LOG = 17,         /* log damaged, or of another model or run */
  ZO_ERROR_STORE = 18,       /* log or weights cannot be written or read */
  ZO_ERROR_KERNEL = 19,      /* an operator computes other bytes than the desktop */
} zo_status;

/* One line of English for a status; never null. In a file of its own, so that
 * firmware which does not call it does not pay for the text. */
const char* zo_status_text(zo_status status);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_ZO_STATUS_H_ */
