"""The code of a program: kernels for int8, CMSIS-NN's if TFLM's library has them, its calls."""

import re
import subprocess
from pathlib import Path

import pytest

from helpers.firmware_folders import zo_model
from tflm_checkout.firmware_build import LIBRARIES, build_firmware
from tflm_zo.firmware import generate_firmware

LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")


@pytest.mark.parametrize("network", ["residual", "depthwise_separable"])
def test_kernels_of_the_program(network: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    made = generate_firmware(zo_model("weight", network), steps=2, samples=2, name="small")
    made.write(tmp_path / "firmware")
    program = build_firmware(LIBRARY, tmp_path / "firmware", tmp_path / "build")
    done = subprocess.run(["arm-none-eabi-nm", program], capture_output=True, text=True, check=True)
    kernels = set(re.findall(r" [Tt] (arm_\w+)$", done.stdout, re.M))
    # Operators on int16 activations or int4 weights. TFLM's Prepare asks for buffer sizes of all types, and
    # its average pooling for int8 has both.
    wide = r"arm_(convolve|depthwise|fully_connected|elementwise|max_pool|softmax)\w*_(s16|s4)(?!\w*_size)"
    assert {name for name in kernels if re.match(wide, name)} == set()
    assert any(name.startswith("arm_convolve_wrapper_s8") for name in kernels), sorted(kernels)
    if network == "depthwise_separable":
        assert "arm_depthwise_conv_wrapper_s8" in kernels
    else:
        assert "arm_elementwise_add_s8" in kernels
    # The example does not keep its best state, so nothing that measures is there.
    assert "WeightTrainer10TrainSlice" in done.stdout
    assert re.findall(r"KeepBest|RestoreBest|ReadMeasurement|measurement_(?:read|write)", done.stdout) == []
