"""LiteRT (``ai-edge-litert``), and the engine for it, TensorFlow's interpreter and tflite-runtime.

The op pack is an external delegate, one shared library for all of them; see `exact_delegate`. XNNPACK, the default
delegate, is disabled: it packs constant weights when the model is loaded, and rounds differently.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from .. import core
from ..converters import Model
from ..converters.model import Operator
from ..converters.model.schema import BuiltinOperator
from ..core import Directory
from ..data.prepare import ModelError
from .lane import Engine, InvokeError, RuntimeUnavailableError, Segment
from .runtime import Runtime

__all__ = ["LiteRTRuntime", "TfliteRuntime", "exact_delegate"]


def exact_delegate(
    load_delegate: Callable[..., Any] | None = None, *, kernels: str | None = None, **options: str
) -> Any:
    """Returns a delegate that makes an interpreter compute int8 models with the same bits as TFLM.

    It computes CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, ADD, AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM, SOFTMAX,
    SVDF, UNIDIRECTIONAL_SEQUENCE_LSTM and the custom operators of ZO models. Create the interpreter with reference
    kernels (``OpResolverType.BUILTIN_REF``), which equal TFLM's, for the other operators. The delegate uses the threads
    of the interpreter (``num_threads``).

    Args:
        load_delegate: the interpreter's function of this name: LiteRT's (``ai_edge_litert.interpreter.load_delegate``,
            the default), tflite-runtime's (``tflite_runtime.interpreter.load_delegate``) or TensorFlow's
            (``tf.lite.experimental.load_delegate``).
        kernels: "avx512-vnni", "avx2", "neon-dot", "neon" or "portable"; None: the fastest of this machine.
            Does not affect results.
        options: other options of the delegate (ops/tflite/zo_delegate.c).

    Raises:
        ImportError: `load_delegate` is None, and LiteRT is not installed.
        ValueError: the machine cannot run these kernels.

    Example:
        >>> interpreter = Interpreter(  # doctest: +SKIP
        ...     "model.tflite",
        ...     experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        ...     experimental_delegates=[tflm_zo.exact_delegate()],
        ... )
    """
    if load_delegate is None:
        load_delegate = importlib.import_module("ai_edge_litert.interpreter").load_delegate
    assert load_delegate is not None
    chosen = {} if kernels is None else {"kernels": kernels}
    return load_delegate(str(core.library_path()), {"exact": "1", **chosen, **options})


class InterpreterEngine(Engine):
    """A segment in the Python interpreter of LiteRT, TensorFlow or tflite-runtime, whose `module` has `Interpreter`,
    `load_delegate` and `OpResolverType`. The op pack updates the directory of trainable tensors at each invoke or, if
    the segment `borrows`, reads their weights.
    """

    keeps_inputs = True

    def __init__(
        self, module: ModuleType, model: bytes, directory: Directory, *, borrows: bool = False, threads: int = 1
    ) -> None:
        option = {"weights" if borrows else "directory": str(directory.address)}
        delegate = exact_delegate(module.load_delegate, **option)
        self.interpreter = module.Interpreter(
            model_content=model,
            num_threads=threads,
            experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
            experimental_delegates=[delegate],
        )
        self._directory = directory  # the delegate uses it as long as the interpreter lives
        self.interpreter.allocate_tensors()
        self._inputs = [details["index"] for details in self.interpreter.get_input_details()]
        self._outputs = [details["index"] for details in self.interpreter.get_output_details()]

    def set_input(self, index: int, value: NDArray[Any]) -> None:
        self.interpreter.set_tensor(self._inputs[index], value)

    def get_output(self, index: int) -> NDArray[Any]:
        try:
            value: NDArray[Any] = self.interpreter.get_tensor(self._outputs[index])
        except ValueError as error:
            raise InvokeError(f"output {index} has no value: {error}") from error
        return value

    def invoke(self) -> None:
        try:
            self.interpreter.invoke()
        except RuntimeError as error:
            raise InvokeError(str(error)) from error


class LiteRTRuntime(Runtime):
    """LiteRT with the same bits as TFLM."""

    name = "litert"
    has_copies = True
    _module = "ai_edge_litert.interpreter"
    _install = "pip install ai-edge-litert"

    @classmethod
    def import_module(cls) -> ModuleType:
        """Imports the module that has the interpreter; see `Runtime`."""
        try:
            return importlib.import_module(cls._module)
        except ImportError as error:
            raise RuntimeUnavailableError(
                f"runtime {cls.name!r} needs {cls._module.split('.')[0]}, which does not import ({error}); "
                f"install it with: {cls._install}"
            ) from error

    def _open(self, model: bytes, directory: Directory, *, borrows: bool = False) -> Engine:
        module = self.import_module()
        return InterpreterEngine(module, model, directory, borrows=borrows, threads=self.threads)

    def _open_segment(self, model: Model, k: int) -> Segment:
        for op in model.subgraphs[k].operators:
            reason = why_not_exact(op)
            if reason is not None:
                raise ModelError(f"{op.label}: {reason}; use tflm")
        return super()._open_segment(model, k)


class TfliteRuntime(LiteRTRuntime):
    """tflite-runtime 2.14.0, the last release of LiteRT's predecessor (needs NumPy 1)."""

    name = "tflite-runtime"
    _module = "tflite_runtime.interpreter"
    _install = "pip install 'tflm_zo[tflite-runtime]' (an environment of its own: it needs NumPy 1)"


def why_not_exact(op: Operator) -> str | None:
    """Returns the reason why LiteRT's result of an operator differs from TFLM's; None if it does not."""
    if op.builtin == BuiltinOperator.ELU:
        return "LiteRT has no reference kernel of it"
    if op.builtin == BuiltinOperator.RELU6:
        given = [t.quantization for t in (op.inputs[0], op.outputs[0]) if t and t.quantization]
        if len({(q.scale, q.zero_point) for q in given}) > 1:
            return "LiteRT scales its output and TFLM does not"
    return None
