/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A log store on littlefs: write, read and sync of a zo_log_store, over files of a file system that
 * is mounted. It needs nothing but lfs.h.
 *
 * A file of littlefs is safe in its state at the last sync. No block in use is overwritten: a
 * change in a file rewrites it from there to its end. So the log lies in files of `file_bytes`
 * each, "run.zolog.000", "run.zolog.001" and so on, which are the log one behind the other: a
 * snapshot that replaces an older one costs its own blocks, and not those of all files behind it.
 */
#ifndef TFLM_ZO_EXAMPLES_LITTLEFS_LFS_LOG_STORE_H_
#define TFLM_ZO_EXAMPLES_LITTLEFS_LFS_LOG_STORE_H_

#include <stdbool.h>
#include <stdint.h>

#include "lfs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LFS_LOG_STORE_PATH = 28, LFS_LOG_STORE_FILES = 1000 };

typedef struct lfs_log_store {
  lfs_t* lfs;
  uint32_t file_bytes;
  uint32_t number;                   /* of the file that is open, counted from 1; 0: none is */
  char path[LFS_LOG_STORE_PATH + 5]; /* of that file */
  char* digits;
  lfs_file_t file;
  struct lfs_file_config config;
} lfs_log_store;

/* After each lfs_mount, and before anything else. Writes nothing.
 *   path        of the files, without their numbers: LFS_LOG_STORE_PATH characters at most, in a
 *               folder that exists
 *   file_bytes  of each file, the same for as long as there is the log; a block of the file system
 *               suits most. There are LFS_LOG_STORE_FILES at most
 *   buffer      [cache_size of the file system's configuration]; NULL: littlefs allocates it
 * False: the path is too long, or files have no bytes. */
bool lfs_log_store_init(lfs_log_store* store, lfs_t* lfs, const char* path, uint32_t file_bytes, void* buffer);

/* Removes all files, for a log that begins anew: to write over those of another run costs more. */
bool lfs_log_store_clear(lfs_log_store* store);

/* The functions of the zo_log_store {lfs_log_store_write, lfs_log_store_read, store,
 * lfs_log_store_sync, 1, UINT32_MAX}: littlefs pads programmed bytes. A read gives the bytes of the
 * files, fewer than requested if they end, or a negative error of littlefs. */
bool lfs_log_store_write(void* store, uint32_t offset, const uint8_t* bytes, uint32_t count);
int32_t lfs_log_store_read(void* store, uint32_t offset, uint8_t* bytes, uint32_t count);
bool lfs_log_store_sync(void* store);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_EXAMPLES_LITTLEFS_LFS_LOG_STORE_H_ */
