"""Every operator between two layers of an exact tail: the errors that pass are the gradients, or it is refused."""

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import TensorType

from helpers.exact_gradients import check_gradients
from helpers.models.graph_builder import Activation, GraphBuilder
from helpers.models.operators_between_layers import between_layers, maps_activations
from tflm_zo.converters import ConversionError, inject, read_metadata
from tflm_zo.converters.kernels import KERNELS
from tflm_zo.converters.model.schema import OPERATOR_NAMES

TRIED = [name for name in sorted(OPERATOR_NAMES[number] for number in KERNELS) if maps_activations(name)]


#: Operators that errors pass.
PASSED = {
    *("ABS", "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "ELU", "EXPAND_DIMS", "HARD_SWISH", "LEAKY_RELU"),
    *("LOGISTIC", "MAX_POOL_2D", "MEAN", "MUL", "PACK", "PAD", "PADV2", "PRELU", "QUANTIZE", "REDUCE_MAX", "RELU"),
    *("RELU6", "RESHAPE", "SLICE", "SPLIT", "SPLIT_V", "SQUEEZE", "SUB", "TANH", "UNPACK"),
}


@pytest.mark.parametrize("name", TRIED)
def test_errors_pass_or_the_operator_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = between_layers(name)
    layers = 1 + sum(op.code.name == "FULLY_CONNECTED" for op in model.subgraphs[0].operators)
    if name == "ELU":  # LiteRT has no reference kernel
        assert read_metadata(inject(model, nodes=(), tail=layers)).tail is not None
        return
    if name in PASSED:
        check_gradients(model.to_bytes(), layers, monkeypatch, count=2)
        return
    # Filters of SVDF and LSTM are layers themselves.
    advice = "algorithm `weight`" if name == "SVDF" else "the last 1 layers"
    reason = f"(through the {name} of `y`|layer `y/.*` is a {name}).* Use {advice}"
    with pytest.raises(ConversionError, match=reason):
        inject(model, nodes=(), tail=layers)


@pytest.mark.parametrize("x_is_first", [True, False])
@pytest.mark.parametrize("slopes", [[0.3] * 4, [0.25, -0.5, 0.0, 0.1]])
def test_errors_pass_a_prelu_of_two_operators(
    x_is_first: bool, slopes: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Converters write a PReLU as a MAXIMUM of x and its product with the slopes."""
    g = GraphBuilder(3)
    x = g.conv(g.input("image", [1, 6, 6, 2]), "first", 4, activation=Activation.NONE)
    levels = np.round(np.array(slopes) * 100).astype(np.int8)
    slope = g.tensor("slopes", [1, 1, 4], TensorType.INT8, data=levels.tobytes(), scales=[0.01])
    product = g.value("product", x.shape, x.scale / 2, x.zero_point, x.rms / 2)
    g.operator("MUL", [x.index, slope], [product.index], "Mul")
    both = [g.requantize(x, "x", x.scale * 1.1, -3), g.requantize(product, "slow", x.scale * 1.1, -3)]
    y = g.value("y", x.shape, both[0].scale, -3, x.rms)
    operands = both if x_is_first else both[::-1]
    g.operator("MAXIMUM", [v.index for v in operands], [y.index], "MaximumMinimum")
    last = g.dense(g.flatten(y, "flat"), "last", 5, Activation.NONE)
    check_gradients(g.build([g.softmax(last, "softmax")]), 2, monkeypatch, count=2)
