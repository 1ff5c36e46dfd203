"""Runtimes: the interpreters that a ZO model runs in, behind one interface.

``litert``          LiteRT: fast.
``tflite-runtime``  tflite-runtime 2.14.0, LiteRT's predecessor.
``tflm``            TensorFlow Lite Micro on the desktop.

All of them compute the same bits as TFLM on a device.

    runtime = tflm_zo.runtime.load("model.zo.tflite")
"""

from __future__ import annotations

import os

from ..converters import Model
from ..data import ModelError
from .lane import InvokeError, RuntimeUnavailableError, Status
from .litert import LiteRTRuntime, TfliteRuntime, exact_delegate
from .runtime import Runtime
from .tflm import TflmRuntime

__all__ = [
    "RUNTIMES",
    "InvokeError",
    "ModelError",
    "Runtime",
    "RuntimeUnavailableError",
    "Status",
    "available",
    "exact_delegate",
    "load",
    "load_fastest",
]

RUNTIMES: dict[str, type[Runtime]] = {runtime.name: runtime for runtime in (LiteRTRuntime, TfliteRuntime, TflmRuntime)}
"""The runtimes by name."""


def load(model: Model | bytes | str | os.PathLike[str], runtime: str = "litert", *, threads: int = 1) -> Runtime:
    """Loads a ZO model into a runtime.

    Args:
        model: a ZO model, its bytes, or the path of its file.
        runtime: name of the runtime, one of `RUNTIMES`.
        threads: number of threads. Does not affect results. tflm has one.

    Raises:
        ValueError: no runtime has that name (the message lists them), or it does not support this number of threads.
        RuntimeUnavailableError: the runtime is not installed; the message has the command that installs it.
        ModelError: the model is not a ZO model.
    """
    if runtime not in RUNTIMES:
        raise ValueError(f"no runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
    return RUNTIMES[runtime](model, threads)


def load_fastest(model: Model) -> Runtime:
    """Loads a ZO model into the fastest installed runtime that accepts it. ModelError: none accepts it.
    RuntimeUnavailableError: none is installed.
    """
    names = [name for name in RUNTIMES if name in available()]
    for name in names[:-1]:
        try:
            return load(model, name)
        except ModelError:
            continue
    return load(model, names[-1] if names else "litert")


def available() -> list[str]:
    """Returns the names of the installed runtimes."""
    names = []
    for name, runtime in RUNTIMES.items():
        try:
            runtime.import_module()
        except RuntimeUnavailableError:
            continue
        names.append(name)
    return names
