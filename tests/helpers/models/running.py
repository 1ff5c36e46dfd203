# SPDX-License-Identifier: Apache-2.0
"""Runs plain models in LiteRT with the reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Array = npt.NDArray[Any]


def _interpreter(model: bytes) -> Any:
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    interpreter.allocate_tensors()
    return interpreter


def random_inputs(model: bytes, seed: int = 0) -> list[Array]:
    """Random data for every input: int8 and uint8 over their whole range, float32 normal."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-128, 128, d["shape"]).astype(d["dtype"])
        if d["dtype"] in (np.int8, np.uint8)
        else rng.normal(0, 1, d["shape"]).astype(d["dtype"])
        for d in _interpreter(model).get_input_details()
    ]


def run(model: bytes, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of one invoke."""
    interpreter = _interpreter(model)
    for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
