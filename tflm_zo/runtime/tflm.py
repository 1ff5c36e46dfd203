"""TensorFlow Lite Micro on the desktop (the ``tflite-micro`` package).

It runs the kernels of TFLM's reference build. Its interpreter runs only subgraph 0 of a model, so every
segment is a model of its own, as on a device.
"""

from __future__ import annotations

import importlib.metadata
from types import ModuleType
from typing import Any, Final

from numpy.typing import NDArray

from .. import core
from ..converters import Model, load_model
from ..core import Directory
from .lane import Engine, InvokeError, RuntimeUnavailableError
from .runtime import Runtime

__all__ = ["TflmRuntime"]

REGISTERER = "TFLM_ZO_Register"

WHEEL_VERSION: Final = "0.dev20260930204519"
"""The only version of ``tflite-micro`` that can be used, the one of the extra ``tflm``: the op pack shares
structs with it (ops/abi/tflm), and another build may lay them out differently, which corrupts memory."""


def arena_upper_bound(model: Model) -> int:
    """Returns an arena size, bytes, that is always sufficient for a single-subgraph model on a 64-bit host: four bytes
    for each element of all activations and variables, without reuse of memory, and an allowance for structs and scratch
    buffers of kernels.
    """
    graph = model.subgraphs[0]
    elements = sum(tensor.size for tensor in graph.tensors if not tensor.is_constant)
    return 65536 + 8 * elements + 256 * len(graph.tensors) + 1024 * len(graph.operators)


class TflmEngine(Engine):
    """A segment in TFLM's Python interpreter."""

    def __init__(self, module: ModuleType, model: bytes, directory: Directory) -> None:
        self._directory = directory  # the ops write to it as long as the interpreter lives
        hand_over = core.library().zo_tflm_set_external_context
        hand_over(directory.address)
        try:
            self.interpreter = module.Interpreter.from_bytes(
                model, [REGISTERER], arena_size=arena_upper_bound(load_model(model))
            )
        finally:
            hand_over(None)

    def set_input(self, index: int, value: NDArray[Any]) -> None:
        self.interpreter.set_input(value, index)

    def get_output(self, index: int) -> NDArray[Any]:
        value: NDArray[Any] = self.interpreter.get_output(index)
        return value

    def invoke(self) -> None:
        try:
            self.interpreter.invoke()
        except RuntimeError as error:
            raise InvokeError(f"{error} TFLM wrote the reason to stderr") from error


class TflmRuntime(Runtime):
    """TFLM with its reference kernels."""

    name = "tflm"

    @classmethod
    def import_module(cls) -> ModuleType:
        """Imports the module that has the interpreter; see `Runtime`."""
        try:
            version = importlib.metadata.version("tflite-micro")
            from tflite_micro import runtime
        except ImportError as error:
            raise RuntimeUnavailableError(
                f"runtime 'tflm' needs the tflite-micro package, which does not import ({error}); "
                "install it with: pip install 'tflm_zo[tflm]'"
            ) from error
        if version != WHEEL_VERSION:
            raise RuntimeUnavailableError(
                f"runtime 'tflm' needs tflite-micro {WHEEL_VERSION}, but {version} is installed, which may "
                f"lay out its structs differently; pip install 'tflite-micro=={WHEEL_VERSION}'"
            )
        return runtime  # type: ignore[no-any-return]

    def _open(self, model: bytes, directory: Directory, *, borrows: bool = False) -> Engine:
        assert not borrows  # it has no copies
        return TflmEngine(self.import_module(), model, directory)
