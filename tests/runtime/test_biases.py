"""Trainable biases are read at each invoke in every runtime, beside variable filters and constant ones."""

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import RUNTIMES, require, run_plain
from helpers.models import MODELS, residual
from tflm_zo.converters import export_model, initial_weights, read_metadata
from tflm_zo.runtime import load

NETWORKS = {"lenet5": MODELS["lenet5"], "residual": residual, "autoencoder": MODELS["autoencoder"]}


@pytest.mark.parametrize("parameters", ["all", "biases"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_bias_is_read_at_each_invoke(runtime: str, name: str, parameters: str) -> None:
    require(runtime)
    zo = inject_all(NETWORKS[name](), trainable="nodes", nodes="*", parameters=parameters, headroom=0, batch=2)
    loaded = load(zo, runtime)
    rng = np.random.default_rng(5)
    seen: set[bytes] = set()
    x = rng.integers(-128, 128, zo.subgraphs[0].inputs[0].shape).astype(np.int8)
    for spread in (0, 60, 4000):
        biases = {}
        for t in read_metadata(zo).trainable:
            if t.bias:
                view, fractions = loaded.weight_views(t.name)
                assert view.dtype == np.int32 and fractions is None
                view += rng.integers(-spread, spread + 1, view.shape).astype(np.int32)
                biases[t.name] = view.copy()
        loaded.set_inputs(x)
        loaded.invoke()
        (plain,) = run_plain(export_model(zo, biases, batch=2).to_bytes(), runtime, [x])
        np.testing.assert_array_equal(loaded.outputs()[0], plain)
        seen.add(plain.tobytes())
    assert len(seen) == 3
    start = initial_weights(zo)
    loaded.invoke(loaded.command(loss=False).restore())
    for tensor, value in loaded.read_weights().items():
        np.testing.assert_array_equal(value, start[tensor])
