# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Instructions of TFLM's int8 kernels, of which `tflm-zo plan` foretells those of a model.

    TFLM_DIR=path/to/tflite-micro python benchmarks/operator_instructions.py --write

About a hundred operators of many shapes, none of them of a known network, run one by one on emulated cores,
which count their instructions. For each kernel a sum of terms in its dimensions is fitted
(tflm_zo/planner/instructions.py), with non-negative coefficients and the smallest relative errors. TFLM's own
Makefile must have built its libraries; the benchmark reports and skips missing ones, and --write keeps their
values in tflm_zo/planner/instructions.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from harness import progress
from harness.libraries import built_libraries
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

from tflm_zo import inject
from tflm_zo.converters import Model, load_model
from tflm_zo.firmware import generate_firmware
from tflm_zo.firmware.resolver import resolver_source
from tflm_zo.planner.instructions import FEATURES, features

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cortex_m.costs import node_costs, weight_op_costs
from cortex_m.emulator import CORES, COUNTING_SOURCE, compile_objects, counting_flags, run
from helpers.models import MODELS
from helpers.models.graph_builder import Activation, GraphBuilder, Padding
from helpers.models.streaming_networks import next_rows
from tflm_checkout.firmware_build import LIBRARIES, Library, build_firmware, replace_main

MAIN = Path(__file__).parent / "harness" / "firmware" / "operators.cc"
TABLE = Path(__file__).parents[1] / "tflm_zo" / "planner" / "instructions.json"
FILTERED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")

# height and width, channels in, channels out, kernel, stride, padding.
CONVOLUTIONS = (
    (12, 1, 8, (3, 3), 1, 0),
    (16, 3, 12, (3, 3), 2, 0),
    (24, 3, 16, (3, 3), 1, 0),
    (20, 1, 6, (5, 5), 1, 1),
    (9, 6, 16, (5, 5), 1, 1),
    (10, 8, 8, (3, 3), 1, 0),
    (8, 16, 24, (3, 3), 1, 0),
    (12, 16, 16, (3, 3), 2, 0),
    (6, 32, 32, (3, 3), 1, 0),
    (6, 48, 40, (3, 3), 1, 0),
    (7, 64, 64, (3, 3), 2, 0),
    (5, 96, 20, (3, 3), 1, 1),
    (18, 1, 48, (8, 4), 2, 0),
    (14, 2, 30, (7, 3), 1, 0),
    (9, 4, 17, (3, 3), 1, 1),
    (6, 24, 64, (5, 5), 1, 0),
    (30, 3, 8, (5, 5), 2, 0),
    (4, 128, 32, (3, 3), 1, 0),
    (12, 12, 33, (3, 3), 1, 1),
    (10, 16, 32, (1, 3), 1, 0),
)
POINTWISE = (
    *((24, 8, 16), (12, 16, 32), (12, 24, 24), (10, 32, 32), (9, 48, 20), (8, 64, 64), (6, 64, 128)),
    *((5, 96, 96), (4, 128, 128), (3, 128, 200), (3, 256, 64), (16, 12, 40), (11, 20, 7), (1, 256, 100)),
    *((14, 3, 10), (2, 192, 320)),
)
DEPTHWISE = (
    *((20, 8, 3, 1), (14, 16, 3, 1), (12, 24, 3, 2), (10, 32, 3, 1), (9, 64, 3, 1), (8, 48, 3, 2), (6, 96, 3, 1)),
    *((5, 128, 3, 1), (4, 256, 3, 2), (3, 256, 3, 1), (12, 12, 3, 1), (7, 20, 3, 1), (12, 16, 5, 1)),
    *((9, 40, 5, 2), (8, 64, 5, 1), (10, 24, 7, 1), (14, 8, 5, 1), (6, 128, 5, 1), (6, 32, 2, 2)),
)
DENSE = (
    *((16, 8), (64, 12), (100, 10), (120, 84), (128, 128), (200, 50), (256, 2), (256, 100), (400, 60)),
    *((512, 32), (640, 96), (30, 200), (8, 128), (1000, 16), (84, 10), (128, 640)),
)
POOLS = ((24, 6, 2), (10, 16, 2), (12, 32, 2), (8, 64, 4), (6, 64, 6), (5, 96, 5), (3, 256, 3), (16, 8, 2))
ELEMENTS = ((8, 16), (16, 16), (6, 64), (12, 32), (4, 128), (20, 8))
# Rows and channels of the buffers of streaming networks.
BUFFERS = ((5, 40), (3, 128), (6, 64), (11, 32), (16, 48), (23, 64), (9, 10), (30, 24))
VECTORS = (2, 4, 10, 12, 20, 35, 100)


