/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "stores.h"

#include <string.h>

#if WITH_LITTLEFS
#include "lfs_log_store.h"
#endif

namespace stores {
namespace {

flash_part part;
uint32_t kind_of_store;
tflm_zo::LogStore log_store;

// --- Raw flash

zo_flash_store ring;
uint16_t ring_pages[UINT16_MAX];

// --- Memory that is written over

bool WriteOver(void*, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  return flash_part_write(&part, offset, bytes, count);
}

// Keeps the other bytes of the first and the last unit.
bool WriteBytes(void*, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  static uint8_t units[1 << 12];
  const uint32_t unit = part.flash.unit, first = offset / unit * unit;
  const uint32_t size = zo_padded(offset + count, unit) - first;
  if (size > sizeof units || part.flash.read(&part, first, units, size) <= 0) return false;
  memcpy(units + (offset - first), bytes, count);
  return flash_part_write(&part, first, units, size);
}

int32_t Read(void*, uint32_t offset, uint8_t* bytes, uint32_t count) {
  return part.flash.read(&part, offset, bytes, count);
}

bool Sync(void*) { return flash_part_sync(&part); }

// --- littlefs

#if WITH_LITTLEFS
constexpr uint32_t kMostCache = 1024;
uint8_t read_cache[kMostCache], program_cache[kMostCache], file_cache[kMostCache];
uint32_t lookahead[4];
lfs_config config;
lfs_t file_system;
lfs_log_store files;
uint32_t bytes_of_file;

int ReadBlock(const lfs_config* of, lfs_block_t block, lfs_off_t offset, void* bytes, lfs_size_t count) {
  const uint32_t at = block * of->block_size + offset;
  return part.flash.read(&part, at, static_cast<uint8_t*>(bytes), count) > 0 ? 0 : LFS_ERR_IO;
}

int ProgramBlock(const lfs_config* of, lfs_block_t block, lfs_off_t offset, const void* bytes, lfs_size_t count) {
  const uint32_t at = block * of->block_size + offset;
  return part.flash.program(&part, at, static_cast<const uint8_t*>(bytes), count) ? 0 : LFS_ERR_IO;
}

int EraseBlock(const lfs_config* of, lfs_block_t block) {
  return part.flash.erase(&part, block * of->block_size) ? 0 : LFS_ERR_IO;
}

int SyncBlocks(const lfs_config*) { return 0; }

bool BeginLittlefs(uint32_t file_bytes) {
  const zo_flash& flash = part.flash;
  bytes_of_file = file_bytes;
  config = {};
  config.read = ReadBlock;
  config.prog = ProgramBlock;
  config.erase = EraseBlock;
  config.sync = SyncBlocks;
  config.read_size = config.prog_size = flash.unit;
  config.block_size = flash.sector_bytes;
  config.block_count = flash.sectors;
  config.block_cycles = 100;
  config.cache_size = flash.page_bytes;
  config.lookahead_size = sizeof lookahead;
  config.read_buffer = read_cache;
  config.prog_buffer = program_cache;
  config.lookahead_buffer = lookahead;
  return flash.page_bytes <= kMostCache && lfs_format(&file_system, &config) == 0;
}

bool MountLittlefs() {
  return lfs_mount(&file_system, &config) == 0 &&
         lfs_log_store_init(&files, &file_system, "run.zolog", bytes_of_file, file_cache);
}
#endif

}  // namespace

bool Begin(uint32_t kind, uint32_t sectors, uint32_t sector_bytes, uint32_t page_bytes, uint32_t unit,
           uint32_t file_bytes) {
  flash_part_free(&part);
  flash_part_init(&part, sectors, sector_bytes, page_bytes, unit, 1);
  const uint32_t bytes = sectors * sector_bytes;
  kind_of_store = kind;
  switch (kind) {
    case kRing:
      part.has_ecc = unit >= 8;  // as parts with such units do
      log_store = {zo_flash_store_write,
                   zo_flash_store_read,
                   &ring,
                   nullptr,
                   unit,
                   ZO_FLASH_STORE_BYTES(sectors, sector_bytes, page_bytes, unit)};
      return true;
    case kDirect:
    case kCached:
      memset(part.image.programmed, 0, sectors * sector_bytes / unit);
      part.has_cache = kind == kCached;
      log_store = {WriteOver, Read, nullptr, kind == kCached ? Sync : nullptr, unit, bytes};
      return true;
    case kHidden:
      memset(part.image.programmed, 0, sectors * sector_bytes / unit);
      log_store = {WriteBytes, Read, nullptr, nullptr, 1, bytes};
      return true;
#if WITH_LITTLEFS
    case kLittlefs:
      log_store = {lfs_log_store_write, lfs_log_store_read, &files, lfs_log_store_sync, 1, UINT32_MAX};
      return BeginLittlefs(file_bytes);
#endif
    default:
      (void)file_bytes;
      return false;
  }
}

flash_part& Part() { return part; }

bool Mount() {
#if WITH_LITTLEFS
  if (kind_of_store == kLittlefs) return MountLittlefs();
#endif
  return kind_of_store != kRing || zo_flash_store_mount(&ring, &part.flash, ring_pages) == ZO_OK;
}

bool Clear() {
#if WITH_LITTLEFS
  if (kind_of_store == kLittlefs) return lfs_log_store_clear(&files);
#endif
  return kind_of_store != kRing || zo_flash_store_clear(&ring) == ZO_OK;
}

const tflm_zo::LogStore& Log() { return log_store; }

bool Content(uint8_t* bytes, uint32_t count) {
  static zo_flash_store other;
  static uint16_t pages[UINT16_MAX];
  const flash_part before = part;
  part.is_off = 0;
  part.failing_read = 0;
  const bool found = zo_flash_store_mount(&other, &part.flash, pages) == ZO_OK &&
                     zo_flash_store_read(&other, 0, bytes, count) == static_cast<int32_t>(count);
  part = before;
  return found;
}

}  // namespace stores
