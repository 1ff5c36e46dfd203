# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Cost of a log to its flash: bytes programmed and sectors erased a step, and how evenly.

    LITTLEFS_DIR=checkout python benchmarks/log_stores.py

Runs of 1,000 steps are done one behind the other in simulated NOR flash, as the trainers of firmware write
them: of weight perturbation, with a record of 24 bytes a step, and of node perturbation, with snapshots of
7,448 bytes (the demo's network) every 10 steps. Erases are counted for each sector of 4 KiB: the raw flash
has 32 of them, so that each is erased often enough for differences to count, and littlefs has 128.

A device that sleeps with its RAM off mounts its store before each step. That is measured of a tenth of the
steps; a year has one step a minute.

LITTLEFS_DIR, a checkout of littlefs, adds stores on it (examples/littlefs), which take minutes. Needs gcc and
g++.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from harness import progress
from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
SECTOR_BYTES = 4096
RUN_STEPS = 1000
#: Of a device that does one a minute.
STEPS_A_YEAR = 365 * 24 * 60
#: Bytes of a snapshot, steps between two; of weight perturbation none.
ALGORITHMS: Final = {"weight": (0, 1), "node": (7448, 10)}
RAW_FLASH: Final = 0
#: Kind (stores.h), sectors, bytes that are programmed at once, bytes of a file.
STORES: Final = {
    "raw flash, units of 1": (RAW_FLASH, 32, 1, 0),
    "raw flash, units of 8": (RAW_FLASH, 32, 8, 0),
    "raw flash, units of 32": (RAW_FLASH, 32, 32, 0),
    "littlefs, files of a block": (3, 128, 16, SECTOR_BYTES),
    "littlefs, one file": (3, 128, 16, 1 << 30),
    "littlefs, small files": (3, 128, 16, 240),
}
#: For weight perturbation: a snapshot would be in 31 of them.
SMALL_FILES: Final = "littlefs, small files"
#: Bytes of a page of the raw flash, and of littlefs's cache.
PAGE_BYTES: Final = 256


def build(folder: Path, littlefs: str | None) -> Path:
    """Compiles the program; returns its path."""
    headers = ("core/log/zo_flash_store.h", "core/log/zo_store_units.h", "device/zo_firmware.h")
    includes = "".join(f'#include "ops/{name}"\n' for name in headers)
    (folder / "zo_trainer.h").write_text(includes)  # in the place of a generated one
    flags, objects = (
        # Generated numbers, which no store asks for.
        [
            "-O1",
            "-DZO_INPUTS=1",
            "-DZO_INPUT_READERS=1",
            f"-I{ROOT}",
            f"-I{folder}",
            f"-I{ROOT / 'tests/device'}",
            f"-I{ROOT / 'tests/ops/core'}",
        ],
        [],
    )
    sources = [
        ROOT / "tests/ops/core/flash_part.c",
        *sorted((ROOT / "ops/core").rglob("*.c")),
        ROOT / "tests/device/stores.cc",
        ROOT / "ops/device/zo_store_writer.cc",
        ROOT / "benchmarks/harness/log_stores.cc",
    ]
    if littlefs is not None:
        flags += ["-DWITH_LITTLEFS=1", "-DLFS_NO_DEBUG", f"-I{ROOT / 'examples/littlefs'}", f"-I{littlefs}"]
        sources += [ROOT / "examples/littlefs/lfs_log_store.c", Path(littlefs, "lfs.c"), Path(littlefs, "lfs_util.c")]
    for number, source in enumerate(sources):
        compiler = ["gcc", "-std=c99"] if source.suffix == ".c" else ["g++", "-std=c++17"]
        objects.append(folder / f"{number}.o")
        subprocess.run([*compiler, *flags, "-c", source, "-o", objects[-1]], check=True)
    subprocess.run(["g++", *objects, "-lm", "-o", folder / "log_stores"], check=True)
    return folder / "log_stores"


def cost(program: Path, memory: tuple[int, ...], algorithm: str, steps: int, sleeps: int) -> list[int]:
    """Runs the program and parses its output."""
    words = map(str, (*memory, steps, RUN_STEPS, *ALGORITHMS[algorithm], sleeps))
    done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def measure(steps: int, littlefs: str | None) -> dict[str, dict[str, dict[str, Any]]]:
    """Measures each kind of run in each store."""
    results: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in ALGORITHMS}
    cases = [
        (store, algorithm)
        for algorithm in ALGORITHMS
        for store in STORES
        if (littlefs is not None or STORES[store][0] == RAW_FLASH) and (store, algorithm) != (SMALL_FILES, "node")
    ]
    with tempfile.TemporaryDirectory() as name, progress("stores", len(cases)) as advance:
        program = build(Path(name), littlefs)
        for store, algorithm in cases:
            kind, sectors, unit, file_bytes = STORES[store]
            memory = (kind, sectors, SECTOR_BYTES, PAGE_BYTES, unit, file_bytes)
            programmed, erases, least, most, log_bytes = cost(program, memory, algorithm, steps, 0)
            found = results[algorithm][store] = {
                "log_bytes": log_bytes,
                "programmed_a_step": programmed / steps,
                "erases_a_step": erases / steps,
                "mean_erases": erases / sectors,
                "least_erases": least,
                "most_erases": most,
            }
            slept = steps // 10
            programmed, erases, *_ = cost(program, memory, algorithm, slept, 1)
            found["sleeping_programmed_a_step"] = programmed / slept
            found["sleeping_erases_a_step"] = erases / slept
            found["sleeping_erases_a_year"] = erases / slept / sectors * STEPS_A_YEAR
            advance(1)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, metavar="N", help="steps of all runs (100000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        print("SKIPPED: no gcc or no g++", file=sys.stderr)
        return
    littlefs = os.environ.get("LITTLEFS_DIR")
    if littlefs is None:
        print("left out: stores on littlefs, LITTLEFS_DIR is not set", file=sys.stderr)
    results = measure(arguments.steps, littlefs)
    if arguments.json:
        json.dump(results, sys.stdout, indent=2)
        return
    for algorithm, stores in results.items():
        table = Table(title=f"{algorithm}, {arguments.steps:,} steps")
        columns = ("log", "programmed a step", "erases a step", "erases of a sector", "mean")
        for column in ("store", *columns, "a year asleep"):
            table.add_column(column, justify="left" if column == "store" else "right")
        for store, found in stores.items():
            table.add_row(
                store,
                f"{found['log_bytes']:,} B",
                f"{found['programmed_a_step']:,.1f} B",
                f"{found['erases_a_step']:.4f}",
                f"{found['least_erases']:,} to {found['most_erases']:,}",
                f"{found['mean_erases']:,.1f}",
                f"{found['sleeping_erases_a_year']:,.0f}",
            )
        Console().print(table)


if __name__ == "__main__":
    main()
