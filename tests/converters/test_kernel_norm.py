# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Kernel-wise normalization: steps of each layer in proportion to the norm of its weights."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo import Rademacher
from tflm_zo.converters import initial_weights, read_metadata, step_multipliers, update_masks
from tflm_zo.converters.multipliers import NEUTRAL, kernel_norm_multipliers
from tflm_zo.runtime import load


def test_factors() -> None:
    filters = [np.array(v, np.int8) for v in ([3, -4, 0, 0], [100, -100], [0, 0, 0], [1])]
    factors = kernel_norm_multipliers(filters)
    assert np.allclose(np.array(factors) / 2**31, [0.025, 1.0, 0.0, 0.01], atol=2**-30)
    assert factors[1] == NEUTRAL
    assert kernel_norm_multipliers([np.zeros(3, np.int8)] * 2) == [NEUTRAL, NEUTRAL]
    assert kernel_norm_multipliers([]) == []


@pytest.mark.parametrize("name", ["small_cnn", "depth_multiplier", "dense_after_4d"])
@pytest.mark.parametrize("sparse", [None, "threshold:50"])
def test_in_a_model(name: str, sparse: str | None) -> None:
    model = inject_all(MODELS[name](), multipliers="kernel-norm", sparse=sparse)
    factors, start, masks = step_multipliers(model), initial_weights(model), update_masks(model)
    sizes = {}
    for t in read_metadata(model).trainable:
        values = start[t.name].reshape(-1).astype(float)
        if t.name in masks:
            values = values[np.unpackbits(masks[t.name], bitorder="little")[: t.size].astype(bool)]
        sizes[t.name] = np.linalg.norm(values) / len(values) ** 0.5
        assert factors[t.name].shape == (t.channels,)
    for t_name, size in sizes.items():
        assert np.allclose(factors[t_name] / 2**31, size / max(sizes.values()), atol=2**-30)


def test_a_step_is_in_proportion_to_the_norm() -> None:
    """Equation 9: every layer moves by the same share of its norm, but where the limit clips."""
    model = inject_all(MODELS["small_cnn"](), multipliers="kernel-norm", headroom=3, update_bits=16)
    runtime = load(model, "litert")
    before, z = runtime.read_weights(), Rademacher(1)
    runtime.invoke(runtime.command(loss=False).update([(3, 3 << 16)], z))
    after, fractions = runtime.read_weights(), runtime.read_fractions()
    shares = []
    for name, weights in before.items():
        moved = np.abs((after[name].astype(float) - weights) + fractions[name] / 256)
        size = np.linalg.norm(weights.astype(float)) / weights.size**0.5
        shares += (moved[np.abs(weights) < 120] / size).tolist()
    assert min(shares) > 0.01
    assert max(shares) - min(shares) < 2 / 256 / 50
