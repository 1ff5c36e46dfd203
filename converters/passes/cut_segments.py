# SPDX-License-Identifier: Apache-2.0
"""Cuts the graph into segments, one subgraph each."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from .. import constants
from ..check_graph import check_flow
from ..errors import ConversionError
from ..model import Model, Operator, Subgraph, Tensor
from ..model.schema import TensorType
from ..settings import InjectSettings
from .find_loss import choose_output, logits_of
from .plan import Plan, Port, Segment


@dataclasses.dataclass(eq=False)
class _Cut:
    """A possible cut: its boundary, the operators behind it, and other tensors that would cross it."""

    boundary: Tensor
    after: set[Operator]
    crossing: list[Tensor]


def cut_segments(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Replaces the subgraph by one subgraph per segment and fills ``plan.segments``.

    Without cuts the subgraph stays the object it was. Otherwise each segment gets tensors of its own that
    share the buffers, so no constant is stored twice; signatures, which span segments, are dropped.

    Raises:
        ConversionError: a cut is no activation of the graph, or other tensors would have to cross it too (the
            message lists them).
    """
    graph = model.subgraphs[0]
    if plan.cuts:
        cuts = _ordered_cuts(graph, plan.cuts, None if plan.loss is None else plan.loss.tensor)
        plan.boundaries = [cut.boundary for cut in cuts]
        _cut(model, plan, cuts)
        return
    segment = Segment(graph)
    for i, tensor in enumerate(graph.inputs):
        segment.inputs.append(Port("input", tensor, plan.inputs[i], i))
    for i, tensor in enumerate(graph.outputs):
        segment.outputs.append(Port("output", tensor, plan.outputs[i], i))
    plan.segments = [segment]


def possible_cuts(model: Model, loss_output: int | str | None = None) -> list[str]:
    """Returns the names of the tensors at which the model can be cut, in execution order; any of them can be
    combined.

    Where branches meet that begin at different inputs, cuts on one exclude cuts on the other: the names are
    of the branch that is executed first, though ``cuts`` takes tensors of the other as well.

    Args:
        model: a plain model; it is not changed.
        loss_output: name or number of the output that the loss belongs to, as in ``InjectSettings``; the loss
            must be computable behind every cut.

    Raises:
        ConversionError: the model has several subgraphs or no outputs, or its operators are out of order.
    """
    if len(model.subgraphs) != 1:
        raise ConversionError(f"the model has {len(model.subgraphs)} subgraphs, only one is supported")
    graph = model.subgraphs[0]
    if not graph.outputs:
        raise ConversionError("the model has no outputs")
    check_flow(graph)
    logits, _ = logits_of(graph, choose_output(graph, loss_output))
    names = [t.name for t in graph.all_tensors()]
    cuts: list[_Cut] = []
    for op in graph.operators:
        for tensor in op.outputs:
            if names.count(tensor.name) == 1 and _unfit(graph, tensor, logits) is None:
                cut = _cut_at(graph, tensor, logits)
                combines = all(cut.after < c.after or c.after < cut.after for c in cuts)
                if cut.after and not cut.crossing and combines:
                    cuts.append(cut)
    return [cut.boundary.name for cut in cuts]


def _unfit(graph: Subgraph, tensor: Tensor, logits: Tensor | None) -> str | None:
    """Returns why a tensor cannot be a boundary whatever the graph around it is, or None."""
    if tensor in graph.inputs:
        return "is an input of the model"
    if tensor in graph.outputs and tensor is not logits:
        return "is an output of the model"
    if tensor.is_constant:
        return "is a constant"
    if tensor not in graph.producers():
        return "is not computed by an operator"
    if tensor.type != TensorType.INT8:
        return f"is {tensor.type_name}, boundaries are int8 activations"
    batch = graph.inputs[0].shape[:1]
    if not batch or not batch[0] or not tensor.shape or tensor.shape[0] % batch[0]:
        return f"has shape {list(tensor.shape)}, which does not divide into the samples of the input"
    return None


def cut_reason(graph: Subgraph, tensor: Tensor, logits: Tensor | None) -> str | None:
    """Returns why the graph cannot be cut at a tensor alone, or None where it can.

    Behind what the loss reads there may be nothing but the loss itself.
    """
    if [t.name for t in graph.all_tensors()].count(tensor.name) > 1:
        return "several tensors have this name"
    reason = _unfit(graph, tensor, logits)
    if reason is not None:
        return f"it {reason}"
    cut = _cut_at(graph, tensor, logits)
    if cut.crossing:
        return "these would cross too: " + ", ".join(f"«{t.name}»" for t in cut.crossing)
    return None if cut.after or tensor is logits else "nothing reads it"


