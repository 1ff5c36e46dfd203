# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Estimates of `tflm-zo plan`, beside measurements of generated firmware on emulated cores.

    TFLM_DIR=path/to/tflite-micro python benchmarks/plan.py kws_ref_model.tflite vww_96_int8.tflite …

For each int8 model and core, three programs are built as a user builds a generated folder and run under the
emulator: node perturbation with 16-bit updates and minibatches of 4, the same of the better of two blocks of
layers, and weight perturbation of all weights with minibatches of 1. A model whose nodes are in one layer has
no blocks.

* RAM: the linker's sections, and the stack during two steps;
* instructions: of a step, the mean of four; if a block is chosen, of the chosen one, and of the choice.

Samples are MNIST's, or CIFAR-10's in fog, if the model's input has their shape and TFLM_ZO_DATA names a
folder with mnist10k.npz or cifar10.npz, else noise. Pictures that a network already knows cost less: if
both sides of a query have the same loss, nothing is summed up. TFLM's own Makefile must have built its
library for the core, with CMSIS-NN's kernels; cores whose library is missing are skipped with a message. Without
models the LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from firmware_costs import program
from harness import add_models_argument, chosen_models, progress
from harness.libraries import built_libraries
from rich.console import Console
from rich.table import Table

import tflm_zo as zo
from tflm_zo.converters import Model, read_metadata
from tflm_zo.data import Data
from tflm_zo.firmware import BlockSearch, generate_firmware
from tflm_zo.firmware.planning import plan_run
from tflm_zo.planner import Cost
from tflm_zo.planner.instructions import Instructions, clamped_shares

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tflm_checkout.firmware_build import LIBRARIES, Library

CORES_OF_PLANS = ("cortex-m4", "cortex-m55")
#: The choice of a block: four samples to train on, four to judge by.
SEARCH = BlockSearch(blocks=2, held_out=0.5, epochs=2)
SAMPLES = 8
BLOCKS = f"nodes, best of {SEARCH.blocks} blocks"
#: Name of a way and samples of its minibatch.
WAYS = {"nodes": 4, BLOCKS: 4, "weights": 1}
STEPS = 4
_OF_SHAPE = {(28, 28, 1): "mnist10k.npz", (32, 32, 3): "cifar10.npz"}


def samples_of(model: Model) -> Data:
    """Samples in flash: pictures if there are some, else noise."""
    metadata = read_metadata(zo.inject(model))
    loss = metadata.loss
    assert loss is not None
    shape = tuple(model.subgraphs[0].inputs[0].shape[1:])
    file = Path(os.environ.get("TFLM_ZO_DATA", "."), _OF_SHAPE.get(shape, "none"))
    count = SAMPLES
    if file.is_file():
        data = np.load(file)
        x, y = data["x"][:count].reshape(count, *shape).astype(float), data["y"][:count]
        if shape == (32, 32, 3):
            x = np.round(0.4 * x + 120)
        return Data([(x - 128).astype(np.int8)], y.astype(np.int32))
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (count, *shape)).astype(np.int8)
    if loss.kind == "mse":
        return Data([x], x.reshape(count, -1))
    return Data([x], np.arange(count, dtype=np.int32) % loss.elements)


def linked(folder: Path) -> int:
    """Reads the bytes of RAM that the linker has reserved in the program of a folder."""
    said = subprocess.run(
        ["arm-none-eabi-size", "-A", folder / "build" / "model"], capture_output=True, text=True, check=True
    ).stdout
    sizes = (line.split() for line in said.splitlines())
    return sum(int(words[1]) for words in sizes if words and words[0] in (".data", ".bss"))


def measure(cost: Cost, batch_size: int, data: Data, library: Library, folder: Path) -> dict[str, Any]:
    """Compares the estimate of a method with its firmware."""
    way = cost.way
    settings = dataclasses.replace(way.settings, batch_size=batch_size, learning_rate=1.0)
    made = generate_firmware(
        way.zo, settings, steps=2 + STEPS, samples=len(data.labels), name="model", data=data, search=way.search
    )
    made.write(folder)
    found = program(library, folder, "training.cc", chooses=way.search is not None)
    own = Instructions(library.core, "cmsis_nn")
    if blocks := cost.sizes.run.blocks:
        settings = dataclasses.replace(settings, layers=blocks[found["best"][0]].layers)
    run = plan_run(way.zo, settings, steps=1, samples=len(data.labels))
    result = {
        "ram": linked(folder) + found["stack"][0],
        "ram_foretold": cost.ram,
        "instructions": statistics.mean(found["step"]),
        "instructions_foretold": own.step(way.zo, way.metadata, run, clamped_shares(way.zo)),
    }
    if cost.choice is not None:
        result |= {"choice": sum(found["probe"]), "choice_foretold": cost.choice * len(data.labels)}
    return result


def planned(model: Model, core: str) -> dict[str, Cost]:
    """Estimates the measured methods with 16-bit updates, by name."""
    try:
        plan = zo.plan(model, core=core, search=SEARCH)
    except zo.SettingsError:
        plan = zo.plan(model, core=core)  # fewer layers with nodes than blocks
    return {
        c.way.name: c
        for c in plan.costs
        if c.way.update_bits == 16
        and c.way.name in WAYS
        and (c.way.name == "weights" or c.way.settings.batch_size == WAYS[c.way.name])
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 models")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    wanted = (one for one in LIBRARIES if one.cmsis_nn and one.core in CORES_OF_PLANS)
    libraries = built_libraries(parser, wanted)
    models = chosen_models(arguments.models)
    results: dict[str, dict[str, dict[str, Any]]] = {}
    with progress("measuring", len(models) * len(libraries) * len(WAYS)) as advance:
        for name, model in models.items():
            data = samples_of(model)
            for library in libraries:
                costs = planned(model, library.core)
                for way, batch_size in WAYS.items():
                    if way not in costs:
                        advance(1)
                        continue
                    cost = costs[way]
                    with tempfile.TemporaryDirectory() as folder:
                        found = measure(cost, batch_size, data, library, Path(folder) / "firmware")
                    results.setdefault(name, {}).setdefault(library.core, {})[way] = found
                    advance(1)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    Console(width=None if sys.stdout.isatty() else 120).print(table(results))


def table(results: dict[str, dict[str, dict[str, Any]]]) -> Table:
    made = Table(title="What is foretold, and what firmware takes")
    for column in ("model", "core", "trains by", "RAM", "foretold", "more", "instructions", "foretold", "more"):
        made.add_column(column, justify="left" if column in ("model", "core", "trains by") else "right")
    for name, cores in results.items():
        for core, ways in cores.items():
            for way, r in ways.items():
                ram = f"{r['ram']:,}", f"{r['ram_foretold']:,}", f"{r['ram_foretold'] - r['ram']:+,}"
                made.add_row(name, core, way, *ram, *_compared(r["instructions"], r["instructions_foretold"]))
                if "choice" in r:
                    choice = _compared(r["choice"], r["choice_foretold"])
                    made.add_row(name, core, "choice of the block", "", "", "", *choice)
    return made


def _compared(found: float, foretold: float) -> tuple[str, str, str]:
    return f"{found:,.0f}", f"{foretold:,.0f}", f"{foretold / found - 1:+.1%}"


if __name__ == "__main__":
    main()
