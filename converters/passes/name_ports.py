# SPDX-License-Identifier: Apache-2.0
"""Chooses unique names for the original inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...io.text import printable
from .. import constants
from ..model import Model, Tensor
from ..settings import InjectSettings
from .plan import Plan

_RESERVED: Final = frozenset(
    (constants.BOUNDARY, constants.LABEL, constants.COMMAND, constants.LOSS_OUTPUT, constants.STATUS)
)


def name_ports(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.inputs`` and ``plan.outputs`` with the tensors' names.

    A name that is empty, reserved, or used twice among the inputs or the outputs, which a signature cannot
    express, gets a number. Tensor names go into JSON, so bytes that are no UTF-8 are replaced in all of them.
    """
    graph = model.subgraphs[0]
    for tensor in graph.all_tensors():
        tensor.name = printable(tensor.name)
    plan.inputs = _unique(graph.inputs, "input")
    plan.outputs = _unique(graph.outputs, "output")


def _unique(tensors: Iterable[Tensor], fallback: str) -> list[str]:
    taken = set(_RESERVED)
    names = []
    for tensor in tensors:
        base = tensor.name or fallback
        name, number = base, 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        names.append(name)
    return names
