# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Keyword spotting for a new voice: a network that knows five speakers meets a sixth one.

    python examples/new_voice/new_voice.py -o voice

fsdd.npz (Free Spoken Digit Dataset) is read from the folder TFLM_ZO_DATA. The folder gets the int8 model, its
data as .npz files for `tflm-zo`, and the adapted models; the table shows the accuracy of each way to adapt.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import tflm_zo as zo
from tflm_zo.demo.scenarios import read_spoken_digits
from tflm_zo.features import log_mel

Part = tuple[NDArray[np.float32], NDArray[np.int32]]

UTTERANCES = 128  # of the new speaker
HELD_OUT = 26  # of them, a fifth as `tflm-zo train` has it: they choose between weights, rates and epochs
BUDGET = 20_000  # forward equivalents


def parts(speaker: str) -> dict[str, Part]:
    """Returns features float32 [utterances, 49, 20, 1] and digits: of the five speakers for training and
    test, of the new speaker for adaptation, held out, and for the test.
    """
    data = read_spoken_digits()
    if speaker not in data.speakers:
        raise SystemExit(f"--speaker: no {speaker!r}; there are {', '.join(data.speakers)}")
    x = log_mel(data.signal)[..., None]
    is_new = data.speaker == data.speakers.index(speaker)
    random = np.random.default_rng(0)
    own = random.permutation(np.flatnonzero(is_new & (data.take < 20)))[:UTTERANCES]
    rows = {
        "old": random.permutation(np.flatnonzero(~is_new & (data.take >= 5))),
        "old_test": np.flatnonzero(~is_new & (data.take < 5)),
        "adapt": own[HELD_OUT:],
        "held_out": own[:HELD_OUT],
        "test": np.flatnonzero(is_new & (data.take >= 20)),
    }
    return {name: (x[row], data.digit[row]) for name, row in rows.items()}


def pretrained(data: dict[str, Part], epochs: int, seed: int) -> Any:
    """Trains a Keras DS-CNN on five speakers."""
    import keras

    from tflm_zo.keras_models import ds_cnn, pretrain

    keras.utils.set_random_seed(seed)
    network = ds_cnn(data["old"][0].shape[1:], classes=10, filters=24, blocks=3, stride=(4, 2))
    pretrain(network, *data["old"], epochs=epochs)
    return network


def adapted(model: zo.Model, settings: zo.Settings, data: dict[str, Part]) -> zo.Model:
    """Adapts the model. The held-out utterances select its best weights."""
    trainer = zo.Trainer(model, settings)
    trainer.fit(*data["adapt"], budget=BUDGET, validation_data=data["held_out"])
    return trainer.export()


def rehearsed(data: dict[str, Part]) -> dict[str, Part]:
    """Mixes in as many utterances of the five speakers, so that the model does not forget them."""
    x, y = data["old"]
    count, held = len(data["adapt"][1]), len(data["held_out"][1])
    rows = {"adapt": slice(count), "held_out": slice(count, count + held)}
    return {
        name: (np.concatenate([data[name][0], x[row]]), np.concatenate([data[name][1], y[row]]))
        for name, row in rows.items()
    }


def backpropagated(network: Any, data: dict[str, Part]) -> list[float]:
    """Measures full backpropagation in float32. The held-out utterances choose rate and epoch."""
    import keras

    best: tuple[float, list[float]] | None = None
    weights = network.get_weights()
    for rate in (1e-4, 3e-4, 1e-3):
        network.set_weights(weights)
        loss = keras.losses.SparseCategoricalCrossentropy()
        network.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
        stop = keras.callbacks.EarlyStopping("val_loss", patience=10, restore_best_weights=True)
        done = network.fit(*data["adapt"], 16, 100, verbose=0, validation_data=data["held_out"], callbacks=[stop])
        found = [network.evaluate(*data[name], verbose=0)[1] for name in ("test", "old_test")]
        if best is None or min(done.history["val_loss"]) < best[0]:
            best = min(done.history["val_loss"]), found
    assert best is not None
    return best[1]


def run(data: dict[str, Part], epochs: int, seed: int, folder: Path | None) -> dict[str, list[float]]:
    """Measures accuracies on the new speaker and on the five, by the way to adapt."""
    network = pretrained(data, epochs, seed)
    model = zo.convert(network, data["old"][0][:300]).model
    recalibrated = zo.recalibrate(model, data["adapt"][0]).model
    models = {
        "nothing": model,
        "recalibrated, without labels": recalibrated,
        "last layer alone, exact": adapted(recalibrated, zo.Settings(tasks=(zo.Exact(last=1),)), data),
        "forward passes only": adapted(recalibrated, zo.algorithms.node(), data),
        "forward passes only, old voices, too": adapted(recalibrated, zo.algorithms.node(), rehearsed(data)),
    }
    if folder is not None:
        models["nothing"].save(folder / "model.tflite")
        models["forward passes only"].save(folder / "adapted.tflite")
    found = {
        name: [zo.Trainer(m, zo.algorithms.node()).evaluate(*data[part])["accuracy"] for part in ("test", "old_test")]
        for name, m in models.items()
    }
    return {**found, "full backpropagation in Keras, float32": backpropagated(network, data)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder that does not exist yet")
    parser.add_argument("--speaker", default="george", help="name of the new speaker")
    parser.add_argument("--seeds", type=int, default=1, help="pre-trainings, whose mean is shown")
    parser.add_argument("--epochs", type=int, default=40, help="of pre-training")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists; choose another name")
    try:
        data = parts(options.speaker)
    except FileNotFoundError as error:
        parser.error(str(error))
    options.output.mkdir(parents=True)
    adapt = tuple(map(np.concatenate, zip(data["adapt"], data["held_out"], strict=True)))
    few = tuple(array[:UTTERANCES] for array in data["old"])
    for name, (x, y) in {"old": few, "adapt": adapt, "test": data["test"]}.items():
        np.savez(options.output / f"{name}.npz", x=x, y=y)
    runs = [run(data, options.epochs, s, None if s else options.output) for s in range(options.seeds)]
    table = Table(title=f"{options.speaker}, {UTTERANCES} utterances; accuracy, {options.seeds} pre-trainings")
    for column in ("way to adapt", options.speaker, "the five others"):
        table.add_column(column)
    for name in runs[0]:
        every = 100 * np.array([found[name] for found in runs])
        table.add_row(name, *(f"{m:.1f} ± {s:.1f} %" for m, s in zip(every.mean(0), every.std(0), strict=True)))
    Console().print(table)


if __name__ == "__main__":
    main()
