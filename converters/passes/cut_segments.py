"""Cuts the graph into segments, one subgraph each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .. import constants
from ..check_graph import check_flow
from ..constants import segment_key
from ..errors import ConversionError
from ..mend import part_by_slices, parts_of
from ..model import Model, Operator, Signature, Subgraph, Tensor
from ..model.schema import TensorType
from ..settings import InjectSettings
from ..states import check_segments
from .loss import logits_of, output_number
from .plan import Plan, Port, Segment


@dataclasses.dataclass(eq=False)
class _Cut:
    """A cut: the tensor that enters the segment behind it, the operators before it, and those behind it."""

    boundary: Tensor
    before: set[Operator]
    after: set[Operator]


def cut_segments(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Replaces the subgraph by one subgraph per segment and fills ``plan.segments``; without cuts it stays the object
    it was.

    A segment computes one tensor for the next one, its boundary, and may read boundaries that entered earlier segments,
    too: a shortcut around a residual block crosses the cuts in it. Every tensor that crosses a cut becomes a cut
    itself, so that it is the boundary of some segment. Segments have tensors of their own that share the buffers, so no
    constant is stored twice; signatures, which span segments, are dropped.
    """
    graph = model.subgraphs[0]
    if plan.cuts:
        logits = plan.loss_input
        plan.boundaries, number = _segmented(graph, _named(graph, plan.cuts, logits), logits)
        # A segment computes one boundary: outputs of one operator that are boundaries need one of their own.
        while together := _computed_together(graph, plan.boundaries):
            for op in together:
                part_by_slices(graph, op)
            plan.boundaries, number = _segmented(graph, plan.boundaries, logits)
        _cut(model, plan, number)
        return
    inputs = [Port("input", tensor, plan.inputs[i], i) for i, tensor in enumerate(graph.inputs)]
    outputs = [Port("output", tensor, plan.outputs[i], i) for i, tensor in enumerate(graph.outputs)]
    plan.segments = [Segment(graph, inputs, outputs)]


def possible_cuts(model: Model, loss_output: int | str | None = None) -> list[str]:
    """Returns the names of the tensors at which a plain model can be cut, in execution order, in any combination: the
    loss of `loss_output`, as in ``InjectSettings``, must be computable behind every cut. Raises ConversionError if the
    model has several subgraphs or no outputs, or its operators are out of order.
    """
    graph = model.only_graph
    if not graph.outputs:
        raise ConversionError("the model has no outputs")
    check_flow(graph)
    logits, _ = logits_of(graph, graph.outputs[output_number(graph, loss_output)])
    found = [t for op in graph.operators for t in op.outputs]
    return [t.name for t in found if cut_reason(graph, t, logits) is None and graph.consumers().get(t)]


def _unfit(graph: Subgraph, tensor: Tensor, logits: Tensor | None) -> str | None:
    """Returns the reason why a tensor cannot be a boundary in any graph, or None."""
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
    """Returns why the graph cannot be cut at a tensor, or None. Only the loss may follow the loss's input."""
    if [t.name for t in graph.all_tensors()].count(tensor.name) > 1:
        return "several tensors have this name"
    reason = _unfit(graph, tensor, logits)
    if reason is not None:
        return f"it {reason}"
    try:
        _segmented(graph, [tensor], logits)
    except ConversionError as error:
        return str(error)
    return None


def crosses_alone(graph: Subgraph, tensor: Tensor, logits: Tensor | None) -> bool:
    """Returns whether nothing but this tensor would cross a cut at it."""
    return len(_segmented(graph, [tensor], logits)[0]) == 1


def _named(graph: Subgraph, names: Sequence[str], logits: Tensor | None) -> list[Tensor]:
    tensors = []
    for name in names:
        found = [t for t in graph.all_tensors() if t.name == name]
        if len(found) != 1 or not name:
            raise ConversionError(f"cut `{name}`: {len(found)} tensors are called so; possible_cuts lists the choice")
        reason = _unfit(graph, found[0], logits)
        if reason is not None:
            raise ConversionError(f"cut `{name}` is not possible: the tensor {reason}")
        tensors.append(found[0])
    if len(set(tensors)) < len(tensors):
        raise ConversionError("a tensor is named twice in cuts")
    return tensors


def _segmented(
    graph: Subgraph, tensors: Sequence[Tensor], logits: Tensor | None
) -> tuple[list[Tensor], dict[Operator, int]]:
    """Returns the tensors that cross cuts, in execution order, and the number of each operator's segment."""
    producers = graph.producers()
    position = {t: i for i, op in enumerate(graph.operators) for t in op.outputs}
    wanted = list(dict.fromkeys(tensors))
    while True:
        cuts: list[_Cut] = []
        # The loss, which reads the logits, is the last operator to be.
        for tensor in sorted(wanted, key=lambda t: (t is logits, position[t])):
            cuts.append(_cut_at(graph, tensor, logits, cuts[-1].before if cuts else set()))
        number = _segment_numbers(graph, cuts)
        read = {(t, number[op]) for op in graph.operators for t in op.inputs if t is not None and t in producers}
        if logits is not None and logits in producers:
            read.add((logits, len(cuts)))
        crossing = {t for t, k in read if number[producers[t]] < k and t not in wanted}
        for tensor in sorted(crossing, key=lambda t: position[t]):
            reason = "the loss reads" if tensor is logits else _unfit(graph, tensor, logits)
            if reason is not None:
                crossed = f"`{tensor.name}` would cross it, which {reason}"
                raise ConversionError(
                    f"a cut at {', '.join(f'`{t.name}`' for t in tensors)} is not possible: {crossed}"
                )
            wanted.append(tensor)
        if not crossing:
            break
    for cut in cuts:
        if not cut.after and cut.boundary is not logits:
            raise ConversionError(f"cut `{cut.boundary.name}` is not possible: nothing reads the tensor")
    boundaries = [cut.boundary for cut in cuts]
    for op in _computed_together(graph, boundaries):
        if parts_of(op) is None:
            raise ConversionError(f"{op.label} computes several tensors that would cross cuts")
    return boundaries, number


