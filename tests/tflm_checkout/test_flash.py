"""Flash of a Cortex-M4 for training beyond inference stays within a plan's estimate."""

import dataclasses
import functools
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from helpers.models import MODELS
from tflm_checkout.firmware_build import LIBRARIES
from tflm_checkout.flash import SAMPLES, Flash, flash_of, inferring, training, zo_model
from tflm_zo import load_model
from tflm_zo.converters import ResidualBlocks
from tflm_zo.firmware.planning import plan_run
from tflm_zo.firmware.sizes import flash_of_training
from tflm_zo.training import Exact, Nodes, Settings, algorithms

LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
NODE = algorithms.node(batch_size=16, learning_rate=1.0)
#: Settings and the network.
RUNS: dict[str, tuple[Settings, str]] = {
    "weight": (algorithms.weight(batch_size=16, learning_rate=1.0), "lenet5"),
    "node": (NODE, "lenet5"),
    "exact": (dataclasses.replace(NODE, tasks=(Nodes(), Exact(last=1))), "lenet5"),
    "exact block": (dataclasses.replace(NODE, tasks=(Nodes(), Exact(last=ResidualBlocks()))), "residual"),
}
#: Parts that only some runs may have: other algorithms, further functions for users, parts of libc.
FOREIGN = (
    *("KeepBest", "RestoreBest", "ImportLog", "Fleet", "fleet", "AnswerSlice", "TakeRecord", "withdraw"),
    *("flash_store", "status_text", "command_", "printf"),
)


@functools.cache
def inferring_with(model: str) -> Flash:
    with tempfile.TemporaryDirectory() as folder:
        return inferring(load_model(MODELS[model]()), LIBRARY, Path(folder) / "firmware")


@pytest.mark.parametrize("name", RUNS)
def test_flash_beyond_inference(name: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    settings, network = RUNS[name]
    folder, model = tmp_path / "firmware", load_model(MODELS[network]())
    whole = training(model, settings, LIBRARY, folder)
    more = whole.minus(inferring_with(network))
    plan = plan_run(zo_model(model, settings), settings, steps=1000, samples=SAMPLES)
    # The planner's estimate is no less, and not far above.
    bound = flash_of_training(plan)
    assert 0.93 * bound < more.total <= bound, dict(sorted(more.symbols.items(), key=lambda i: -i[1]))
    symbols = [symbol for part, symbol in more.symbols if part != "tables"]
    foreign = FOREIGN if name == "exact block" else (*FOREIGN, "backprop")
    assert [s for s in symbols if any(word in s for word in foreign)] == []
    assert any("TrainSlice" in symbol for symbol in symbols)
    # The map accounts for the program: the rest is the model, the program's own code and padding.
    size = ["arm-none-eabi-size", folder / "build" / "model"]
    said = subprocess.run(size, capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
    header = (folder / "model_zo_trainer.h").read_text()
    graphs = sum(map(int, re.findall(r"_model_data_size = (\d+);", header)))
    assert 0 <= int(said[0]) + int(said[1]) - graphs - whole.total < 3_000


def test_what_a_map_says() -> None:
    text = """Linker script and memory map
 .text.zo_divide
                0x00000100       0x36 libmodel_zo.a(model_zo_ops.c.obj)
 .text          0x00000200       0x10 CMakeFiles/model_example.dir/main.cc.obj
 .rodata.g_model_model_data
                0x00000300     0x1000 libmodel_zo.a(model_zo_model.cc.obj)
 .rodata.kInfo  0x00001300       0x4c libmodel_zo.a(model_zo_model.cc.obj)
 .text._ZN6tflite16MicroInterpreterC2Ev
                0x00001400       0x62 /gen/lib/libtensorflow-microlite.a(micro_interpreter.o)
 .bss.arena     0x20000000     0x4000 CMakeFiles/model_example.dir/main.cc.obj
"""
    found = flash_of(text)
    assert {part: found.of(part) for part in ("core", "tables", "TFLM")} == {"core": 0x36, "tables": 0x4C, "TFLM": 0x62}
    assert found.total == 0x36 + 0x4C + 0x62
    assert found.minus(found).symbols == {}
