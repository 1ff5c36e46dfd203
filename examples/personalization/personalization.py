# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Class-incremental personalization: a model, a stream of samples, and the firmware that learns from it.

    python examples/personalization/personalization.py -o personalization

A CNN that knows scikit-learn's digits 0 to 7 gets a last layer with room for ten classes. The stream that the
device meets has old digits only, then 8 as well, then 9. The folder is built as its README says.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo import Model, convert, inject
from tflm_zo.data import prepare
from tflm_zo.firmware import generate_firmware
from tflm_zo.runtime import load
from tflm_zo.training import Constant, Nodes, Settings, Trainer

HERE = Path(__file__).parent
OLD, CLASSES = 8, 10
REHEARSED = 6  # samples in flash, of each old class
SLOTS = 60  # samples in RAM
STREAM = 300
ARRIVALS = {8: 60, 9: 160}  # position in the stream from which a new class appears

# The rate is constant, so the number of steps only limits the run: choose it large.
SETTINGS = Settings(tasks=(Nodes(queries=8),), batch_size=16, learning_rate=0.3, schedule=Constant(), seed=1)
STEPS = 1_000_000

Samples = tuple[NDArray[Any], NDArray[np.int32]]


def digits() -> dict[str, Samples]:
    """Returns images float32 [samples, 8, 8, 1], 0..1, and labels of each part."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x = (data.images[order, ..., None] / 16).astype(np.float32)
    y = data.target[order].astype(np.int32)
    known = np.flatnonzero(y[:900] < OLD)
    rehearsal = np.concatenate([np.flatnonzero(y[:900] == c)[:REHEARSED] for c in range(OLD)])
    stream: list[int] = []
    for k in range(900, 1400):
        if len(stream) < STREAM and len(stream) >= ARRIVALS.get(int(y[k]), 0):
            stream.append(k)
    held_out = 1400 + np.argsort(y[1400:], kind="stable")
    parts = {"known": known, "rehearsal": rehearsal, "stream": stream, "held_out": held_out}
    return {name: (x[rows], y[rows]) for name, rows in parts.items()}


def make_model(known: Samples, epochs: int) -> Model:
    """Makes a ZO model, batch 1, of a CNN that knows the old classes and has outputs for the new ones.

    Only the last layer is trained: its features suffice for the new classes.
    """
    import keras

    from tflm_zo.keras_models import digits_cnn, pretrain

    keras.utils.set_random_seed(0)
    network = digits_cnn(classes=OLD)
    pretrain(network, *known, epochs=epochs)
    plain = convert(network, known[0][:300], classes=CLASSES).model
    return inject(plain, nodes=("fc",))


def c_array(name: str, size: str, x: NDArray[np.int8], y: NDArray[np.int32]) -> str:
    """Samples as digits_zo_samples.h declares them."""
    rows = [f"    {{{{{', '.join(map(str, v.reshape(-1)))}}}, {label}}}," for v, label in zip(x, y, strict=True)]
    return "\n".join([f"const Sample {name}[{size}] = {{", *rows, "};", ""])


def write_folder(model: Model, data: dict[str, Samples], folder: Path) -> None:
    """Generates the firmware, with this example as its application."""
    made = generate_firmware(
        model, SETTINGS, steps=STEPS, samples=OLD * REHEARSED + SLOTS, name="digits", platform="cmake"
    )
    made.write(folder)
    for name in ("main.cc", "reservoir.h", "digits_zo_samples.h"):
        shutil.copy(HERE / name, folder / name)
    runtime = load(model)
    arrays = {name: prepare(runtime, x, y) for name, (x, y) in data.items()}
    rows = {name: (given.inputs[0], given.labels) for name, given in arrays.items()}
    text = [
        "// Written by personalization.py: scikit-learn's digits, as the model reads them.",
        '#include "digits_zo_samples.h"\n',
        c_array("kRehearsal", "kRehearsalCount", *rows["rehearsal"]),
        c_array("kStream", "kStreamCount", *rows["stream"]),
        c_array("kHeldOut", "", *rows["held_out"]),
        f"const uint32_t kHeldOutCount = {len(rows['held_out'][1])};\n",
    ]
    (folder / "digits_zo_samples.cc").write_text("\n".join(text), encoding="utf-8")
    print(
        f"{folder}: arena {made.ram.arena.bytes}, workspace {made.ram.workspace}, weights "
        f"{made.trainable_bytes}, model {made.model_bytes} bytes"
    )


def compare(model: Model, data: dict[str, Samples], steps: int) -> None:
    """Trains as many steps on a desktop, on the whole stream at once. No device has room for that."""
    trainer = Trainer(model, SETTINGS)
    x, y = (np.concatenate(parts) for parts in zip(data["rehearsal"], data["stream"], strict=True))
    held_x, held_y = data["held_out"]

    def report(when: str) -> None:
        parts = {"old": held_y < OLD} | {f"class {c}": held_y == c for c in range(OLD, CLASSES)}
        shares = [f"{k} {trainer.evaluate(held_x[v], held_y[v])['accuracy']:.1%}" for k, v in parts.items()]
        print(f"{when}: {', '.join(shares)}")

    report("desktop, before")
    trainer.fit(x, y, steps=steps)
    report("desktop, the whole stream at once")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder that does not exist yet")
    parser.add_argument("--epochs", type=int, default=30, help="of pre-training")
    arguments = parser.parse_args()
    if arguments.output.exists():
        parser.error(f"{arguments.output} exists; choose another name")
    data = digits()
    model = make_model(data["known"], arguments.epochs)
    arguments.output.mkdir(parents=True)
    model.save(arguments.output / "digits.zo.tflite")
    write_folder(model, data, arguments.output / "firmware")
    compare(model, data, steps=900)


if __name__ == "__main__":
    main()
