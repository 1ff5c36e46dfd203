"""Every algorithm that has a name, trained on an emulated Cortex-M4: the desktop's log and weights."""

import dataclasses
from pathlib import Path

import pytest

from helpers.models import lenet5
from tflm_checkout.firmware_build import LIBRARIES
from tflm_checkout.runs import check_run
from tflm_checkout.test_firmware import samples
from tflm_zo import inject, load_model
from tflm_zo.training import algorithm, inject_settings
from tflm_zo.training.algorithms import ALGORITHMS

STEPS, SAMPLES = 6, 40
LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_run_is_the_desktops(name: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    data = samples(28)
    settings = dataclasses.replace(algorithm(name), batch_size=4, seed=5)
    zo = load_model(inject(lenet5(), inject_settings(settings, batch=2)).to_bytes())
    assert len(data.labels) == SAMPLES
    check_run(LIBRARY, zo, settings, data, STEPS, "lenet5", tmp_path)
