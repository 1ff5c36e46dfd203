# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What training takes on Cortex-M cores, by each algorithm and minibatch, and what `tflm-zo plan` foretells.

    TFLM_DIR=path/to/tflite-micro python benchmarks/plan.py kws_ref_model.tflite vww_96_int8.tflite …

For each int8 model and core, programs are built as a user builds a generated folder and run under the
emulator: weight perturbation of all weights (8-bit updates), node perturbation and exact gradients with their
defaults (16-bit updates) and several minibatches, and exact gradients of one sample in the least memory
(`firmware --ram`).

* trained: the share of the weights;
* RAM: the linker's sections, and the stack during two steps;
* instructions of a sample: of a step, the mean of four, divided by its samples, and by the estimate of an
  inference of the original model;
* float32: bytes of backpropagation in float32 in the same layers, by the equations of ElasticZO.

Samples are MNIST's, or CIFAR-10's in fog, if the model's input has their shape and TFLM_ZO_DATA names a
folder with mnist10k.npz or cifar10.npz, else noise. Pictures that a network already knows cost less: if
both sides of a query have the same loss, nothing is summed up. Samples of a streaming model are sequences of
--sequence steps, which weights alone train. TFLM's own Makefile must have built its
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
from tflm_zo.converters.states import is_streaming
from tflm_zo.data import Data, Inputs, prepare
from tflm_zo.firmware import generate_firmware
from tflm_zo.firmware.boundaries import boundaries_of, saving_memory
from tflm_zo.firmware.device_model import device_model
from tflm_zo.firmware.planning import plan_run
from tflm_zo.planner.instructions import Instructions, clamped_shares
from tflm_zo.planner.ways import backpropagation
from tflm_zo.training import Settings, algorithms, inject_settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tflm_checkout.firmware_build import LIBRARIES, Library

CORES_OF_PLANS = ("cortex-m4", "cortex-m55")
SAMPLES = 8
STEPS = 4
LEAST = "exact gradients, least memory"
#: Settings of a run without further options, and samples of its minibatch, by name.
RUNS: dict[str, tuple[Settings, int]] = {
    "weights": (algorithms.weight(), 1),
    **{f"nodes, {n}": (algorithms.node(), n) for n in (1, 4, 8, 16)},
    **{f"exact gradients, {n}": (algorithms.exact(), n) for n in (1, 4, 16)},
    LEAST: (algorithms.exact(), 1),
}
_OF_SHAPE = {(28, 28, 1): "mnist10k.npz", (32, 32, 3): "cifar10.npz"}


def samples_of(model: Model, sequence: int) -> Data:
    """Samples in flash: pictures if there are some, else noise. Samples of a streaming model are sequences."""
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
    steps = (sequence,) if is_streaming(model) else ()
    x = rng.integers(-128, 128, (count, *steps, *shape)).astype(np.int8)
    if loss.kind == "mse":
        return Data([x], x.reshape(count, -1))
    if steps:
        return prepare(Inputs(zo.inject(model, trainable="none")), x, np.arange(count) % 2)
    return Data([x], np.arange(count, dtype=np.int32) % loss.elements)


def linked(folder: Path) -> int:
    """Reads the bytes of RAM that the linker has reserved in the program of a folder."""
    said = subprocess.run(
        ["arm-none-eabi-size", "-A", folder / "build" / "model"], capture_output=True, text=True, check=True
    ).stdout
    sizes = (line.split() for line in said.splitlines())
    return sum(int(words[1]) for words in sizes if words and words[0] in (".data", ".bss"))


