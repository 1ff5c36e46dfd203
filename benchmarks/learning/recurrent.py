# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: accuracies of a watch that moves to the other arm, before and after training by several ways.

    python benchmarks/learning/recurrent.py [--layers GRU LSTM] [--subject 7] [-o folder]

The data are `watch.npz` in the folder TFLM_ZO_DATA, with the splits of `sensors.py`, at half their rate: 32 steps of 6
values. A network has one recurrent layer of 24 units and a dense layer. *LSTM unrolled* is an LSTM of unroll=True.
*Weights* and *last layer*, by exact gradients, have a budget of 10⁵ forward passes. The folder gets the models and the
data, for the command line.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sensors import watch

import tflm_zo as zo
from tflm_zo.io.table import table

BUDGET = 1e5  # forward passes
LAYERS = ("SimpleRNN", "GRU", "LSTM", "LSTM unrolled")


def network(kind: str) -> Any:
    """Returns a network of one recurrent layer."""
    import keras

    keras.utils.set_random_seed(0)
    name, *unrolled = kind.split()
    layer = getattr(keras.layers, name)(24, unroll=bool(unrolled), name=name.lower())
    return keras.Sequential([keras.Input((32, 6)), layer, keras.layers.Dense(7, activation="softmax", name="fc")])


def row_of(kind: str, subject: int, folder: Path) -> list[str]:
    """Returns the row of a layer."""
    from tflm_zo.keras_models import pretrain

    shift = watch(subject)
    x, y = shift.x[:, ::2], shift.y.astype(np.int32)
    path = folder / f"{kind.lower().replace(' ', '-')}.tflite"
    model = network(kind)
    known = np.random.default_rng(0).permutation(shift.known)
    held, known = known[:500], known[500:]
    pretrain(model, x[known], y[known], epochs=30)
    model.save(path.with_suffix(".keras"))
    zo.convert(model, x[known[:300]], labels=y[known[:300]]).save(path, force=True)
    for name, rows in (("calibration", known[:300]), ("adapt", shift.adapt), ("test", shift.test)):
        np.savez(folder / f"{name}.npz", x=x[rows], y=y[rows])
    test = x[shift.test], y[shift.test]
    found = [
        float(np.mean(model.predict(x[held], verbose=0).argmax(1) == y[held])),
        zo.evaluate(path, x[held], y[held]).accuracy or 0.0,
        zo.evaluate(path, *test).accuracy or 0.0,
    ]
    last = zo.algorithms.exact(layers=zo.Last(1))
    adapted = [zo.adapt(path, x[shift.adapt], y[shift.adapt])]
    adapted += [zo.adapt(path, x[shift.adapt], y[shift.adapt], way, budget=BUDGET) for way in ("weight", last)]
    found += [zo.evaluate(each.model, *test).accuracy or 0.0 for each in adapted]
    choice = adapted[0].choice
    way = "" if choice is None else choice.best.candidate.way.name
    return [kind, f"{path.stat().st_size:,}", *(f"{100 * value:.1f}" for value in found), way]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=LAYERS)
    parser.add_argument("--subject", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path, help="folder of models and data; default: none is kept")
    given = parser.parse_args()
    columns = ["layer", "bytes", "float", "int8", "before", "train", "weights", "last layer", "way of train"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.output or Path(temporary)
        folder.mkdir(exist_ok=True)
        rows = [row_of(kind, given.subject, folder) for kind in given.layers]
    Console().print(table("Accuracies, %", columns, rows))


if __name__ == "__main__":
    main()
