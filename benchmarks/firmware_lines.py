# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Lines of the generated op pack, and the functions that a linker sees of it.

    python benchmarks/firmware_lines.py lenet5.tflite kws_ref_model.tflite …

A folder is generated for each model and run: node perturbation, node perturbation with exact last layers, and
weight perturbation, for CMake, which leaves the core open, and for ESP-IDF, whose cores are no Arm.

* header, internal, source: lines of the op pack's files, `zo_ops.h`, `zo_ops_internal.h`, `zo_ops.c`;
* functions: functions of the source that are not static, as this machine's compiler (gcc) sees them.

Without models the LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import add_models_argument, chosen_models, progress
from rich.console import Console
from rich.table import Table

from tflm_zo import inject
from tflm_zo.converters import ConversionError, Model
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Exact, Nodes, Settings, algorithms, inject_settings

RUNS = {
    "nodes": algorithms.node(batch_size=16, learning_rate=1.0),
    "nodes, exact last layers": Settings(tasks=(Nodes(), Exact(last=4)), batch_size=16, learning_rate=1.0),
    "weights": algorithms.weight(batch_size=16, learning_rate=1.0),
}
PLATFORMS = ("cmake", "esp-idf")


def measure(model: Model, settings: Settings, platform: str) -> dict[str, int]:
    """Lines of each file, and the number of functions."""
    zo = inject(model, inject_settings(settings, batch=1))
    made = generate_firmware(zo, settings, steps=100, samples=100, name="model", platform=platform)
    texts = {Path(path).name: text for path, text in made.files.items()}
    files = {"header": "zo_ops.h", "internal": "zo_ops_internal.h", "source": "zo_ops.c"}
    with tempfile.TemporaryDirectory() as folder:
        for name in files.values():
            Path(folder, f"model_{name}").write_text(texts[f"model_{name}"])
        subprocess.run(["gcc", "-std=c99", "-c", "model_zo_ops.c"], cwd=folder, check=True)
        said = subprocess.run(["nm", "model_zo_ops.o"], cwd=folder, check=True, capture_output=True, text=True)
    lines = {name: texts[f"model_{file}"].count("\n") for name, file in files.items()}
    return {**lines, "functions": len(re.findall(" T ", said.stdout))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 classifiers")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    models = chosen_models(arguments.models)
    results: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    with progress("generating", len(models) * len(RUNS) * len(PLATFORMS)) as advance:
        for name, model in models.items():
            for run, settings in RUNS.items():
                for platform in PLATFORMS:
                    try:
                        found = measure(model, settings, platform)
                    except ConversionError as error:
                        print(f"{name}, {run}: {error}", file=sys.stderr)
                    else:
                        results.setdefault(name, {}).setdefault(run, {})[platform] = found
                    advance(1)
    if arguments.json:
        print(json.dumps({"models": results}, indent=2))
        return
    table = Table(title="Lines of the op pack")
    for column in ("model", "run", "platform", "header", "internal", "source", "functions"):
        table.add_column(column, justify="left" if column in ("model", "run", "platform") else "right")
    for name, runs in results.items():
        for run, platforms in runs.items():
            for platform, found in platforms.items():
                table.add_row(name, run, platform, *(f"{value:,}" for value in found.values()))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main()
