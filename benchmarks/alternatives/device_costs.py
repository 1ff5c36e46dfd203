# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""RAM, flash and instructions of tflm_zo and its alternatives on an emulated core, a Cortex-M4.

    TFLM_DIR=path/to/tflite-micro python benchmarks/alternatives/device_costs.py [--families watch …]

Each way is a program of its own: the network and the learner, with CMSIS-NN's kernels in TFLM where the network
is int8. The emulator counts every instruction, of real samples.

* ram: the sections that the linker has placed, and the stack;
* flash: code, constants and initial values of the program, the network included, the samples excluded;
* train: instructions of a sample of a step, without the network's pass where embeddings are stored;
* embed: instructions of the network's pass for a stored embedding;
* predict: instructions of an answer, from the embedding where there is one.

A learner's scores after some steps must be those of the same code on this machine, within 1e-5. Samples lie in
flash and do not count as RAM, but for stored embeddings. The C compiler has -O2 and may fuse products and sums.

--library names another core's library of TFLM, by core and kernels. A Cortex-M0+ has no floating point: the
compiler's library computes it.

The rows go to --results, a line each; a later call resumes from there. AIFES_DIR, CMSIS_DSP_DIR and TFLM_ZO_DATA are
as for learning_curves.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from alternatives import ALTERNATIVES, FAMILIES, Alternative, Target
from firmware_costs import program
from harness import progress
from harness.libraries import built_libraries
from learners import SOURCES, Sources, host_learner
from networks import floats

import tflm_zo as zo
from tflm_zo.converters.model import Model
from tflm_zo.converters.model.schema import BuiltinOperator as B
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Settings, algorithms, inject_settings

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from cortex_m.emulator import CORES, COUNTING_SOURCE, Core, compile_objects, counting_flags, link, run
from tflm_checkout.firmware_build import LIBRARIES, Library

Row = dict[str, Any]
#: Samples of the alternatives' programs, and the rate at which they are trained.
SAMPLES, RATE = 8, 0.003
#: The ways of tflm_zo, by their names in learning/compare.py.
RUNGS: dict[str, Settings] = {
    "weight": algorithms.weight(),
    "head-exact": algorithms.last_layer(),
    "node": algorithms.node(),
    "exact": algorithms.exact(),
}


def sections(program_file: Path) -> tuple[int, int]:
    """Returns the bytes that the linker has placed in RAM and in flash."""
    said = subprocess.run(["arm-none-eabi-size", "-A", program_file], capture_output=True, text=True, check=True).stdout
    sizes = {
        words[0]: int(words[1]) for line in said.splitlines() if len(words := line.split()) == 3 and words[1].isdigit()
    }
    flash = sum(sizes.get(name, 0) for name in (".text", ".rodata", ".ARM.extab", ".ARM.exidx", ".init_array", ".data"))
    return sizes.get(".data", 0) + sizes.get(".bss", 0), flash


def of_tflm_zo(name: str, target: Target, library: Library, folder: Path) -> Row:
    """Measures a way of tflm_zo, as a user builds its generated folder."""
    usual = RUNGS[name]
    settings = dataclasses.replace(usual, batch_size=min(usual.batch_size, SAMPLES))
    bits = 8 if settings.perturbs_weights_alone else 16
    made_for = zo.inject(target.model, inject_settings(settings, batch=1, update_bits=bits))
    x, y = target.inputs(target.task.adapt[0][:SAMPLES]), target.task.adapt[1][:SAMPLES].astype(np.int32)
    generate_firmware(made_for, settings, steps=6, samples=len(y), name="model", data=Data([x], y)).write(folder)
    found = program(library, folder, "training.cc")
    ram, flash = sections(folder / "build" / "model")
    return {
        "ram": ram + found["stack"][0],
        "flash": flash - x.nbytes - y.nbytes,
        "train": statistics.mean(found["step"]) / settings.batch_size,
        "minibatch": usual.batch_size,
    }


def samples_header(x: Any, y: Any, rate: float = RATE, **sizes: float) -> str:
    """Returns samples.h: samples and labels, and definitions."""
    kind = "float" if x.dtype == np.float32 else "int8_t"
    rows = [floats(own) if kind == "float" else ", ".join(map(str, own.ravel())) for own in x]
    lines = [f"#define SAMPLES_{name} {value}" for name, value in sizes.items()]
    return "\n".join(
        [
            "#include <stdint.h>",
            f"#define SAMPLES {len(x)}",
            f"#define SAMPLES_RATE {rate:.9f}f",
            *lines,
            f"static const {kind} kSamples[SAMPLES][{x[0].size}] = {{",
            *(f"    {{{row}}}," for row in rows),
            "};",
            f"static const uint8_t kLabels[SAMPLES] = {{{', '.join(map(str, y))}}};",
            "",
        ]
    )


