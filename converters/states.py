"""States of a network: tensors that outlive an invoke, such as ring buffers of streaming convolutions.

A ZO model has a state as a variable tensor that TFLM_ZO_STATE resets, reads and assigns (ops/core/graph/zo_op.h). The
first invoke of a sequence begins with the initial state, and the others continue.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np

from .constants import STATE_OPERATOR, free_name
from .errors import ConversionError
from .kernels import STATES, kind_of
from .model import Buffer, Model, Operator, OperatorCode, Subgraph, Tensor
from .model.schema import DTYPES, BuiltinOperator, TensorType, raw_text, schema, text

_HEAD: Final = "<BBBB"
_VERSION: Final = 1
_READ: Final = 0
_ASSIGN: Final = 1

#: Operators of resource variables, which `open_states` replaces.
VARIABLE_OPERATORS: Final = (
    BuiltinOperator.CALL_ONCE,
    BuiltinOperator.VAR_HANDLE,
    BuiltinOperator.READ_VARIABLE,
    BuiltinOperator.ASSIGN_VARIABLE,
)
_Name = tuple[bytes, bytes]  # container and shared name of a resource variable


def is_state(op: Operator) -> bool:
    """Returns whether an operator resets, reads or assigns a state."""
    return op.code.name == STATE_OPERATOR


def is_assignment(op: Operator) -> bool:
    """Returns whether an operator of `is_state` assigns."""
    return bool(op.custom_options and op.custom_options[1] == _ASSIGN)


def resets_state(op: Operator) -> bool:
    """Returns whether an operator resets a state, and perhaps reads it."""
    return is_state(op) and not is_assignment(op)


def reads_state(op: Operator) -> bool:
    """Returns whether an operator reads a state; recurrent operators read their own themselves."""
    return resets_state(op) and bool(op.outputs)


def states_of(graph: Subgraph) -> list[Tensor]:
    """Returns the states of a subgraph of a ZO model, in the order in which they are reset."""
    return [t for op in graph.operators if resets_state(op) for t in op.inputs[:1] if t is not None]


def are_sound(graph: Subgraph) -> bool:
    """Returns whether operators of `is_state`, in a subgraph of a ZO model, have their options and tensors, and assign
    only states that others have read.
    """
    read: set[Tensor | None] = set()
    for op in graph.operators:
        if not is_state(op):
            continue
        options, (state, *others) = op.custom_options or b"", op.inputs or [None]
        known = len(options) >= struct.calcsize(_HEAD) and options[0] == _VERSION and options[1] in (_READ, _ASSIGN)
        named = not op.outputs or b"\0" in options[struct.calcsize(_HEAD) :]
        if not known or not named or state is None or not state.is_variable or not others or others[0] is None:
            return False
        if is_assignment(op) and (op.outputs or state not in read):
            return False
        read |= {state} if op.outputs else set()
    return True


def nbytes_of(state: Tensor) -> int:
    """Returns the bytes of a state, batch included."""
    return state.size * np.dtype(DTYPES.get(state.type, np.int8)).itemsize


def main_graph(model: Model) -> Subgraph | None:
    """Returns the subgraph of a model that has one, besides those that set initial values of its variables; or None."""
    if not model.subgraphs:
        return None
    others = {i for i, _ in _initial_graphs(model.subgraphs[0])}
    return model.subgraphs[0] if others >= set(range(1, len(model.subgraphs))) else None


def is_streaming(model: Model) -> bool:
    """Returns whether an invoke of a model, plain or ZO, is a step of a sequence: the model has resource variables or
    SVDF. An LSTM alone has all steps in its input.
    """
    kinds = (BuiltinOperator.READ_VARIABLE, BuiltinOperator.SVDF)
    operators = (op for graph in model.subgraphs for op in graph.operators)
    return any(kind_of(op) in kinds or reads_state(op) for op in operators)


def _initial_graphs(graph: Subgraph) -> Iterator[tuple[int, Operator]]:
    for op in graph.operators:
        if op.builtin == BuiltinOperator.CALL_ONCE:
            yield int(op.option("initSubgraphIndex", 0)), op


def open_states(model: Model) -> None:
    """Makes resource variables of a plain model variable tensors, in place, with TFLM_ZO_STATE in the place of
    READ_VARIABLE and ASSIGN_VARIABLE, and resets the variables of recurrent operators. The subgraphs that set initial
    values are removed. Raises ConversionError if a variable is not read once and then assigned at most once, has no
    initial value, or is used in another subgraph.
    """
    initial: dict[Subgraph, dict[_Name, Tensor]] = {}
    removed: set[Subgraph] = set()
    for graph in model.subgraphs:
        initial[graph] = {}
        for number, op in _initial_graphs(graph):
            if not 0 < number < len(model.subgraphs):
                raise ConversionError(f"{op.label}: there is no subgraph {number}; the file is damaged")
            removed.add(model.subgraphs[number])
            initial[graph] |= _initial_values(model.subgraphs[number])
    model.subgraphs = [g for g in model.subgraphs if g not in removed]
    if model.signatures is not None:
        model.signatures = [s for s in model.signatures if s.subgraph not in removed]
    for graph in model.subgraphs:
        _open_variables(model, graph, initial[graph])
        _reset_recurrent(model, graph)


def _names(graph: Subgraph) -> dict[Tensor, _Name]:
    """Returns the name of the variable of each handle."""
    found = {}
    for op in graph.operators:
        if op.builtin == BuiltinOperator.VAR_HANDLE and op.outputs:
            names = (raw_text(text(op.option(name, b""))) or b"" for name in ("container", "sharedName"))
            container, shared = names
            found[op.outputs[0]] = (container, shared)
    return found


def _initial_values(graph: Subgraph) -> dict[_Name, Tensor]:
    names, found = _names(graph), {}
    for op in graph.operators:
        if op.builtin == BuiltinOperator.VAR_HANDLE:
            continue
        handle, value = op.input(0), op.input(1)
        if (
            op.builtin != BuiltinOperator.ASSIGN_VARIABLE
            or handle not in names
            or value is None
            or not value.is_constant
        ):
            raise ConversionError(f"{op.label}: an initial state must be a constant; convert the model without it")
        found[names[handle]] = value
    return found


def _open_variables(model: Model, graph: Subgraph, initial: dict[_Name, Tensor]) -> None:
    names, states = _names(graph), dict[_Name, Tensor]()
    assigned: set[_Name] = set()
    operators: list[Operator] = []
    for op in graph.operators:
        if op.builtin not in VARIABLE_OPERATORS:
            operators.append(op)
            continue
        if op.builtin in (BuiltinOperator.CALL_ONCE, BuiltinOperator.VAR_HANDLE):
            continue
        handle = op.input(0)
        name = names.get(handle) if handle is not None else None
        if name is None or (op.builtin == BuiltinOperator.READ_VARIABLE and not op.outputs):
            raise ConversionError(f"{op.label}: its variable has no VAR_HANDLE; the file is damaged")
        shown = text(name[1])
        if op.builtin == BuiltinOperator.READ_VARIABLE:
            if name in states:
                raise ConversionError(f"variable `{shown}` is read twice in an invoke, which is not supported")
            if name not in initial:
                raise ConversionError(f"variable `{shown}` has no initial value; convert the model again")
            read, value = op.outputs[0], initial[name]
            if (value.shape, value.type) != (read.shape, read.type):
                raise ConversionError(f"variable `{shown}` is read in another shape or type than its initial value has")
            state = _state(model, graph, shown, read, names)
            states[name] = state
            operators.append(_read(state, value, read, name))
        else:
            value_ = op.input(1)
            if name not in states or name in assigned or value_ is None or value_.shape != states[name].shape:
                reason = f"variable `{shown}` is not read once and then assigned once, in its own shape"
                raise ConversionError(f"{reason}; only such states are supported")
            assigned.add(name)
            options = struct.pack(_HEAD, _VERSION, _ASSIGN, 0, 0)
            code = OperatorCode.of_custom(STATE_OPERATOR)
            operators.append(Operator(code, [states[name], value_], [], custom_options=options))
    graph.operators = operators
    graph.tensors = [t for t in graph.tensors if t not in names]


def _state(model: Model, graph: Subgraph, name: str, like: Tensor, handles: Collection[Tensor]) -> Tensor:
    name = free_name(name or "state", {t.name for t in graph.all_tensors() if t not in handles})
    quantization = like.quantization.copy() if like.quantization else None
    state = Tensor(name, like.shape, like.type, model.empty_buffer, quantization, is_variable=True)
    graph.tensors.append(state)
    return state


def _read(state: Tensor, value: Tensor | None, read: Tensor | None, name: _Name | None = None) -> Operator:
    """Returns the operator that resets a state, to `value` or its zero point, and reads it."""
    fill = state.quantization.zero_point if state.quantization and state.type == TensorType.INT8 else 0
    inputs: list[Tensor | None] = [state]
    if value is not None:
        levels = set(value.buffer.data)
        fill = levels.pop() if len(levels) == 1 else 0
        inputs += [value] if levels else []
    options = struct.pack(_HEAD, _VERSION, _READ, fill & 255, 0) + (b"\0".join(name) if name else b"")
    outputs = [] if read is None else [read]
    return Operator(OperatorCode.of_custom(STATE_OPERATOR), inputs, outputs, custom_options=options)


def _reset_recurrent(model: Model, graph: Subgraph) -> None:
    resets = []
    for op in graph.operators:
        for i, tensor in enumerate(op.inputs if op.builtin in STATES else ()):
            if tensor is None or not tensor.is_variable:
                continue
            if sum(tensor in o.inputs for o in graph.operators) > 1:
                raise ConversionError(f"{op.label}: another operator has its state `{tensor.name}`, too")
            taken = {t.name for t in graph.all_tensors() if t is not tensor}
            tensor.name = free_name(tensor.name or f"state_{i}", taken)
            resets.append(_read(tensor, None, None))
    graph.operators[:0] = resets


def upstream_through_states(graph: Subgraph, tensor: Tensor) -> set[Operator]:
    """Returns the operators that a tensor depends on, in this invoke or, through states, in earlier ones."""
    found = graph.upstream(tensor)
    while True:
        read = {op.input(0) for op in found if is_state(op)}
        more = [op for op in graph.operators if is_state(op) and op not in found and op.input(0) in read]
        if not more:
            return found
        for op in more:
            found.add(op)
            found |= graph.upstream(op.inputs[1]) if is_assignment(op) and op.inputs[1] is not None else set()


def check_segments(graph: Subgraph, number: dict[Operator, int]) -> None:
    """Moves each reset of a recurrent operator's state into the segment of that operator. `number` has the segment of
    each operator. Raises ConversionError if a state is read in one segment and assigned in another.
    """
    for op in graph.operators:
        if not resets_state(op):
            continue
        others = [o for o in graph.operators if o is not op and op.inputs[0] in o.inputs]
        if not op.outputs:
            number[op] = number[others[0]]
        elif any(number[o] != number[op] for o in others):
            name = next(t.name for t in op.inputs if t is not None)
            raise ConversionError(f"state `{name}` would be read before a cut and assigned behind it; cut elsewhere")


def connect_states(graph: Subgraph, command: Tensor) -> None:
    """Gives the operators that reset states the command, which says whether a sequence begins."""
    for op in graph.operators:
        if resets_state(op):
            op.inputs.insert(1, command)


def disconnect_states(graph: Subgraph) -> None:
    """Undoes `connect_states`."""
    for op in graph.operators:
        if resets_state(op):
            del op.inputs[1]


def close_states(model: Model) -> None:
    """Undoes `open_states` in a model of one subgraph, in place."""
    graph = model.subgraphs[0]
    first = Subgraph("NoOp")
    handles: dict[Tensor, Tensor] = {}
    operators: list[Operator] = []
    for op in [*graph.operators]:
        state = op.input(0)
        if not is_state(op) or state is None:
            operators.append(op)
        elif is_assignment(op):
            operators.append(_operator(BuiltinOperator.ASSIGN_VARIABLE, [handles[state], op.input(1)], []))
        elif op.outputs:
            assert op.custom_options is not None  # it has been read
            size = struct.calcsize(_HEAD)
            fill, name = op.custom_options[2], op.custom_options[size:]
            handles[state], own = (_handle(g, state.name, name, model) for g in (graph, first))
            value = _initial(state, op.input(1), fill)
            first.tensors.append(value)
            first.operators.append(_operator(BuiltinOperator.ASSIGN_VARIABLE, [own, value], []))
            operators.append(_operator(BuiltinOperator.READ_VARIABLE, [handles[state]], op.outputs))
            graph.tensors.remove(state)
    if not handles:
        graph.operators = operators
        return
    call = _operator(BuiltinOperator.CALL_ONCE, [], [])
    call.raw.builtinOptionsType = schema.BuiltinOptions.CallOnceOptions
    call.raw.builtinOptions = schema.CallOnceOptionsT()
    call.raw.builtinOptions.initSubgraphIndex = 1
    added = [op for op in graph.operators if op.builtin == BuiltinOperator.VAR_HANDLE]
    graph.operators = [call, *added, *operators]
    model.subgraphs.append(first)


def _operator(builtin: int, inputs: list[Tensor | None], outputs: list[Tensor]) -> Operator:
    return Operator(OperatorCode(builtin), inputs, outputs)


def _initial(state: Tensor, of_sample: Tensor | None, fill: int) -> Tensor:
    value = state.copy()
    value.name, value.is_variable = f"{state.name}/initial", False
    data = bytes([fill]) if of_sample is None else of_sample.buffer.data
    value.buffer = Buffer(data * (nbytes_of(state) // len(data)))
    return value


def _handle(graph: Subgraph, name: str, names: bytes, model: Model) -> Tensor:
    container, shared = names.split(b"\0", 1)
    handle = Tensor(name, (), TensorType.RESOURCE, model.empty_buffer)
    op = _operator(BuiltinOperator.VAR_HANDLE, [], [handle])
    op.raw.builtinOptionsType = schema.BuiltinOptions.VarHandleOptions
    options: Any = schema.VarHandleOptionsT()
    options.container, options.sharedName = container, shared
    op.raw.builtinOptions = options
    graph.tensors.append(handle)
    graph.operators.append(op)
    return handle
