"""Networks of int16 activations on emulated cores: the desktop's log and weights, and memory of CMSIS-NN's kernels."""

from pathlib import Path

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.models.int16_networks import LABELS, of_many_operators, random_network
from tflm_checkout.firmware_build import Library, on
from tflm_checkout.runs import check_run
from tflm_zo import load_model
from tflm_zo.converters import inject
from tflm_zo.data import Inputs, prepare
from tflm_zo.training import Settings, Weights, inject_settings

WEIGHTS = Settings(tasks=(Weights(queries=2),), batch_size=2, seed=3, learning_rate=20.0)

NETWORKS = {str(seed): random_network(seed, channels=5, side=7) for seed in range(6)}
NETWORKS["many operators"] = of_many_operators()


@on("cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn")
@pytest.mark.parametrize("name", slow_but(["3", "many operators"], NETWORKS))
def test_weights(name: str, library: Library, tmp_path: Path) -> None:
    model = load_model(NETWORKS[name])
    zo = load_model(inject(model, inject_settings(WEIGHTS, batch=1)).to_bytes())
    x = np.random.default_rng(1).integers(-32768, 32768, (6, *model.subgraphs[0].inputs[0].shape[1:])).astype(np.int16)
    data = prepare(Inputs(zo), x, np.arange(6) % LABELS)
    check_run(library, zo, WEIGHTS, data, 3, "wide", tmp_path)
