# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""LiteRT's interpreter with one thread and chosen kernels, its inputs random."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tflm_zo import exact_delegate

__all__ = ["KINDS", "interpreter"]

#: Kinds of kernels: XNNPACK, LiteRT's default; LiteRT's optimized and its reference kernels; and this
#: package's kernels with the reference kernels, as in the runtime `litert`.
KINDS = ("xnnpack", "builtin", "reference", "exact")


def interpreter(model: bytes, kind: str, kernels: str | None = None) -> Any:
    """Makes an interpreter with inputs drawn from -99..99. Inputs of the control unit are zeros.

    Args:
        model: a `.tflite` file's bytes; ZO models run with "exact" alone.
        kind: one of `KINDS`.
        kernels: name of the delegate's kernel set, with "exact".
    """
    resolver = {
        "xnnpack": OpResolverType.AUTO,
        "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        "reference": OpResolverType.BUILTIN_REF,
        "exact": OpResolverType.BUILTIN_REF,
    }
    made = Interpreter(
        model_content=model,
        num_threads=1,
        experimental_op_resolver_type=resolver[kind],
        experimental_delegates=[exact_delegate(kernels=kernels)] if kind == "exact" else None,
    )
    made.allocate_tensors()
    rng = np.random.default_rng(0)
    for details in made.get_input_details():
        most = 1 if details["name"].startswith("zo_") else 100
        values = rng.integers(1 - most, most, details["shape"]).astype(details["dtype"])
        made.set_tensor(details["index"], values)
    return made
