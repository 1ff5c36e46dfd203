"""TensorFlow's own interpreter takes the delegate, too."""

from typing import Any

import numpy as np
import pytest

from helpers.examples import REAL_MODELS
from helpers.interpreters import random_inputs, run_plain
from helpers.models import MODELS
from tflm_zo import exact_delegate


@pytest.mark.parametrize("make", [pytest.param(MODELS[name], id=name) for name in ("lenet5", "residual")] + REAL_MODELS)
def test_tensorflow_with_the_delegate(make: Any) -> None:
    lite = pytest.importorskip("tensorflow").lite
    interpreter = lite.Interpreter(
        model_content=make(),
        experimental_op_resolver_type=lite.experimental.OpResolverType.BUILTIN_REF,
        experimental_delegates=[exact_delegate(lite.experimental.load_delegate)],
    )
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    for seed in range(20):
        inputs = random_inputs([(d["shape"], d["dtype"]) for d in details], seed)
        for own, values in zip(details, inputs, strict=True):
            interpreter.set_tensor(own["index"], values)
        interpreter.invoke()
        found = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
        for a, b in zip(found, run_plain(make(), "litert", inputs), strict=True):
            np.testing.assert_array_equal(a, b)