def measure(run: str, model: Model, library: Library, folder: Path, sequence: int) -> dict[str, Any]:
    """Compares the estimate of a run with its firmware.

    Raises:
        ConversionError, SettingsError: the model has no such run.
    """
    usual, batch_size = RUNS[run]
    # A rate that leaves the network as it is: one that has lost its activations has errors of 0, which cost less.
    settings = dataclasses.replace(usual, batch_size=batch_size, learning_rate=0.01)
    bits = 8 if settings.perturbs_weights_alone else 16
    made_for = zo.inject(model, inject_settings(settings, batch=1, update_bits=bits))
    metadata, data = read_metadata(made_for), samples_of(model, sequence)
    instructions = Instructions(library.core, "cmsis_nn")
    memory, again = None, 0.0
    if run == LEAST:
        usual_device = device_model(made_for, plan_run(made_for, settings, steps=1, samples=1))
        saving = saving_memory(made_for, metadata, usual_device, 0)
        memory = saving.plan.memory
        again = instructions.reruns(made_for, boundaries_of(made_for, metadata, saving).reruns)
    made = generate_firmware(
        made_for,
        settings,
        steps=2 + STEPS,
        samples=len(data.labels),
        name="model",
        data=data,
        memory=memory,
    )
    made.write(folder)
    found = program(library, folder, "training.cc")
    lowered = plan_run(made_for, settings, steps=1, samples=len(data.labels))
    step = instructions.step(made_for, metadata, lowered, clamped_shares(made_for), data.steps) + again
    trained = {metadata.trainable[i].name for i in lowered.tensors} or {t.name for t in metadata.trainable}
    weights = {t.name: t.size for t in read_metadata(zo.inject(model, trainable="all", nodes=())).trainable}
    ram = made.ram
    own = ram.arena.bytes_mve if library.core == "cortex-m55" else ram.arena.bytes
    return {
        "trained": sum(size for name, size in weights.items() if name in trained) / sum(weights.values()),
        "ram": linked(folder) + found["stack"][0],
        "ram_foretold": ram.bytes_with(own),
        "instructions": statistics.mean(found["step"]) / batch_size,
        "instructions_foretold": step / batch_size,
        "inferences": statistics.mean(found["step"]) / batch_size / instructions.inference(model),
        "float32": backpropagation(model, trained, batch_size).float32,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 models")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN")
    parser.add_argument("--cores", nargs="+", choices=CORES_OF_PLANS, default=CORES_OF_PLANS)
    parser.add_argument("--sequence", type=int, default=10, help="steps of a streaming model's samples (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    wanted = (one for one in LIBRARIES if one.cmsis_nn and one.core in arguments.cores)
    libraries = built_libraries(parser, wanted)
    models = chosen_models(arguments.models)
    results: dict[str, dict[str, dict[str, Any]]] = {}
    with progress("measuring", len(models) * len(libraries) * len(arguments.runs)) as advance:
        for name, model in models.items():
            for library in libraries:
                for run in arguments.runs:
                    with tempfile.TemporaryDirectory() as folder:
                        try:
                            found = measure(run, model, library, Path(folder) / "firmware", arguments.sequence)
                        except (zo.ConversionError, zo.SettingsError) as error:
                            print(f"{name}, {run}: {error}", file=sys.stderr)
                        else:
                            results.setdefault(name, {}).setdefault(library.core, {})[run] = found
                    advance(1)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    Console(width=None if sys.stdout.isatty() else 140).print(table(results))


def table(results: dict[str, dict[str, dict[str, Any]]]) -> Table:
    made = Table(title="What firmware takes, and what is foretold")
    columns = ("model", "core", "trains by", "trained", "RAM", "foretold", "more", "float32")
    for column in (*columns, "instructions", "foretold", "more", "/ inference"):
        made.add_column(column, justify="left" if column in ("model", "core", "trains by") else "right")
    for name, cores in results.items():
        for core, runs in cores.items():
            for run, r in runs.items():
                ram = f"{r['ram']:,}", f"{r['ram_foretold']:,}", f"{r['ram_foretold'] - r['ram']:+,}"
                step = _compared(r["instructions"], r["instructions_foretold"])
                sizes = f"{r['trained']:.0%}", *ram, f"{r['float32']:,}"
                made.add_row(name, core, run, *sizes, *step, f"{r['inferences']:.2f}")
    return made


def _compared(found: float, foretold: float) -> tuple[str, str, str]:
    return f"{found:,.0f}", f"{foretold:,.0f}", f"{foretold / found - 1:+.1%}"


if __name__ == "__main__":
    main()
