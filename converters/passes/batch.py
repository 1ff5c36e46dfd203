"""The batch size of a graph: how each operator takes a larger one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from ..constants import LOSS, METADATA_NAME, STATE_OPERATOR
from ..errors import ConversionError, checked_integer
from ..kernels import STATES, check_arity, kind_of
from ..model import Model, Operator, OperatorCode, Subgraph, Tensor
from ..model.schema import BuiltinOperator as B
from ..settings import MOST_SAMPLES, InjectSettings
from ..states import is_assignment, reads_state
from .plan import Plan


@dataclasses.dataclass(eq=False)
class Rebatching:
    """State of one change of the batch size."""

    graph: Subgraph  # subgraph that is changed
    old: int  # batch size that the shapes have before
    new: int  # batch size to set
    # tensors whose first axis is known to count samples
    batched: set[Tensor] = dataclasses.field(default_factory=set)
    # shapes that changed tensors had before
    old_shapes: dict[Tensor, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    def refuse(self, op: Operator, reason: str) -> NoReturn:
        """Raises ConversionError for an operator that a batch cannot pass."""
        raise ConversionError(f"{op.label}: {reason}, so the batch size cannot be changed to {self.new}")

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Returns the tensor's shape at the old batch size."""
        return self.old_shapes.get(tensor, tensor.shape)

    def constant(self, op: Operator, index: int, what: str) -> npt.NDArray[Any]:
        """Returns a flat copy of a constant input's data."""
        tensor = op.input(index)
        if tensor is None or not tensor.is_constant:
            self.refuse(op, f"its {what} is not a constant")
        return np.array(tensor.numpy()).reshape(-1)

    def set_constant(self, op: Operator, index: int, values: npt.NDArray[Any]) -> None:
        """Changes a constant input for this operator alone."""
        tensor = self.graph.own_input(op, index)
        tensor.set_data(values.astype(tensor.numpy().dtype).reshape(tensor.shape))

    def insert_axes(self, op: Operator, tensor: Tensor, rank: int) -> None:
        """Inserts axes of size 1 after an operand's batch: TFLite would insert them before it and mix samples."""
        shape = (self.new, *[1] * (rank - len(tensor.shape)), *tensor.shape[1:])
        sizes = Tensor.constant(f"{tensor.name}/shape", np.array(shape, np.int32))
        spread = dataclasses.replace(tensor.copy(), name=f"{tensor.name}/spread", shape=shape)
        self.graph.tensors += [sizes, spread]
        operators = self.graph.operators
        operators.insert(operators.index(op), Operator(OperatorCode(B.RESHAPE), [tensor, sizes], [spread]))
        self.batched.add(spread)
        op.replace_input(tensor, spread)

    def take(self, tensor: Tensor) -> None:
        """Gives a tensor whose first axis counts samples the new batch size."""
        self.old_shapes[tensor] = tensor.shape
        self.batched.add(tensor)
        tensor.shape = (self.new, *tensor.shape[1:])

    def take_of(self, op: Operator, tensor: Tensor, what: str) -> None:
        """Does `take` for a tensor of an operator, and refuses one that does not begin with the batch."""
        if not tensor.shape or tensor.shape[0] != self.old:
            self.refuse(op, f"its {what} of shape {list(tensor.shape)} does not begin with the batch")
        self.take(tensor)

    def require_batched(self, op: Operator, index: int = 0) -> Tensor:
        """Returns data input ``index``, and refuses one that is not batched."""
        tensor = op.input(index)
        if tensor is None or tensor not in self.batched:
            self.refuse(op, "a constant takes the place of its data")
        return tensor


Rule = Callable[[Rebatching, Operator], None]


def _per_sample(r: Rebatching, op: Operator) -> None:
    """The operator computes each sample by itself, and may change the shape of a sample."""
    r.require_batched(op)


def _image(r: Rebatching, op: Operator) -> None:
    data = r.require_batched(op)
    if len(r.shape(data)) != 4:
        r.refuse(op, f"its input has {len(r.shape(data))} dimensions instead of 4")


def _last_axis(r: Rebatching, op: Operator) -> None:
    data = r.require_batched(op)
    if len(r.shape(data)) < 2:
        r.refuse(op, "it works along the only axis, which is the batch")


