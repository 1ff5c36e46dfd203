"""The lines of C of the page of examples/littlefs, and the store that they mount."""

import subprocess
from pathlib import Path

import pytest

from device.compiled import GCC, GLUE, LITTLEFS
from helpers.pages import REPOSITORY, blocks

pytestmark = pytest.mark.skipif(
    GCC is None or LITTLEFS is None,
    reason="NO CHECKOUT OF LITTLEFS IN LITTLEFS_DIR, OR NO gcc: THE EXAMPLE WAS NOT COMPILED",
)

#: Blocks in RAM; written, synced or not, and found again after a reset.
MAIN = """
#include <string.h>

enum { kBlocks = 32, kBlockBytes = 512, kLong = 3 * kBlockBytes };
static uint8_t memory[kBlocks][kBlockBytes];
static lfs_t lfs;
static bool fails;
static uint8_t caches[2][sizeof cache];
static uint32_t lookahead[4];

typedef const struct lfs_config* of;

static int read_block(of c, lfs_block_t block, lfs_off_t at, void* bytes, lfs_size_t count) {
  (void)c;
  memcpy(bytes, &memory[block][at], count);
  return fails ? LFS_ERR_IO : 0;
}

static int program(of c, lfs_block_t block, lfs_off_t at, const void* bytes, lfs_size_t count) {
  (void)c;
  memcpy(&memory[block][at], bytes, count);
  return 0;
}

static int erase(of c, lfs_block_t block) {
  (void)c;
  memset(memory[block], 0xFF, kBlockBytes);
  return 0;
}

static int done(of c) {
  (void)c;
  return 0;
}

int main(void) {
  static const struct lfs_config config = {.read = read_block, .prog = program, .erase = erase, .sync = done,
    .read_size = 16, .prog_size = 16, .block_size = kBlockBytes, .block_count = kBlocks, .block_cycles = 100,
    .cache_size = sizeof cache, .lookahead_size = 16, .read_buffer = caches[0], .prog_buffer = caches[1],
    .lookahead_buffer = lookahead};
  uint8_t bytes[kLong], found[kLong];
  for (uint32_t i = 0; i < kLong; ++i) bytes[i] = (uint8_t)(i * 7u + i / 256u);
  if (lfs_format(&lfs, &config) != 0 || !mount_log(&lfs, &config)) return 1;
  if (store.read(store.context, 0, found, 1) != 0) return 2; /* nothing was written */
  if (!store.write(store.context, 0, bytes, kLong) || !store.sync(store.context)) return 3;
  if (!store.write(store.context, 40, found, 9)) return 4; /* and is not synced */
  if (!mount_log(&lfs, &config)) return 5;
  if (store.read(store.context, 0, found, kLong) != kLong || memcmp(found, bytes, kLong) != 0) return 6;
  if (!store.write(store.context, 700, bytes, 9) || !store.sync(store.context)) return 7;
  if (!mount_log(&lfs, &config) || store.read(store.context, 0, found, kLong) != kLong) return 8;
  memcpy(bytes + 700, bytes, 9);
  if (memcmp(found, bytes, kLong) != 0) return 9;
  if (store.read(store.context, kLong - 1, found, 2) != 1) return 10;
  fails = true; /* a read that fails is another thing than the end of a file */
  if (store.read(store.context, 0, found, kLong) >= 0) return 15;
  fails = false;
  if (!mount_log(&lfs, &config)) return 16;
  if (store.write(store.context, 1000u * kBlockBytes, bytes, 1)) return 11; /* one file too many */
  if (store.write(store.context, 0, bytes, 1) != true) return 12;
  if (lfs_log_store_init(&files, &lfs, "/a/path/that/has/29/characters", 512, cache)) return 13;
  return lfs_log_store_init(&files, &lfs, "run.zolog", 0, cache) ? 14 : 0;
}
"""


def test_the_page(tmp_path: Path) -> None:
    assert LITTLEFS is not None and GCC is not None
    (block,) = [b.text for b in blocks(GLUE / "README.md") if b.language == "c"]
    (tmp_path / "main.c").write_text(block + MAIN)
    # In the place of a generated folder's.
    header = '#define node_zo_log_store zo_log_store\n#include "ops/device/zo_application.h"\n'
    (tmp_path / "node_zo_trainer.h").write_text(header)
    include = [f"-I{tmp_path}", f"-I{REPOSITORY}", f"-I{GLUE}", f"-isystem{LITTLEFS}"]
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    base = [GCC, "-std=c99", "-g", *sanitizers, *include]
    for source, flags in (
        (tmp_path / "main.c", warnings),
        (GLUE / "lfs_log_store.c", warnings),
        (Path(LITTLEFS) / "lfs.c", ["-w", "-DLFS_NO_DEBUG"]),
        (Path(LITTLEFS) / "lfs_util.c", ["-w"]),
    ):
        subprocess.run([*base, *flags, "-c", source], cwd=tmp_path, check=True)
    subprocess.run([GCC, *sanitizers, *tmp_path.glob("*.o"), "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"], timeout=60).returncode == 0
