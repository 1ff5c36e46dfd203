/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "lfs_log_store.h"

#include <string.h>

bool lfs_log_store_init(lfs_log_store* self, lfs_t* lfs, const char* path, uint32_t file_bytes, void* buffer) {
  const size_t length = strlen(path);
  memset(self, 0, sizeof *self);
  if (length > LFS_LOG_STORE_PATH || file_bytes == 0u) return false;
  memcpy(self->path, path, length);
  self->path[length] = '.';
  self->digits = self->path + length + 1u;
  self->lfs = lfs;
  self->file_bytes = file_bytes;
  self->config.buffer = buffer;
  return true;
}

/* Closes the file that is open, which makes it safe. */
static bool close_file(lfs_log_store* self) {
  if (self->number == 0u) return true;
  self->number = 0;
  return lfs_file_close(self->lfs, &self->file) == 0;
}

static void set_number(lfs_log_store* self, uint32_t number) {
  self->digits[0] = (char)('0' + number / 100u);
  self->digits[1] = (char)('0' + number / 10u % 10u);
  self->digits[2] = (char)('0' + number % 10u);
}

/* Goes to an offset of the log. Returns littlefs's error, LFS_ERR_NOENT where there is no file. */
static int go_to(lfs_log_store* self, uint32_t offset, int flags) {
  const uint32_t number = offset / self->file_bytes;
  if (self->number != number + 1u) {
    if (number >= LFS_LOG_STORE_FILES) return LFS_ERR_NOENT;
    if (!close_file(self)) return LFS_ERR_IO;
    set_number(self, number);
    const int error = lfs_file_opencfg(self->lfs, &self->file, self->path, flags, &self->config);
    if (error != 0) return error;
    self->number = number + 1u;
  }
  const lfs_soff_t at = (lfs_soff_t)(offset % self->file_bytes);
  const lfs_soff_t found = lfs_file_seek(self->lfs, &self->file, at, LFS_SEEK_SET);
  return found < 0 ? (int)found : 0;
}

bool lfs_log_store_clear(lfs_log_store* self) {
  if (!close_file(self)) return false;
  /* The first one last: without it there is no log, and remains of one belong to no other log. */
  for (uint32_t number = LFS_LOG_STORE_FILES; number-- > 0u;) {
    set_number(self, number);
    const int error = lfs_remove(self->lfs, self->path);
    if (error != 0 && error != LFS_ERR_NOENT) return false;
  }
  return true;
}

/* Bytes from an offset on that are in the same file. */
static uint32_t bytes_of_file(const lfs_log_store* self, uint32_t offset, uint32_t count) {
  const uint32_t room = self->file_bytes - offset % self->file_bytes;
  return room < count ? room : count;
}

bool lfs_log_store_write(void* store, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  lfs_log_store* self = (lfs_log_store*)store;
  for (uint32_t part; count > 0u; offset += part, bytes += part, count -= part) {
    part = bytes_of_file(self, offset, count);
    if (go_to(self, offset, LFS_O_RDWR | LFS_O_CREAT) != 0 ||
        lfs_file_write(self->lfs, &self->file, bytes, part) != (lfs_ssize_t)part) {
      close_file(self); /* littlefs takes no more of it until it is opened anew */
      return false;
    }
  }
  return true;
}

int32_t lfs_log_store_read(void* store, uint32_t offset, uint8_t* bytes, uint32_t count) {
  lfs_log_store* self = (lfs_log_store*)store;
  uint32_t done = 0;
  while (done < count) {
    const uint32_t part = bytes_of_file(self, offset + done, count - done);
    const int error = go_to(self, offset + done, LFS_O_RDWR);
    if (error == LFS_ERR_NOENT) break;
    if (error != 0) return error;
    const lfs_ssize_t found = lfs_file_read(self->lfs, &self->file, bytes + done, part);
    if (found < 0) return found;
    done += (uint32_t)found;
    if ((uint32_t)found != part) break;
  }
  return (int32_t)done;
}

bool lfs_log_store_sync(void* store) {
  lfs_log_store* self = (lfs_log_store*)store;
  return self->number == 0u || lfs_file_sync(self->lfs, &self->file) == 0;
}
