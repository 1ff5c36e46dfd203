# SPDX-License-Identifier: Apache-2.0
"""Sets the batch size of the graph, which is fixed from then on."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConversionError
from ..kernels import check_arity
from ..model import Model, Subgraph, Tensor
from ..model.schema import BuiltinOperator
from ..settings import InjectSettings
from .batch_rules import RULES, UNBATCHED_OUTPUT, Rebatching
from .plan import Plan


def set_batch(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Sets axis 0 of all activations to ``settings.batch``; the size is fixed from then on.

    Rewrites the shapes of inputs and of what is computed from them, RESHAPE options and constants that hold
    the batch size (in buffers of their own), and shape signatures.

    Raises:
        ConversionError: the batch size of the model is neither 1 nor the one asked for, or an operator moves
            or merges the batch axis.
    """
    rewrite_batch(model.subgraphs[0], settings.batch)


def rewrite_batch(graph: Subgraph, batch: int, old: int = 1, inputs: Sequence[Tensor] | None = None) -> None:
    """Sets axis 0 of all activations of a subgraph, as ``set_batch`` does.

    On failure the subgraph is left half-rewritten, so callers work on a copy.

    Args:
        graph: subgraph that is changed.
        batch: batch size to set.
        old: batch size that it has, unless it has ``batch`` already.
        inputs: inputs whose first axis counts samples; None: all.
    """
    fed = graph.inputs if inputs is None else inputs
    if not fed:
        raise ConversionError("the model has no inputs, so it has no batch size")
    for tensor in fed:
        if not tensor.shape or tensor.shape[0] not in (old, batch):
            sizes = f"{old} or {batch}" if old != batch else str(batch)
            raise ConversionError(
                f"input `{tensor.name}` has shape {list(tensor.shape)}: its batch size must be {sizes}"
            )
    found = {tensor.shape[0] for tensor in fed}
    if found != {batch}:
        if len(found) > 1:
            raise ConversionError(f"the inputs differ in batch size: {sorted(found)}")
        _rewrite(Rebatching(graph, found.pop(), batch), fed)
    for tensor in graph.all_tensors():
        # -1 marks sizes that may change; labels and losses have one size, so the others have too.
        if tensor.shape_signature is not None:
            tensor.shape_signature = tensor.shape


def _rewrite(state: Rebatching, fed: Sequence[Tensor]) -> None:
    graph = state.graph
    for tensor in fed:
        state.old_shapes[tensor] = tensor.shape
        state.batched.add(tensor)
        tensor.shape = (state.new, *tensor.shape[1:])
    for op in list(graph.operators):
        if not any(t in state.batched for t in op.inputs if t is not None):
            continue
        rule = RULES.get(op.builtin)
        if rule is None:
            state.refuse(op, "nothing is known of what it does to the batch axis")
        if op.builtin != BuiltinOperator.CUSTOM:
            check_arity(op)
        rule(state, op)
        if op.builtin in UNBATCHED_OUTPUT:
            continue
        for tensor in op.outputs:
            if not tensor.shape or tensor.shape[0] != state.old:
                state.refuse(op, f"its output of shape {list(tensor.shape)} does not begin with the batch")
            state.old_shapes[tensor] = tensor.shape
            state.batched.add(tensor)
            tensor.shape = (state.new, *tensor.shape[1:])
