"""examples/own_interpreter: a program's own resolver and interpreter train as the generated trainer does."""

import shutil
from pathlib import Path

from cortex_m.emulator import CORES, run
from helpers.firmware_folders import zo_model
from tflm_checkout.firmware_build import Library, build_firmware, on
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Settings, Weights

EXAMPLE = Path(__file__).parents[2] / "examples/own_interpreter/main.cc"
SETTINGS = Settings(tasks=(Weights(queries=2),), batch_size=3)
TESTED = ("cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn")


@on(*TESTED)
def test_it_trains_as_the_trainer_does(library: Library, tmp_path: Path) -> None:
    core = CORES[library.core]
    made = generate_firmware(zo_model("weight"), SETTINGS, steps=6, samples=7, name="model")
    made.write(tmp_path / "out")
    trainers = run(core, build_firmware(library, tmp_path / "out", tmp_path / "b")).splitlines()
    shutil.copy(EXAMPLE, tmp_path / "out/main.cc")
    own = run(core, build_firmware(library, tmp_path / "out", tmp_path / "b")).splitlines()
    expected = [line for line in trainers if line.startswith(("step ", "checksum "))]
    assert own == expected and len(own) == 7


def test_it_is_short() -> None:
    body = EXAMPLE.read_text().split("int main() {\n", 1)[1].split("\n}\n", 1)[0]
    assert len([line for line in body.splitlines() if line.strip()]) <= 40
