# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""TFLM's bits in LiteRT, without training: a model's answers on a test set, in LiteRT and in TFLM.

    python examples/exact_delegate/exact_delegate.py MODEL.tflite TEST.npz

MODEL is an int8 model with one input, TEST has samples as `x`, levels (int8) or real values. LiteRT runs the
model three times over the samples: with XNNPACK, its default; with its reference kernels; and with these and
tflm_zo's delegate. TFLM's Python package (`pip install 'tflm_zo[tflm]'`) computes a microcontroller's
answers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from rich.console import Console
from rich.progress import track
from tflite_micro import runtime as tflm

import tflm_zo

KERNELS: dict[str, dict[str, Any]] = {
    "XNNPACK, the default": {},
    "reference kernels": {"experimental_op_resolver_type": OpResolverType.BUILTIN_REF},
    "tflm_zo's delegate": {
        "experimental_op_resolver_type": OpResolverType.BUILTIN_REF,
        "experimental_delegates": [tflm_zo.exact_delegate()],
    },
}


def levels(x: np.ndarray[Any, Any], details: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Samples as the model takes them."""
    if x.dtype == details["dtype"]:
        return x
    scale, zero_point = details["quantization"]
    return np.clip(np.rint(x / scale) + zero_point, -128, 127).astype(details["dtype"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", type=Path)
    options = parser.parse_args()
    model = options.model.read_bytes()
    interpreters = {name: Interpreter(model_content=model, **given) for name, given in KERNELS.items()}
    device = tflm.Interpreter.from_bytes(model)
    for interpreter in interpreters.values():
        interpreter.allocate_tensors()
    entry = next(iter(interpreters.values())).get_input_details()[0]
    with np.load(options.test) as arrays:
        samples = levels(arrays["x"], entry)
    differ = dict.fromkeys(KERNELS, 0)
    for sample in track(samples, "comparing", console=Console(stderr=True)):
        x = sample.reshape(entry["shape"])
        device.set_input(x, 0)
        device.invoke()
        answer = device.get_output(0)
        for name, interpreter in interpreters.items():
            interpreter.set_tensor(entry["index"], x)
            interpreter.invoke()
            found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
            differ[name] += int(not np.array_equal(found, answer))
    for name, count in differ.items():
        print(f"{name}: {count:,} of {len(samples):,} answers are not TFLM's")


if __name__ == "__main__":
    main()
