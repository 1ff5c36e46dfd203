"""examples/personalization: its folder, its reservoir, and the training of an emulated Cortex-M4 on its stream.

The run must be that of a reservoir and a layer-wise run written down here once more, in Python.
"""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortex_m.emulator import CORES, run
from helpers.interpreters import require
from tflm_checkout.firmware_build import LIBRARIES, TFLM_DIR, build_firmware
from tflm_checkout.test_firmware_warnings import CXX, STATIC, WARNINGS, checked, tflm_includes, tool
from tflm_zo import load_model
from tflm_zo.data import Data
from tflm_zo.runtime import load
from tflm_zo.training import Constant, Nodes, Settings
from tflm_zo.training.evaluation import evaluate
from tflm_zo.training.lowering import lower
from tflm_zo.training.node_run import NodeRun

EXAMPLE = Path(__file__).parents[2] / "examples" / "personalization"
LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
SLOTS, OLD, CLASSES = 60, 8, 10
SAMPLES_PER_ROUND, STEPS_PER_ROUND, SAMPLES_PER_REPORT = 10, 30, 60

Samples = tuple[NDArray[np.int8], NDArray[np.int32]]


class Ring:
    def __init__(self, slots: int) -> None:
        self.slots, self.labels, self.by_class = slots, list[int](), dict[int, list[int]]()

    def add(self, label: int) -> int:
        if len(self.labels) < self.slots:
            slot = len(self.labels)
            self.labels.append(label)
        else:
            most = max(len(found) for found in self.by_class.values())
            full = [c for c in sorted(self.by_class) if len(self.by_class[c]) == most]
            slot = self.by_class[label if label in full else full[0]].pop(0)
            self.labels[slot] = label
        self.by_class.setdefault(label, []).append(slot)
        return slot


@pytest.fixture(scope="module")
def library() -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)


@pytest.fixture(params=["gcc", "clang"])
def compiler(request: pytest.FixtureRequest) -> str:
    if TFLM_DIR is None:
        pytest.skip("TFLM_DIR IS NOT SET: THE EXAMPLE WAS NOT COMPILED (tflite-micro's headers are needed)")
    for name in ("arm-none-eabi-g++", "clang++" if request.param == "clang" else "arm-none-eabi-g++"):
        if shutil.which(name) is None:
            pytest.skip(f"NO {name}: THE EXAMPLE WAS NOT COMPILED WITH IT")
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("tflm")
    pytest.importorskip("keras")
    output = tmp_path_factory.mktemp("personalization") / "out"
    command = [sys.executable, EXAMPLE / "personalization.py", "-o", output, "--epochs", "20"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=output.parent)
    assert done.returncode == 0, done.stderr
    before, after = ([float(v) for v in re.findall(r"([\d.]+)%", line)] for line in done.stdout.splitlines()[-2:])
    assert before[0] > 90 and before[1:] == [0, 0]
    assert after[0] > 85 and min(after[1:]) > 60
    return output


def samples(folder: Path, name: str) -> Samples:
    text = (folder / "firmware" / "digits_zo_samples.cc").read_text()
    body = re.search(rf"const Sample {name}\[\w*\] = {{(.*?)\n}};", text, re.S)
    assert body is not None
    rows = [[int(v) for v in re.findall(r"-?\d+", line)] for line in body[1].strip().splitlines()]
    values = np.array(rows)
    assert values.shape[1] == 65
    return values[:, :-1].astype(np.int8).reshape(-1, 8, 8, 1), values[:, -1].astype(np.int32)


