"""Models with one operator between two layers."""

import math

from helpers.models.graph_builder import Activation, GraphBuilder
from helpers.models.single_operators import SINGLE_OPERATORS
from tflm_zo.converters import Model, load_model
from tflm_zo.converters.model.schema import TensorType


def between_layers(name: str) -> Model:
    """Builds dense layers that make the inputs of the operator, and a convolution that reads its first output."""
    single = load_model(SINGLE_OPERATORS[name]).subgraphs[0]
    (op,) = single.operators
    read, written = list(dict.fromkeys(single.inputs)), op.outputs[0]
    g = GraphBuilder(5)
    x = g.input("features", [1, 9])
    entries = []
    for i, tensor in enumerate(read):
        made = g.dense(x, f"first{i}", math.prod(tensor.shape), Activation.NONE)
        entries.append(g.reshape(made, f"entry{i}", tensor.shape))
    size = [1, 1, 1, math.prod(written.shape)]
    flat = g.value("flat", size, 1 / 16, -128, 1.0)
    g.operator("RESHAPE", [entries[0].index, g.int32("size", size)], [flat.index], "Reshape")
    last = g.conv(flat, "last", 3, kernel=(1, 1), activation=Activation.NONE)
    model = load_model(g.build([g.softmax(g.flatten(last, "logits"), "softmax")]))
    graph = model.subgraphs[0]
    (exit_,) = (o for o in graph.operators if o.outputs[0].name == "flat")
    for i, tensor in enumerate(read):
        (entry,) = (o for o in graph.operators if o.outputs[0].name == f"entry{i}")
        assert entry.inputs[0] is not None
        entry.inputs[0].quantization = tensor.quantization
        graph.tensors.remove(entry.outputs[0])
        entry.outputs = [tensor]
        if i == 0:
            exit_.replace_input(exit_.inputs[0], written)
    exit_.outputs[0].quantization = written.quantization
    graph.operators.insert(graph.operators.index(exit_), op)
    graph.tensors += [t for t in (*op.inputs, *op.outputs) if t is not None]
    return load_model(model.to_bytes())


def maps_activations(name: str) -> bool:
    """Returns True if an operator makes int8 values of int8 values, and is no layer itself."""
    graph = load_model(SINGLE_OPERATORS[name]).subgraphs[0]
    same = bool(graph.inputs) and graph.operators[0].outputs[0].type == TensorType.INT8
    return same and name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
