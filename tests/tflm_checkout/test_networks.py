"""Networks with shortcuts, inputs behind a cut, and sequences, on emulated cores: the desktop's log and weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.exact_gradients import samples
from helpers.injection import inject_all
from helpers.models import residual
from helpers.models.detectors import detector_samples, injected_detector
from helpers.models.node_networks import mixer
from tflm_checkout.firmware_build import Library, on
from tflm_checkout.runs import check_run
from tflm_zo import Rademacher, load_model
from tflm_zo.converters import ResidualBlocks, read_metadata
from tflm_zo.data import Data, Inputs, prepare
from tflm_zo.training import Exact, Nodes, Settings, Weights, inject_for

TESTED = ("cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn")
NODES: dict[str, Any] = {"trainable": "nodes", "headroom": 0, "replay": False}
EVERY: dict[str, Any] = {**NODES, "nodes": "*"}


def run(*tasks: Any, seed: int, batch_size: int = 2, learning_rate: float | None = None) -> Settings:
    return Settings(tasks=tasks, batch_size=batch_size, seed=seed, learning_rate=learning_rate)


RESIDUAL: dict[str, tuple[dict[str, Any], Settings]] = {
    "every layer": (EVERY, run(Nodes(queries=2), batch_size=4, seed=8)),
    "inside of a block, exact head": (
        {**NODES, "nodes": ("block1/conv0", "projection", "fc")},
        run(Nodes(queries=2), Exact(), seed=9),
    ),
    "biases, too": ({**EVERY, "parameters": "all"}, run(Nodes(queries=2, parameters="all"), batch_size=4, seed=11)),
    "biases alone": (
        {**EVERY, "parameters": "biases"},
        run(Nodes(queries=2, parameters="biases"), Exact(parameters="biases"), seed=12),
    ),
    "exact tail over a block, body by its weights and biases": (
        {"trainable": "all", "tail": ResidualBlocks(), "headroom": 2, "replay": False, "parameters": "all"},
        run(
            *(Weights(perturbation=Rademacher(1), parameters="all"), Exact(last=ResidualBlocks())),
            batch_size=4,
            seed=11,
        ),
    ),
    "weights and biases of blocks": (
        {"trainable": "all", "cuts": "layers", "parameters": "all"},
        run(Weights(scope="blocks", parameters="all"), batch_size=4, seed=10, learning_rate=20.0),
    ),
    "perturbed biases alone": (
        {"trainable": "all", "parameters": "biases"},
        run(Weights(parameters="biases"), batch_size=4, seed=13, learning_rate=20.0),
    ),
}


@on(*TESTED)
@pytest.mark.parametrize("name", RESIDUAL)
def test_shortcuts_that_cross_segments(name: str, library: Library, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (12, 8, 8, 3)).astype(np.int8)
    data = Data([x], rng.integers(0, 6, 12).astype(np.int32))
    injection, settings = RESIDUAL[name]
    zo = load_model(inject_all(residual(), **injection, batch=2).to_bytes())
    check_run(library, zo, settings, data, 5, "residual", tmp_path)


MIXER: dict[str, tuple[dict[str, Any], Settings]] = {
    "nodes": (EVERY, run(Nodes(queries=2), seed=3)),
    "exact gradients": (EVERY, run(Nodes(queries=2), Exact(), seed=4)),
    "weights": ({"trainable": "all", "cuts": "layers"}, run(Weights(queries=2), seed=5, learning_rate=20.0)),
}


@on(*TESTED)
@pytest.mark.parametrize("name", MIXER)
def test_an_input_that_is_added_behind_a_cut(name: str, library: Library, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (10, 6, 8)).astype(np.int8)
    data = Data([x], rng.integers(0, 3, 10).astype(np.int32))
    injection, settings = MIXER[name]
    zo = load_model(inject_all(mixer(), **injection, batch=2).to_bytes())
    assert sum(p.role == "input" for s in read_metadata(zo).segments for p in s.inputs) == 2
    check_run(library, zo, settings, data, 4, "mixer", tmp_path)


SQUEEZE = "squeeze and excitation"
#: The network, its loss, and its trained layers.
SEQUENCES: dict[str, tuple[str, str, Settings]] = {
    "average, nodes": ("mean", "cross_entropy", run(Nodes(queries=2), seed=1)),
    "average, every layer exact": ("mean", "cross_entropy", run(Exact(last=3), seed=2)),
    "average, weights": ("mean", "cross_entropy", run(Weights(), seed=3, learning_rate=20.0)),
    f"{SQUEEZE}, nodes": (SQUEEZE, "cross_entropy", run(Nodes(queries=2), seed=4)),
    f"{SQUEEZE}, every layer exact": (SQUEEZE, "cross_entropy", run(Exact(last=5), seed=5)),
    f"{SQUEEZE}, weights": (SQUEEZE, "cross_entropy", run(Weights(), seed=6, learning_rate=20.0)),
    "several labels, every layer exact": (SQUEEZE, "binary_cross_entropy", run(Exact(last=5), seed=7)),
    "regression, every layer exact": (SQUEEZE, "mse", run(Exact(last=5), seed=8)),
}
ENDS = {"cross_entropy": "softmax", "binary_cross_entropy": "sigmoid", "mse": None}


@on(*TESTED)
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name: str, library: Library, tmp_path: Path) -> None:
    from helpers.keras_networks import sequence_network  # which skips without TensorFlow

    network, loss, settings = SEQUENCES[name]
    plain = load_model(sequence_network(network, ENDS[loss]))
    x, y = samples(plain, 10, 1, loss)
    zo = load_model(inject_for(plain, settings, loss=loss).to_bytes())
    check_run(library, zo, settings, Data([x], y), 4, "sequence", tmp_path)


#: The detector, the loss, and the trained layers.
SUMS: dict[str, tuple[str, Settings]] = {
    "grid, every layer exact": ("grid", run(Exact(last=2), seed=1)),
    "grid, weights": ("grid", run(Weights(queries=2), seed=2, learning_rate=20.0)),
    "two heads, nodes": ("heads", run(Nodes(queries=2), seed=3)),
}


@on(*TESTED)
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_losses(name: str, library: Library, tmp_path: Path) -> None:
    network, settings = SUMS[name]
    rng = np.random.default_rng(1)
    zo = load_model(injected_detector(network, settings).to_bytes())
    x, y = detector_samples(network, rng, 8)
    check_run(library, zo, settings, prepare(Inputs(zo), x, y), 4, "detector", tmp_path)
