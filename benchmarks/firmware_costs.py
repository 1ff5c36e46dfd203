# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of weight perturbation on Cortex-M cores: instructions and memory, as ratios to inference.

    TFLM_DIR=path/to/tflite-micro python benchmarks/firmware_costs.py lenet5.tflite kws_ref_model.tflite …

For each int8 classifier and core, two programs are built as a user builds a generated folder and run under
the emulator, which counts every instruction: one infers with the original model, one trains all weights with
8-bit updates. TFLM's own Makefile must have built its library for the core, with CMSIS-NN's kernels; cores whose
library is missing are skipped with a message. Minibatch 1, samples of noise from flash, whose values do not
matter. plan.py beside it has the other algorithms.

* query: an SPSA query (two forward passes and losses, perturbing, restoring, its share of the update), with 4
  queries a step and with 1, divided by two inferences of the original model;
* beyond weights: arena of the ZO model, less the original's, less the weights;
* state: RAM besides the arena and TFLM's own interpreter object;
* stack: the most that two steps take, TFLM's kernels included.

Without models the LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from harness import HEADROOM, add_models_argument, chosen_models, progress
from harness.libraries import built_libraries
from rich.console import Console
from rich.table import Table

from tflm_zo import inject
from tflm_zo.converters import Model, read_metadata
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Settings, Weights

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cortex_m.emulator import CORES, COUNTING_SOURCE, compile_objects, counting_flags, run
from tflm_checkout.firmware_build import LIBRARIES, Library, build_firmware, replace_main

HERE = Path(__file__).parent / "harness" / "firmware"
QUERIES = (4, 1)
SAMPLES = 4
#: Steps that are counted, after two by which the stack is measured; the first has no update before it.
STEPS = 3


def noise(model: Model) -> Data:
    """Samples of the right size, in flash."""
    shape = model.subgraphs[0].inputs[0].shape
    rng = np.random.default_rng(0)
    return Data([rng.integers(-128, 128, (SAMPLES, *shape[1:])).astype(np.int8)], np.zeros(SAMPLES, np.int32))


def program(library: Library, folder: Path, main: str, *, plain: Model | None = None) -> dict[str, list[int]]:
    """Builds a generated folder with a main of this benchmark and runs it. Returns its output by first word.

    Args:
        library: TFLM's.
        folder: the generated folder.
        main: file of the main.
        plain: model that it infers with, for the main that does.
    """
    core = CORES[library.core]
    replace_main(folder, (HERE / main).read_text())
    header = COUNTING_SOURCE.with_suffix(".h")
    (folder / header.name).write_text(header.read_text())
    if plain is not None:
        data = plain.to_bytes()
        rows = (", ".join(map(str, data[i : i + 24])) for i in range(0, len(data), 24))
        lines = ",\n".join(rows)
        (folder / "plain_model_data.h").write_text(
            f"alignas(16) constexpr unsigned char kPlainModel[] = {{\n{lines}}};\n"
        )
    (counting,) = compile_objects(core, [COUNTING_SOURCE], folder / "counting", ["-O2", *counting_flags(core)])
    built = build_firmware(library, folder, folder / "build", objects=[counting])
    found: dict[str, list[int]] = {}
    for line in run(core, built, counting=True, timeout=900).splitlines():
        word, _, value = line.partition(" ")
        found.setdefault(word, []).append(int(value))
    return found


def measure(model: Model, library: Library, folder: Path) -> dict[str, float]:
    """Measures inference of the original, and SPSA on all weights."""
    zo = inject(model, trainable="all", nodes=(), headroom=HEADROOM, update_bits=8, replay=False)
    trainable = sum(t.size for t in read_metadata(zo).trainable)
    found: dict[str, float] = {"weights": trainable}
    for queries in QUERIES:
        settings = Settings(tasks=(Weights(queries=queries),), batch_size=1)
        made = generate_firmware(zo, settings, steps=2 + STEPS, samples=SAMPLES, name="model", data=noise(model))
        made.write(folder / f"q{queries}")
        if not found.get("inference"):
            made.write(folder / "plain")
            plain = program(library, folder / "plain", "plain.cc", plain=model)
            found["inference"], found["arena"] = plain["inference"][0], plain["arena"][0]
        cost = program(library, folder / f"q{queries}", "training.cc")
        found[f"query_{queries}"] = statistics.mean(cost["step"]) / queries / 2 / found["inference"]
        found["zo_arena"], found["state"] = cost["arena"][0], cost["state"][0]
        found["stack"] = cost["stack"][0]
    found["beyond_weights"] = found["zo_arena"] - found["arena"] - trainable
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 classifiers")
    with_cmsis_nn = {library.core: library for library in LIBRARIES if library.cmsis_nn}
    parser.add_argument("--cores", nargs="+", choices=with_cmsis_nn, default=list(with_cmsis_nn))
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    models = chosen_models(arguments.models)
    libraries = built_libraries(parser, (with_cmsis_nn[core] for core in arguments.cores))
    results: dict[str, dict[str, dict[str, float]]] = {}
    with progress("measuring", len(models) * len(libraries)) as advance:
        for name, model in models.items():
            for library in libraries:
                with tempfile.TemporaryDirectory() as folder:
                    found = measure(model, library, Path(folder))
                advance(1)
                results.setdefault(name, {})[library.core] = found
    if arguments.json:
        print(json.dumps(results, indent=2))
        return

    Console(width=None if sys.stdout.isatty() else 120).print(table(results))


def table(results: dict[str, dict[str, dict[str, float]]]) -> Table:
    made = Table(title="Weight perturbation: all weights, minibatch 1, 8-bit update")
    queries = [f"query, {q} a step" for q in QUERIES]
    for column in ("model", "core", "inference", *queries, "arena", "ZO arena", "beyond weights", "state", "stack"):
        made.add_column(column, justify="left" if column in ("model", "core") else "right")
    for name, cores in results.items():
        for core, r in cores.items():
            made.add_row(
                *(name, core, f"{r['inference']:,.0f}", *(f"{r[f'query_{q}']:.3f}" for q in QUERIES)),
                *(f"{r[k]:,.0f}" for k in ("arena", "zo_arena", "beyond_weights", "state", "stack")),
            )
    return made


if __name__ == "__main__":
    main()
