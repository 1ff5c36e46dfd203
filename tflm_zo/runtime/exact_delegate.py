# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""TFLM's bits in anybody's interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .. import core

__all__ = ["exact_delegate"]


def exact_delegate(
    load_delegate: Callable[..., Any] | None = None, *, kernels: str | None = None, **options: str
) -> Any:
    """Returns a delegate with which an interpreter computes int8 models bit for bit as TFLM does.

    It computes CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, ADD, AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM and
    SOFTMAX.
    The rest is computed by the interpreter's reference kernels, which equal TFLM's, so the interpreter is
    asked for these (``OpResolverType.BUILTIN_REF``), not for its default ones. It also has the custom
    operators of ZO models. Samples are divided among the threads that the interpreter is asked for
    (``num_threads``).

    Args:
        load_delegate: the function of this name that belongs to the interpreter: LiteRT's
            (``ai_edge_litert.interpreter.load_delegate``, which is used if there is none), tflite-runtime's
            (``tflite_runtime.interpreter.load_delegate``) or TensorFlow's
            (``tf.lite.experimental.load_delegate``).
        kernels: "avx512-vnni", "avx2", "neon-dot", "neon" or "portable"; None: the fastest that the machine
            can run. Bits do not depend on it.
        options: other options of the delegate (ops/tflite/zo_delegate.c).

    Raises:
        ImportError: no function is given, and LiteRT is not installed.
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
