"""A network that adds its own input behind a cut, on emulated cores: the desktop's log and weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models.node_networks import mixer
from tflm_checkout.firmware_build import Library, on
from tflm_checkout.runs import check_run
from tflm_zo import load_model
from tflm_zo.converters import read_metadata
from tflm_zo.data import Data
from tflm_zo.training import Exact, Nodes, Settings, Weights

STEPS, SAMPLES = 4, 10

NODES: dict[str, Any] = {"trainable": "nodes", "headroom": 0, "replay": False}
RUNS: dict[str, tuple[dict[str, Any], Settings]] = {
    "nodes": ({**NODES, "nodes": "*"}, Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=3)),
    "exact gradients": ({**NODES, "nodes": "*"}, Settings(tasks=(Nodes(queries=2), Exact()), batch_size=2, seed=4)),
    "weights": (
        {"trainable": "all", "cuts": "layers"},
        Settings(tasks=(Weights(queries=2),), batch_size=2, seed=5, learning_rate=20.0),
    ),
}
TESTED = ("cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn")


@on(*TESTED)
@pytest.mark.parametrize("name", RUNS)
def test_the_run_is_the_desktops(name: str, library: Library, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (SAMPLES, 6, 8)).astype(np.int8)
    data = Data([x], rng.integers(0, 3, SAMPLES).astype(np.int32))
    injection, settings = RUNS[name]
    zo = load_model(inject_all(mixer(), **injection, batch=2).to_bytes())
    assert sum(p.role == "input" for s in read_metadata(zo).segments for p in s.inputs) == 2
    check_run(library, zo, settings, data, STEPS, "mixer", tmp_path)