def networks() -> Iterator[bytes]:
    """Yields models of one operator each."""
    for seed, (size, given, made, kernel, stride, valid) in enumerate(CONVOLUTIONS):
        g = GraphBuilder(seed)
        x = g.input("x", [1, size, size, given])
        padding = Padding.VALID if valid else Padding.SAME
        yield g.build([g.conv(x, "y", made, kernel, stride=stride, padding=padding)])
    for size, given, made in POINTWISE:
        g = GraphBuilder(size)
        yield g.build([g.conv(g.input("x", [1, size, size, given]), "y", made, (1, 1))])
    for size, channels, kernel, stride in DEPTHWISE:
        g = GraphBuilder(size)
        x = g.input("x", [1, size, size, channels])
        yield g.build([g.depthwise(x, "y", (kernel, kernel), stride)])
    for given, made in DENSE:
        g = GraphBuilder(given)
        yield g.build([g.dense(g.input("x", [1, given]), "y", made)])
    for size, channels, window in POOLS:
        for average in (False, True):
            g = GraphBuilder(size)
            yield g.build([g.pool(g.input("x", [1, size, size, channels]), "y", window, average)])
    for size, channels in ELEMENTS:
        shape = [1, size, size, channels]
        g = GraphBuilder(size)
        yield g.build([g.add(g.input("a", shape), g.input("b", shape), "y", Activation.RELU)])
        for make in ("flatten", "logistic"):
            g = GraphBuilder(size)
            yield g.build([getattr(g, make)(g.input("x", shape), "y")])
        g = GraphBuilder(size)
        yield g.build([g.mean(g.input("x", shape), "y", [1, 2])])
        g = GraphBuilder(size)
        yield g.build([g.requantize(g.input("x", shape), "y", 1 / 50, 1)])
        g = GraphBuilder(size)
        yield g.build([g.concat([g.input("a", shape), g.input("b", shape)], "y", 3)])
    for rows, channels in BUFFERS:
        g = GraphBuilder(rows)
        yield g.build([next_rows(g, g.input("x", [1, rows, 1, channels]), "y")])
        g = GraphBuilder(rows)
        x = g.input("x", [1, rows, 1, channels])
        halves = [g.value(name, (1, rows, 1, channels // 2), x.scale, x.zero_point, x.rms) for name in ("y", "z")]
        sizes, axis = g.int32("sizes", [channels // 2] * 2), g.int32("axis", 3)
        g.operator("SPLIT_V", [x.index, sizes, axis], [y.index for y in halves], "SplitV", numSplits=2)
        yield g.build(halves)
    for size in VECTORS:
        g = GraphBuilder(size)
        yield g.build([g.softmax(g.input("x", [1, size]), "y")])


def with_variable_filter(model: Model) -> Model | None:
    """Makes the same operator with a filter that is no constant; None without a filter."""
    made = model.copy()
    op = made.subgraphs[0].operators[0]
    if op.code.name not in FILTERED:
        return None
    filters = op.input(1)
    assert filters is not None
    filters.is_variable, filters.buffer = True, made.empty_buffer
    return made


def operators() -> list[Model]:
    """Returns all models, with constant and with variable filters."""
    plain = [load_model(network) for network in networks()]
    return [*plain, *(made for model in plain if (made := with_variable_filter(model)) is not None)]


def measure(library: Library, models: list[Model], folder: Path) -> list[int]:
    """Counts the instructions of an invoke of each model."""
    core, dummy = CORES[library.core], load_model(MODELS["small_cnn"]())
    generate_firmware(inject(dummy), steps=1, samples=1, name="model").write(folder)
    replace_main(folder, MAIN.read_text())
    (resolver,) = folder.glob("*_op_resolver.h")
    resolver.write_text(resolver_source(models, "model", ""))
    header = COUNTING_SOURCE.with_suffix(".h")
    (folder / header.name).write_text(header.read_text())
    arrays = "".join(
        f"alignas(16) constexpr unsigned char kModel{i}[] = {{{','.join(map(str, model.to_bytes()))}}};\n"
        for i, model in enumerate(models)
    )
    names = ", ".join(f"kModel{i}" for i in range(len(models)))
    (folder / "operator_models.h").write_text(
        f"{arrays}constexpr const unsigned char* kOperatorModels[] = {{{names}}};\n"
    )
    (counting,) = compile_objects(core, [COUNTING_SOURCE], folder / "counting", ["-O2", *counting_flags(core)])
    built = build_firmware(library, folder, folder / "build", objects=[counting])
    lines = run(core, built, counting=True, timeout=900).splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("operator ")]


def fitted(models: list[Model], instructions: list[int]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Fits coefficients of each kernel's sum. Returns also the largest relative error of each."""
    rows: dict[str, list[tuple[list[float], int]]] = defaultdict(list)
    for model, count in zip(models, instructions, strict=True):
        kernel, counts = features(model.subgraphs[0].operators[0])
        rows[kernel].append(([counts.get(name, 0) for name in FEATURES], count))
    coefficients, errors = {}, {}
    for kernel, own in sorted(rows.items()):
        values = np.array([v for v, _ in own], float)
        measured = np.array([c for _, c in own], float)
        scale = values.max(axis=0)
        used = scale > 0
        found, _ = nnls(values[:, used] / scale[used] / measured[:, None], np.ones(len(own)))
        weights = found / scale[used]
        names = [n for n, u in zip(FEATURES, used, strict=True) if u]
        coefficients[kernel] = {n: float(f"{w:.4g}") for n, w in zip(names, weights, strict=True) if w > 1e-9}
        errors[kernel] = float(np.abs(values[:, used] @ weights / measured - 1).max())
    return coefficients, errors


def training(weights: Mapping[str, float], nodes: Mapping[str, int]) -> dict[str, float]:
    """Counts instructions of training besides forward passes: a weight, product, node, class.

    Half of the outputs of the cases called rectified are clamped, so that their products are left out. Of one
    sample and two queries, channels of a dense layer have one of four errors, and those of equal errors one
    gradient. Of more, each channel's gradient is formed, of 16 samples at a time if a core has loops for that.
    """
    size = 48_000  # weights of fc1
    one, two, some, rectified, more = (nodes[f"fc1-{case}"] / size for case in ("1", "2", "16", "16-rectified", "32"))
    dense, formed = (some - two) / 14, 4 / 120
    form = (two - one - (2 - formed) * dense) / (1 - formed)
    weight = one - formed * (form + dense)
    fraction = (nodes["fc1-1-fraction"] - nodes["fc1-1"]) / size

    each = (nodes["loss-12-near"] - nodes["loss-10-near"]) / 2
    found = {
        "perturb": weights["perturb"],
        "restore": weights["perturb_restore"],
        "update_8": weights["update_8bit_1"],
        "update_8_of_4": weights["update_8bit_4"],
        "update_16": weights["update_16bit_1"],
        "update_16_of_4": weights["update_16bit_4"],
        "node_update_8": weight,
        "node_update_16": weight + fraction,
        "dense": dense,
        "dense_clamped": max(0.0, (rectified - weight - form) / 8 - dense),
        "dense_form": form,
        "dense_pass": max(0.0, more - some - 16 * dense),
        **updates(nodes, weight + form),
        **backward(nodes),
        "depthwise_back": nodes["depthwise-backprop-64"] / 30_976,
        "back_norm": nodes["norm-64"] / 36_864,
        **{f"back_{kind.replace('-', '_')}": nodes[f"{kind}-backprop"] / 8_192 for kind in VALUES},
        "node": (nodes["perturb-400"] - nodes["perturb-120"]) / 280,
        "credit": (nodes["fc1-16-q8"] - nodes["fc1-16"]) / (16 * 120 * 6),
        "loss": max(0.0, nodes["loss-10"] - 10 * each),
        # A value of the loss's input, by the loss's kind.
        "cross_entropy": each,
        "binary_cross_entropy": (nodes["binary-12"] - nodes["binary-6"]) / 6,
        "mse": (nodes["squares-640"] - nodes["squares-320"]) / 320,
        # Trainer, interpreter and copies of an invoke, by steps of node perturbation of MLPerf Tiny's
        # autoencoder, which have 291 of them a sample (benchmarks/plan.py).
        "invoke": 2_100.0,
    }
    return {name: float(f"{value:.4g}") for name, value in found.items()}


#: Kinds of steps that errors pass back through, value by value.
VALUES = ("mask", "max-pool", "average-pool", "add")

#: Layers with exact gradients: weights, errors, and of the share of errors other than 0 products, and rows in windows
#: that reach beyond the image.
UPDATES = {
    "pointwise-1-exact": (4_096, 7_744, 247_808, 0),
    "pointwise-1-sparse": (4_096, 7_744, 61_952, 0),
    "padded-1-exact": (4_608, 2_048, 123_904, 1_088),
    "wide-1-exact": (36_864, 4_096, 991_232, 2_176),
    "conv2-1-exact": (2_400, 1_600, 120_000, 0),
    "first-1-exact": (400, 4_096, 43_808, 3_712),
    "first-1-sparse": (400, 4_096, 10_952, 928),
}

#: Layers that errors pass back through: channels and values of the input, errors that these read, and the share of
#: errors other than 0.
BACKWARD = {
    "conv-backprop-64": (64, 4_096, 30_976, 1.0),
    "conv-backprop-64-half": (64, 4_096, 30_976, 0.5),
    "conv-backprop-32-strided": (32, 8_192, 33_856, 1.0),
    "conv-backprop-13": (13, 1_053, 4_375, 1.0),
    "conv-backprop-1x1": (64, 4_096, 4_096, 1.0),
    "dense-backprop-84": (120, 120, 84, 1.0),
}


def near(names: Iterable[str], cases: Iterable[Sequence[float]], measured: Iterable[float]) -> dict[str, float]:
    """Fits the instructions of each count of the cases."""
    values, counts = np.array(list(cases), float), np.array(list(measured), float)
    found, _ = nnls(values / counts[:, None], np.ones(len(counts)))
    return dict(zip(names, map(float, found), strict=True))


def updates(nodes: Mapping[str, int], weight: float) -> dict[str, float]:
    """Fits the instructions of an error, of a product, and of a row of a cut window, of a layer with exact gradients;
    those of a weight are known.
    """
    measured = (nodes[name] - weight * size for name, (size, *_) in UPDATES.items())
    found = near(("error", "convolution", "cut_row"), (counts for _, *counts in UPDATES.values()), measured)
    depthwise = nodes["depthwise-1-exact"] - 576 * weight - 4_096 * found["error"]
    return found | {"depthwise": depthwise / (30_976 / 2)}


def backward(nodes: Mapping[str, int]) -> dict[str, float]:
    """Fits the instructions of a product, of an error that is read, of its row of products, and of an input's error."""
    cases = (
        (share * read * channels, read, share * read, inputs) for channels, inputs, read, share in BACKWARD.values()
    )
    return near(("back", "back_error", "back_row", "back_input"), cases, (nodes[name] for name in BACKWARD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the fitted coefficients into the package")
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="count these kernels alone, as STRIDED_SLICE")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    libraries = built_libraries(parser, LIBRARIES)
    models, wanted = operators(), arguments.kernels
    if wanted:
        models = [model for model in models if features(model.subgraphs[0].operators[0])[0] in wanted]
    found: dict[str, dict[str, dict[str, float]]] = {}
    errors: dict[str, dict[str, float]] = {}
    cores = {} if wanted else {library.core: CORES[library.core] for library in libraries}
    trained: dict[str, dict[str, float]] = {}
    with progress("counting", len(libraries) + len(cores)) as advance:
        for name, core in cores.items():
            with tempfile.TemporaryDirectory() as folder:
                at = Path(folder)
                trained[name] = training(weight_op_costs(core, at / "w"), node_costs(core, at / "n"))
            advance(1)
        for library in libraries:
            with tempfile.TemporaryDirectory() as folder:
                counts = measure(library, models, Path(folder))
            found[library.name], errors[library.name] = fitted(models, counts)
            advance(1)
    if arguments.write:
        known = json.loads(TABLE.read_text()) if TABLE.is_file() else {}
        operators_before = known.setdefault("operators", {})
        for name, own in found.items():
            operators_before[name] = {**(operators_before.get(name, {}) if wanted else {}), **own}
        known["training"] = {**known.get("training", {}), **trained}
        TABLE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    if arguments.json:
        print(json.dumps({"operators": found, "training": trained, "largest_errors": errors}, indent=2))
        return
    kernels = sorted({kernel for own in errors.values() for kernel in own})
    table = Table(title="Largest relative error of the sum that foretells a kernel's instructions")
    table.add_column("kernel")
    for name in errors:
        table.add_column(name, justify="right")
    for kernel in kernels:
        cells = (own.get(kernel, math.nan) for own in errors.values())
        table.add_row(kernel, *(f"{100 * cell:.0f} %" for cell in cells))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main()
