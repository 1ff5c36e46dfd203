# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Flash of a Cortex-M4 that training takes beyond inference.

    TFLM_DIR=path/to/tflite-micro python benchmarks/firmware_flash.py lenet5.tflite kws_ref_model.tflite …

For each int8 classifier, programs are linked as a user links a generated folder, its sources at -Os, with the
library that TFLM's own Makefile has built with CMSIS-NN's kernels: one that infers with the original model
(tests/tflm_checkout/inferring.cc), and one for each algorithm, with its defaults. The latter trains the
model, logs its steps, evaluates, predicts and exports the weights (training.cc beside it). Nothing is run.

* inference: bytes of code, constants and initial values of the one that infers;
* training: the bytes of the training program less those of the inferring one, by part of the linker's map:
  the op pack's core, the trainer, the operators' glue, the tables of model and run, and the rest of TFLM and
  the C library.

The programs' own code is in neither, nor is a model's data: graph, weights, factors of channels.

--symbols prints each function and constant that training adds. Without models the LeNet-5 of the tests, with
random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from harness import add_models_argument, chosen_models, progress
from rich.console import Console
from rich.table import Table

from tflm_zo.training import algorithms

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tflm_checkout.firmware_build import Library
from tflm_checkout.flash import PARTS, Flash, inferring, training

ALGORITHMS = {
    "weight perturbation": algorithms.weight,
    "node perturbation": algorithms.node,
    "exact gradients": algorithms.exact,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 classifiers")
    parser.add_argument("--symbols", action="store_true", help="also print the size of each part")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    library = Library("cortex-m4", cmsis_nn=True)
    if "TFLM_DIR" not in os.environ:
        parser.error("set TFLM_DIR to a checkout of tflite-micro whose libraries its own Makefile has built")
    if why := library.why_not():
        parser.error(why)

    models = chosen_models(arguments.models)
    results: dict[str, tuple[Flash, dict[str, Flash]]] = {}
    with progress("linking", len(models) * (1 + len(ALGORITHMS))) as advance:
        for name, model in models.items():
            with tempfile.TemporaryDirectory() as folder:
                plain = inferring(model, library, Path(folder) / "plain")
                advance(1)
                found = {}
                for algorithm, settings in ALGORITHMS.items():
                    own = training(model, settings(learning_rate=1.0), library, Path(folder) / algorithm[:4])
                    found[algorithm] = own.minus(plain)
                    advance(1)
            results[name] = plain, found
    if arguments.json:
        print(json.dumps({name: as_json(*r) for name, r in results.items()}, indent=2))
        return

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(results))
    if arguments.symbols:
        for name, (_, found) in results.items():
            for algorithm, flash in found.items():
                console.print(f"\n{name}, {algorithm}:")
                for (part, symbol), size in sorted(flash.symbols.items(), key=lambda i: -i[1]):
                    console.print(f"{size:6,} {part:10} {symbol}", highlight=False, soft_wrap=True)


def as_json(plain: Flash, found: dict[str, Flash]) -> dict[str, object]:
    """Returns bytes of inference, and each algorithm's additional bytes by part."""
    return {
        "inference": plain.total,
        **{a: {"total": f.total, **{part: f.of(part) for part in PARTS}} for a, f in found.items()},
    }


def table(results: dict[str, tuple[Flash, dict[str, Flash]]]) -> Table:
    made = Table(title="Flash beyond inference, Cortex-M4, -Os, bytes")
    for column in ("model", "inference", "algorithm", "with training", "training", *PARTS):
        made.add_column(column, justify="left" if column in ("model", "algorithm") else "right")
    for name, (plain, found) in results.items():
        for algorithm, flash in found.items():
            sizes = (plain.total + flash.total, flash.total, *(flash.of(part) for part in PARTS))
            made.add_row(name, f"{plain.total:,}", algorithm, *(f"{size:,}" for size in sizes))
    return made


if __name__ == "__main__":
    main()
