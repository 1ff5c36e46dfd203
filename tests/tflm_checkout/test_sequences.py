"""Networks over sequences on emulated cores, with global average pooling and with squeeze and excitation: the
desktop's log and weights.
"""

from pathlib import Path

import pytest

from helpers.exact_gradients import samples
from helpers.keras_networks import sequence_network
from tflm_checkout.firmware_build import Library, on
from tflm_checkout.runs import check_run
from tflm_zo import load_model
from tflm_zo.data import Data
from tflm_zo.training import Exact, Nodes, Settings, Weights, inject_for

STEPS, SAMPLES = 4, 10

#: The network, its loss, and its trained layers.
RUNS: dict[str, tuple[str, str, Settings]] = {
    "average, nodes": ("mean", "cross_entropy", Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=1)),
    "average, every layer exact": ("mean", "cross_entropy", Settings(tasks=(Exact(last=3),), batch_size=2, seed=2)),
    "average, weights": (
        "mean",
        "cross_entropy",
        Settings(tasks=(Weights(),), batch_size=2, seed=3, learning_rate=20.0),
    ),
    "squeeze and excitation, nodes": (
        "squeeze and excitation",
        "cross_entropy",
        Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=4),
    ),
    "squeeze and excitation, every layer exact": (
        "squeeze and excitation",
        "cross_entropy",
        Settings(tasks=(Exact(last=5),), batch_size=2, seed=5),
    ),
    "squeeze and excitation, weights": (
        "squeeze and excitation",
        "cross_entropy",
        Settings(tasks=(Weights(),), batch_size=2, seed=6, learning_rate=20.0),
    ),
    "several labels, every layer exact": (
        "squeeze and excitation",
        "binary_cross_entropy",
        Settings(tasks=(Exact(last=5),), batch_size=2, seed=7),
    ),
    "regression, every layer exact": (
        "squeeze and excitation",
        "mse",
        Settings(tasks=(Exact(last=5),), batch_size=2, seed=8),
    ),
}
ENDS = {"cross_entropy": "softmax", "binary_cross_entropy": "sigmoid", "mse": None}
TESTED = ("cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn")


@on(*TESTED)
@pytest.mark.parametrize("name", RUNS)
def test_the_run_is_the_desktops(name: str, library: Library, tmp_path: Path) -> None:
    network, loss, settings = RUNS[name]
    plain = load_model(sequence_network(network, ENDS[loss]))
    x, y = samples(plain, SAMPLES, 1, loss)
    zo = load_model(inject_for(plain, settings, loss=loss).to_bytes())
    check_run(library, zo, settings, Data([x], y), STEPS, "sequence", tmp_path)
