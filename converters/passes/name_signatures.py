# SPDX-License-Identifier: Apache-2.0
"""Lays out the inputs and outputs of the segments and names them by signatures."""

from __future__ import annotations

from ..constants import segment_key
from ..errors import ConversionError
from ..model import Model, Signature
from ..settings import InjectSettings
from .plan import Plan


def name_signatures(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Sets inputs and outputs of each subgraph from the plan and adds the signatures ``segment_<k>``.

    Original signatures of an uncut model stay: the tensors they name are still its inputs and outputs.
    """
    signatures = model.signatures if model.signatures is not None else []
    for k, segment in enumerate(plan.segments):
        segment.subgraph.inputs = [p.tensor for p in segment.inputs]
        segment.subgraph.outputs = [p.tensor for p in segment.outputs]
        key = segment_key(k)
        if any(s.key == key for s in signatures):
            raise ConversionError(f"the model has a signature `{key}` already; rename it")
        signatures.append(
            Signature(
                key,
                segment.subgraph,
                [(p.name, p.tensor) for p in segment.inputs],
                [(p.name, p.tensor) for p in segment.outputs],
            )
        )
    model.signatures = signatures
