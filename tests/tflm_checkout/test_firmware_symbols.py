"""Requirements of a generated folder: TFLM, and of the C library no more than to move bytes.

So there is no heap, no floating point, no exceptions, no RTTI, and nothing that runs before main.
"""

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from helpers.firmware_folders import zo_model
from helpers.models import MODELS
from tflm_checkout.firmware_build import LIBRARIES, build_firmware
from tflm_zo import inject
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import algorithm, inject_settings

# Division of 64 bits is the compiler's; TFLM's headers make `abort` and `strcmp` of their own.
ALLOWED = {"memcpy", "memmove", "memset", "memcmp", "strcmp", "abort", "__aeabi_uldivmod", "__aeabi_ldivmod"}
ALLOWED |= {f"__aeabi_{name}" for name in ("uidiv", "uidivmod", "idiv", "idivmod", "lmul", "llsl", "llsr")}
# Without a floating-point unit every operation would be a call.
LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m3-reference")


def _said(*command: object) -> str:
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["weight", "node", "elastic-zo-int8", "qzo-ff"])
def test_symbols_and_sections(name: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    settings = dataclasses.replace(algorithm(name), batch_size=2)
    zo = inject(MODELS["small_cnn"](), inject_settings(settings, batch=1))
    made = generate_firmware(zo, settings, steps=3, samples=4, name="small")
    made.write(tmp_path / "firmware")
    build_firmware(LIBRARY, tmp_path / "firmware", tmp_path / "build")
    (archive,) = (tmp_path / "build").rglob("libsmall_zo.a")

    symbols = re.findall(r"^ +(\w) (\S+)$|^\w+ (\w) (\S+)$", _said("arm-none-eabi-nm", archive), re.M)
    defined = {name for _, _, kind, name in symbols if kind}
    wanted = {name for kind, name, _, _ in symbols if kind == "U"} - defined
    assert "memcpy" in wanted
    others = wanted - ALLOWED
    assert {symbol for symbol in others if not re.match(r"_ZNK?6tflite", symbol)} == set()

    sections = set(re.findall(r"^ +\d+ (\S+)", _said("arm-none-eabi-objdump", "-h", archive), re.M))
    assert any(section.startswith(".text") for section in sections)
    before_main = re.compile(r"\.(init_array|ctors|preinit_array|eh_frame|gcc_except_table)")
    assert {section for section in sections if before_main.match(section)} == set()


CMSIS_NN = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")


@pytest.mark.parametrize("network", ["residual", "depthwise_separable"])
def test_kernels_of_the_program(network: str, tmp_path: Path) -> None:
    if reason := CMSIS_NN.why_not():
        pytest.skip(reason)
    made = generate_firmware(zo_model("weight", network), steps=2, samples=2, name="small")
    made.write(tmp_path / "firmware")
    program = build_firmware(CMSIS_NN, tmp_path / "firmware", tmp_path / "build")
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