def _computed_together(graph: Subgraph, boundaries: Sequence[Tensor]) -> list[Operator]:
    """Returns the operators that compute several boundaries."""
    return [op for op in graph.operators if sum(t in boundaries for t in op.outputs) > 1]


def _segment_numbers(graph: Subgraph, cuts: Sequence[_Cut]) -> dict[Operator, int]:
    producers, number = graph.producers(), dict[Operator, int]()
    for op in graph.operators:
        behind = [k for k, cut in enumerate(cuts, start=1) if op in cut.after]
        # Operators that a boundary, and no earlier one, depends on are in the segment before it.
        needed = [k for k, cut in enumerate(cuts) if op in cut.before][:1]
        read = [number[producers[t]] for t in op.inputs if t is not None and t in producers]
        number[op] = max(behind + needed + read, default=0)
    check_segments(graph, number)
    return number


def _cut_at(graph: Subgraph, boundary: Tensor, logits: Tensor | None, before: set[Operator]) -> _Cut:
    """Finds the fewest operators that must run after a cut: the readers of ``boundary``, the operators that depend on
    them, and all their sources that do not run before the cut. The operators in ``before`` run before earlier cuts.
    """
    before = before | graph.upstream(boundary)
    producers, consumers = graph.producers(), graph.consumers()
    after: set[Operator] = set()
    pending = list(consumers.get(boundary, ()))

    def need(tensor: Tensor) -> None:
        if tensor in producers and producers[tensor] not in before:
            pending.append(producers[tensor])

    if logits is not None:
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
    return _Cut(boundary, before, after)


def _cut(model: Model, plan: Plan, number: dict[Operator, int]) -> None:
    graph, boundaries = model.subgraphs[0], plan.boundaries
    count = len(boundaries) + 1
    operators = [[op for op in graph.operators if number[op] == k] for k in range(count)]
    for trainable in plan.trainable:
        if len({number[op] for op in trainable.operators}) > 1:
            shared = f"filter `{trainable.tensor.name}` is shared by layers of different segments"
            raise ConversionError(f"{shared}; cut elsewhere or leave it out of the trainable ones")

    copies: list[dict[Tensor, Tensor]] = []
    plan.segments = []
    read_anywhere = {t for op in graph.operators for t in op.inputs}
    for k, members in enumerate(operators):
        mentioned = {t for op in members for t in [*op.inputs, *op.outputs, *(op.intermediates or ())]}
        produced = {t for op in members for t in op.outputs}
        read = {t for op in members for t in op.inputs}
        if k:
            mentioned.add(boundaries[k - 1])
        if k == 0:
            # Where nothing depends on them, inputs and outputs stay at the beginning.
            mentioned.update(t for t in graph.inputs if t not in read_anywhere)
            passed_through = {t for t in graph.outputs if t not in graph.producers()}
            mentioned |= passed_through
            produced |= passed_through
        own = {t: t.copy() for t in graph.all_tensors() if t in mentioned}
        copies.append(own)
        subgraph = Subgraph(segment_key(k), list(own.values()), operators=[op.copy(own) for op in members])
        earlier = enumerate(boundaries[: max(k - 1, 0)], start=1)
        inputs = [Port("boundary", own[boundaries[k - 1]], constants.BOUNDARY)] if k else []
        inputs += [Port("skip", own[t], constants.skip_name(at), at) for at, t in earlier if t in read]
        inputs += [Port("input", own[t], plan.inputs[i], i) for i, t in enumerate(graph.inputs) if t in own]
        outputs = [Port("output", own[t], plan.outputs[i], i) for i, t in enumerate(graph.outputs) if t in produced]
        if k < len(boundaries):
            outputs.append(Port("boundary", own[boundaries[k]], constants.BOUNDARY))
        plan.segments.append(Segment(subgraph, inputs, outputs))

    model.subgraphs = [segment.subgraph for segment in plan.segments]
    model.signatures = []
    for trainable in plan.trainable:
        k = trainable.segment = number[trainable.operators[0]]
        members = operators[k]
        own_operators = plan.segments[k].subgraph.operators
        trainable.operators = [own_operators[members.index(op)] for op in trainable.operators]
        trainable.tensor = copies[k][trainable.tensor]
    if plan.loss_input is not None:
        plan.loss_input = copies[-1][plan.loss_input]


def name_signatures(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Sets inputs and outputs of each subgraph from the plan and adds the signatures ``segment_<k>``. Original
    signatures of an uncut model stay: the tensors they name are still its inputs and outputs.
    """
    signatures = model.signatures or []
    for k, segment in enumerate(plan.segments):
        segment.subgraph.inputs = [p.tensor for p in segment.inputs]
        segment.subgraph.outputs = [p.tensor for p in segment.outputs]
        key = segment_key(k)
        if any(s.key == key for s in signatures):
            raise ConversionError(f"the model has a signature `{key}` already; rename it")
        ports = ([(p.name, p.tensor) for p in side] for side in (segment.inputs, segment.outputs))
        signatures.append(Signature(key, segment.subgraph, *ports))
    model.signatures = signatures
