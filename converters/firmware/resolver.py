# SPDX-License-Identifier: Apache-2.0
"""The op resolver: exactly the operators of the model, named as TFLM's own generator names them."""

from __future__ import annotations

from ..constants import OP_PREFIX
from ..model import Model
from .source_text import fill


def _adder(name: str) -> str:
    """``CONV_2D`` → ``AddConv2D``."""
    parts = (p[:1].upper() + (p[1:].lower() if p[:1].isalpha() else p[1:].upper()) for p in name.split("_"))
    joined = "".join(parts).replace("Lstm", "LSTM").replace("BatchMatmul", "BatchMatMul")
    return f"Add{joined}"


def resolver_source(models: list[Model], command: str) -> str:
    """``gen_micro_mutable_op_resolver.h`` for the models of all segments."""
    names = sorted({op.code.name for model in models for graph in model.subgraphs for op in graph.operators})
    own = [n for n in names if n.startswith(OP_PREFIX)]
    calls = [f"  micro_op_resolver.{_adder(n)}();" for n in names if n not in own]
    for n in own:
        short = n.removeprefix(OP_PREFIX)
        variable = short.lower()
        calls += [
            f"  TFLMRegistration {variable} = tflite::Register_ZO_{short}();",
            f'  micro_op_resolver.AddCustom("{n}", &{variable});',
        ]
    return fill(
        "gen_micro_mutable_op_resolver.h.in", command=command, count=len(names), calls="\n".join(calls)
    )
