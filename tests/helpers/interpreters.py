# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Plain models in the runtimes' own interpreters, and the runtimes as test parameters."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tflm_zo import core
from tflm_zo.runtime import available

__all__ = ["EXACT_RUNTIMES", "RUNTIMES", "random_inputs", "require", "run_plain"]

# tflite-runtime needs NumPy 1 and so an environment of its own, where only the tests so marked run.
_marks: dict[str, Any] = {"tflite-runtime": pytest.mark.tflite_runtime}
RUNTIMES = [
    pytest.param(name, marks=_marks.get(name, ()))
    for name in ("litert", "litert-ref", "tflite-runtime", "tflm")
]
EXACT_RUNTIMES = RUNTIMES[1:]


def require(name: str) -> None:
    """Skips the test where the runtime is not installed."""
    if name not in available():
        pytest.skip(f"runtime {name} is not installed here")


def random_inputs(shapes_and_dtypes: list[tuple[Any, ...]], seed: int) -> list[NDArray[Any]]:
    """Inputs over the whole range of int8 or uint8 (floating point: standard normal)."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-128, 128, shape).astype(dtype)  # wraps to 0..255
        if np.dtype(dtype).kind in "iu"
        else rng.standard_normal(shape).astype(dtype)
        for shape, dtype, *_ in shapes_and_dtypes
    ]


def run_plain(model: bytes, name: str, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Outputs of a model without custom ops, with the kernels of the runtime `name`.

    Those are the runtime's own, without default delegates; in the exact modes of LiteRT and tflite-runtime
    also the op pack's FULLY_CONNECTED. "litert-builtin-ref" is LiteRT's reference kernels and nothing else.
    """
    return _PLAIN[name](model, inputs)


def _tflite(
    module: str, resolver: str, exact: bool = False
) -> Callable[[bytes, list[NDArray[Any]]], list[NDArray[Any]]]:
    def run(model: bytes, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
        imported = importlib.import_module(module)
        interpreter = imported.Interpreter(
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=getattr(imported.OpResolverType, resolver),
            experimental_delegates=(
                [imported.load_delegate(str(core.library_path()), {"exact": "1"})] if exact else None
            ),
        )
        interpreter.allocate_tensors()
        for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run


def _tflm(model: bytes, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    from tflite_micro import runtime

    from tflm_zo.converters import load_model
    from tflm_zo.runtime.tflm import arena_upper_bound

    loaded = load_model(model)
    interpreter = runtime.Interpreter.from_bytes(model, [], arena_size=arena_upper_bound(loaded))
    for i, value in enumerate(inputs):
        interpreter.set_input(value, i)
    interpreter.invoke()
    return [interpreter.get_output(i) for i in range(len(loaded.subgraphs[0].outputs))]


_PLAIN = {
    "litert": _tflite("ai_edge_litert.interpreter", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
    "litert-builtin-ref": _tflite("ai_edge_litert.interpreter", "BUILTIN_REF"),
    "litert-ref": _tflite("ai_edge_litert.interpreter", "BUILTIN_REF", exact=True),
    "tflite-runtime": _tflite("tflite_runtime.interpreter", "BUILTIN_REF", exact=True),
    "tflm": _tflm,
}