def excluding_cuts(
    graph: Subgraph, tensors: Sequence[Tensor], logits: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Returns two of several tensors that exclude each other because they lie on different branches, or None
    if there are no two such tensors. The graph can be cut at each tensor alone.
    """
    cuts = [_cut_at(graph, tensor, logits) for tensor in dict.fromkeys(tensors)]
    return _different_branches(sorted(cuts, key=lambda cut: len(cut.after), reverse=True))


def _different_branches(cuts: Sequence[_Cut]) -> tuple[Tensor, Tensor] | None:
    for cut, following in itertools.pairwise(cuts):
        if not following.after < cut.after:
            return cut.boundary, following.boundary
    return None


def _ordered_cuts(graph: Subgraph, names: Sequence[str], logits: Tensor | None) -> list[_Cut]:
    cuts = []
    for name in names:
        found = [t for t in graph.all_tensors() if t.name == name]
        if len(found) != 1 or not name:
            raise ConversionError(
                f"cut «{name}»: {len(found)} tensors are called so; possible_cuts lists the choice"
            )
        reason = _unfit(graph, found[0], logits)
        if reason is not None:
            raise ConversionError(f"cut «{name}» is not possible: the tensor {reason}")
        cut = _cut_at(graph, found[0], logits)
        if cut.crossing:
            crossing = ", ".join(f"«{t.name}»" for t in [found[0], *cut.crossing])
            raise ConversionError(
                f"cut «{name}» is not possible: these tensors cross it: {crossing}; a boundary is one tensor"
            )
        if not cut.after and found[0] is not logits:
            raise ConversionError(f"cut «{name}» is not possible: nothing reads the tensor")
        cuts.append(cut)
    if len({cut.boundary for cut in cuts}) < len(cuts):
        raise ConversionError("a tensor is named twice in cuts")
    cuts.sort(key=lambda cut: len(cut.after), reverse=True)
    excluding = _different_branches(cuts)
    if excluding is not None:
        raise ConversionError(
            f"cuts «{excluding[0].name}» and «{excluding[1].name}» exclude each other: they lie on different "
            "branches"
        )
    return cuts


def _cut_at(graph: Subgraph, boundary: Tensor, logits: Tensor | None) -> _Cut:
    """Finds the fewest operators that must lie behind ``boundary``: its readers, what depends on them, and
    what these read besides. What ``boundary`` itself depends on among these must cross the cut.
    """
    producers, consumers = graph.producers(), graph.consumers()
    before: set[Operator] = set()
    pending = [producers[boundary]]
    while pending:
        op = pending.pop()
        if op not in before:
            before.add(op)
            pending += [producers[t] for t in op.inputs if t is not None and t in producers]

    after: set[Operator] = set()
    crossing: dict[Tensor, None] = {}
    pending = list(consumers.get(boundary, ()))

    def need(tensor: Tensor) -> None:
        if tensor is boundary or tensor not in producers:
            return
        if producers[tensor] in before:
            crossing[tensor] = None
        else:
            pending.append(producers[tensor])

    if logits is not None:
        # The loss is the last operator to be.
        need(logits)
    while pending:
        op = pending.pop()
        if op in after:
            continue
        after.add(op)
        for tensor in op.inputs:
            if tensor is not None:
                need(tensor)
        for tensor in op.outputs:
            pending += consumers.get(tensor, [])
    order = {t: i for i, t in enumerate(graph.all_tensors())}
    return _Cut(boundary, after, sorted(crossing, key=lambda t: order[t]))


def _cut(model: Model, plan: Plan, cuts: list[_Cut]) -> None:
    graph = model.subgraphs[0]
    number = {op: sum(op in cut.after for cut in cuts) for op in graph.operators}
    count = len(cuts) + 1
    operators = [[op for op in graph.operators if number[op] == k] for k in range(count)]
    for trainable in plan.trainable:
        segments = {number[op] for op in trainable.operators}
        if len(segments) > 1:
            raise ConversionError(
                f"filter «{trainable.tensor.name}» is shared by layers of different segments; cut elsewhere "
                "or leave it out of the trainable ones"
            )

    copies: list[dict[Tensor, Tensor]] = []
    plan.segments = []
    read_anywhere = {t for op in graph.operators for t in op.inputs}
    for k, members in enumerate(operators):
        mentioned = {t for op in members for t in [*op.inputs, *op.outputs, *(op.intermediates or ())]}
        produced = {t for op in members for t in op.outputs}
        if k:
            mentioned.add(cuts[k - 1].boundary)
        if k == 0:
            # Where nothing depends on them, inputs and outputs stay at the beginning.
            mentioned.update(t for t in graph.inputs if t not in read_anywhere)
            passed_through = {t for t in graph.outputs if t not in graph.producers()}
            mentioned |= passed_through
            produced |= passed_through
        own = {t: t.copy() for t in graph.all_tensors() if t in mentioned}
        copies.append(own)
        segment = Segment(Subgraph(name=constants.segment_key(k), tensors=list(own.values())))
        segment.subgraph.operators = [op.copy(own) for op in members]
        if k:
            segment.inputs.append(Port("boundary", own[cuts[k - 1].boundary], constants.BOUNDARY))
        for i, tensor in enumerate(graph.inputs):
            if tensor in own:
                segment.inputs.append(Port("input", own[tensor], plan.inputs[i], i))
        for i, tensor in enumerate(graph.outputs):
            if tensor in produced:
                segment.outputs.append(Port("output", own[tensor], plan.outputs[i], i))
        if k < len(cuts):
            segment.outputs.append(Port("boundary", own[cuts[k].boundary], constants.BOUNDARY))
        plan.segments.append(segment)

    model.subgraphs = [segment.subgraph for segment in plan.segments]
    model.signatures = []
    for trainable in plan.trainable:
        k = trainable.segment = number[trainable.operators[0]]
        members = operators[k]
        own_operators = plan.segments[k].subgraph.operators
        trainable.operators = [own_operators[members.index(op)] for op in trainable.operators]
        trainable.tensor = copies[k][trainable.tensor]
    if plan.loss is not None:
        plan.loss.tensor = copies[-1][plan.loss.tensor]
