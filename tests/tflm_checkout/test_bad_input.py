"""Failures on a device: each gives a status and leaves the weights of the last complete step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortex_m.emulator import CORES, run
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_checkout.firmware_build import Library, build_firmware, on, replace_main
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Exact, Nodes, Settings, Weights

CLASSES, SAMPLES, STEPS = 4, 12, 6
RUNS: dict[str, tuple[dict[str, Any], Any]] = {
    "weight, 8 bits": (
        {"trainable": "all", "update_bits": 8},
        Settings(tasks=(Weights(queries=2),), batch_size=4, seed=3, learning_rate=20.0),
    ),
    "weight, 16 bits, segments": (
        {"trainable": "all", "cuts": "layers"},
        Settings(tasks=(Weights(queries=1),), batch_size=2, seed=4, learning_rate=20.0),
    ),
    "node": (
        {"trainable": "nodes", "nodes": "auto", "headroom": 0, "replay": False},
        Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=5, snapshot_every=2),
    ),
    "exact head": (
        {"trainable": "nodes", "nodes": "auto", "headroom": 0, "replay": False, "update_bits": 8},
        Settings(tasks=(Nodes(), Exact()), batch_size=2, seed=6, snapshot_every=1),
    ),
}
TESTED = ("cortex-m3-reference", "cortex-m4-cmsis_nn")


@pytest.mark.parametrize("name", RUNS)
@on(*TESTED)
def test_bad_input(library: Library, name: str, tmp_path: Path) -> None:
    injection, settings = RUNS[name]
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (SAMPLES, 8, 8, 1)).astype(np.int8)
    data = Data([x], rng.integers(0, CLASSES, SAMPLES).astype(np.int32))
    zo = inject_all(MODELS["small_cnn"](), batch=2, **injection)
    made = generate_firmware(zo, settings, steps=STEPS, samples=SAMPLES, name="small", data=data)
    folder = tmp_path / "firmware"
    made.write(folder)
    program = Path(__file__).with_name("bad_input.cc").read_text()
    replace_main(folder, f"#define ZO_CLASSES {CLASSES}\n{program}")
    printed = run(CORES[library.core], build_firmware(library, folder, tmp_path / "build"))
    lines = [line for line in printed.splitlines() if line.startswith(("ok ", "FAILED "))]
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert len(lines) == 20