def _elementwise(r: Rebatching, op: Operator) -> None:
    rank = len(op.outputs[0].shape)
    for tensor in op.inputs:
        if tensor is None:
            continue
        shape = r.shape(tensor)
        if tensor in r.batched and r.old == 1 and len(shape) < rank:
            r.insert_axes(op, tensor, rank)
        elif tensor in r.batched and len(shape) != rank:
            r.refuse(op, f"it broadcasts the batch axis of `{tensor.name}` against another axis")
        if tensor not in r.batched and (len(shape) > rank or (len(shape) == rank and shape[0] != 1)):
            r.refuse(op, f"operand `{tensor.name}` of shape {list(shape)} has an axis where the batch is")


def _fully_connected(r: Rebatching, op: Operator) -> None:
    data, weights = r.require_batched(op), op.input(1)
    assert weights is not None
    if weights in r.batched:
        r.refuse(op, "its filter depends on the sample")
    shape, depth = r.shape(data), weights.shape[-1]
    if op.option("keepNumDims", False):
        if len(shape) < 2 or shape[-1] != depth:
            r.refuse(op, f"its input of shape {list(shape)} does not end in {depth} values")
    elif math.prod(shape[1:]) != depth:
        rows = f"an input of shape {list(shape)} to rows of {depth} values"
        r.refuse(op, f"it flattens {rows}, which merges the batch with another axis")


def _reshape(r: Rebatching, op: Operator) -> None:
    data, out = r.require_batched(op), op.outputs[0]
    if not out.shape or out.shape[0] != r.old or math.prod(out.shape[1:]) != math.prod(r.shape(data)[1:]):
        r.refuse(op, f"it merges the batch axis into another one ({list(r.shape(data))} to {list(out.shape)})")
    target = [r.new, *out.shape[1:]]
    shape = op.input(1)
    if shape is not None and shape.is_constant:
        values = r.constant(op, 1, "shape")
        if len(values) != len(target):
            r.refuse(op, "its shape and its output disagree")
        r.set_constant(op, 1, np.array(target))
    if len(op.option("newShape", ())):
        op.options.newShape = np.array(target, np.int32)


def _axis(value: int, rank: int) -> int:
    return value + rank if value < 0 else value


def _squeeze(r: Rebatching, op: Operator) -> None:
    data = r.require_batched(op)
    dims = list(op.option("squeezeDims", ()))
    # An empty list means every axis of size 1, the batch among them.
    if 1 in (r.old, r.new) and (not dims or any(_axis(int(d), len(r.shape(data))) == 0 for d in dims)):
        r.refuse(op, "it removes the batch axis")


def _expand_dims(r: Rebatching, op: Operator) -> None:
    data = r.require_batched(op)
    if any(_axis(int(a), len(r.shape(data)) + 1) == 0 for a in r.constant(op, 1, "axis")):
        r.refuse(op, "it inserts an axis before the batch")


def _join(r: Rebatching, op: Operator) -> None:
    for tensor in op.inputs:
        if tensor not in r.batched:
            r.refuse(op, f"operand `{tensor.name if tensor else ''}` is the same for every sample")
    if _axis(op.option("axis", 0), len(op.outputs[0].shape)) == 0:
        packs = op.builtin == B.PACK
        r.refuse(op, "it stacks tensors before the batch axis" if packs else "it concatenates along the batch axis")


def _unpack(r: Rebatching, op: Operator) -> None:
    data = r.require_batched(op)
    if _axis(op.option("axis", 0), len(r.shape(data))) == 0:
        r.refuse(op, "it takes the batch apart")


def _other_axes(data: int, axes: int, what: str, reason: str) -> Rule:
    """Makes the rule of an operator that works along the axes that constant input ``axes`` names."""

    def rule(r: Rebatching, op: Operator) -> None:
        rank = len(r.shape(r.require_batched(op, data)))
        if any(_axis(int(a), rank) == 0 for a in r.constant(op, axes, what)):
            r.refuse(op, reason)

    return rule


_AXES: Final = "list of axes"


