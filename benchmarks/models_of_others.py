# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Which models of other people train, and whether LiteRT and TFLM give the same bits.

    python benchmarks/models_of_others.py FOLDER…

The folders contain int8 ``.tflite`` files. Each gets random samples, and labels that fit its loss; of a model that does
not tell its loss, targets in the shape of its output. Samples of a streaming model are sequences. It trains a few steps
by weight perturbation and by the choice of ``train`` (where no trial beats the model, as labels are random, by the way
that ``plan`` names first), in LiteRT and in TFLM's interpreter. Trained weights and their fractions are compared. A row
says if none of them moved: then the losses on both sides of every query are equal. A refusal is a row with its reason.
The table is Markdown; --json has it for scripts.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import progress

import tflm_zo as zo
from tflm_zo.adaptation import with_loss
from tflm_zo.adaptation.evaluation import loss_told
from tflm_zo.converters import Model, load_model
from tflm_zo.converters.errors import InjectError
from tflm_zo.converters.initial_weights import initial_weights
from tflm_zo.converters.states import is_streaming
from tflm_zo.data import Inputs
from tflm_zo.planner.ways import ways

SAMPLES, STEPS = 12, 12
SAME, DIFFER, UNMOVED = "same bits", "**bits differ**", "no weight moves"
FRAMES = 6  # steps of a sequence


@dataclass(frozen=True)
class Row:
    """What became of a model."""

    model: str
    loss: str = ""
    weights: str = ""  # by weight perturbation: whether both runtimes give the same bits
    default: str = ""  # the way to train that the bare command has chosen, or would try first
    same: str = ""  # by that way: whether both runtimes give the same bits
    refusal: str = ""

    @property
    def is_good(self) -> bool:
        """True if weights move, to the same bits."""
        return (self.weights, self.same) == (SAME, SAME)


def data_of(model: Model) -> tuple[dict[str, Any], Any, str]:
    """Makes random samples and labels for a model. Returns them and the loss's kind."""
    try:
        inputs = Inputs(with_loss(model))
    except InjectError:
        inputs = Inputs(with_loss(model, "mse"))
    drawn, loss = np.random.default_rng(1), inputs.metadata.known_loss
    many = (SAMPLES, FRAMES) if is_streaming(model) else (SAMPLES,)
    x = {}
    for i, name in enumerate(inputs.metadata.original.inputs):
        shape, dtype, _, _ = inputs.input_details(i)
        shape = (*many, *shape[1:])
        if dtype.kind == "f":
            x[name] = drawn.normal(size=shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            x[name] = drawn.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    shape = inputs.label_details()[0]
    if loss.kind == "mse":
        # In the middle of what the output covers: int8 targets would be its levels.
        return x, np.full((*many, *shape[1:]), 4.0 * loss.scale, np.float32), loss.kind
    return x, np.arange(SAMPLES * loss.labels).reshape(SAMPLES, -1) % loss.classes, loss.kind


def compared(found: zo.Adaptation) -> str:
    """Repeats a run in TFLM, and compares its weights and fractions."""
    again = zo.Trainer(found.trainer.model, found.trainer.settings, runtime="tflm")
    again.fit(found.data.train, steps=found.trainer.step, keep="last")
    own, other = found.trainer.runtime, again.runtime
    weights, fractions, before = own.read_weights(), own.read_fractions(), initial_weights(found.trainer.model)
    pairs = ((weights, other.read_weights()), (fractions, other.read_fractions()))
    if any(not np.array_equal(mine[name], its[name]) for mine, its in pairs for name in mine):
        return DIFFER
    moved = any(not np.array_equal(weights[name], before[name]) for name in weights)
    return SAME if moved or any(values.any() for values in fractions.values()) else UNMOVED


def row_of(path: Path) -> Row:
    """Tries a model."""
    try:
        model = load_model(path)
        x, y, loss = data_of(model)
        given: Any = {"steps": STEPS, "keep": "last"}
        weights = compared(zo.adapt(model, x, y, "weight", **given))
        found = zo.adapt(model, x, y, **given)
        if found.is_trained and found.choice is not None:
            return Row(path.stem, loss, weights, found.choice.best.candidate.rung, compared(found))
        told = loss_told(model, x, y)
        first = ways(model, {} if told is None else {"loss": told})[0]
        default = zo.adapt(model, x, y, first.settings, inject={"update_bits": first.update_bits}, **given)
        return Row(path.stem, loss, weights, first.name, compared(default))
    except (ValueError, RuntimeError, OSError) as error:
        return Row(path.stem, refusal=str(error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    files = sorted(path for folder in arguments.folders for path in folder.glob("*.tflite"))
    if not files:
        sys.exit("no .tflite files there")
    rows = []
    with progress("models", len(files)) as done:
        for path in files:
            rows.append(row_of(path))
            done(1)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("| model | loss | weights | `train` |\n| --- | --- | --- | --- |")
    for row in rows:
        if row.refusal:
            print(f"| {row.model} | – | refused: {row.refusal} | |")
        else:
            print(f"| {row.model} | {row.loss} | {row.weights} | {row.same}: {row.default} |")
    good = sum(row.is_good for row in rows)
    print(f"\n{good} of {len(rows)} train with the same bits.")


if __name__ == "__main__":
    main()
