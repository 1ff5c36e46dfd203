# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""LiteRT (``ai-edge-litert``), and the engine that it shares with its ancestors.

The custom ops come from an external delegate, the same shared library for LiteRT, TensorFlow's interpreter
and tflite-runtime. XNNPACK, the default delegate, stays off: it packs constant weights when the model is
loaded and rounds differently from TFLM.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import core
from ..converters import Model
from ..converters.model.schema import BuiltinOperator
from ..core import Directory
from .engine import Engine
from .errors import InvokeError, ModelError, RuntimeUnavailableError
from .runtime import Runtime
from .segment import Segment

__all__ = ["LiteRTReferenceRuntime", "LiteRTRuntime"]


class InterpreterEngine(Engine):
    """A segment in the Python interpreter of LiteRT, TensorFlow or tflite-runtime, one thread.

    Args:
        module: the module that has `Interpreter`, `load_delegate` and `OpResolverType`.
        model: a standalone single-subgraph model.
        directory: directory of trainable tensors, which the op pack fills at each invoke.
        exact: computes the same as TFLM, by the reference kernels in the place of the optimized ones, but for
            FULLY_CONNECTED, where the op pack has TFLM's arithmetic (LiteRT's reference kernel requantizes in
            float).
    """

    def __init__(self, module: ModuleType, model: bytes, directory: Directory, *, exact: bool) -> None:
        kernels = module.OpResolverType
        delegate = module.load_delegate(
            str(core.library_path()),
            {"directory": str(directory.address), "exact": str(int(exact))},
        )
        self._interpreter = module.Interpreter(
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=(
                kernels.BUILTIN_REF if exact else kernels.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            ),
            experimental_delegates=[delegate],
        )
        self._directory = directory  # the delegate writes to it as long as the interpreter lives
        self._interpreter.allocate_tensors()
        self._inputs = self._interpreter.get_input_details()
        self._outputs = self._interpreter.get_output_details()

    def set_input(self, index: int, value: NDArray[Any]) -> None:
        self._interpreter.set_tensor(self._inputs[index]["index"], value)

    def get_output(self, index: int) -> NDArray[Any]:
        try:
            value: NDArray[Any] = self._interpreter.get_tensor(self._outputs[index]["index"])
        except ValueError as error:
            raise InvokeError(f"output {index} has no value: {error}") from error
        return value

    def invoke(self) -> None:
        try:
            self._interpreter.invoke()
        except RuntimeError as error:
            raise InvokeError(str(error)) from error

    def input_details(self, index: int) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        return _details(self._inputs[index])

    def output_details(self, index: int) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
        return _details(self._outputs[index])


def _details(details: dict[str, Any]) -> tuple[tuple[int, ...], np.dtype[Any], float, int]:
    scale, zero_point = details["quantization"]
    return (
        tuple(int(size) for size in details["shape"]),
        np.dtype(details["dtype"]),
        float(scale),
        int(zero_point),
    )


class LiteRTRuntime(Runtime):
    """LiteRT with its optimized kernels: the fast mode.

    It is not promised to equal TFLM bit for bit: some of the optimized kernels (ADD) round differently.
    """

    name = "litert"
    _module = "ai_edge_litert.interpreter"
    _install = "pip install ai-edge-litert"
    _exact = False

    @classmethod
    def _import(cls) -> ModuleType:
        try:
            return importlib.import_module(cls._module)
        except ImportError as error:
            raise RuntimeUnavailableError(
                f"runtime {cls.name!r} needs {cls._module.split('.')[0]}, which does not import ({error}); "
                f"install it with: {cls._install}"
            ) from error

    def _open(self, model: bytes, directory: Directory) -> Engine:
        return InterpreterEngine(self._import(), model, directory, exact=self._exact)


class LiteRTReferenceRuntime(LiteRTRuntime):
    """LiteRT with its reference kernels, and the op pack's kernel for FULLY_CONNECTED, which together compute
    the same as TFLM, bit for bit.
    """

    name = "litert-ref"
    _exact = True

    def _open_segment(self, model: Model, k: int) -> Segment:
        for op in model.subgraphs[k].operators:
            if op.builtin == BuiltinOperator.SUM:
                raise ModelError(
                    f"{op.label}: the reference kernel of LiteRT sums int8 values wrongly; use litert or tflm"
                )
        return super()._open_segment(model, k)
