# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""tflite-runtime 2.14.0, the last release of LiteRT's predecessor (needs NumPy 1)."""

from __future__ import annotations

from .litert import LiteRTRuntime

__all__ = ["TfliteRuntime"]


class TfliteRuntime(LiteRTRuntime):
    """tflite-runtime computing bit for bit what TFLM computes."""

    name = "tflite-runtime"
    _module = "tflite_runtime.interpreter"
    _install = "pip install 'tflm_zo[tflite-runtime]' (an environment of its own: it needs NumPy 1)"
