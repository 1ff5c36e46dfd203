# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of training on Cortex-M cores: instructions and memory, as ratios to inference.

    TFLM_DIR=path/to/tflite-micro python benchmarks/firmware_costs.py lenet5.tflite kws_ref_model.tflite …

For each int8 classifier and core, two programs are built as a user builds a generated folder and run under
the emulator, which counts every instruction: one infers with the original model, one trains. TFLM's own
Makefile must have built its library for the core, with CMSIS-NN's kernels; cores whose library is missing are
skipped with a message. Minibatch 1, samples of noise from flash, whose values do not matter.

Weight perturbation of all weights, 8-bit update:

* query: an SPSA query (two forward passes and losses, perturbing, restoring, its share of the update), with 4
  queries a step and with 1, divided by two inferences of the original model;
* beyond weights: arena of the ZO model, less the original's, less the weights;
* state: RAM besides the arena and TFLM's own interpreter object;
* stack: the most that two steps take, TFLM's kernels included.

Node perturbation with the defaults of `tflm-zo train`, 16-bit update:

* weights: share of the model's weights that it trains;
* step: instructions of a complete step of one sample, and divided by one inference;
* arena, workspace, state, stack: RAM.

Without models the LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADROOM, add_models_argument, chosen_models, progress
from harness.libraries import built_libraries
from rich.console import Console
from rich.table import Table

from tflm_zo import inject
from tflm_zo.converters import Model, read_metadata
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Settings, Weights, algorithms, inject_settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cortex_m.emulator import CORES, COUNTING_SOURCE, compile_objects, counting_flags, run
from tflm_checkout.firmware_build import LIBRARIES, Library, build_firmware, replace_main

HERE = Path(__file__).parent / "harness" / "firmware"
QUERIES = (4, 1)
SAMPLES = 4
#: Steps that are counted, after two by which the stack is measured; the first has no update before it.
STEPS = {"weight": 3, "node": 8}


def noise(model: Model) -> Data:
    """Samples of the right size, in flash."""
    shape = model.subgraphs[0].inputs[0].shape
    rng = np.random.default_rng(0)
    return Data([rng.integers(-128, 128, (SAMPLES, *shape[1:])).astype(np.int8)], np.zeros(SAMPLES, np.int32))


def program(
    library: Library, folder: Path, main: str, *, plain: Model | None = None, chooses: bool = False
) -> dict[str, list[int]]:
    """Builds a generated folder with a main of this benchmark and runs it. Returns its output by first word.

    Args:
        library: TFLM's.
        folder: the generated folder.
        main: file of the main.
        plain: model that it infers with, for the main that does.
        chooses: True if the folder's run chooses a block.
    """
    core = CORES[library.core]
    replace_main(folder, ("#define CHOOSES\n" if chooses else "") + (HERE / main).read_text())
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


def run_of(kind: str, model: Model) -> dict[str, Any]:
    """Returns further arguments of `generate_firmware`, besides model and settings."""
    return {"steps": 2 + STEPS[kind], "samples": SAMPLES, "name": "model", "data": noise(model)}


def measure_weights(model: Model, library: Library, folder: Path) -> dict[str, float]:
    """Measures inference of the original, and SPSA on all weights."""
    zo = inject(model, trainable="all", nodes=(), headroom=HEADROOM, update_bits=8, replay=False)
    trainable = sum(t.size for t in read_metadata(zo).trainable)
    found: dict[str, float] = {"weights": trainable}
    for queries in QUERIES:
        settings = Settings(tasks=(Weights(queries=queries),), batch_size=1)
        made = generate_firmware(zo, settings, **run_of("weight", model))
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


def measure_nodes(model: Model, library: Library, folder: Path) -> dict[str, float]:
    """Measures a step of the default algorithm with its defaults, but a minibatch of one sample."""
    settings = algorithms.node(batch_size=1, learning_rate=1.0)
    zo = inject(model, inject_settings(settings, batch=1))
    made = generate_firmware(zo, settings, **run_of("node", model))
    made.write(folder)
    cost = program(library, folder, "training.cc")
    return {
        "trained": sum(t.size for t in read_metadata(zo).trainable) / weights_of(model),
        "step": statistics.mean(cost["step"]),
        "arena": cost["arena"][0],
        "workspace": cost["workspace"][0],
        "state": cost["state"][0],
        "stack": cost["stack"][0],
    }


def weights_of(model: Model) -> int:
    """Counts the weights of all filters."""
    zo = inject(model, trainable="all", nodes=())
    return sum(t.size for t in read_metadata(zo).trainable)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 classifiers")
    with_cmsis_nn = {library.core: library for library in LIBRARIES if library.cmsis_nn}
    parser.add_argument("--cores", nargs="+", choices=with_cmsis_nn, default=list(with_cmsis_nn))
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    models = chosen_models(arguments.models)
    libraries = built_libraries(parser, (with_cmsis_nn[core] for core in arguments.cores))
    results: dict[str, dict[str, dict[str, Any]]] = {}
    with progress("measuring", 2 * len(models) * len(libraries)) as advance:
        for name, model in models.items():
            for library in libraries:
                with tempfile.TemporaryDirectory() as folder:
                    found: dict[str, Any] = measure_weights(model, library, Path(folder))
                    advance(1)
                    found["nodes"] = measure_nodes(model, library, Path(folder) / "nodes")
                    advance(1)
                results.setdefault(name, {})[library.core] = found
    if arguments.json:
        print(json.dumps(results, indent=2))
        return

    for table in tables(results):
        Console(width=None if sys.stdout.isatty() else 120).print(table)


def tables(results: dict[str, dict[str, dict[str, Any]]]) -> tuple[Table, Table]:
    """Makes the tables of weight perturbation and of node perturbation."""
    weight = Table(title="Weight perturbation: all weights, minibatch 1, 8-bit update")
    node = Table(title="Node perturbation: the defaults of train, minibatch 1, 16-bit update")
    queries = [f"query, {q} a step" for q in QUERIES]
    for table, columns in (
        (weight, ("inference", *queries, "arena", "ZO arena", "beyond weights", "state", "stack")),
        (node, ("weights", "step", "/ inference", "arena", "workspace", "state", "stack")),
    ):
        for column in ("model", "core", *columns):
            table.add_column(column, justify="left" if column in ("model", "core") else "right")
    for name, cores in results.items():
        for core, r in cores.items():
            own = r["nodes"]
            weight.add_row(
                *(name, core, f"{r['inference']:,.0f}", *(f"{r[f'query_{q}']:.3f}" for q in QUERIES)),
                *(f"{r[k]:,}" for k in ("arena", "zo_arena", "beyond_weights", "state", "stack")),
            )
            node.add_row(
                *(name, core, f"{own['trained']:.0%}", f"{own['step']:,.0f}"),
                f"{own['step'] / r['inference']:.2f}",
                *(f"{own[k]:,}" for k in ("arena", "workspace", "state", "stack")),
            )
    return weight, node


if __name__ == "__main__":
    main()