def _flags(sources: Sources, folder: Path) -> list[str]:
    # Objects are kept by their command line, which must tell headers apart.
    known = hashlib.sha256("".join(sources.headers.values()).encode())
    for header in sorted(SOURCES.glob("*.h")):
        known.update(header.read_bytes())
    quiet = [] if sources.own_warnings else ["-w"]
    tag = f"-DSOURCES_OF={known.hexdigest()[:16]}"
    return [
        "-O2",
        "-ffp-contract=fast",
        *quiet,
        *sources.definitions,
        *sources.flags,
        f"-I{SOURCES}",
        f"-I{folder}",
        tag,
    ]


def counted(
    core: Core, sources: Sources, main: str, folder: Path, link_flags: Sequence[str] = ()
) -> tuple[dict[str, list[int]], Path]:
    """Builds a program in a folder and runs it. Returns its output by first word, and its file."""
    folder.mkdir()
    sources.write_headers(folder)
    objects = compile_objects(core, [COUNTING_SOURCE], folder / "counting", ["-O2", *counting_flags(core)])
    objects += compile_objects(core, [*sources.files, SOURCES / main], folder / "objects", _flags(sources, folder))
    built = link(core, objects, folder / "program", link_flags)
    found: dict[str, list[int]] = {}
    for line in run(core, built, counting=True, timeout=900).splitlines():
        word, _, value = line.partition(" ")
        found.setdefault(word, []).append(int(value))
    return found, built


def whole(method: Alternative, target: Target, core: Core, folder: Path) -> Row:
    """Measures a learner that trains the whole network, without TFLM."""
    x, y = target.divided((target.task.adapt[0][:SAMPLES], target.task.adapt[1][:SAMPLES]))
    sources = method.sources(target)
    rate = float(f"{RATE / max(1.0, target.level):.9f}")
    header = samples_header(x, y, rate, CLASSES=target.network.classes)
    sources = dataclasses.replace(sources, headers={**sources.headers, "samples.h": header})
    found, built = counted(core, sources, "whole_program.c", folder)
    learner = host_learner(sources, folder / "host", x[0].size, target.network.classes)
    prepared = learner.prepared(x)
    learner.train(prepared, y, [rate] * len(y))
    return _costs(found, built, x.nbytes + len(y)) | _compared(found, learner.scores(prepared))


#: Methods of TFLM's resolver that add an operator for int8 alone, where there is one.
_OPERATORS = {
    B.ADD: "AddAdd(tflite::Register_ADD_INT8())",
    B.AVERAGE_POOL_2D: "AddAveragePool2D(tflite::Register_AVERAGE_POOL_2D_INT8())",
    B.CONV_2D: "AddConv2D(tflite::Register_CONV_2D_INT8())",
    B.DEPTHWISE_CONV_2D: "AddDepthwiseConv2D(tflite::Register_DEPTHWISE_CONV_2D_INT8())",
    B.FULLY_CONNECTED: "AddFullyConnected(tflite::Register_FULLY_CONNECTED_INT8())",
    B.MAX_POOL_2D: "AddMaxPool2D(tflite::Register_MAX_POOL_2D_INT8())",
    B.MEAN: "AddMean()",
    B.RESHAPE: "AddReshape()",
    B.SOFTMAX: "AddSoftmax(tflite::Register_SOFTMAX_INT8())",
}


def int8_model(model: Model) -> str:
    """Returns int8_model.h: a model and its resolver."""
    names = sorted({_OPERATORS[op.builtin] for op in model.only_graph.operators})
    data = ", ".join(map(str, model.to_bytes()))
    added = "".join(f"  resolver.{name};\n" for name in names)
    return (
        '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"\n'
        f"alignas(16) static constexpr unsigned char kModel[] = {{{data}}};\n"
        f"static constexpr uint32_t kTooSmall = {64 * len(model.only_graph.tensors)};\n"
        f"using Resolver = tflite::MicroMutableOpResolver<{len(names)}>;\n"
        f"static void AddOperators(Resolver& resolver) {{\n{added}}}\n"
    )


def _with_tflm(sources: Sources, library: Library) -> tuple[Sources, list[str]]:
    """Returns the sources with TFLM's include folders and definitions, and the linker's flags."""
    checkout = Path(os.environ["TFLM_DIR"])
    downloads = checkout / "tensorflow" / "lite" / "micro" / "tools" / "make" / "downloads"
    folders = checkout, downloads / "flatbuffers" / "include", downloads / "gemmlowp", downloads / "ruy"
    flags = ["-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS", *(["-DCMSIS_NN"] if library.cmsis_nn else [])]
    made = dataclasses.replace(sources, flags=(*sources.flags, *(f"-isystem{f}" for f in folders), *flags))
    return made, [str(library.path)]


