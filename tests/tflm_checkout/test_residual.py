"""Residual networks on emulated cores, whose shortcuts cross segments: the desktop's log and weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import residual
from tflm_checkout.firmware_build import Library, on
from tflm_checkout.runs import check_run
from tflm_zo import Rademacher, load_model
from tflm_zo.converters import ResidualBlocks
from tflm_zo.data import Data
from tflm_zo.training import Exact, Nodes, Settings, Weights

STEPS, SAMPLES, CLASSES = 5, 12, 6

NODES: dict[str, Any] = {"trainable": "nodes", "headroom": 0, "replay": False}
RUNS: dict[str, tuple[dict[str, Any], Settings]] = {
    "every layer": ({**NODES, "nodes": "*"}, Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=8)),
    "inside of a block, exact head": (
        {**NODES, "nodes": ("block1/conv0", "projection", "fc")},
        Settings(tasks=(Nodes(queries=2), Exact()), batch_size=2, seed=9),
    ),
    "biases, too": (
        {**NODES, "nodes": "*", "parameters": "all"},
        Settings(tasks=(Nodes(queries=2, parameters="all"),), batch_size=4, seed=11),
    ),
    "biases alone": (
        {**NODES, "nodes": "*", "parameters": "biases"},
        Settings(tasks=(Nodes(queries=2, parameters="biases"), Exact(parameters="biases")), batch_size=2, seed=12),
    ),
    "exact tail over a block, body by its weights and biases": (
        {**NODES, "trainable": "all", "nodes": (), "tail": ResidualBlocks(), "headroom": 2, "parameters": "all"},
        Settings(
            tasks=(Weights(perturbation=Rademacher(1), parameters="all"), Exact(last=ResidualBlocks())),
            batch_size=4,
            seed=11,
        ),
    ),
    "weights and biases of blocks": (
        {"trainable": "all", "cuts": "layers", "parameters": "all"},
        Settings(tasks=(Weights(scope="blocks", parameters="all"),), batch_size=4, seed=10, learning_rate=20.0),
    ),
    "perturbed biases alone": (
        {"trainable": "all", "parameters": "biases"},
        Settings(tasks=(Weights(parameters="biases"),), batch_size=4, seed=13, learning_rate=20.0),
    ),
}


TESTED = ("cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn")


@on(*TESTED)
@pytest.mark.parametrize("name", RUNS)
def test_the_run_is_the_desktops(name: str, library: Library, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (SAMPLES, 8, 8, 3)).astype(np.int8)
    data = Data([x], rng.integers(0, CLASSES, SAMPLES).astype(np.int32))
    injection, settings = RUNS[name]
    zo = load_model(inject_all(residual(), **injection, batch=2).to_bytes())
    check_run(library, zo, settings, data, STEPS, "residual", tmp_path)
