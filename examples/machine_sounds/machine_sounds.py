# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Machine sounds: an autoencoder that knows the fans of a factory is put beside another fan.

    python examples/machine_sounds/machine_sounds.py -o sounds

The sounds are synthesized here, so nothing is downloaded. An autoencoder learns the sound of healthy fans; a
large reconstruction error is an anomaly. It meets a fan of another kind in a louder hall, and is adapted with
healthy sounds alone. The folder gets the int8 model, the data as .npz files for `tflm-zo`, and the adapted
model; the table shows how well each way to adapt separates faults from healthy sounds.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import tflm_zo as zo
from tflm_zo.features import log_mel

Floats = NDArray[np.float32]

RATE, SECONDS = 8000, 1
BANDS, FRAMES = 32, 5  # of a window, the network's input
CLIPS, HELD_OUT = 120, 30  # healthy ones of the new fan, and how many of them choose between weights
BUDGET = 200_000  # forward equivalents


@dataclass(frozen=True)
class Fan:
    """The sound of a fan.

    Attributes:
        turns: turns a second.
        blades: number of blades, whose passing is heard with its harmonics.
        resonance: frequency that the housing makes louder, Hz.
        hall: noise of the place, relative to the fan.
    """

    turns: float
    blades: int
    resonance: float
    hall: float


KNOWN = (Fan(24, 7, 900, 0.3), Fan(29, 7, 1100, 0.3), Fan(33, 5, 1000, 0.4))
NEW = Fan(46, 5, 1900, 1.0)
FAULTS = ("bearing", "imbalance", "rubbing")


def clip(fan: Fan, random: np.random.Generator, fault: str | None) -> Floats:
    """Synthesizes a second of a fan, float32 [8000]."""
    t = np.arange(RATE * SECONDS) / RATE
    turns = fan.turns * random.normal(1, 0.01)
    depth = 0.5 if fault == "imbalance" else 0.05  # by which each turn is louder and softer
    envelope = 1 + depth * np.sin(2 * np.pi * turns * t + random.uniform(0, 6.3))
    sound = np.zeros_like(t)
    for harmonic in range(1, 16):
        frequency = turns * fan.blades * harmonic
        if frequency < RATE / 2:
            loud = 1 / harmonic + np.exp(-(((frequency - fan.resonance) / 250) ** 2))
            loud *= random.uniform(0.6, 1.4)  # as the speed drifts
            sound += loud * np.sin(2 * np.pi * frequency * t + random.uniform(0, 6.3))
    sound *= envelope
    if fault == "bearing":  # clicks that ring at 2.8 kHz, some for each turn
        phase = (t * turns * 3.4) % 1 / (turns * 3.4)
        sound += 0.5 * np.exp(-phase * 400) * np.sin(2 * np.pi * 2800 * phase)
    if fault == "rubbing":  # bursts of hiss, one for each turn
        hiss = np.diff(random.normal(0, 1, len(t) + 1))
        sound += 0.15 * hiss * ((t * turns) % 1 < 0.25)
    # Noise of the place, louder at low frequencies.
    noise = np.convolve(random.normal(0, 1, len(t) + 31), np.hanning(32), "valid") / 3.4
    return (sound + fan.hall * noise + 0.02 * random.normal(0, 1, len(t))).astype(np.float32)


def windows(clips: list[Floats]) -> Floats:
    """Cuts the clips' spectrograms into windows, float32 [clips, windows, 160], 0..1."""
    spectra = log_mel(np.stack(clips), sample_rate=RATE, n_mels=BANDS)
    found = np.lib.stride_tricks.sliding_window_view(spectra, FRAMES, axis=1)[:, ::FRAMES]
    return np.ascontiguousarray(found.transpose(0, 1, 3, 2).reshape(len(clips), -1, FRAMES * BANDS))


def sounds(fans: tuple[Fan, ...], count: int, seed: int, fault: str | None = None) -> Floats:
    """Synthesizes `count` clips of each fan in turn, as windows."""
    random = np.random.default_rng(seed)
    return windows([clip(fans[i % len(fans)], random, fault) for i in range(count)])


