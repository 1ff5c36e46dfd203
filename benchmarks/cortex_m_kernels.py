# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of training by forward passes on a Cortex-M or a RISC-V core, beside the forward passes.

    python benchmarks/cortex_m_kernels.py

Instructions are counted on emulated cores (QEMU), to the instruction: they are not cycles. Weight ops are
measured on a tensor of 48,000 weights (LeNet-5's fc1), per weight and, for SEED_REPLAY, per step; updates of
node perturbation on layers of LeNet-5 and a DS-CNN, and errors that go back through layers of ResNet-8, per
call; the loss per sample. Code is compiled at -O2. Bytes of code and constants are those of the C core that a
linker keeps at -Os, with everything and without the features that training along random signs does not need
(ops/core/zo_features.h). TFLM's glue is not included; the compiler's library for 64-bit divisions is listed
apart.

Needs arm-none-eabi-gcc with newlib, and qemu-system-arm; for RISC-V, riscv64-unknown-elf-gcc with picolibc,
and qemu-system-riscv32. Cores that cannot be emulated here are skipped with a message.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import progress
from rich.console import Console
from rich.table import Table

# The emulated boards and the programs are those of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cortex_m.costs import CONTROL_UNIT, OP_PACK, node_costs, sizes, weight_op_costs
from cortex_m.emulator import CORES, missing

CORES_WITH_KERNELS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")

WEIGHT_OPS = {
    "PERTURB": "perturb",
    "PERTURB, restores and perturbs": "perturb_restore",
    "UPDATE, 8 bits, 1 query": "update_8bit_1",
    "UPDATE, 8 bits, 2 queries": "update_8bit_2",
    "UPDATE, 8 bits, 4 queries": "update_8bit_4",
    "UPDATE, 8 bits, multipliers": "update_8bit_multipliers",
    "UPDATE, 16 bits, 1 query": "update_16bit_1",
    "UPDATE, 16 bits, 2 queries": "update_16bit_2",
    "UPDATE, 16 bits, 4 queries": "update_16bit_4",
    "UPDATE, 16 bits, multipliers": "update_16bit_multipliers",
    "SEED_REPLAY, 8 bits": "replay_8bit",
    "SEED_REPLAY, 16 bits": "replay_16bit",
    "PERTURB, Gaussian": "gaussian_perturb",
    "UPDATE, 8 bits, Gaussian": "gaussian_update_8bit",
    "checksum": "checksum",
}

NODE_OPS = {
    "node update, fc1 (48,000 weights), 1 sample": "fc1-1",
    "the same, 16 bits": "fc1-1-fraction",
    "the same, 8 bits, 16 samples (768,000 MACs)": "fc1-16",
    "node update, conv2 (2,400 weights), 1 sample": "conv2-1",
    "node update, pointwise, 1 sample": "pointwise-1",
    "node update, depthwise (576 weights), 1 sample": "depthwise-1",
    "errors of a convolution's inputs, 8 x 8 x 64, 3 x 3 (1,982,464 MACs)": "conv-backprop-64",
    "the same, half of the output's errors 0": "conv-backprop-64-half",
    "errors of a pointwise convolution's inputs (262,144 MACs)": "conv-backprop-1x1",
    "errors of a depthwise convolution's inputs (30,976 MACs)": "depthwise-backprop-64",
    "perturbation of 120 nodes": "perturb-120",
    "LOSS, 10 classes, far apart": "loss-10",
    "LOSS, 10 classes, close together": "loss-10-near",
}

SIZES = {
    "op pack": (OP_PACK, ()),
    "op pack, signs alone": (OP_PACK, ("-DZO_FEATURES=0",)),
    "op pack, signs alone, fast steps": (OP_PACK, ("-DZO_FEATURES=0", "-DZO_WITH_FAST_STEPS=1")),
    "control unit": (CONTROL_UNIT, ()),
    "control unit, signs alone": (CONTROL_UNIT, ("-DZO_FEATURES=0",)),
}


def measure(names: list[str]) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, progress("cores", 3 * len(names)) as advance:
        for name in names:
            own = Path(folder) / name
            results[name] = {"instructions_per_weight": weight_op_costs(CORES[name], own)}
            advance(1)
            results[name]["instructions"] = node_costs(CORES[name], own)
            advance(1)
            for key, (caller, flags) in SIZES.items():
                size = sizes(CORES[name], caller, own, ("-Os", *flags))
                results[name][key] = {"bytes": size.total, "helpers": size.helpers, "by_source": size.core}
            advance(1)
    return results


def table(title: str, names: list[str], rows: list[tuple[str, list[str]]]) -> Table:
    made = Table(title=title)
    made.add_column("")
    for name in names:
        made.add_column(name, justify="right")
    for label, cells in rows:
        made.add_row(label, *cells)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", nargs="+", choices=sorted(CORES), default=list(CORES_WITH_KERNELS), metavar="CORE")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    reasons = {name: missing(CORES[name].toolchain) for name in arguments.cores}
    for why in dict.fromkeys(why for why in reasons.values() if why is not None):
        print(f"SKIPPED: {why}", file=sys.stderr)
    names: list[str] = [name for name, why in reasons.items() if why is None]
    if not names:
        return
    results = measure(names)
    if arguments.json:
        json.dump(results, sys.stdout, indent=2)
        print()
        return
    console = Console()
    per_weight = [
        (label, [f"{results[name]['instructions_per_weight'][case]:.2f}" for name in names])
        for label, case in WEIGHT_OPS.items()
    ]
    console.print(table("Instructions per weight, -O2", names, per_weight))
    calls = [
        (label, [f"{results[name]['instructions'][case]:,}" for name in names]) for label, case in NODE_OPS.items()
    ]
    console.print(table("Instructions, -O2", names, calls))
    for label in SIZES:
        found = [results[name][label] for name in names]
        code = [("all", [f"{size['bytes']:,}" for size in found])]
        for source in sorted({source for size in found for source in size["by_source"]}):
            code.append((f"  {source}", [f"{size['by_source'].get(source, 0):,}" for size in found]))
        code.append(("compiler's library", [f"{size['helpers']:,}" for size in found]))
        console.print(table(f"Bytes of code and constants of the {label}, -Os", names, code))


if __name__ == "__main__":
    main()
