"""Every operator between two layers of an exact tail: the errors that pass are the gradients, or it is refused."""

import pytest

from helpers.exact_gradients import check_gradients
from helpers.models.operators_between_layers import between_layers, maps_activations
from tflm_zo.converters import ConversionError, inject, read_metadata
from tflm_zo.converters.kernels import KERNELS
from tflm_zo.converters.model.schema import OPERATOR_NAMES

TRIED = [name for name in sorted(OPERATOR_NAMES[number] for number in KERNELS) if maps_activations(name)]


#: Operators that errors pass.
PASSED = {
    *("ABS", "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "ELU", "EXPAND_DIMS", "HARD_SWISH", "LEAKY_RELU"),
    *("LOGISTIC", "MAX_POOL_2D", "MEAN", "MUL", "PACK", "PAD", "PADV2", "QUANTIZE", "REDUCE_MAX", "RELU"),
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
    with pytest.raises(ConversionError, match=f"through the {name} of `y`.* Use the last 1 layers"):
        inject(model, nodes=(), tail=layers)