def inference(target: Target, library: Library, folder: Path) -> Row:
    """Measures the int8 network without training."""
    x, y = target.inputs(target.task.adapt[0][:1]), target.task.adapt[1][:1]
    sources = Sources((), {"samples.h": samples_header(x, y), "int8_model.h": int8_model(target.model)})
    sources, link_flags = _with_tflm(sources, library)
    found, built = counted(CORES[library.core], sources, "inference_program.cc", folder, link_flags)
    return _costs(found, built, x.nbytes + len(y))


def embedded(method: Alternative, target: Target, library: Library, folder: Path) -> Row:
    """Measures a learner of embeddings, with TFLM and the int8 network before it."""
    x, y = target.inputs(target.task.adapt[0][:SAMPLES]), target.task.adapt[1][:SAMPLES]
    cut, scale, zero_point = target.embedding
    inputs, classes = target.last.sizes
    sources = method.sources(target)
    sizes = {"CLASSES": classes, "INPUTS": inputs, "STORED": target.stored, "ZERO_POINT": zero_point}
    header = samples_header(x, y, **sizes) + f"#define SAMPLES_SCALE {floats(np.float32(scale))}\n"
    if method.neighbours:
        header += "#define LEARNER_STORES\n"
    headers = {**sources.headers, "samples.h": header, "int8_model.h": int8_model(cut)}
    with_tflm, link_flags = _with_tflm(dataclasses.replace(sources, headers=headers), library)
    found, built = counted(CORES[library.core], with_tflm, "embedding_program.cc", folder, link_flags)
    part = target.embeddings((target.task.adapt[0][:SAMPLES], y))
    if not method.neighbours:
        part = target.real(part)
    learner = host_learner(sources, folder / "host", inputs, classes)
    prepared = learner.prepared(part[0])
    learner.train(prepared, y, [RATE] * len(y))
    if method.neighbours:
        rest = [int(y[i % SAMPLES]) for i in range(SAMPLES, target.stored)]
        learner.train(prepared[[-1] * len(rest)], rest, [0.0] * len(rest))
    return _costs(found, built, x.nbytes + len(y)) | _compared(found, learner.scores(prepared))


def _costs(found: dict[str, list[int]], built: Path, samples: int) -> Row:
    """Returns a row of a program's output; the bytes of its samples do not count as flash."""
    ram, flash = sections(built)
    means = {name: statistics.mean(found[name]) for name in ("train", "embed", "predict") if name in found}
    return {"ram": ram - found["spare"][0] + found["stack"][0], "flash": flash - samples, **means}


def _compared(found: dict[str, list[int]], scores: Any) -> Row:
    """Returns the difference of the core's scores from this machine's; one that is too large ends the program."""
    on_device = np.array(found["score"], np.uint32).view(np.float32).reshape(scores.shape)
    difference = float(np.abs(on_device - scores).max() / max(1.0, np.abs(scores).max()))
    if not difference < 1e-5:
        raise SystemExit(f"the emulated core's scores differ from this machine's by {difference}")
    return {"difference": difference}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    methods = ("inference", *RUNGS, *ALTERNATIVES)
    parser.add_argument("--methods", nargs="+", choices=methods, default=list(methods), metavar="METHOD")
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="folder of learning/compare.py")
    parser.add_argument("--results", type=Path, default=Path("build/alternatives/device.jsonl"))
    names = [one.name for one in LIBRARIES if one.core.startswith("cortex")]
    parser.add_argument("--library", choices=names, default="cortex-m4-cmsis_nn", metavar="LIBRARY")
    arguments = parser.parse_args()
    libraries = built_libraries(parser, [one for one in LIBRARIES if one.name == arguments.library])
    if not libraries:
        sys.exit(1)
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    core = libraries[0].core
    done = {(row["family"], row["method"]) for row in map(json.loads, lines) if row["core"] == core}
    wanted = [(f, m) for f in arguments.families for m in arguments.methods if (f, m) not in done]
    with progress("measuring", len(wanted)) as advance, open(arguments.results, "a", encoding="utf-8") as out:
        for family, name in wanted:
            row = _measured(family, name, arguments.work, libraries[0])
            if row is not None:
                out.write(json.dumps({"family": family, "method": name, "core": core, **row}) + "\n")
                out.flush()
            advance(1)


def _measured(family: str, name: str, work: Path, library: Library) -> Row | None:
    target = Target(FAMILIES[family].targets[0], work)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "program"
        if name == "inference":
            return inference(target, library, place)
        if name in RUNGS:
            return of_tflm_zo(name, target, library, place)
        method = ALTERNATIVES[name]
        if method.recalibrated or (method.families is not None and family not in method.families):
            return None
        if why := method.why_not():
            print(f"{family}, {name}: {why}", file=sys.stderr)
            return None
        return (
            whole(method, target, CORES[library.core], place)
            if method.whole
            else embedded(method, target, library, place)
        )


if __name__ == "__main__":
    main()
