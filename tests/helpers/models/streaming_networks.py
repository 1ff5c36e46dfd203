"""Streaming networks: ring buffers as inputs and outputs of the graph, and as resource variables."""

from typing import Any

import numpy as np

from helpers.models.graph_builder import Activation, GraphBuilder, Padding, Value, schema
from tflm_zo.converters import Model, load_model
from tflm_zo.converters.model import Operator, OperatorCode, Subgraph, Tensor
from tflm_zo.converters.model.schema import BuiltinOperator, TensorType

FEATURES = 6
CHANNELS = 4
KERNELS = 3, 2


def next_rows(g: GraphBuilder, x: Value, name: str) -> Value:
    """The last rows of a buffer, without the first one."""
    _, rows, *rest = x.shape
    begin, end = g.int32(f"{name}/begin", [0, 1, 0, 0]), g.int32(f"{name}/end", [1, rows, *rest])
    strides = g.int32(f"{name}/strides", [1, 1, 1, 1])
    out = g.value(name, (1, rows - 1, *rest), x.scale, x.zero_point, x.rms)
    g.operator("STRIDED_SLICE", [x.index, begin, end, strides], [out.index], "StridedSlice")
    return out


def with_ports(outputs: int = 1, seed: int = 31) -> bytes:
    """Builds a network of two convolutions over time whose ring buffers are inputs and outputs 1 and 2. `outputs`: 1
    for a LOGISTIC, 0 for a regression to three numbers, else classes of a SOFTMAX.
    """
    g = GraphBuilder(seed)
    x: Value = g.input("frame", [1, 1, 1, FEATURES])
    states = []
    for i, rows in enumerate(KERNELS):
        old = g.input(f"buffer_{i}", [1, rows - 1, 1, x.shape[-1]], x.scale, x.zero_point)
        both = g.value(f"concat_{i}", (1, rows, 1, x.shape[-1]), x.scale, x.zero_point, x.rms)
        g.operator("CONCATENATION", [old.index, x.index], [both.index], "Concatenation", axis=1)
        states.append(next_rows(g, both, f"next_{i}"))
        x = g.conv(both, f"conv_{i}", CHANNELS, (rows, 1), padding=Padding.VALID)
    x = g.dense(g.flatten(x, "flatten"), "fc", outputs or 3, Activation.NONE)
    if outputs == 1:
        x = g.logistic(x, "logistic")
    elif outputs > 1:
        x = g.softmax(x, "softmax")
    return g.build([x, *states])


def svdf_network(seed: int = 41, bits: int = 16) -> bytes:
    """Builds SVDF of rank 2 with a state of so many bits, and a SOFTMAX over 4 classes."""
    g, units, rank, memory = GraphBuilder(seed), 6, 2, 3
    x: Value = g.input("frame", [1, FEATURES])
    kind, dtype = (schema.TensorType.INT16, np.int16) if bits == 16 else (schema.TensorType.INT8, np.int8)
    feature_scale, time_scale, state_scale = 0.01, 2.0 ** -(bits - 2), 2.0 ** -(bits - 4)

    def constant(name: str, shape: list[int], dtype_: Any, type_: int, scale: float) -> int:
        largest = np.iinfo(dtype_).max
        values = g.rng.integers(-largest, largest + 1, shape).astype(dtype_)
        return g.tensor(name, shape, type_, data=values.tobytes(), scales=[scale])

    feature = constant("feature", [units * rank, FEATURES], np.int8, schema.TensorType.INT8, feature_scale)
    time = constant("time", [units * rank, memory], dtype, kind, time_scale)
    bias = g.int32("bias", g.rng.integers(-500, 501, units), scales=[state_scale * time_scale])
    state = g.tensor("state", [1, units * rank * memory], kind, scales=[state_scale])
    g.tensors[state].isVariable = True
    y = g.value("svdf", (1, units), 1 / 16, 4, 2.0)
    g.operator("SVDF", [x.index, feature, time, bias, state], [y.index], "SVDF", rank=rank)
    return g.build([g.softmax(g.dense(y, "fc", 4, Activation.NONE), "softmax")])


