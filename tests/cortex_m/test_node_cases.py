"""Node perturbation on emulated cores: the host's bits on every one, and the cost of a step there.

The host's bits are those of the NumPy oracle (tests/core/test_nodes.py, test_node_rules.py); here the cores'
own code paths, with and without SIMD instructions, are held against them on layers of real networks.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cortex_m.emulator import CORE_SOURCES, CORES, COUNTING_SOURCE, REPOSITORY, build, counting_flags, each, run

NAMES = """
zo_add_products zo_apply_row zo_biases zo_class_loss zo_conv_backprop zo_coordinate
zo_cross_entropy zo_dense_sums zo_errors zo_log2 zo_mean_squared_error zo_node_gradient zo_node_layer
zo_node_move zo_node_update zo_perturb zo_pool_backprop zo_replay_tile zo_row_steps zo_stream zo_update
zo_update_bits
""".split()
SOURCES = [source for source in CORE_SOURCES if source.stem in NAMES]
PROGRAM = Path(__file__).parent / "node_cases.c"
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")

pytestmark = pytest.mark.skipif(CC is None, reason="NO C COMPILER for the host")

# Instructions at -O2. LeNet-5's fc1 is 48,000 weights, and one inference of LeNet-5 about 2.2 million
# instructions on a Cortex-M4 with CMSIS-NN.
BUDGETS = {
    "cortex-m0plus": {"fc1-1": 1_300_000, "loss-10-near": 2_500},
    "cortex-m3": {"fc1-1": 700_000, "loss-10-near": 1_500},
    "cortex-m4": {
        "fc1-1": 390_000,
        "fc1-1-rectified": 240_000,
        "fc1-1-scaled": 1_000_000,
        "fc1-1-fraction": 620_000,
        # 2.6 a multiply-accumulate: 768,000 of them.
        "fc1-16": 1_996_800,
        "conv2-1": 400_000,
        "pointwise-1": 1_500_000,
        "perturb-120": 4_500,
        "loss-10": 1_500,
        "loss-10-near": 1_500,
        # CMSIS-NN's own forward convolution of these sizes takes 4,160,000 and 553,000, on a Cortex-M55
        # 487,000 and 103,000.
        "conv-backprop-64": 5_500_000,
        "conv-backprop-64-half": 3_100_000,
        "conv-backprop-1x1": 900_000,
        "depthwise-backprop-64": 1_400_000,
    },
    "cortex-m55": {
        # 0.15 of an inference, which takes 801,407; with fractions 0.14.
        "fc1-1": 120_200,
        "fc1-1-fraction": 112_000,
        # 0.8 a multiply-accumulate.
        "fc1-16": 614_400,
        "loss-10-near": 1_500,
        "conv-backprop-64": 2_600_000,
    },
    "rv32imc": {"fc1-1": 800_000, "loss-10-near": 1_500, "conv-backprop-64": 8_700_000},
}


def results(printed: str) -> dict[str, tuple[str, int]]:
    lines = [line.split() for line in printed.splitlines()]
    return {name: (found, int(count)) for name, found, count in lines}


@pytest.fixture(scope="module")
def on_the_host(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    assert CC is not None
    program = tmp_path_factory.mktemp("host") / "program"
    command = [CC, "-std=c99", "-O2", f"-I{REPOSITORY}", PROGRAM, *SOURCES, "-o", program]
    subprocess.run(command, check=True, timeout=300)
    printed = subprocess.run([program], check=True, timeout=300, capture_output=True, text=True).stdout
    return {name: found for name, (found, _) in results(printed).items()}


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        *each(CORES, (), fast=("cortex-m4",)),
        # Slow ones, as the smallest core's are.
        *(
            pytest.param(name, (flag,), marks=[*mark.marks, pytest.mark.slow])
            for names, flag in ((("cortex-m4",), "-DZO_PORTABLE"), (("cortex-m0plus", "rv32imc"), "-Os"))
            for name, mark in zip(names, each(names), strict=True)
        ),
    ],
)
def test_same_bits_within_budget(name, flags, on_the_host, tmp_path):
    core = CORES[name]
    sources = [PROGRAM, COUNTING_SOURCE, *SOURCES]
    program = build(core, sources, tmp_path / "program", ["-O2", *flags], counting_flags(core))
    found = results(run(core, program, counting=True))
    print("\n" + "\n".join(f"{case:20} {count:>9,}" for case, (_, count) in found.items()))
    assert {case: bits for case, (bits, _) in found.items()} == on_the_host
    if not flags:
        over = {case: (found[case][1], most) for case, most in BUDGETS.get(name, {}).items() if found[case][1] > most}
        assert over == {}