def _gather(r: Rebatching, op: Operator) -> None:
    """The operator gathers rows of a constant table by each sample's numbers, or the same places of every sample."""
    table, numbers = op.inputs[0], op.inputs[1]
    assert table is not None and numbers is not None
    axis = _axis(op.option("axis", 0), len(r.shape(table)))
    by_sample = table not in r.batched and axis == 0
    of_sample = numbers not in r.batched and axis > 0
    if op.option("batchDims", 0) or not (by_sample or of_sample):
        r.refuse(op, "it gathers along the batch axis")


def _pad(r: Rebatching, op: Operator) -> None:
    r.require_batched(op)
    if np.any(r.constant(op, 1, "padding")[:2]):
        r.refuse(op, "it pads the batch axis")


def _transpose(r: Rebatching, op: Operator) -> None:
    r.require_batched(op)
    order = r.constant(op, 1, "permutation")
    if not len(order) or order[0] != 0:
        r.refuse(op, "it moves the batch axis")


def _slice(r: Rebatching, op: Operator) -> None:
    r.require_batched(op)
    begin, size = r.constant(op, 1, "begin"), r.constant(op, 2, "size")
    if not len(begin) or not len(size) or begin[0] != 0 or size[0] not in (-1, r.old):
        r.refuse(op, "it takes part of the batch")
    if size[0] != -1:
        size[0] = r.new
        r.set_constant(op, 2, size)


def _strided_slice(r: Rebatching, op: Operator) -> None:
    r.require_batched(op)
    begin, end = r.constant(op, 1, "begin"), r.constant(op, 2, "end")
    strides = r.constant(op, 3, "strides")
    if not len(begin) or not len(end) or not len(strides):
        r.refuse(op, "its parameters are missing")
    if any(op.option(mask, 0) & 1 for mask in ("ellipsisMask", "newAxisMask", "shrinkAxisMask")):
        r.refuse(op, "it removes, inserts or skips the batch axis")
    open_begin, open_end = op.option("beginMask", 0) & 1, op.option("endMask", 0) & 1
    whole = (open_begin or begin[0] == 0) and (open_end or end[0] >= r.old)
    if not whole or strides[0] != 1:
        r.refuse(op, "it takes part of the batch")
    if not open_end:
        end[0] = r.new
        r.set_constant(op, 2, end)


def _transpose_conv(r: Rebatching, op: Operator) -> None:
    r.require_batched(op, 2)
    shape = r.constant(op, 0, "output shape")
    if len(shape) != 4:
        r.refuse(op, "its output shape does not have 4 dimensions")
    shape[0] = r.new
    r.set_constant(op, 0, shape)


def _batch_matmul(r: Rebatching, op: Operator) -> None:
    for tensor in op.inputs:
        if tensor is not None and (tensor not in r.batched or len(r.shape(tensor)) < 3):
            r.refuse(op, f"operand `{tensor.name}` has no batch axis of its own")


def _with_state(r: Rebatching, op: Operator) -> None:
    """The operator has a state for each sample: its variables get the batch size."""
    r.require_batched(op)
    if kind_of(op) == B.UNIDIRECTIONAL_SEQUENCE_LSTM and op.option("timeMajor", False):
        r.refuse(op, "its first axis counts steps")
    for i in STATES[kind_of(op)]:
        state = op.inputs[i]
        assert state is not None  # check_arity
        r.take_of(op, state, "state")


def no_batch(r: Rebatching, op: Operator) -> None:
    """The operator has one sample an invoke."""
    r.refuse(op, "it moves values between the batch axis and the image")


def _custom(r: Rebatching, op: Operator) -> None:
    if op.code.custom not in (LOSS, STATE_OPERATOR):
        r.refuse(op, "nothing is known of what it does to the batch axis")
    r.require_batched(op)
    if op.code.custom == STATE_OPERATOR and is_assignment(op):
        r.require_batched(op, 1)


