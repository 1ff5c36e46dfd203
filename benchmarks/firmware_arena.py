# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How much more arena a generated folder has than its build needs, on emulated Cortex-M cores.

    TFLM_DIR=path/to/tflite-micro python benchmarks/firmware_arena.py kws_ref_model.tflite …

Needs the same programs as tests/tflm_checkout: a checkout of tflite-micro, qemu-system-arm and Debian's
cross-compiler. TFLM's own Makefile must have built its library for the core, with CMSIS-NN's kernels or with
its reference kernels; the benchmark reports and skips missing ones. Each model is injected for weight
perturbation (all weights, in one segment) and for node perturbation (in as many segments as its layers ask
for), with 16-bit updates.

* needed: the least that `Init` takes, in steps of 16 bytes;
* given: `ZO_ARENA_BYTES` of the folder;
* over: given less needed, at least 0 and at most the larger of 1 KiB and 5 %.

Without models, those of the tests are measured. The exit code is 1 if a folder gives too little or too
much.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import chosen_models, progress
from harness.libraries import built_libraries
from rich.console import Console
from rich.table import Table

from tflm_zo import inject
from tflm_zo.converters import ConversionError, Model, load_model
from tflm_zo.firmware import Firmware, generate_firmware
from tflm_zo.training import algorithm, inject_settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cortex_m.emulator import CORES, run
from helpers.models import MODELS
from tflm_checkout.firmware_build import LIBRARIES, Library, build_firmware, replace_main

PROGRAM = Path(__file__).parent / "harness" / "firmware" / "arena.cc"
RUNS = ("weight", "node")


def generated(models: dict[str, Model]) -> dict[tuple[str, str], Firmware]:
    """Generates folders by model and run. Reports and skips models that are refused."""
    found = {}
    for name, model in models.items():
        for kind in RUNS:
            try:
                zo = inject(model, inject_settings(algorithm(kind), batch=1))
                found[name, kind] = generate_firmware(zo, steps=1, samples=1)
            except ConversionError as error:
                print(f"{name}, {kind}: {error}", file=sys.stderr)
    return found


def measure(made: Firmware, library: Library, folder: Path) -> dict[str, int]:
    """Measures the bytes that a build needs, and the bytes that it is given. Files that a folder shares with
    another model are not compiled again.
    """
    source, build = folder / "firmware", folder / "build"
    made.write(source, force=True)
    replace_main(source, PROGRAM.read_text())
    printed = run(CORES[library.core], build_firmware(library, source, build), timeout=300)
    lines = (line.split() for line in printed.splitlines())
    return {word: int(value) for word, value in lines}


def within(found: dict[str, int]) -> bool:
    """Returns True if a folder gives enough, and not too much."""
    return 0 <= found["given"] - found["least"] <= max(1024, found["least"] // 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="int8 models (.tflite); none: those of the tests")
    names = [library.name for library in LIBRARIES]
    parser.add_argument("--libraries", nargs="+", choices=names, default=names)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    libraries = built_libraries(parser, (one for one in LIBRARIES if one.name in arguments.libraries))
    tests = {name: load_model(make()) for name, make in MODELS.items()}
    folders = generated(chosen_models(arguments.models) if arguments.models else tests)
    results: list[dict[str, Any]] = []
    with progress("measuring", len(folders) * len(libraries)) as advance, tempfile.TemporaryDirectory() as folder:
        for (name, kind), made in folders.items():
            for library in libraries:
                place = Path(folder) / kind / library.name
                place.mkdir(parents=True, exist_ok=True)
                found = measure(made, library, place)
                results.append({"model": name, "run": kind, "library": library.name, **found})
                advance(1)
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        table = Table(title="Arena, bytes")
        for column in ("model", "run", "library", "needed", "given", "over"):
            table.add_column(column, justify="right" if column in ("needed", "given", "over") else "left")
        for r in results:
            over = r["given"] - r["least"]
            told = f"{over:,} ({100 * over / r['least']:.1f} %){'' if within(r) else ' !'}"
            table.add_row(r["model"], r["run"], r["library"], f"{r['least']:,}", f"{r['given']:,}", told)
        Console().print(table)
    sys.exit(0 if all(map(within, results)) else 1)


if __name__ == "__main__":
    main()
