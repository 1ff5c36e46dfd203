"""Plain models in the runtimes' own interpreters, and the runtimes as test parameters."""

import ctypes
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tflm_zo.runtime import available, exact_delegate

# tflite-runtime needs NumPy 1 and so an environment of its own, where only the tests so marked run.
_marks: dict[str, Any] = {"tflite-runtime": pytest.mark.tflite_runtime}
RUNTIMES = [pytest.param(name, marks=_marks.get(name, ())) for name in ("litert", "tflite-runtime", "tflm")]
#: The kernel sets of the delegate, of which a machine can run some (ops/kernels/zo_kernel_set.c).
KERNELS = ("portable", "avx2", "avx512-vnni", "neon", "neon-dot")


def require(name: str) -> None:
    """Skips the test if the runtime is not installed."""
    if name not in available():
        pytest.skip(f"runtime {name} is not installed here")


def random_inputs(shapes_and_dtypes: list[tuple[Any, ...]], seed: int) -> list[NDArray[Any]]:
    """Draws inputs over the whole range of int8 or uint8 (floating point: standard normal)."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-128, 128, shape).astype(dtype)  # wraps to 0..255
        if np.dtype(dtype).kind in "iu"
        else rng.standard_normal(shape).astype(dtype)
        for shape, dtype, *_ in shapes_and_dtypes
    ]


def run_plain(model: bytes, name: str, inputs: list[NDArray[Any]], kernels: str | None = None) -> list[NDArray[Any]]:
    """Runs a model without custom ops in a runtime's interpreter, or in LiteRT's own kernels, "litert-builtin-ref"."""
    return run_frames(model, name, [inputs], kernels)[0]


def run_frames(
    model: bytes, name: str, frames: Sequence[list[NDArray[Any]]], kernels: str | None = None, threads: int = 1
) -> list[list[NDArray[Any]]]:
    """Invokes one interpreter with each frame's inputs in turn, and returns the outputs of each."""
    if name == "tflm":
        return _tflm(model, frames)
    imported = importlib.import_module(_MODULES[name])
    delegates = None
    if name != "litert-builtin-ref":
        try:
            delegates = [exact_delegate(imported.load_delegate, kernels=kernels)]
        except ValueError:
            pytest.skip(f"this machine cannot run the kernels {kernels}")
    interpreter = imported.Interpreter(
        model_content=model,
        num_threads=threads,
        experimental_op_resolver_type=imported.OpResolverType.BUILTIN_REF,
        experimental_delegates=delegates,
    )
    interpreter.allocate_tensors()
    found = []
    for inputs in frames:
        for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        found.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    return found


def run(model: bytes, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Runs a model in LiteRT's reference kernels."""
    return run_plain(model, "litert-builtin-ref", list(inputs))


def inputs_of(model: bytes, seed: int = 0) -> list[NDArray[Any]]:
    """Draws random data for every input of a model."""
    from ai_edge_litert.interpreter import Interpreter

    details = Interpreter(model_content=model).get_input_details()
    return random_inputs([(d["shape"], d["dtype"]) for d in details], seed)


def _tflm(model: bytes, frames: Sequence[list[NDArray[Any]]]) -> list[list[NDArray[Any]]]:
    from tflite_micro import runtime

    from tflm_zo import core
    from tflm_zo.converters import load_model
    from tflm_zo.runtime.tflm import REGISTERER, arena_upper_bound

    loaded = load_model(model)
    ctypes.CDLL(str(core.library_path()), mode=ctypes.RTLD_GLOBAL)
    interpreter = runtime.Interpreter.from_bytes(model, [REGISTERER], arena_size=arena_upper_bound(loaded))
    found = []
    for inputs in frames:
        for i, value in enumerate(inputs):
            interpreter.set_input(value, i)
        interpreter.invoke()
        found.append([interpreter.get_output(i) for i in range(len(loaded.subgraphs[0].outputs))])
    return found


_MODULES = {
    "litert": "ai_edge_litert.interpreter",
    "litert-builtin-ref": "ai_edge_litert.interpreter",
    "tflite-runtime": "tflite_runtime.interpreter",
}