RULES: Final[dict[int, Rule]] = {
    getattr(B, name): rule
    for names, rule in (
        ("ABS CAST DEQUANTIZE ELU HARD_SWISH LEAKY_RELU LOGICAL_NOT LOGISTIC QUANTIZE", _per_sample),
        ("RELU RELU6 RSQRT TANH ZEROS_LIKE", _per_sample),
        ("AVERAGE_POOL_2D CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE MAX_POOL_2D RESIZE_BILINEAR", _image),
        ("RESIZE_NEAREST_NEIGHBOR SPACE_TO_DEPTH", _image),
        ("L2_NORMALIZATION LOG_SOFTMAX SOFTMAX", _last_axis),
        ("ADD ADD_N DIV EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR", _elementwise),
        ("MAXIMUM MINIMUM MUL NOT_EQUAL PRELU SELECT_V2 SQUARED_DIFFERENCE SUB", _elementwise),
        ("MEAN REDUCE_ALL REDUCE_MAX REDUCE_MIN SUM", _other_axes(0, 1, _AXES, "it reduces over the batch axis")),
        ("CUMSUM REVERSE_V2", _other_axes(0, 1, _AXES, "it works along the batch axis")),
        ("PAD PADV2 MIRROR_PAD", _pad),
        ("ARG_MAX ARG_MIN", _other_axes(0, 1, "axis", "it compares samples with each other")),
        ("SPLIT", _other_axes(1, 0, "axis", "it splits the batch")),
        ("SPLIT_V", _other_axes(0, 2, "axis", "it splits the batch")),
        ("BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND", no_batch),
        ("BATCH_MATMUL", _batch_matmul),
        ("CONCATENATION PACK", _join),
        ("CUSTOM", _custom),
        ("EXPAND_DIMS", _expand_dims),
        ("FULLY_CONNECTED", _fully_connected),
        ("GATHER", _gather),
        ("RESHAPE", _reshape),
        ("SHAPE", lambda r, op: None),
        ("SLICE", _slice),
        ("SQUEEZE", _squeeze),
        ("STRIDED_SLICE", _strided_slice),
        ("SVDF UNIDIRECTIONAL_SEQUENCE_LSTM", _with_state),
        ("TRANSPOSE", _transpose),
        ("TRANSPOSE_CONV", _transpose_conv),
        ("UNPACK", _unpack),
    )
    for name in names.split()
}


def fix_batch(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Sets axis 0 of all activations to ``settings.batch``; the size is fixed from then on."""
    rewrite_batch(model.subgraphs[0], settings.batch)


def rewrite_batch(graph: Subgraph, batch: int, old: int = 1, inputs: Sequence[Tensor] | None = None) -> None:
    """Sets axis 0 of all activations of a subgraph, with RESHAPE options, constants and shape signatures, from `old`,
    unless it is `batch` already. On failure the subgraph is left half-rewritten, so callers work on a copy. Axis 0 of
    `inputs` counts samples; None: of all inputs.
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
        state.take(tensor)
    for op in list(graph.operators):
        if reads_state(op) and op.inputs[0] is not None:
            state.take_of(op, op.inputs[0], "state")
        if not any(t in state.batched for t in op.inputs if t is not None):
            continue
        rule = RULES.get(kind_of(op))
        if rule is None:
            state.refuse(op, "nothing is known of what it does to the batch axis")
        if op.builtin != B.CUSTOM:
            check_arity(op)
        rule(state, op)
        if op.builtin == B.SHAPE:  # it gives the batch size as a value
            continue
        for tensor in op.outputs:
            state.take_of(op, tensor, "output")


def set_batch(model: Model, batch: int) -> Model:
    """Returns a copy of a plain model, of batch size 1, for another batch size.

    Args:
        model: one subgraph, batch size 1 (or already ``batch``); it is not changed.
        batch: samples per invoke, at least 1.

    Raises:
        ConversionError: ``batch`` is no positive integer, the model has another batch size or several subgraphs, is a
            ZO model (inject it with the batch size instead), or has an operator that moves or merges the batch axis.
    """
    batch = checked_integer("batch", batch, 1, MOST_SAMPLES)
    if model.find_metadata(METADATA_NAME) is not None:
        raise ConversionError("the batch size of a ZO model is fixed; inject the original with another one")
    result = model.copy()
    if batch > 1 and any(op.builtin == B.READ_VARIABLE for graph in result.subgraphs for op in graph.operators):
        raise ConversionError(
            f"`batch` must be 1 for a model with resource variables. Received: {batch}. Use `inject`, which gives "
            "each sample states of its own"
        )
    rewrite_batch(result.only_graph, batch)
    return result
