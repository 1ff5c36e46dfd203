"""Models in TFLM's and LiteRT's interpreters, in a process of their own, which kernels may end: as a program it reads
a runtime's number, the inputs' value, a model's size and the model, and answers with its progress and the outputs."""

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_RUNTIMES = ("tflm", "litert")
_RANDOM = 256


class Run(NamedTuple):
    """How far a model came: "refused", "prepared", "invoked", or "died"; and its outputs' bytes."""

    reached: str
    outputs: str = ""


class KernelRuns:
    """A process that prepares and invokes models, started again if one has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, model: bytes, runtime: str, value: int = _RANDOM) -> Run:
        """Runs a model on random activations, or on activations that all have one value."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(struct.pack("<III", _RUNTIMES.index(runtime), value % 512, len(model)) + model)
        process.stdin.flush()
        words = process.stdout.readline().decode().split()
        if not words:
            self.close()
            return Run("died")
        return Run(*words)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _inputs(model: bytes, value: int) -> list[NDArray[np.generic]]:
    """Draws activations; shapes, axes and truth values are 0 or 1."""
    from tflm_zo.converters import load_model
    from tflm_zo.converters.model.schema import DTYPES

    found = []
    for k, tensor in enumerate(load_model(model).subgraphs[0].inputs):
        rng, dtype = np.random.default_rng(k), np.dtype(DTYPES[tensor.type])
        low, high = (-128, 128) if dtype == np.int8 else (0, 2)
        drawn = rng.integers(low, high, tensor.shape).astype(dtype)
        found.append(drawn if value == _RANDOM or dtype != np.int8 else np.full_like(drawn, value))
    return found


def _tflm(model: bytes, value: int) -> list[NDArray[np.generic]] | None:
    from tflite_micro import runtime

    from tflm_zo.converters import load_model

    try:
        interpreter = runtime.Interpreter.from_bytes(model, [], arena_size=1 << 18)
    except RuntimeError:
        return None
    for k, levels in enumerate(_inputs(model, value)):
        interpreter.set_input(levels, k)
    interpreter.invoke()
    return [interpreter.get_output(k) for k in range(len(load_model(model).subgraphs[0].outputs))]


def _litert(model: bytes, value: int) -> list[NDArray[np.generic]] | None:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    from tflm_zo.runtime import exact_delegate

    try:
        interpreter = Interpreter(
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_delegates=[exact_delegate()],
        )
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):
        return None
    for details, levels in zip(interpreter.get_input_details(), _inputs(model, value), strict=True):
        interpreter.set_tensor(details["index"], levels)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = sys.stdin.buffer
    while head := source.read(12):
        runtime, value, size = struct.unpack("<III", head)
        model = source.read(size)
        try:
            outputs = (_tflm, _litert)[runtime](model, value if value <= _RANDOM else value - 512)
            text = "refused" if outputs is None else "invoked " + "-".join(o.tobytes().hex() for o in outputs)
        except (RuntimeError, ValueError):
            text = "prepared"
        answers.write(text.encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
