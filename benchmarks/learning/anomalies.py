# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Thresholds of anomalies: detected faults and false alarms of a fan that an autoencoder has not heard.

    python benchmarks/learning/anomalies.py [--seeds 3]

The sounds are those of examples/machine_sounds, which synthesizes them: normal ones of the new fan to train with,
others for the threshold (percentile 99), and known ones for the check. A sample is a window of five frames.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

import tflm_zo as zo
from tflm_zo.io.table import table

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "machine_sounds"))
import machine_sounds as sounds  # type: ignore[import-not-found]


def rows_of(seed: int, epochs: int) -> dict[str, list[float]]:
    """Returns detected anomalies and false alarms, %, and the area under the curve, by the state of the model."""
    old = sounds.flat(sounds.sounds(sounds.KNOWN, 600, 1000 * seed))
    new = sounds.flat(sounds.sounds((sounds.NEW,), sounds.CLIPS, 1000 * seed + 1))
    normal = sounds.flat(sounds.sounds((sounds.NEW,), 60, 1000 * seed + 5))
    x, faulty = sounds.test_sounds((sounds.NEW,), 1000 * seed + 10)
    test = {"x": sounds.flat(x), "y": np.repeat(faulty, x.shape[1])}
    model = zo.convert(sounds.autoencoder(old, epochs, seed), old[:500]).model
    rows = {"before, threshold of the known fans": zo.calibrate(model, old[-540:], test=test)}
    rows["before, threshold of the new fan"] = zo.calibrate(model, normal, test=test)
    for name, settings in (("node perturbation", zo.algorithms.node()), ("exact gradients", zo.algorithms.exact())):
        trainer = zo.Trainer(model, settings)
        trainer.fit(new, budget=sounds.BUDGET, validation_split="auto")
        rows[name] = zo.calibrate(trainer.export(), normal, test=test)
    known = {name: found.detection for name, found in rows.items()}
    return {
        name: [100 * d.detected / d.anomalies, 100 * d.false_alarms / d.normal, d.auc or 0.0]
        for name, d in known.items()
        if d is not None
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="of sounds and pre-training; their mean is shown")
    parser.add_argument("--epochs", type=int, default=30, help="of pre-training")
    given = parser.parse_args()
    runs = [rows_of(seed, given.epochs) for seed in range(given.seeds)]
    rows = []
    for name in runs[0]:
        means = np.mean([run[name] for run in runs], axis=0)
        rows.append([name, *(f"{value:.1f}" for value in means[:2]), f"{means[2]:.3f}"])
    Console().print(table("Windows of the new fan", ["model", "detected, %", "false alarms, %", "AUC"], rows))


if __name__ == "__main__":
    main()
