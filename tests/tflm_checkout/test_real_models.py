"""Every model of TFLM_ZO_MODELS, as firmware on emulated cores: the desktop's losses, log and weights.

Weight perturbation and exact gradients train all weights, node perturbation its default layers. TFLM's
reference kernels take hundreds of millions of instructions for an inference of these models, so runs are
short.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.examples import REAL_MODELS
from tflm_checkout.esp_nn_build import EspNnLibrary
from tflm_checkout.firmware_build import Library, on
from tflm_checkout.runs import check_run
from tflm_zo import Model, inject, load_model
from tflm_zo.converters import ConversionError, read_metadata
from tflm_zo.data import Data
from tflm_zo.firmware import plan_run
from tflm_zo.firmware.boundaries import saving_memory
from tflm_zo.firmware.device_model import device_model
from tflm_zo.training import Settings, Weights, algorithms, inject_settings

STEPS, SAMPLES = 2, 3

RUNS: dict[str, Settings] = {
    "weight": Settings(tasks=(Weights(queries=2),), batch_size=1, seed=11, learning_rate=20.0),
    "node": algorithms.node(batch_size=2, seed=11, learning_rate=20.0),
    "exact": algorithms.exact(seed=11, learning_rate=1.0),
    "exact, least memory": algorithms.exact(seed=11, learning_rate=1.0),
    "exact, 8 bits": algorithms.exact(seed=11, learning_rate=1.0),
}
TESTED = ("cortex-m0plus-reference", "cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn", "rv32imc-reference")


def noise(model: Model) -> Data:
    (given,), (output,) = model.subgraphs[0].inputs, model.subgraphs[0].outputs
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (SAMPLES, *given.shape[1:])).astype(np.int8)
    places = int(np.prod(output.shape[1:-1]))
    shape = (SAMPLES, places) if places > 1 else SAMPLES
    labels = x if output.shape == given.shape else rng.integers(0, output.shape[-1], shape)
    return Data([x], labels if labels is x else labels.astype(np.int32))


@pytest.mark.slow
@on(*TESTED, more=[EspNnLibrary()])
@pytest.mark.parametrize("algorithm", RUNS)
@pytest.mark.parametrize("read", REAL_MODELS)
def test_the_run_is_the_desktops(
    read: Callable[[], bytes], algorithm: str, library: Library | EspNnLibrary, tmp_path: Path
) -> None:
    settings = RUNS[algorithm]
    model = load_model(read())
    bits = {"update_bits": 8} if algorithm == "exact, 8 bits" else {}
    try:
        zo = inject(model, inject_settings(settings, batch=1, **bits))
    except ConversionError as error:
        if algorithm != "node":
            raise
        pytest.skip(f"NO NODES: {error}")
    memory = None
    if algorithm == "exact, least memory":
        usual = device_model(zo, plan_run(zo, settings, steps=STEPS, samples=SAMPLES))
        memory = saving_memory(zo, read_metadata(zo), usual, 0).plan.memory
        assert memory.shares_arena
    check_run(library, zo, settings, noise(model), STEPS, "model", tmp_path, memory)
