# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Training on microcontrollers with forward passes only.

    import tflm_zo

    model = tflm_zo.inject("model.tflite", trainable="all", batch=8)
    model.save("model.zo.tflite")
    runtime = tflm_zo.runtime.load("model.zo.tflite", "litert-ref")

`converters` rewrites models, `runtime` runs them, `core` is the op pack's arithmetic. ARCHITECTURE.md has
the contract between them.
"""

from __future__ import annotations

from . import converters, core, runtime
from .converters import ConversionError, InjectSettings, Model, inject, load_model
from .core import Command, Distribution, NativeError

__version__ = "0.1.0"

__all__ = [
    "Command",
    "ConversionError",
    "Distribution",
    "InjectSettings",
    "Model",
    "NativeError",
    "__version__",
    "converters",
    "inject",
    "load_model",
    "core",
    "runtime",
]
