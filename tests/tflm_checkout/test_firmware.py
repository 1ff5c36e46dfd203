"""Generated folders, built as a user would and run on emulated Cortex-M cores, against the desktop.

`make firmware-test TFLM_DIR=…` runs them: TFLM_DIR is a checkout of tflite-micro in which its own Makefile
has built the library of each core that is to be tested (firmware_build.py has the commands).
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortex_m.emulator import CORES, run
from helpers.injection import inject_all
from helpers.models import lenet5
from helpers.models.graph_builder import Activation, GraphBuilder
from tflm_checkout.firmware_build import LIBRARIES, Library, build_firmware
from tflm_zo import Model, load_model
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Nodes, Settings, Trainer, Weights

STEPS = 50
SAMPLES = 40


def ds_cnn() -> bytes:
    g = GraphBuilder(3)
    x = g.input("features", [1, 24, 24, 1])
    x = g.conv(x, "conv", 24, (10, 4), stride=2)
    for i in range(3):
        x = g.depthwise(x, f"block{i}/depthwise")
        x = g.conv(x, f"block{i}/pointwise", 24, (1, 1))
    x = g.pool(x, "average", 12, average=True)
    x = g.flatten(x, "flatten")
    return g.build([g.softmax(g.dense(x, "fc", 10, Activation.NONE), "softmax")])


def wide() -> bytes:
    g = GraphBuilder(4)
    x = g.conv(g.input("image", [1, 24, 24, 1]), "conv", 256, (1, 1), stride=24)
    return g.build([g.softmax(g.dense(g.flatten(x, "flatten"), "fc", 10, Activation.NONE), "softmax")])


NETWORKS = {"lenet5": (lenet5, 28), "ds_cnn": (ds_cnn, 24), "wide": (wide, 24)}
ALGORITHMS: dict[str, tuple[dict[str, Any], Any]] = {
    "weight": ({"trainable": "all"}, Settings(tasks=(Weights(queries=2),), batch_size=4, seed=11)),
    "node": (
        {"trainable": "nodes", "nodes": "auto", "headroom": 0, "replay": False},
        Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=11, snapshot_every=20),
    ),
    "conv": ({"trainable": ("conv",)}, Settings(tasks=(Weights(),), batch_size=4, seed=11)),
}
CASES = [(n, a) for n in ("lenet5", "ds_cnn") for a in ("weight", "node")] + [("wide", "conv")]


@cache
def samples(side: int) -> Data:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images[:SAMPLES].reshape(-1, 8, 8)
    large = np.kron(images, np.ones((3, 3)))
    edge = (side - large.shape[1]) // 2
    padded = np.pad(large, ((0, 0), (edge, edge), (edge, edge)))[..., None]
    return Data([np.round(padded * 15 - 120).astype(np.int8)], labels[:SAMPLES].astype(np.int32))


@cache
def zo_model(network: str, algorithm: str) -> Model:
    return load_model(inject_all(NETWORKS[network][0](), batch=1, **ALGORITHMS[algorithm][0]).to_bytes())


class Desktop:
    def __init__(self, network: str, algorithm: str, folder: Path) -> None:
        data = samples(NETWORKS[network][1])
        trainer = Trainer(zo_model(network, algorithm), ALGORITHMS[algorithm][1], runtime="tflm")
        log = folder / "run.zolog"
        self.before = trainer.evaluate(data.inputs[0], data.labels)
        history = trainer.fit(data.inputs[0], data.labels, steps=STEPS, log=log, keep="last")
        self.losses = [round(v * 65536) for v in history.steps]
        self.log = log.read_bytes()
        runtime = trainer.runtime
        runtime.invoke(runtime.command(loss=False, checksum=True))
        self.checksum = runtime.status().checksum
        self.after = trainer.evaluate(data.inputs[0], data.labels)


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cache(lambda network, algorithm: Desktop(network, algorithm, tmp_path_factory.mktemp("desktop")))


def log_of(lines: list[str]) -> bytes:
    found = bytearray()
    for line in lines:
        if line.startswith("log "):
            _, offset, text = line.split()
            at, data = int(offset), bytes.fromhex(text)
            found.extend(bytes(max(0, at + len(data) - len(found))))
            found[at : at + len(data)] = data
    return bytes(found)


@pytest.mark.parametrize(("network", "algorithm"), CASES)
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_the_run_is_the_desktops(library: Library, network: str, algorithm: str, desktop: Any, tmp_path: Path) -> None:
    if reason := library.why_not():
        pytest.skip(reason)
    _, settings = ALGORITHMS[algorithm]
    given: dict[str, Any] = {"data": samples(NETWORKS[network][1]), "data_name": "digits", "name": network}
    made = generate_firmware(zo_model(network, algorithm), settings, steps=STEPS, samples=SAMPLES, **given)
    made.write(tmp_path / "firmware")
    program = build_firmware(library, tmp_path / "firmware", tmp_path / "build")
    lines = run(CORES[library.core], program, timeout=600).splitlines()

    expected = desktop(network, algorithm)
    assert [int(line.split()[3]) for line in lines if line.startswith("step ")] == expected.losses
    assert log_of(lines) == expected.log
    assert f"checksum {expected.checksum:08x}" in lines
    for when, wanted in (("before", expected.before), ("after", expected.after)):
        line = next(line for line in lines if line.startswith(when))
        right, all_, loss = map(int, re.findall(r"\d+", line)[:3])
        assert (right, all_) == (round(wanted["accuracy"] * SAMPLES), SAMPLES)
        assert abs(loss / 65536 - wanted["loss"]) < 2e-4
    # CMSIS-NN alone wants more memory for its vectors.
    vectors = library.core == "cortex-m55" and library.cmsis_nn
    given = made.ram.arena.bytes_mve if vectors else made.ram.arena.bytes
    found = re.search(r"(\d+) bytes of arena needed, (\d+) given", lines[0])
    assert found is not None and int(found[2]) == given
    least = int(found[1])
    assert 0 < least <= given <= max(least + 1024, least * 1.05)
