"""Damage to the operators of a model: operands, options, codes."""

import copy
from random import Random
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from .model_parts import edited, graph, int32, name, operator
from .values import FLOATS, damaged, integer, near, pick


def operands(rng: Random, raw: Any) -> None:
    g = graph(rng, raw)
    op = rng.choice(g.operators)
    side = rng.choice(("inputs", "inputs", "outputs"))

    def new() -> int:
        return rng.choice((-1, rng.randrange(len(g.tensors)), rng.randrange(len(g.tensors)), len(g.tensors)))

    setattr(op, side, int32(edited(rng, getattr(op, side), new)))


def no_operands(rng: Random, raw: Any) -> None:
    op = operator(rng, raw)
    setattr(op, rng.choice(("inputs", "outputs")), rng.choice((None, int32([]))))


def intermediates(rng: Random, raw: Any) -> None:
    op = operator(rng, raw)
    op.intermediates = int32([integer(rng, 32) for _ in range(rng.randrange(3))])
    op.mutatingVariableInputs = np.array([True] * rng.randrange(4))


def options(rng: Random, raw: Any) -> None:
    op = operator(rng, raw)
    if op.builtinOptions is None or rng.random() < 0.1:
        op.builtinOptions, op.builtinOptionsType = None, rng.choice((0, op.builtinOptionsType))
        return
    fields = [k for k, v in vars(op.builtinOptions).items() if isinstance(v, (bool, int, float))]
    field = pick(rng, fields)
    if field is None:
        return
    value = getattr(op.builtinOptions, field)
    if isinstance(value, bool):
        setattr(op.builtinOptions, field, not value)
    elif isinstance(value, float):
        setattr(op.builtinOptions, field, rng.choice(FLOATS))
    else:
        setattr(op.builtinOptions, field, rng.choice((0, 1, 2, 3, near(rng, value), integer(rng, 8))))


def options_of_another(rng: Random, raw: Any) -> None:
    one, other = operator(rng, raw), operator(rng, raw)
    one.builtinOptions, one.builtinOptionsType = other.builtinOptions, other.builtinOptionsType


def custom_options(rng: Random, raw: Any) -> None:
    op = pick(rng, [o for o in graph(rng, raw).operators if o.customOptions is not None])
    if op is None:
        operator(rng, raw).customOptions = np.frombuffer(rng.randbytes(rng.randrange(40)), np.uint8)
        return
    data = bytes(op.customOptions)
    if rng.random() < 0.6 and len(data) >= 4:
        at = rng.randrange(len(data) // 4) * 4
        data = data[:at] + (integer(rng) & 0xFFFFFFFF).to_bytes(4, "little") + data[at + 4 :]
    else:
        data = damaged(rng, data)
    op.customOptions = np.frombuffer(data, np.uint8)


def operator_list(rng: Random, raw: Any) -> None:
    g = graph(rng, raw)
    g.operators = edited(rng, g.operators, lambda: copy.deepcopy(rng.choice(g.operators)))


def opcode(rng: Random, raw: Any) -> None:
    operator(rng, raw).opcodeIndex = rng.choice(
        (rng.randrange(len(raw.operatorCodes)), len(raw.operatorCodes), integer(rng, 32) & 0x7FFFFFFF)
    )


def operator_code(rng: Random, raw: Any) -> None:
    code = rng.choice(raw.operatorCodes)
    kind = rng.randrange(5)
    if kind < 3:
        new = rng.randrange(0, 210)
        code.builtinCode, code.deprecatedBuiltinCode = new, min(new, 127)
    elif kind == 3:
        code.version = rng.choice((0, 1, 2, 5, 9, 100))
    else:
        code.customCode = name(rng)


def rewired(rng: Random, raw: Any) -> None:
    """Replaces an operator by another one with the same operands and its own options."""
    g = graph(rng, raw)
    op = rng.choice(g.operators)
    code = schema.OperatorCodeT()
    code.builtinCode = rng.choice((0, 1, 2, 3, 4, 9, 14, 17, 18, 19, 21, 22, 25, 28, 34, 39, 40, 41, 45, 53))
    code.deprecatedBuiltinCode, code.version = code.builtinCode, 1
    raw.operatorCodes.append(code)
    op.opcodeIndex = len(raw.operatorCodes) - 1
    if rng.random() < 0.7:
        op.builtinOptions, op.builtinOptionsType = None, 0