def lstm_network(seed: int = 43, steps: int = 5, units: int = 6, scale: float = 1.0) -> bytes:
    """Builds an LSTM over a window, and a SOFTMAX over 4 classes of its last step. `scale`: of all random weights."""
    g = GraphBuilder(seed)
    x: Value = g.input("window", [1, steps, FEATURES])
    hidden_scale, cell_scale = 1 / 128, 2.0**-12

    def filters(width: int) -> list[tuple[int, float]]:
        found = []
        for _ in range(4):
            real = g.rng.normal(0, scale / width**0.5, (units, width))
            step = float(np.float32(np.abs(real).max() / 127))
            data = np.rint(real / step).astype(np.int8).tobytes()
            found.append((g.tensor("filter", [units, width], schema.TensorType.INT8, data=data, scales=[step]), step))
        return found

    inputs, hidden = filters(FEATURES), filters(units)
    biases = [g.int32("bias", g.rng.integers(-99, 100, units), scales=[x.scale * step]) for _, step in inputs]
    h = g.tensor("h", [1, units], schema.TensorType.INT8, scales=[hidden_scale])
    cell = g.tensor("cell", [1, units], schema.TensorType.INT16, scales=[cell_scale])
    for state in (h, cell):
        g.tensors[state].isVariable = True
    y = g.value("lstm", (1, steps, units), hidden_scale, 0, 0.3)
    given = [x.index, *(i for i, _ in inputs), *(i for i, _ in hidden), -1, -1, -1, *biases, -1, -1, h, cell]
    options = {"fusedActivationFunction": Activation.TANH, "cellClip": 10.0}
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    g.operator(name, [*given, -1, -1, -1, -1], [y.index], "UnidirectionalSequenceLSTM", **options)
    last = g.value("last", (1, units), hidden_scale, 0, 0.3)
    bounds = [g.int32(n, v) for n, v in (("begin", [0, steps - 1, 0]), ("end", [1, steps, units]), ("by", [1, 1, 1]))]
    masks = {"beginMask": 1, "endMask": 1, "shrinkAxisMask": 2}
    g.operator("STRIDED_SLICE", [y.index, *bounds], [last.index], "StridedSlice", **masks)
    return g.build([g.softmax(g.dense(last, "fc", 4, Activation.NONE), "softmax")])


def _operator(
    kind: int, inputs: list[Tensor | None], outputs: list[Tensor], options: str = "", **given: Any
) -> Operator:
    op = Operator(OperatorCode(kind), inputs, outputs)
    if options:
        op.raw.builtinOptionsType = getattr(schema.BuiltinOptions, f"{options}Options")
        op.raw.builtinOptions = getattr(schema, f"{options}OptionsT")()
        for name, value in given.items():
            setattr(op.raw.builtinOptions, name, value)
    return op


def initial_states(seed: int | None) -> list[np.ndarray]:
    """Returns the initial values of the buffers, of noise, or the zero points for None."""
    rng = np.random.default_rng(seed or 0)
    shapes = [(1, KERNELS[0] - 1, 1, FEATURES), (1, KERNELS[1] - 1, 1, CHANNELS)]
    zero_points = [
        t.quantization.zero_point for t in load_model(with_ports()).subgraphs[0].inputs[1:] if t.quantization
    ]
    if seed is None:
        return [np.full(shape, z, np.int8) for shape, z in zip(shapes, zero_points, strict=True)]
    return [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]


def with_variables(outputs: int = 1, seed: int = 31, initial: int | None = None) -> Model:
    """Builds the same network with resource variables; `initial`: seed of their initial values, or None for the zero
    points.
    """
    model = load_model(with_ports(outputs, seed))
    (graph,) = model.subgraphs
    first = Subgraph("NoOp")
    old, new, values = graph.inputs[1:], graph.outputs[1:], initial_states(initial)
    handles: list[Tensor] = []
    for i, (tensor, next_, value) in enumerate(zip(old, new, values, strict=True)):
        own, other = (Tensor(f"state_{i}", (), TensorType.RESOURCE, model.empty_buffer) for _ in range(2))
        names = {"container": "", "sharedName": f"stream_{i}"}
        constant = tensor.copy()
        constant.name = f"initial_{i}"
        constant.set_data(value)
        first.operators.append(_operator(BuiltinOperator.VAR_HANDLE, [], [other], "VarHandle", **names))
        first.operators.append(_operator(BuiltinOperator.ASSIGN_VARIABLE, [other, constant], []))
        graph.operators.insert(0, _operator(BuiltinOperator.READ_VARIABLE, [own], [tensor]))
        at = next(k for k, op in enumerate(graph.operators) if next_ in op.outputs)
        graph.operators.insert(at + 1, _operator(BuiltinOperator.ASSIGN_VARIABLE, [own, next_], []))
        graph.operators.insert(0, _operator(BuiltinOperator.VAR_HANDLE, [], [own], "VarHandle", **names))
        handles.append(own)
    # Handles before the operators that read them.
    graph.operators.sort(key=lambda op: op.builtin != BuiltinOperator.VAR_HANDLE)
    graph.operators.insert(0, _operator(BuiltinOperator.CALL_ONCE, [], [], "CallOnce", initSubgraphIndex=1))
    graph.inputs, graph.outputs = graph.inputs[:1], graph.outputs[:1]
    model.subgraphs = [graph, first]
    return load_model(model.to_bytes())
