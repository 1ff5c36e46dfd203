"""Features of the op pack in a generated folder: its run uses all of them, and no others."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cortex_m.emulator import CORES, missing
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo import Coordinate, Gaussian, SparseUniform
from tflm_zo.converters import ConversionError
from tflm_zo.firmware import Firmware, generate_firmware
from tflm_zo.firmware.features import with_features
from tflm_zo.firmware.op_pack import op_pack_sources
from tflm_zo.training import Constant, Cosine, Exact, Nodes, Settings, Weights
from tflm_zo.training.rules import Bits, Gradient, Normalized

pytestmark = pytest.mark.usefixtures("nothing_is_measured")
SPARSE = SparseUniform(15, 0.33)
BITS = Settings(tasks=(Nodes(), Exact(rule=Bits((5, 4, 3))), Weights(rule=Bits(), perturbation=SPARSE)), batch_size=1)


def run(task: Any = None, **more: Any) -> Settings:
    return Settings(tasks=(task or Weights(),), batch_size=1, **more)


#: Injection, settings and their features besides random signs.
RUNS: dict[str, tuple[dict[str, Any], Any, set[str]]] = {
    "defaults": ({}, run(), set()),
    "nodes": ({"trainable": "nodes", "nodes": "auto"}, Settings(batch_size=1), {"SEGMENTS"}),
    "gaussian": ({"headroom": 5}, run(Weights(perturbation=Gaussian(0.5))), {"GAUSSIAN"}),
    "bits": (
        {"nodes": "auto", "update_bits": 8, "headroom": 15},
        BITS,
        {"SPARSE_UNIFORM", "BITS", "SEGMENTS", "EXACT_TASKS", "WEIGHT_TASKS"},
    ),
    "fixed gain": ({}, run(Weights(rule=Gradient(clip=3.0)), learning_rate=1.0), {"STEP_RULES"}),
    "one-sided": ({}, run(estimator="one-sided"), {"ONE_SIDED"}),
    "sparse uniform": ({}, run(Weights(perturbation=SparseUniform(2, 0.25))), {"SPARSE_UNIFORM"}),
    "coordinate": ({}, run(Weights(perturbation=Coordinate(2))), {"COORDINATE"}),
    "multipliers": ({"multipliers": "quantization-aware"}, run(), {"MULTIPLIERS"}),
    "loss": ({"loss": "floor_log2"}, run(), {"FLOOR_LOG2"}),
    "blocks": ({}, run(Weights(scope="blocks")), {"BLOCKS"}),
    "schedule": ({}, run(schedule=Cosine()), {"SCHEDULES"}),
    "norm": ({}, run(Weights(rule=Normalized(gradient_norm=True))), {"SCHEDULES"}),
    "constant": ({}, run(schedule=Constant()), set()),
}


PAPERS = {
    "COORDINATE": {"coordinate.c", "coordinate.h"},
    "FLOOR_LOG2": {"floor_log2_loss.c", "floor_log2_loss.h"},
    "BITS": {"pseudo_stochastic.h", "update_bits.c", "update_bits.h"},
}


def part(made: Firmware, name: str) -> str:
    whole = "".join(made.files[f"small_zo_ops{of}"] for of in (".h", "_internal.h", ".c"))
    found = re.search(rf"/\* --- ops/core/{name} -+ \*/(.*?)/\* --- ops/", whole, re.DOTALL)
    assert found is not None, name
    return found[1]


@pytest.mark.parametrize("name", slow_but(list(RUNS)[::2], RUNS))
def test_what_the_run_needs(name: str) -> None:
    injection, settings, needed = RUNS[name]
    zo = inject_all(MODELS["small_cnn"](), **{"trainable": "all", "headroom": 4, **injection})
    made = generate_firmware(zo, settings, steps=3, samples=4, name="small")
    header = part(made, "small_zo_features.h")
    found = dict(re.findall(r"^#define SMALL_ZO_WITH_(\w+) ([01])$", header, re.M))
    # Fast loops are a matter of the build's optimization.
    known = set(re.findall(r"#ifndef ZO_WITH_(\w+)", op_pack_sources()["ops/core/zo_features.h"]))
    assert {*found, "FAST_STEPS"} == known
    # Programs with an interpreter of their own send commands; trainers move weights themselves.
    takes_commands = not settings.is_layerwise and "SEGMENTS" not in needed
    assert {feature for feature, value in found.items() if value == "1"} == needed | {
        "8_BITS" if injection.get("update_bits") == 8 else "16_BITS",
        *(["COMMANDS"] if takes_commands else []),
    }
    # Files of a paper are there where the run needs them.
    whole = "".join(made.files[f"small_zo_ops{of}"] for of in (".h", "_internal.h", ".c"))
    files = set(re.findall(r"/\* --- ops/core/papers/small_zo_(\S+) -", whole))
    assert files == set().union(*(PAPERS.get(feature, set()) for feature in needed))


@pytest.mark.parametrize("core", slow_but(["cortex-m55"], ["cortex-m0plus", "cortex-m4", "cortex-m55", "rv32imc"]))
@pytest.mark.parametrize("name", slow_but(list(RUNS)[::6], RUNS))
def test_the_joined_sources_compile(name: str, core: str, tmp_path: Path) -> None:
    """Compiles with the loops of each core: all functions of a folder are in one file, in which names meet."""
    compiled = CORES[core]
    if reason := missing(compiled.toolchain):
        pytest.skip(reason)
    injection, settings, _ = RUNS[name]
    zo = inject_all(MODELS["small_cnn"](), **{"trainable": "all", "headroom": 4, **injection})
    generate_firmware(zo, settings, steps=3, samples=4, name="small").write(tmp_path / "firmware")
    command = [f"{compiled.toolchain.prefix}gcc", *compiled.flags, "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        [*command, "-fsyntax-only", tmp_path / "firmware/small_zo_ops.c"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_another_header_is_told() -> None:
    with pytest.raises(ConversionError, match="install tflm_zo again"):
        with_features("#ifndef ZO_WITH_BIASES\n", {"ZO_WITH_BIASES": True})