@pytest.mark.slow
def test_the_folder_and_what_is_in_it_agree(folder: Path) -> None:
    firmware = folder / "firmware"
    header = (firmware / "digits_zo_samples.h").read_text()
    constants = {k: int(v) for k, v in re.findall(r"constexpr uint32_t (\w+) = (\d+);", header)}
    config = (firmware / "digits_zo_config.h").read_text()
    rehearsal, stream, held_out = (samples(folder, f"k{n}") for n in ("Rehearsal", "Stream", "HeldOut"))
    assert len(rehearsal[1]) == constants["kRehearsalCount"] and len(stream[1]) == constants["kStreamCount"]
    assert f"#define DIGITS_ZO_SAMPLES {len(rehearsal[1]) + SLOTS}u" in config
    assert (constants["kOldClasses"], constants["kClasses"]) == (OLD, CLASSES)
    # Old classes alike in flash, new ones later in the stream; held-out samples by class.
    assert Counter(rehearsal[1].tolist()) == dict.fromkeys(range(OLD), len(rehearsal[1]) // OLD)
    assert stream[1][:60].max() < 8 and stream[1][60:160].max() == 8 and stream[1].max() == 9
    assert (np.diff(held_out[1]) >= 0).all() and set(held_out[1]) == set(range(CLASSES))
    # Nothing is learned that is judged by.
    seen = {x.tobytes() for x in [*rehearsal[0], *stream[0]]}
    assert not seen & {x.tobytes() for x in held_out[0]}
    # The model has the outputs, and knows nothing of the new classes.
    runtime = load(load_model(folder / "digits.zo.tflite"), "litert")
    assert runtime.output_details()[0][-1] == CLASSES
    new = held_out[1] >= OLD
    assert evaluate(runtime, Data([held_out[0][new]], held_out[1][new])).accuracy == 0


@pytest.mark.parametrize("slots", [1, 7, 20])
def test_reservoir(slots: int, tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("NO c++: THE RESERVOIR WAS NOT COMPILED")
    rng = np.random.default_rng(slots)
    # Classes come and go, so that each is the most frequent one for a while.
    labels = np.concatenate([rng.integers(low, low + 3, 60) for low in (0, 2, 0, 3)])
    given = np.where(rng.random(len(labels)) < 0.1, rng.choice([-1, 6, 2**31 - 1], len(labels)), labels)
    (tmp_path / "test.cc").write_text(
        f"""#include <stdio.h>
#include "reservoir.h"
Reservoir<{slots}, 2, 6> reservoir;
const int32_t kLabels[] = {{{", ".join(map(str, given))}}};
int main() {{
  int32_t n = 0;
  for (const int32_t label : kLabels) {{
    const int8_t input[2] = {{static_cast<int8_t>(n & 127), static_cast<int8_t>(n >> 7)}};
    printf("%d:", reservoir.Add(input, label) ? 1 : 0);
    for (uint32_t i = 0; i < reservoir.used(); ++i)
      printf(" %d,%d", reservoir.label(i), reservoir.input(i)[0] + 128 * reservoir.input(i)[1]);
    printf("\\n");
    ++n;
  }}
}}
"""
    )
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", f"-I{EXAMPLE}"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    checked(compiler, *flags, *sanitizers, "test.cc", "-o", "test", folder=tmp_path)
    ring, numbers, expected = Ring(slots), [0] * slots, []
    for n, label in enumerate(given.tolist()):
        kept = 0 <= label < 6
        if kept:
            numbers[ring.add(label)] = n
        slots_now = "".join(f" {c},{numbers[i]}" for i, c in enumerate(ring.labels))
        expected.append(f"{int(kept)}:{slots_now}")
    assert checked(tmp_path / "test").splitlines() == expected
    assert slots == 1 or max(Counter(ring.labels).values()) < slots


def desktop(folder: Path) -> tuple[list[list[int]], int]:
    """Runs the same on the desktop: right held-out samples (old classes, each new one); the checksum."""
    model = load_model(folder / "digits.zo.tflite")
    runtime = load(model, "tflm")
    rehearsal, stream, held_out = (samples(folder, f"k{n}") for n in ("Rehearsal", "Stream", "HeldOut"))
    settings = Settings(tasks=(Nodes(queries=8),), batch_size=16, learning_rate=0.3, schedule=Constant(), seed=1)
    count = len(rehearsal[1])
    which = np.arange(count + SLOTS) % count
    x, y = rehearsal[0][which], rehearsal[1][which]
    lowered = lower(model, runtime.metadata, settings, steps=1_000_000, samples=len(y))
    trained = NodeRun(runtime, model, lowered, Data([x], y))
    trained.begin()

    def right() -> list[int]:
        old = held_out[1] < OLD
        parts = [old, *(held_out[1] == c for c in range(OLD, CLASSES))]
        shares = [evaluate(runtime, Data([held_out[0][p]], held_out[1][p])).accuracy or 0 for p in parts]
        return [round(share * p.sum()) for share, p in zip(shares, parts, strict=True)]

    reports, ring = [right()], Ring(SLOTS)
    for met, (image, label) in enumerate(zip(*stream, strict=True), 1):
        slot = count + ring.add(int(label))
        x[slot], y[slot] = image, label
        if met % SAMPLES_PER_ROUND == 0:
            # The kept outputs of the first layers are of other samples.
            assert trained._prefix is not None
            trained._prefix.forget()
            for _ in range(STEPS_PER_ROUND):
                trained.advance()
        if met % SAMPLES_PER_REPORT == 0:
            reports.append(right())
    runtime.invoke(runtime.command(loss=False, checksum=True))
    return reports, runtime.status().checksum


def test_new_classes_are_learned_on_the_device(library: None, folder: Path, tmp_path: Path) -> None:
    program = build_firmware(LIBRARY, folder / "firmware", tmp_path / "build")
    lines = run(CORES[LIBRARY.core], program, timeout=300).splitlines()
    pattern = r"met (\d+): old (\d+) of (\d+) class 8 (\d+) of (\d+) class 9 (\d+) of (\d+)"
    found = [[int(v) for v in m.groups()] for m in map(re.compile(pattern).fullmatch, lines) if m]
    assert [row[0] for row in found] == list(range(0, 301, SAMPLES_PER_REPORT))
    shares = np.array([[row[i] / row[i + 1] for i in (1, 3, 5)] for row in found])
    assert shares[0, 0] > 0.9 and not shares[0, 1:].any()
    # The ninth class is there after 120 samples, the tenth at the end; old ones are remembered.
    assert shares[1, 1:].max() == 0 and shares[2, 2] == 0
    assert shares[-1, 0] > shares[0, 0] - 0.08
    assert (shares[-1, 1:] > 0.7).all()
    reports, checksum = desktop(folder)
    assert [[row[1], row[3], row[5]] for row in found] == reports
    assert lines[-1] == f"steps 900 checksum {checksum:08x}"


def test_no_warning(compiler: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue("folder")
    options = ["-std=c++17", *CXX, *WARNINGS, *STATIC, "-I.", *tflm_includes(), "-fsyntax-only"]
    checked(*tool(compiler, "cortex-m4"), *options, "main.cc", "digits_zo_samples.cc", folder=folder / "firmware")