def test_sounds(fans: tuple[Fan, ...], seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Returns windows of healthy and faulty clips, and a mask of the faulty ones."""
    healthy = sounds(fans, 90, seed)
    faulty = [sounds(fans, 30, seed + 1 + i, fault) for i, fault in enumerate(FAULTS)]
    x = np.concatenate([healthy, *faulty])
    return x, np.arange(len(x)) >= len(healthy)


def autoencoder(x: Floats, epochs: int, seed: int) -> Any:
    """Trains a Keras autoencoder to reproduce windows, [windows, 160]."""
    import keras

    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(n, "relu") for n in (64, 64, 8, 64, 64)]
    network = keras.Sequential([keras.Input((x.shape[1],)), *layers, keras.layers.Dense(x.shape[1])])
    network.compile(keras.optimizers.Adam(1e-3), "mse")
    network.fit(x, x, 64, epochs, verbose=0)
    return network


def auc(reproduced: Floats, x: Floats, faulty: NDArray[np.bool_]) -> float:
    """Computes the area under the ROC curve of the clips' mean squared errors."""
    errors = np.square(reproduced.reshape(x.shape) - x).mean(axis=(1, 2))
    return float(roc_auc_score(faulty, errors))


def flat(x: Floats) -> Floats:
    """Flattens windows of all clips to [windows, 160]."""
    return x.reshape(-1, x.shape[-1])


def auc_of(model: zo.Model, x: Floats, faulty: NDArray[np.bool_]) -> float:
    """Computes the same for an int8 model."""
    trainer = zo.Trainer(model, zo.algorithms.node())
    _, _, scale, zero_point = trainer.runtime.output_details()
    return auc((trainer.predict(flat(x)).astype(np.float32) - zero_point) * scale, x, faulty)


def adapted(model: zo.Model, settings: zo.Settings, x: Floats, held_out: Floats) -> zo.Model:
    """Adapts the model. The held-out sounds select its best weights."""
    trainer = zo.Trainer(model, settings)
    trainer.fit(flat(x), budget=BUDGET, validation_data=flat(held_out))
    return trainer.export()


def backpropagated(network: Any, x: Floats, held_out: Floats) -> Any:
    """Trains the Keras model by full backpropagation in float32. The held-out sounds choose the epoch."""
    import keras

    stop = keras.callbacks.EarlyStopping("val_loss", patience=10, restore_best_weights=True)
    network.compile(keras.optimizers.Adam(1e-3), "mse")
    held = (flat(held_out), flat(held_out))
    network.fit(flat(x), flat(x), 32, 100, verbose=0, validation_data=held, callbacks=[stop])
    return network


def run(seed: int, epochs: int, folder: Path | None) -> dict[str, tuple[float, float]]:
    """Measures areas under the curves of the new fan and of the known ones, by the way to adapt."""
    old = sounds(KNOWN, 600, 1000 * seed)
    clips = sounds((NEW,), CLIPS, 1000 * seed + 1)
    x, held_out = clips[HELD_OUT:], clips[:HELD_OUT]
    new_test, old_test = test_sounds((NEW,), 1000 * seed + 10), test_sounds(KNOWN, 1000 * seed + 20)
    network = autoencoder(flat(old), epochs, seed)
    model = zo.convert(network, flat(old)[:500]).model
    node = zo.algorithms.node()
    models = {
        "nothing": model,
        "recalibrated": zo.recalibrate(model, flat(x)).model,
        "last layer alone, forward passes": adapted(model, zo.algorithms.node(layers=zo.Last(1)), x, held_out),
        "forward passes only": adapted(model, node, x, held_out),
        "forward passes only, old sounds, too": adapted(
            model, node, np.concatenate([x, old[: len(x)]]), np.concatenate([held_out, old[-HELD_OUT:]])
        ),
    }
    if folder is not None:
        model.save(folder / "model.tflite")
        models["forward passes only"].save(folder / "adapted.tflite")
        for name, part in (("adapt", clips), ("old", old), ("test", new_test[0])):
            np.savez(folder / f"{name}.npz", x=flat(part))
    found = {name: (auc_of(m, *new_test), auc_of(m, *old_test)) for name, m in models.items()}
    backpropagated(network, x, held_out)
    aucs = [auc(network.predict(flat(sound), verbose=0), sound, faulty) for sound, faulty in (new_test, old_test)]
    return {**found, "full backpropagation in Keras, float32": (aucs[0], aucs[1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder that does not exist yet")
    parser.add_argument("--seeds", type=int, default=1, help="of sounds and pre-training; their mean is shown")
    parser.add_argument("--epochs", type=int, default=30, help="of pre-training")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists; choose another name")
    options.output.mkdir(parents=True)
    runs = [run(s, options.epochs, None if s else options.output) for s in range(options.seeds)]
    seeds = "1 seed" if options.seeds == 1 else f"{options.seeds} seeds"
    table = Table(title=f"{CLIPS} healthy seconds of the new fan; area under the curve, {seeds}")
    for column in ("way to adapt", "new fan", "known fans"):
        table.add_column(column)
    for name in runs[0]:
        every = np.array([found[name] for found in runs])
        table.add_row(name, *(f"{m:.3f} ± {s:.3f}" for m, s in zip(every.mean(0), every.std(0), strict=True)))
    Console().print(table)


if __name__ == "__main__":
    main()
